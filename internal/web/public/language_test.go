package public

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

func TestLanguages(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	get := func(target, accept string) *httptest.ResponseRecorder {
		r := request(http.MethodGet, target)
		r.Header.Set("Accept-Language", accept)
		return v.do(r)
	}
	for _, tc := range []struct{ target, accept, tag, dir, text string }{
		{"/verify", "", "en", "ltr", "Verify a certificate"},
		{"/verify", "de-CH,de;q=0.9", "de", "ltr", "Zertifikat prüfen"},
		{"/verify?lang=ar", "de", "ar", "rtl", "التحقق من شهادة"},
		{"/verify?lang=xx", "fr", "fr", "ltr", "Vérifier un certificat"},
		{"/verify/" + unknownID + "?lang=zh", "", "zh", "ltr", "未找到证书"},
		{"/no-such-page?lang=es", "", "es", "ltr", "Página no encontrada"},
	} {
		w := get(tc.target, tc.accept)
		if !strings.Contains(textOf(t, w), tc.text) || w.Header().Get("Content-Language") != tc.tag || !slices.Contains(w.Header().Values("Vary"), "Accept-Language") ||
			!slices.Equal(attributes(t, w, "html", "lang"), []string{tc.tag}) || !slices.Equal(attributes(t, w, "html", "dir"), []string{tc.dir}) {
			t.Errorf("%s with Accept-Language %q: header %v, text %s, want the language %s, the direction %s and the text %q", tc.target, tc.accept, w.Header(), textOf(t, w), tc.tag, tc.dir, tc.text)
		}
	}
	// Links contain the language that the visitor has chosen, but not the language of the header
	// Accept-Language.
	w := get("/verify/"+c.ReferenceID+"?lang=fr&x=1", "")
	links := attributes(t, w, "a", "href")
	for _, want := range []string{"/verify?lang=fr", "/signatures?lang=fr", "/verify/" + c.ReferenceID + "?lang=ar&x=1"} {
		if !slices.Contains(links, want) {
			t.Errorf("there is no link to %s in %v", want, links)
		}
	}
	w = get("/verify?lang=fr", "")
	if !slices.Contains(attributes(t, w, "input", "name"), "lang") || !slices.Contains(attributes(t, w, "section", "data-drop"), "/verify/file/?lang=fr") {
		t.Errorf("the forms do not contain the language: %s", w.Body)
	}
	if links := attributes(t, get("/verify", "fr"), "a", "href"); !slices.Contains(links, "/signatures") {
		t.Errorf("the links contain a language that was not chosen: %v", links)
	}
	if w := get("/verify?lang=fr&reference_id="+c.ReferenceID, ""); w.Header().Get("Location") != "/verify/"+c.ReferenceID+"?lang=fr" {
		t.Errorf("the lookup redirects to %s, want the page of the certificate in French", w.Header().Get("Location"))
	}
}

// TestLanguageMenu checks the language menu in the header of a page: it opens without a script, has links
// to all languages and marks the language of the page.
func TestLanguageMenu(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	_, header, _ := strings.Cut(v.get("/verify?lang=de").Body.String(), "<header")
	header, _, _ = strings.Cut(header, "</header>")
	_, menu, found := strings.Cut(header, "<details")
	if menu, _, _ = strings.Cut(menu, "</details>"); !found || !strings.Contains(menu, "<summary>") {
		t.Fatalf("the header has no menu: %s", header)
	}
	for _, l := range v.pages.view.Languages() {
		link := `<a href="/verify?lang=` + l.Tag + `" lang="` + l.Tag + `"`
		if !strings.Contains(menu, link) {
			t.Errorf("the menu has no link to %s: %s", l.Tag, menu)
		}
	}
	if strings.Count(menu, "aria-current") != 1 || !strings.Contains(menu, `hreflang="de" aria-current="true"`) {
		t.Errorf("the menu does not mark German as the language of the page: %s", menu)
	}
}

// The links to other languages contain the path of the request. Even for a hostile path, they are links to
// the vault.
func TestLinksOfHostileAddress(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	for _, target := range []string{"//evil.example/x", "///evil.example", "/%2F%2Fevil.example", `/\evil.example`, `/verify?"onfocus="alert(1)`, "/x%22%3E%3Cb%3E", "/verify?lang=%22%3E%3Cb%3E&a=<b>"} {
		r := request(http.MethodGet, "/")
		path, query, _ := strings.Cut(target, "?")
		r.URL.Path, r.URL.RawQuery = path, query
		if unescaped, err := url.PathUnescape(path); err == nil {
			r.URL.Path, r.URL.RawPath = unescaped, path
		}
		w := v.do(r)
		checkMarkup(t, w)
		links := attributes(t, w, "a", "href")
		if len(links) < 8 {
			t.Errorf("%s: the links are %v, want at least 8", target, links)
		}
		for _, link := range links {
			if u, err := url.Parse(link); err != nil || u.Host != "" || strings.HasPrefix(link, "//") || strings.Contains(link, `\`) {
				t.Errorf("%s: the page has a link to %s, want a path of the vault; error %v", target, link, err)
			}
		}
	}
}

// TestEveryStateInEveryLanguage checks that pages of certificates and files are rendered and translated
// in every language.
func TestEveryStateInEveryLanguage(t *testing.T) {
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	certificates := map[string]*cert.Certificate{}
	for _, title := range []string{"valid", "revoked", "damaged", "unchecked"} {
		certificates[title] = v.upload(title, "Ada Obi", "diploma.pdf")
	}
	v.Work(len(certificates))
	v.revoke(certificates["revoked"], "x")
	for title, result := range map[string]string{"damaged": "failed", "unchecked": "not_run"} {
		v.Exec(`UPDATE certificate_checks SET result = $1 WHERE certificate_id = $2`, result, certificates[title].ID)
	}
	certificates["processing"] = v.upload("processing", "Ada Obi", "diploma.pdf")
	targets := []string{
		"/verify", "/signatures", "/nothing", "/verify/" + unknownID, "/verify/NWU-7K3M9QX2P4RTVWUZ", "/verify/NWU", "/verify/file/" + digestOf("x"),
		"/verify/file/" + digestOf(string(vaulttest.PDF)), "/verify/file/" + digestOf(string(vaulttest.PDF)+tail),
		"/verify/file/" + digestOf("x") + "?reference_id=" + certificates["valid"].ReferenceID, "/verify/file/" + digestOf("x") + "?reference_id=" + certificates["revoked"].ReferenceID,
	}
	for _, c := range certificates {
		targets = append(targets, "/verify/"+c.ReferenceID)
	}
	english := map[string]string{}
	for _, l := range v.pages.view.Languages() {
		for _, target := range targets {
			u, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			q.Set("lang", l.Tag)
			u.RawQuery = q.Encode()
			w := v.get(u.String())
			if w.Code >= 500 || w.Header().Get("Content-Language") != l.Tag {
				t.Errorf("%s in %s: status = %d, want a status below 500 and this language", target, l.Tag, w.Code)
			}
			text := textOf(t, w)
			if l.Tag == "en" {
				english[target] = text
			} else if text == english[target] {
				t.Errorf("the page %s in the language %s has the English text, want a translation", target, l.Tag)
			}
		}
	}
}
