package panel

import (
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
)

// translatedMessages returns the English messages of the panel that have a different text in the other
// language. It omits messages with placeholders, and short messages and single words, which a page may
// contain by chance.
func translatedMessages(t *testing.T, english, other *locale.Language) []string {
	t.Helper()
	files, err := filepath.Glob("../../locale/catalog/en/pa[gn]*.toml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found the files %v of the catalog, error %v, want at least 10 files", files, err)
	}
	var list, same []string
	for _, file := range files {
		var sections map[string]map[string]string
		if _, err := toml.DecodeFile(file, &sections); err != nil {
			t.Fatal(err)
		}
		for section, messages := range sections {
			for key, text := range messages {
				translated := other.Section(section)[section+"."+key]
				switch {
				case strings.Contains(translated, text):
					same = append(same, text)
				case len(text) >= 8 && strings.Contains(text, " ") && !strings.Contains(text, "{"):
					list = append(list, text)
				}
			}
		}
	}
	list = slices.DeleteFunc(list, func(text string) bool { return slices.Contains(same, text) })
	if !slices.Contains(list, english.Section("layout")["layout.skip"]) {
		t.Fatal("translatedMessages does not return the message layout.skip")
	}
	return list
}

// The pages of the panel are in the language that the browser requests, and contain no English message
// that has a translation.
func TestPagesAreInTheLanguageOfTheVisitor(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips this test, which parses all pages")
	}
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.makeOperator("owner")
	o.uploader = o.people.persons["owner"].ID
	german, _ := o.panel.Site.Catalog().Get("de")
	texts := translatedMessages(t, o.panel.Site.Languages()[0], german)
	samples, pages := o.samples(t, o.inst), 0
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, rt := range o.panel.table {
			// The page with the settings of mail contains a preview in the language of the mail.
			if !strings.HasPrefix(rt.pattern, method) || strings.HasSuffix(rt.pattern, "/settings/mail") {
				continue
			}
			_, target := path(t, rt.pattern, samples)
			r := o.request("owner", method, target, nil)
			r.Header.Set("Accept-Language", "de-AT, en;q=0.5")
			w := o.send(r)
			if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || w.Code == http.StatusSeeOther || strings.HasSuffix(target, "/preview") && w.Code == http.StatusOK {
				continue
			}
			pages++
			if w.Header().Get("Content-Language") != "de" || !slices.Contains(w.Header().Values("Vary"), "Accept-Language") || !strings.Contains(w.Body.String(), `<html lang="de" dir="ltr">`) {
				t.Errorf("%s: header = %v, want a page in German and Vary: Accept-Language", rt.pattern, w.Header())
			}
			doc, err := html.Parse(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			for n := range doc.Descendants() {
				// Examples of events contain data of the API, which is not translated.
				if n.Parent != nil && (n.Parent.DataAtom == atom.Code || n.Parent.DataAtom == atom.Pre) {
					continue
				}
				i := slices.IndexFunc(texts, func(text string) bool { return n.Type == html.TextNode && strings.Contains(n.Data, text) })
				if i >= 0 {
					t.Errorf("%s: the page contains the English message %q", rt.pattern, texts[i])
				}
			}
		}
	}
	if pages < 70 {
		t.Errorf("the test checked %d pages, want at least 70", pages)
	}
}

// The language that a person has chosen has priority over the language of the browser.
func TestLanguageOfThePerson(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	person := o.people.persons["owner"]
	person.Language = "ar"
	o.people.persons["owner"] = person
	r := o.request("owner", http.MethodGet, o.pathOf("members"), nil)
	r.Header.Set("Accept-Language", "de")
	w := o.send(r)
	if w.Header().Get("Content-Language") != "ar" || !strings.Contains(w.Body.String(), `<html lang="ar" dir="rtl">`) {
		t.Errorf("header = %v, want a page in Arabic", w.Header())
	}
}

// The details of an entry in the audit log have labels and values from the catalog.
func TestDetailsOfTheAuditLog(t *testing.T) {
	t.Parallel()
	row := english(t).auditRow(&audit.Entry{Action: audit.SignedIn, Detail: audit.Detail{
		"by": "set-up link", "role": map[string]any{"from": "issuer", "to": ""}, "placement": "top-left", "public_image": true, "made_up": nil, "reason": "gone", "events": []any{}, "selected": []any{},
	}}, "/audit")
	want := []string{"Details: set-up link", "Events: All events", "made up: none", "Position of the QR code: Top left", "Public image: yes", "Reason: gone", "Role: Issuer", "Selected: none"}
	for i, text := range want {
		if i >= len(row.Details) || !strings.HasPrefix(row.Details[i], text) {
			t.Fatalf("details = %q, want %q", row.Details, want)
		}
	}
}

// The catalog has the messages of other packages that the panel shows.
func TestCatalogHasTextsOfDomains(t *testing.T) {
	t.Parallel()
	english := english(t)
	check := func(err error) {
		t.Helper()
		messages := []string{}
		if e, ok := errors.AsType[*fault.Error](err); ok {
			for _, f := range e.Fields {
				messages = append(messages, f.Messages...)
			}
		} else if err != nil {
			messages = append(messages, err.Error())
		}
		if len(messages) == 0 {
			t.Errorf("error = %v, want an error with a message", err)
		}
		for _, message := range messages {
			if key, _, _ := findDomain(message); key == "" {
				t.Errorf("the catalog lacks the text %q", message)
			}
		}
	}
	check(account.CheckPassword("short"))
	_, err := account.ParseEmail("ada")
	check(err)
	_, err = account.CheckColour("blue")
	check(err)
	_, err = account.CheckColour("#ffff00")
	check(err)
	check(account.Retention{Failed: 1}.Check())
	_, err = account.CheckMailText(account.MailText{Paragraph: strings.Repeat("x", account.MaxParagraph+1), Closing: strings.Repeat("x", account.MaxClosing+1)})
	check(err)
	_, err = account.CheckMailText(account.MailText{Paragraph: "{first_name}"})
	check(err)
	_, err = account.DrawLogo([]byte("x"))
	check(err)
	for _, code := range []string{authority.CodeMissing, authority.CodeLocked, authority.CodeBroken, authority.CodeProgram, authority.CodeExpired, authority.CodeRefused, authority.CodeStorage} {
		if key, _, _ := findDomain((&authority.Fault{Code: code}).Message()); key == "" {
			t.Errorf("the catalog lacks the message of the fault %s of a signing key", code)
		}
	}
	if key, _, _ := findDomain(cert.ErrFilesPurged.Message); key == "" {
		t.Error("the catalog lacks the message about purged files")
	}
	key, names, values := findDomain("#ffff00 is too light for a white page: its contrast is 1.1, and 3 is required. The nearest shade that is dark enough is #888800.")
	if key != "domain.colour_light" || !slices.Equal(names, []string{"color", "contrast", "minimum", "darker"}) || !slices.Equal(values, []string{"#ffff00", "1.1", "3", "#888800"}) {
		t.Errorf("findDomain of the message about a light colour = %q, %q, %q, want domain.colour_light with four values", key, names, values)
	}
	for text, want := range map[string]string{
		"no text of a domain":       "no text of a domain",
		"the password must be text": "The password must be text.",
		"nav.settings":              "Settings",
		"0 messages failed in the last 30 days, 2 waiting":           "0 messages failed in the last 30 days, 2 waiting",
		"1 message failed in the last 30 days, 2 waiting to be sent": "1 message failed in the last 30 days, 2 waiting to be sent",
		"14% free": "14% free",
		"{first_name} is not a placeholder. The placeholders are {name}, {title}, {institution}.": "{first_name} is not a placeholder. The placeholders are {name}, {title}, {institution}.",
		// Texts of the API, and texts that earlier versions stored.
		"Invalid operation": "The current status does not allow this. Reload the page to see the status.",
		"The file name says a PDF document, but its content is something else.":                                                                                               "The file name says that this is a PDF document, but the content is something else. Give the file the right extension, or choose another file.",
		"This would exceed the storage limit of the institution “NWU”. Limit: 536870912000 bytes; used: 536870911488 bytes. The operator of this vault can change the limit.": "This would exceed the storage limit of the institution “NWU”. Limit: 500.0 GB; used: 500.0 GB. The operator of this vault can change the limit.",
		"The institution's signing key is missing. Restore it from a backup, then retry.":                                                                                     "The institution's signing key is missing. Ask the operator of this vault to restore it from a backup, then retry.",
	} {
		if got := english.domain(text); got != want {
			t.Errorf("domain(%q) = %q, want %q", text, got, want)
		}
	}
}

// findDomain finds the message of the catalog for each text in otherTexts. Both have the same placeholders.
func TestOtherTextsAreFound(t *testing.T) {
	t.Parallel()
	texts := english(t).language.Section("domain")
	number := strings.NewReplacer("{n}", "3") // this placeholder accepts only digits
	for key, list := range otherTexts {
		text, ok := texts[key]
		if !ok {
			t.Errorf("%s is not in the catalog", key)
			continue
		}
		_, names, _ := findDomain(number.Replace(text))
		for _, other := range list {
			found, others, _ := findDomain(number.Replace(other))
			if found != key || !slices.Equal(others, names) {
				t.Errorf("findDomain(%q) = %q with the placeholders %q, want %q with %q", other, found, others, key, names)
			}
		}
	}
}

// The names of the roles differ within each language, in the panel and in mail.
func TestNamesOfRolesDiffer(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	for _, l := range o.panel.Site.Languages() {
		for _, key := range []string{"roles.", "invitation.role_"} {
			names := map[string]account.Role{}
			for _, r := range account.Roles {
				name, err := l.Text(key + string(r.Role))
				if other, ok := names[name]; ok || err != nil {
					t.Errorf("%s: %s and %s have the name %q, error %v", l.Tag, other, r.Role, name, err)
				}
				names[name] = r.Role
			}
		}
	}
}
