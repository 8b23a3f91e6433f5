// Package page draws the pages of all surfaces: one layout, one style and one
// set of parts, in every language of the vault or in English alone. It owns the
// languages and assets they share, the headers that keep a page harmless, the
// notice of what was just done, the problems of a form, and the page of an
// error. What a page says is its surface's.
//
// A surface has a folder of templates, each of which defines "title" and "main",
// and is given one [Page], called "." in them:
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
// A form's handler does its deed by an operation of a domain, and then either
// leads on with [Set.Redirect] and a notice, or shows the form again with what is
// wrong with it:
//
//	if err := p.Identity.SignIn(ctx, form); err != nil {
//		return p.set.Again(w, r, "signin.html", form, err)
//	}
//	return p.set.Redirect(w, r, "/account", "signed_in")
//
// The id of a control is the name of its field, so that the summary of problems
// leads to it.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/locale"
)

//go:embed templates
var templates embed.FS

// layout is the template around every page.
const layout = "layout.html"

// policy lets a page load our own style, modules and pictures, ask our own
// routes, send our own forms, and nothing else. No text ever becomes markup or
// code in the browser (Trusted Types with no policy at all).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Options are what makes the pages of a surface its own.
type Options struct {
	// Templates has them in the folder "templates": one file for each page. A
	// layout.html in it replaces the shared one, a parts.html adds to the shared
	// parts, and an error.html replaces the shared page of an error.
	Templates fs.FS
	// English is for a surface that speaks no other language.
	English bool
	// Styles and Modules are assets that every page of the surface has beside the
	// shared ones.
	Styles, Modules []string
	// Funcs are what its templates call beside asset, code, pair, day and numeral.
	Funcs template.FuncMap
	// Indexed are the pages that search engines may find.
	Indexed []string
	// Person tells who is signed in, nil for nobody. A surface that has it knows
	// people: its pages are not stored.
	Person func(*http.Request) *Person
	// Frame gives what the surface's own layout shows around a page.
	Frame func(*http.Request) any
	// Notices are what can be told after a redirect, by name: the name of a message
	// in the catalog, or a text of a surface in English.
	Notices map[string]string
}

// Set is the pages of a surface.
type Set struct {
	*Site

	options Options
	// pages are by language and name.
	pages map[string]map[string]*template.Template
	// links are the styles and modules of the surface, as markup.
	links template.HTML
}

// Set reads the templates of a surface.
func (s *Site) Set(o Options) (*Set, error) {
	set := &Set{Site: s, options: o, pages: map[string]map[string]*template.Template{}}
	if err := set.link(); err != nil {
		return nil, err
	}
	for _, l := range set.spoken() {
		if err := set.load(l); err != nil {
			return nil, fmt.Errorf("reading templates for %s: %w", l.Tag, err)
		}
	}
	return set, nil
}

// spoken lists the languages of a surface.
func (s *Set) spoken() []*locale.Language {
	if s.options.English {
		return s.Languages()[:1]
	}
	return s.Languages()
}

// link writes the links to the styles, which are one asset so that a page asks for
// one, and to the modules that the surface adds.
func (s *Set) link() error {
	style, err := s.join(append([]string{"style.css"}, s.options.Styles...))
	if err != nil {
		return err
	}
	write := func(markup, name string) error {
		address, err := s.address(name)
		s.links += template.HTML(fmt.Sprintf(markup, template.HTMLEscapeString(address))) //nolint:gosec // it is escaped
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

// load reads the templates once for each language, so that what a page always
// says is set in it and costs nothing when it is drawn.
func (s *Set) load(l *locale.Language) error {
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
	s.pages[l.Tag] = map[string]*template.Template{}
	for name, from := range files {
		if name == layout || name == "parts.html" {
			continue
		}
		t, err := template.New(name).Funcs(funcs).ParseFS(from, "templates/"+name)
		if err != nil {
			return err
		}
		if err := complete(t, frame, l); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.pages[l.Tag][name] = t.Lookup(layout)
	}
	return nil
}

// complete adds the layout to a page's own templates and those parts that the page
// uses, and sets the messages. A copy of all parts in each page would take more
// memory than all else that a vault holds when it is idle.
func complete(page, frame *template.Template, l *locale.Language) error {
	set := setter{language: l, used: []string{layout}}
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
				return fmt.Errorf("there is no template %s", name)
			}
			var err error
			if t, err = page.AddParseTree(name, part.Tree.Copy()); err != nil {
				return err
			}
		}
		if err := set.setIn(t.Tree.Root); err != nil {
			return err
		}
	}
	return nil
}

// day gives the value of a control for a day, which takes nothing but one (HTML,
// 4.10.5.1.7): what was typed into an address and is none is told as a problem.
func day(typed string) string {
	if _, err := time.Parse(time.DateOnly, typed); err != nil {
		return ""
	}
	return typed
}

var numeralRule = regexp.MustCompile(`^-?\d+(\.\d+)?$`)

// numeral gives the value of a control for a number, which takes nothing but one
// (HTML, 4.10.5.1.12).
func numeral(typed string) string {
	if !numeralRule.MatchString(typed) {
		return ""
	}
	return typed
}

// Draw answers with a page.
func (s *Set) Draw(w http.ResponseWriter, r *http.Request, status int, name string, data any) error {
	return s.draw(w, r, status, name, data, nil)
}

// draw draws a page whole before any of it is sent, so that a template that
// fails is an error and not half a page.
func (s *Set) draw(w http.ResponseWriter, r *http.Request, status int, name string, data any, problems Problems) error {
	g := s.Reader(r)
	t, ok := s.pages[g.Language.Tag][name]
	if !ok {
		return fmt.Errorf("there is no page %s", name)
	}
	g.Data, g.Problems, g.Extras = data, problems, s.links
	g.Indexed = status == http.StatusOK && slices.Contains(s.options.Indexed, name)
	g.Notice = s.notice(r, g)
	if s.options.Frame != nil {
		g.Frame = s.options.Frame(r)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, g); err != nil {
		return fmt.Errorf("drawing %s: %w", name, err)
	}
	s.headers(w.Header(), g)
	if g.Notice != "" {
		forgetNotice(w)
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that is gone needs no page
	return nil
}

// headers sets what every page is sent with.
func (s *Set) headers(h http.Header, g *Page) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", g.Language.Tag)
	if !s.options.English {
		h.Add("Vary", "Accept-Language")
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("Permissions-Policy", "camera=(self), microphone=(), geolocation=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	referrer := "no-referrer"
	if s.options.Person != nil {
		h.Set("Cache-Control", "no-store")
		// Browsers without Fetch Metadata tell a form's origin in this way alone.
		referrer = "same-origin"
	}
	// A page whose address is a secret has set its own.
	if h.Get("Referrer-Policy") == "" {
		h.Set("Referrer-Policy", referrer)
	}
	if !g.Indexed {
		h.Set("X-Robots-Tag", "noindex")
	}
}
