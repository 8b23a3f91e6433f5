package public

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/typeset"
)

// checkSVG checks that a response is a well-formed picture without a script or a reference to another
// file, and returns its title.
func checkSVG(t *testing.T, name string, w *httptest.ResponseRecorder) (title string) {
	t.Helper()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/svg+xml" || w.Header().Get("Cache-Control") != "public, max-age=300" {
		t.Errorf("%s: status = %d, header %v, want 200 and an SVG picture with max-age=300", name, w.Code, w.Header())
	}
	d := xml.NewDecoder(strings.NewReader(w.Body.String()))
	inTitle := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return title
		}
		if err != nil {
			t.Fatalf("%s: the picture is not well-formed: %v\n%s", name, err, w.Body)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inTitle = e.Name.Local == "title"
			switch e.Name.Local {
			case "svg", "title", "rect", "g", "circle", "path", "text":
			default:
				t.Errorf("%s: the picture has the element %s", name, e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "href" || strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Value, "url(") {
					t.Errorf("%s: the picture has the attribute %s=%q", name, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if inTitle {
				title += string(e)
			}
		case xml.EndElement:
			inTitle = false
		}
	}
}

func TestBadge(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		var err error
		if v.pages.Fonts, err = typeset.New(); err != nil {
			t.Fatal(err)
		}
		c, failed := v.upload("BSc Physics", "Ada Obi", "diploma.pdf"), v.upload("PhD Physics", "Ada Obi", "refuse.pdf")
		path := "/verify/" + c.ReferenceID + "/badge.svg"
		if w := v.get(path); w.Code != http.StatusNotFound {
			t.Errorf("the badge of a certificate in processing: status = %d, want 404", w.Code)
		}
		v.Work(2)
		for _, id := range []string{failed.ReferenceID, "NWU-0000000000000000"} {
			if w := v.get("/verify/" + id + "/badge.svg"); w.Code != http.StatusNotFound {
				t.Errorf("the badge of %s: status = %d, want 404", id, w.Code)
			}
		}
		w := v.get(path)
		if got := checkSVG(t, "valid", w); got != "Valid certificate, Northern & Western University" {
			t.Errorf("title = %q, want the state and the institution", got)
		}
		if strings.Contains(w.Body.String(), "<text") || strings.Contains(w.Body.String(), "Ada") {
			t.Errorf("the badge has a text element or the recipient's name: %s", w.Body)
		}
		if w.Header().Get("Vary") == "" || w.Header().Get("Cross-Origin-Resource-Policy") != "cross-origin" {
			t.Errorf("header = %v, want Vary, and Cross-Origin-Resource-Policy: cross-origin", w.Header())
		}
		english := checkSVG(t, "English", v.get(path+"?lang=en"))
		for _, l := range v.Languages.Languages() {
			title := checkSVG(t, l.Tag, v.get(path+"?lang="+l.Tag))
			if (title == english) != (l.Tag == "en") || !strings.Contains(title, "Northern & Western University") {
				t.Errorf("%s: title = %q, want a title in this language with the institution", l.Tag, title)
			}
		}
		v.Exec(`UPDATE certificate_checks SET result = 'failed' WHERE name = 'file'`)
		if got := checkSVG(t, "damaged", v.get(path)); strings.Contains(got, "Valid") {
			t.Errorf("the badge of a certificate with a failed check has the title %q, want one without Valid", got)
		}
		v.revoke(c, "Issued by mistake")
		if got := checkSVG(t, "revoked", v.get(path)); !strings.HasPrefix(got, "Certificate revoked") {
			t.Errorf("the badge of a revoked certificate has the title %q, want Certificate revoked", got)
		}
	})
}

// TestBadgeTexts draws the badge with every verdict, every language, and unusual names of institutions,
// with and without the fonts of the vault.
func TestBadgeTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	t.Parallel()
	catalog, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	fonts, err := typeset.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"A", strings.Repeat("University of the North ", 10), "جامعة الشمال", "नॉर्थ विश्वविद्यालय", "北方大学", `<b>"&'</b>`, "\U0010ffff"} {
		for _, verdict := range []string{valid, revoked, "expired", "replaced", unchecked, damaged, ""} {
			for _, l := range catalog.Languages() {
				for _, f := range []*typeset.Fonts{fonts, nil} {
					content, err := drawBadge(f, &verification{Verdict: verdict, Profile: &account.PublicProfile{Name: name}}, l)
					if err != nil {
						t.Fatal(err)
					}
					w := httptest.NewRecorder()
					w.Header().Set("Content-Type", "image/svg+xml")
					w.Header().Set("Cache-Control", "public, max-age=300")
					_, _ = w.WriteString(content)
					checkSVG(t, l.Tag+" "+verdict+" "+name, w)
					if len(content) > 30<<10 {
						t.Errorf("%s %s: the badge has %d bytes, want at most 30 KB", l.Tag, name, len(content))
					}
				}
			}
		}
	}
}
