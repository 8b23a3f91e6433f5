// Package page renders the pages of all surfaces in every language of the vault. A surface is a package
// with routes and templates, such as the panel or the public pages. Package page contains what all
// surfaces share: the layout, the style and the template parts, the languages and assets, the security
// headers of pages, the notice about the last action, the problems of a form, and the error page.
//
// A surface has a folder of templates. Each template defines "title" and "main". Its data, ".", is a [Page]:
//
//	{{define "title"}}{{.T "signin.title"}}{{end}}
//	{{define "main"}}
//	<h1>{{.T "signin.title"}}</h1>
//	{{template "problems" .}}
//	<form class="form" method="post" action="{{.Link "/sign-in"}}">
//	<div class="field"><label for="email">{{.T "signin.email"}}</label>
//	<input id="email" name="email" type="email" value="{{.Data.Email}}" {{.Describe "email" "email-hint"}}>
//	<p class="hint" id="email-hint">{{.T "signin.email_hint"}}</p>
//	{{template "problem" (pair . "email")}}</div>
//	<button type="submit">{{.T "signin.submit"}}</button>
//	</form>
//	{{end}}
//
// The handler of a form calls a method of a service. It then redirects with [Set.Redirect] and a notice,
// or shows the form again with its problems:
//
//	if err := p.Identity.SignIn(ctx, form); err != nil {
//		return p.set.ShowAgain(w, r, "signin.html", form, err)
//	}
//	return p.set.Redirect(w, r, "/account", "signed_in")
//
// The id of a control is the name of its field, so that the summary of problems can link to the
// control.
package page

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/locale"
)

//go:embed templates
var templates embed.FS

// layout is the template of the frame of every page.
const layout = "layout.html"

// policy is the Content Security Policy of all pages. A page can load styles, scripts and pictures only
// from the vault, and can send requests and forms only to the vault. Scripts cannot use text as markup or
// code, because Trusted Types are required and no policy for them is allowed.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Options configures the pages of a surface.
type Options struct {
	// Templates has a folder "templates" with one file for each page. A layout.html in the folder
	// replaces the shared layout, a parts.html adds to the shared parts, and an error.html replaces
	// the shared error page.
	Templates fs.FS
	// Styles and Modules are assets of every page of the surface, in addition to the shared assets.
	Styles, Modules []string
	// Funcs are template functions in addition to asset, code, pair, day and numeral.
	Funcs template.FuncMap
	// LanguageFuncs, if not nil, returns template functions whose results depend on the language of the
	// page. The names of the functions must be the same for every language.
	LanguageFuncs func(*locale.Language) template.FuncMap
	// Indexed are the pages that search engines may index.
	Indexed []string
	// Person returns the signed-in person, or nil. If this field is set, pages are not cached.
	Person func(*http.Request) *Person
	// Frame, if not nil, returns the data of the surface's own layout.
	Frame func(*http.Request) any
	// Notices maps the names of the notices that can follow a redirect to their catalog keys.
	Notices map[string]string
}

// Set holds the pages of a surface.
type Set struct {
	*Site

	options Options
	// pages are the functions that return the templates, by language and name. The first call of a
	// function creates its template, because most vaults use few pages in few languages, and all
	// templates in one language need 10 MB.
	pages map[string]map[string]func() (*template.Template, error)
	// links is the markup of the links to the surface's styles and modules.
	links template.HTML
}

// Set finds the templates of a surface. A template is loaded when its page is drawn for the first time.
// [Site.Check] loads all templates in one language.
func (s *Site) Set(o Options) (*Set, error) {
	set := &Set{Site: s, options: o, pages: map[string]map[string]func() (*template.Template, error){}}
	if err := set.link(); err != nil {
		return nil, err
	}
	if err := set.load(); err != nil {
		return nil, fmt.Errorf("reading templates: %w", err)
	}
	s.sets = append(s.sets, set)
	return set, nil
}

// link creates the links to the style and to the modules of the surface. All styles are joined, so
// that a page needs one request for them.
func (s *Set) link() error {
	style, err := s.join(append([]string{"style.css"}, s.options.Styles...))
	if err != nil {
		return err
	}
	write := func(markup, name string) error {
		address, err := s.address(name)
		s.links += template.HTML(fmt.Sprintf(markup, template.HTMLEscapeString(address))) //nolint:gosec // the address is escaped
		return err
	}
	if err := write(`<link rel="stylesheet" href="%s">`, style); err != nil {
		return err
	}
	for _, name := range s.options.Modules {
		if err := write("\n"+`<script type="module" src="%s"></script>`, name); err != nil {
			return err
		}
	}
	return nil
}

// load parses the layout and the parts, and finds the pages. Each language has its own copies of a page,
// so that constant messages are part of the template and need no lookup later.
func (s *Set) load() error {
	files := map[string]fs.FS{}
	for _, from := range []fs.FS{templates, s.options.Templates} {
		names, err := fs.Glob(from, "templates/*.html")
		if err != nil {
			return err
		}
		for _, name := range names {
			files[path.Base(name)] = from
		}
	}
	funcs := template.FuncMap{"asset": s.address, "code": Code, "pair": pair, "day": day, "numeral": numeral}
	maps.Copy(funcs, s.options.Funcs)
	maps.Copy(funcs, s.languageFuncs(s.Languages()[0]))
	frame, err := template.New(layout).Funcs(funcs).ParseFS(files[layout], "templates/"+layout)
	if err != nil {
		return err
	}
	for _, from := range []fs.FS{templates, s.options.Templates} {
		if _, err := fs.Stat(from, "templates/parts.html"); err != nil {
			continue
		}
		if frame, err = frame.ParseFS(from, "templates/parts.html"); err != nil {
			return err
		}
	}
	for _, l := range s.Languages() {
		s.pages[l.Tag] = map[string]func() (*template.Template, error){}
	}
	for name, from := range files {
		if name == layout || name == "parts.html" {
			continue
		}
		for _, l := range s.Languages() {
			s.pages[l.Tag][name] = sync.OnceValues(func() (*template.Template, error) {
				page, err := template.New(name).Funcs(funcs).Funcs(s.languageFuncs(l)).ParseFS(from, "templates/"+name)
				if err != nil {
					return nil, err
				}
				t, err := complete(page, frame, l)
				if err != nil {
					return nil, fmt.Errorf("template %s in %s: %w", name, l.Tag, err)
				}
				return t, nil
			})
		}
	}
	return nil
}

// languageFuncs returns the functions of the surface that depend on the language.
func (s *Set) languageFuncs(l *locale.Language) template.FuncMap {
	if s.options.LanguageFuncs == nil {
		return nil
	}
	return s.options.LanguageFuncs(l)
}

// complete adds the layout, the used parts and the messages of a language to the templates of a page. It
// does not copy unused parts: with them, the templates would need more memory than the rest of an idle
// vault.
func complete(page, frame *template.Template, l *locale.Language) (*template.Template, error) {
	set := inserter{language: l, used: []string{layout}}
	done := map[string]bool{}
	for len(set.used) > 0 {
		name := set.used[0]
		set.used = set.used[1:]
		if done[name] {
			continue
		}
		done[name] = true
		t := page.Lookup(name)
		if t == nil {
			part := frame.Lookup(name)
			if part == nil {
				return nil, fmt.Errorf("there is no template %s", name)
			}
			var err error
			if t, err = page.AddParseTree(name, part.Tree.Copy()); err != nil {
				return nil, err
			}
		}
		if err := set.insert(t.Tree.Root); err != nil {
			return nil, err
		}
	}
	return page.Lookup(layout), nil
}

// day returns input if it is a date, or else "", because the value of a date control must be a date or
// empty (HTML, 4.10.5.1.7).
func day(input string) string {
	if _, err := time.Parse(time.DateOnly, input); err != nil {
		return ""
	}
	return input
}

var numeralRule = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// numeral returns input if it is a decimal number without an exponent, or else "", because the value of
// a number control must be a number or empty (HTML, 4.10.5.1.12).
func numeral(input string) string {
	if !numeralRule.MatchString(input) {
		return ""
	}
	return input
}

// Draw writes a page.
func (s *Set) Draw(w http.ResponseWriter, r *http.Request, status int, name string, data any) error {
	return s.draw(w, r, status, name, data, nil)
}

// draw renders the whole page before it sends anything, so that an error of a template does not cause a
// truncated page.
func (s *Set) draw(w http.ResponseWriter, r *http.Request, status int, name string, data any, problems Problems) error {
	g := s.Reader(r)
	page, ok := s.pages[g.Language.Tag][name]
	if !ok {
		return fmt.Errorf("there is no page %s", name)
	}
	t, err := page()
	if err != nil {
		return err
	}
	g.Data, g.Problems, g.Extras = data, problems, s.links
	g.Indexed = status == http.StatusOK && slices.Contains(s.options.Indexed, name)
	g.Notice = s.notice(r, g)
	if s.options.Frame != nil {
		g.Frame = s.options.Frame(r)
	}
	var b limitedBuffer
	if err := t.Execute(&b, g); err != nil {
		return fmt.Errorf("rendering %s: %w", name, err)
	}
	s.headers(w.Header(), g)
	if g.Notice != "" {
		forgetNotice(w)
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the error of a write cannot be reported to the client
	return nil
}

// maxPage is the maximum size of a rendered page in bytes, before compression. A page stays in
// memory until a slow client has received it. The lists and texts of a page have limits of their
// own, so a page of valid data is much smaller.
const maxPage = 2 << 20

var errPageTooLarge = errors.New("the page is larger than 2 MB")

// limitedBuffer is a buffer whose Write returns errPageTooLarge if the content would become larger
// than maxPage.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxPage {
		return 0, errPageTooLarge
	}
	return b.Buffer.Write(p)
}

// headers sets the headers of every page.
func (s *Set) headers(h http.Header, g *Page) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", g.Language.Tag)
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Security-Policy", policy)
	h.Set("Permissions-Policy", "camera=(self), microphone=(), geolocation=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	referrer := "no-referrer"
	if s.options.Person != nil {
		h.Set("Cache-Control", "no-store")
		// With no-referrer, a browser would send "Origin: null" with a form. The vault would then
		// reject a form from a browser without Fetch Metadata.
		referrer = "same-origin"
	}
	// The handler of a page with a secret address sets this header itself.
	if h.Get("Referrer-Policy") == "" {
		h.Set("Referrer-Policy", referrer)
	}
	if !g.Indexed {
		h.Set("X-Robots-Tag", "noindex")
	}
}
