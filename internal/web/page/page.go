package page

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/web"
)

// Page is what a template is given: who reads it, where, and what it shows.
type Page struct {
	Language *locale.Language
	// Chosen is set when the address names the language; links then keep it.
	Chosen bool
	// Indexed pages may be found by search engines. None that shows a
	// certificate may.
	Indexed bool
	// Person is who is signed in, nil for nobody.
	Person *Person
	// Notice tells what was just done.
	Notice string
	// Problems are what is wrong with the form that was sent.
	Problems Problems
	// Extras are the links to the styles, and to the modules of the surface.
	Extras template.HTML
	// Frame is what the surface's own layout shows around a page.
	Frame any
	Data  any

	address   *url.URL
	languages *locale.Catalog
}

// Person is who is signed in, as the menu in the header tells.
type Person struct {
	Name, Email string
	// Language is the tag of the language they chose, empty for none.
	Language string
	// Member is set for who belongs to an institution, Operator for who sees the
	// installation.
	Member, Operator bool
}

// Pair gives a part of a page one value of its own.
type Pair struct {
	Page  *Page
	Value any
}

func pair(g *Page, value any) Pair { return Pair{g, value} }

// Reader finds out who reads a page and in which language: the one that the
// address names, else their own, else the one that the browser asks for.
func (s *Set) Reader(r *http.Request) *Page {
	g := &Page{address: r.URL, languages: s.languages}
	if s.options.Person != nil {
		g.Person = s.options.Person(r)
	}
	if s.options.English {
		g.Language = s.Languages()[0]
		return g
	}
	if r.URL.RawQuery != "" {
		g.Language, g.Chosen = s.languages.Get(r.URL.Query().Get("lang"))
	}
	if !g.Chosen && g.Person != nil && g.Person.Language != "" {
		g.Language, _ = s.languages.Get(g.Person.Language)
	}
	if g.Language == nil {
		g.Language = s.languages.Match(r.Header.Get("Accept-Language"))
	}
	return g
}

// Code marks up what is written by machines and reads from left to right in
// every language.
func Code(s string) template.HTML {
	return template.HTML(`<code dir="ltr">` + template.HTMLEscapeString(s) + `</code>`) //nolint:gosec // it is escaped
}

// Path is the path of the page's address.
func (g *Page) Path() string { return g.address.Path }

// SigningIn says that the page is one of those on the way in, which need no link
// to where it begins.
func (g *Page) SigningIn() bool {
	return g.address.Path == "/sign-in" || strings.HasPrefix(g.address.Path, "/sign-in/")
}

// T gives a message as text.
func (g *Page) T(key string, args ...any) (string, error) {
	return g.Language.Text(key, values(args)...)
}

// H gives a message as markup.
func (g *Page) H(key string, args ...any) (template.HTML, error) {
	return g.Language.HTML(key, values(args)...)
}

// values takes what pointers point to, as templates do where they print.
func values(args []any) []any {
	for i, a := range args {
		if s, ok := a.(*string); ok && s != nil {
			args[i] = *s
		}
	}
	return args
}

// Code marks up what is written by machines.
func (*Page) Code(s string) template.HTML { return Code(s) }

// Link gives the address of a path of ours, in the language that was chosen.
func (g *Page) Link(path string) string { return g.inLanguage(path, nil) }

func (g *Page) inLanguage(path string, q url.Values) string {
	if g.Chosen {
		if q == nil {
			q = url.Values{}
		}
		q.Set("lang", g.Language.Tag)
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Readings links to this page in all languages. It is written here and not in a
// template since every page has it, and templates take their time for eight links.
func (g *Page) Readings() template.HTML {
	// Of the address only the language changes.
	q := g.address.Query()
	q.Del("lang")
	// Two slashes at its beginning would lead to another host (RFC 3986, 4.2).
	path := "/" + strings.TrimLeft(g.address.EscapedPath(), "/")
	before, rest := template.HTMLEscapeString(path+"?lang="), ""
	if len(q) > 0 {
		rest = template.HTMLEscapeString("&" + q.Encode())
	}
	var b strings.Builder
	for _, l := range g.languages.Languages() {
		current := ""
		if l == g.Language {
			current = ` aria-current="true"`
		}
		fmt.Fprintf(&b, `<li><a href="%s%s%s" lang="%[2]s" hreflang="%[2]s" dir="%[4]s"%[5]s>%[6]s</a></li>`, before, l.Tag, rest, l.Direction, current, l.Name)
	}
	return template.HTML(b.String()) //nolint:gosec // what is not ours is escaped
}

// Day writes a stored date, YYYY-MM-DD or RFC 3339, as people do.
func (g *Page) Day(s *string) string {
	if s == nil || len(*s) < len(time.DateOnly) {
		return ""
	}
	t, err := time.Parse(time.DateOnly, (*s)[:len(time.DateOnly)])
	if err != nil {
		return *s
	}
	return g.Language.Date(t)
}

// Moment writes a stored time, in UTC.
func (g *Page) Moment(s *string) string {
	if s == nil {
		return ""
	}
	t, err := time.Parse(time.RFC3339Nano, *s)
	if err != nil {
		return *s
	}
	return g.Language.Time(t)
}

// Time writes a moment in UTC, with its machine-readable form; of a nil pointer
// nothing.
func (g *Page) Time(at any) (template.HTML, error) {
	switch t := at.(type) {
	case time.Time:
		return g.MomentTag(web.Timestamp(&t)), nil
	case *time.Time:
		return g.MomentTag(web.Timestamp(t)), nil
	}
	return "", fmt.Errorf("%T is no time", at)
}

// DayTag writes a date with its machine-readable form.
func (g *Page) DayTag(s *string) template.HTML { return timeTag(s, g.Day(s)) }

// MomentTag writes a time with its machine-readable form.
func (g *Page) MomentTag(s *string) template.HTML { return timeTag(s, g.Moment(s)) }

func timeTag(at *string, shown string) template.HTML {
	if at == nil {
		return ""
	}
	machine := *at
	if t, err := time.Parse(time.RFC3339Nano, machine); err == nil {
		// HTML knows thousandths of a second at most.
		machine = t.UTC().Format("2006-01-02T15:04:05Z")
	}
	return template.HTML(`<time datetime="`) + template.HTML(template.HTMLEscapeString(machine)) + template.HTML(`">`) + //nolint:gosec // it is escaped
		template.HTML(template.HTMLEscapeString(shown)) + template.HTML(`</time>`) //nolint:gosec // it is escaped
}
