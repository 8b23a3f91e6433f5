package page

import (
	"context"
	"errors"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
)

// TestTemplatesAreComplete checks that complete returns an error for a template that uses an unknown
// message or part, a message without its values, or a key that is not constant.
func TestTemplatesAreComplete(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	frame := template.Must(template.New("parts.html").Parse(`{{define "part"}}{{.T "layout.copy"}}{{end}}{{define "whole"}}{{template "prat"}}{{end}}`))
	for text, ok := range map[string]bool{
		`{{.T "layout.copy"}}`: true, `{{.H "error.request"}}`: false, `{{.T "layout.copie"}}`: false, `{{with .Data}}{{$.H "no.such"}}{{end}}`: false, `{{.T .Data}}`: false,
		`{{if .Data}}{{else}}{{range .Data}}{{$.T "no.such"}}{{end}}{{end}}`: false, `{{print (.T "no.such")}}`: false, `{{template "x" (.T "no.such")}}{{define "x"}}{{end}}`: false,
		`{{template "part"}}`: true, `{{template "whole"}}`: false, `{{template "prat"}}`: false,
	} {
		page, err := template.New(layout).Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := complete(page, frame, s.Languages()[0]); (err == nil) != ok {
			t.Errorf("%s: error = %v, want an error: %v", text, err, !ok)
		}
	}
}

// newSite returns a site with all languages, the shared assets and the assets of surfaces.
func newSite(t *testing.T, surfaces ...fs.FS) *Site {
	t.Helper()
	s, err := NewSite(loadCatalog(t), surfaces...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func loadCatalog(t *testing.T) *locale.Catalog {
	t.Helper()
	languages, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	return languages
}

// surface returns a set with the page form.html, which has one control.
func surface(t *testing.T, o Options) *Set {
	t.Helper()
	s := newSite(t)
	o.Templates = fstest.MapFS{
		"templates/form.html": {Data: []byte(`{{define "title"}}{{.T "layout.copy"}}{{end}}{{define "main"}}{{template "problems" .}}` +
			`<input id="email" name="email" value="{{.Data}}" {{.Describe "email" "hint"}}>{{template "problem" (pair . "email")}}{{end}}`)},
	}
	set, err := s.Set(o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func get(target string) *http.Request {
	return httptest.NewRequestWithContext(context.Background(), http.MethodGet, target, http.NoBody)
}

// TestPageLargerThanTheLimitIsNotSent checks that Draw returns an error for a page that is too large,
// and sends nothing.
func TestPageLargerThanTheLimitIsNotSent(t *testing.T) {
	t.Parallel()
	set := surface(t, Options{})
	for size, want := range map[int]error{maxPage - 64<<10: nil, maxPage: errPageTooLarge, 31 << 20: errPageTooLarge} {
		w := httptest.NewRecorder()
		err := set.Draw(w, get("/"), http.StatusOK, "form.html", strings.Repeat("x", size))
		if !errors.Is(err, want) || err != nil && w.Body.Len() > 0 || err == nil && w.Body.Len() < size {
			t.Errorf("%d bytes: error = %v, want %v; %d bytes were sent", size, err, want, w.Body.Len())
		}
	}
}

func TestProblemsOfAForm(t *testing.T) {
	t.Parallel()
	set := surface(t, Options{})
	var f fault.Fields
	f.Add("email", `Not "<an>" address.`)
	f.Add("email", "error.other") // shown in the reader's language
	w := httptest.NewRecorder()
	if err := set.ShowAgain(w, get("/?lang=de"), "form.html", `typed "here"`, f.Err()); err != nil {
		t.Fatal(err)
	}
	body := w.Body.String()
	for _, want := range []string{
		"<title>Fehler: ", `<a href="#email">Not &#34;&lt;an&gt;&#34; address.</a>`, `aria-invalid="true" aria-describedby="email-problem hint"`,
		`<p class="problem" id="email-problem">Not &#34;&lt;an&gt;&#34; address. Diese Anfrage`, `value="typed &#34;here&#34;"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %s: %s", want, body)
		}
	}
	if w.Code != http.StatusUnprocessableEntity {
		t.Errorf("status = %d, want 422", w.Code)
	}
	w = httptest.NewRecorder()
	if err := set.ShowAgain(w, get("/"), "form.html", "", fault.New(fault.Conflict, "The record has changed.")); err != nil || w.Code != http.StatusConflict ||
		!strings.Contains(w.Body.String(), "<li>The record has changed.</li>") || !strings.Contains(w.Body.String(), ` aria-describedby="hint"`) {
		t.Errorf("status = %d, want 409 and a page with the problem; body %s, error %v", w.Code, w.Body, err)
	}
	// ShowAgain returns an error that a person cannot correct.
	for _, err := range []error{io.ErrUnexpectedEOF, fault.New(fault.NotFound, "x"), fault.New(fault.Forbidden, "x")} {
		w := httptest.NewRecorder()
		if got := set.ShowAgain(w, get("/"), "form.html", "", err); !errors.Is(got, err) || w.Body.Len() > 0 {
			t.Errorf("ShowAgain(%v) = %v, body %s, want the same error and no body", err, got, w.Body)
		}
	}
}

// TestNotice checks that the target of a redirect shows the notice and deletes its cookie, if the surface
// defines the notice.
func TestNotice(t *testing.T) {
	t.Parallel()
	set := surface(t, Options{Notices: map[string]string{"copied": "layout.copied", "left": "bulk_notice.rows_saved_left", "unknown": "no.such"}})
	german, _ := loadCatalog(t).Get("de")
	left, err := german.Text("bulk_notice.rows_saved_left", "1", 7)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"copied": "Kopiert", "left.7": left, "left": "", "left.7.8": "", "left.x": "", "<script>": "", "other": "", "unknown": ""} {
		w := httptest.NewRecorder()
		if err := set.Redirect(w, get("/"), "/next", name); err != nil || w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/next" {
			t.Fatalf("Redirect: status = %d, want 303 to /next; error %v", w.Code, err)
		}
		r := get("/next?lang=de")
		for _, c := range w.Result().Cookies() {
			if !c.Secure || !c.HttpOnly || c.MaxAge <= 0 || c.Path != "/" {
				t.Errorf("cookie = %+v, want Secure, HttpOnly, a positive MaxAge and the path /", c)
			}
			r.AddCookie(c)
		}
		w = httptest.NewRecorder()
		if err := set.Draw(w, r, http.StatusOK, "form.html", ""); err != nil {
			t.Fatal(err)
		}
		shown := strings.Contains(w.Body.String(), `role="status">`+want+`</p>`)
		deleted := len(w.Result().Cookies()) == 1 && w.Result().Cookies()[0].MaxAge < 0
		if want == "" && (strings.Contains(w.Body.String(), `role="status"`) || deleted) || want != "" && (!shown || !deleted) {
			t.Errorf("%s: want a page that shows a defined notice and deletes its cookie, and ignores any other notice; cookies %v, body %s", name, w.Result().Cookies(), w.Body)
		}
	}
}

func TestPageShowsSignedInPerson(t *testing.T) {
	t.Parallel()
	person := &Person{Name: "Ada <b>Obi", Email: "ada@example.org", Language: "fr", Member: true}
	set := surface(t, Options{Person: func(*http.Request) *Person { return person }})
	w := httptest.NewRecorder()
	if err := set.Draw(w, get("/"), http.StatusOK, "form.html", ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Ada &lt;b&gt;Obi", "ada@example.org", `action="/sign-out"`, "Se déconnecter", `href="/panel"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page does not contain %s: %s", want, w.Body)
		}
	}
	if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "same-origin" || h.Get("Content-Language") != "fr" {
		t.Errorf("header of a page for a signed-in person = %v, want no-store, same-origin and the language fr", h)
	}
	w = httptest.NewRecorder()
	if err := set.Draw(w, get("/?lang=ar"), http.StatusOK, "form.html", ""); err != nil || w.Header().Get("Content-Language") != "ar" {
		t.Errorf("page at /?lang=ar: header = %v, want the language ar; error %v", w.Header(), err)
	}
	person = nil
	w = httptest.NewRecorder()
	if err := set.Draw(w, get("/"), http.StatusOK, "form.html", ""); err != nil || strings.Contains(w.Body.String(), "sign-out") {
		t.Errorf("page without a signed-in person = %s, want no sign-out form; error %v", w.Body, err)
	}
}

func TestAssetNamesAreUnique(t *testing.T) {
	t.Parallel()
	if _, err := NewSite(loadCatalog(t), fstest.MapFS{"assets/style.css": {Data: []byte("b{}")}}); err == nil {
		t.Error("NewSite returns no error for an asset with the name of a shared asset")
	}
	assets := fstest.MapFS{"assets/own.css": {Data: []byte("b{}")}}
	s := newSite(t, assets)
	if _, err := s.Set(Options{Templates: fstest.MapFS{}, Styles: []string{"owm.css"}}); err == nil {
		t.Error("Set returns no error for an unknown style")
	}
	set, err := s.Set(Options{Templates: fstest.MapFS{}, Styles: []string{"form.css", "own.css"}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	set.Render(w, get("/x?lang=de"), ErrUnknown)
	address, err := s.address("style-form-own.css")
	if err != nil || strings.Count(w.Body.String(), `<link rel="stylesheet"`) != 1 || !strings.Contains(w.Body.String(), `<link rel="stylesheet" href="`+address+`">`) || w.Header().Get("Content-Language") != "de" {
		t.Errorf("want a page in German with one link to the joined style %s; header %v, body %s, error %v", address, w.Header(), w.Body, err)
	}
	got := httptest.NewRecorder()
	s.Assets(set.Render).ServeHTTP(got, get(address))
	if got.Code != http.StatusOK || !strings.HasPrefix(got.Body.String(), string(s.files["style.css"])) || !strings.HasSuffix(got.Body.String(), "b{}") || got.Header().Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("the joined style: status = %d, want 200 and both styles as text/css; header %v, body %s", got.Code, got.Header(), got.Body)
	}
}
