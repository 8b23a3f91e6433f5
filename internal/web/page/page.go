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

// Page is the input of a template. It describes the reader, the address and the content of a page.
type Page struct {
	Language *locale.Language
	// Chosen reports whether the address selects the language. If so, Link selects the same language.
	Chosen bool
	// Indexed reports whether search engines may index the page.
	Indexed bool
	// Drill reports whether the vault is a drill of a restore.
	Drill bool
	// Test reports whether the vault is a test vault, whose address works only on its machine or in its
	// private network.
	Test bool
	// Person is the signed-in person, or nil.
	Person *Person
	// Notice is the text of the notice about the last action, or "".
	Notice string
	// Problems are the problems of the submitted form.
	Problems Problems
	// Extras is the markup of the links to the style and to the modules of the surface.
	Extras template.HTML
	// Frame is the data of the surface's own layout.
	Frame any
	Data  any

	address   *url.URL
	languages *locale.Catalog
}

// Person describes the signed-in person.
type Person struct {
	Name, Email string
	// Language is the tag of the person's language, or "".
	Language string
	// Member is true for members of an institution. Operator is true for operators.
	Member, Operator bool
}

// Pair is the input of a template part that needs the page and a value.
type Pair struct {
	Page  *Page
	Value any
}

func pair(g *Page, value any) Pair { return Pair{g, value} }

// Reader returns a Page with the signed-in person and the language: the language in the address, or
// else the person's language, or else the language that the browser requests.
func (s *Set) Reader(r *http.Request) *Page {
	g := &Page{address: r.URL, languages: s.languages, Drill: s.drill, Test: s.test}
	if s.options.Person != nil {
		g.Person = s.options.Person(r)
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

// Code returns machine-readable text as markup. The text is left-to-right in every language.
func Code(s string) template.HTML {
	return template.HTML(`<code dir="ltr">` + template.HTMLEscapeString(s) + `</code>`) //nolint:gosec // the text is escaped
}

// Path returns the path of the page's address.
func (g *Page) Path() string { return g.address.Path }

// SigningIn reports whether the page is part of the sign-in, so that it needs no link to the sign-in.
func (g *Page) SigningIn() bool {
	return g.address.Path == "/sign-in" || strings.HasPrefix(g.address.Path, "/sign-in/")
}

// T returns a message as text.
func (g *Page) T(key string, args ...any) (string, error) {
	return g.Language.Text(key, values(args)...)
}

// Message returns a message whose key is chosen at run time. In templates, the key of T and H must be
// a constant, so that a missing message is found when the templates are loaded.
func (g *Page) Message(key string, args ...any) (string, error) { return g.T(key, args...) }

// H returns a message as markup.
func (g *Page) H(key string, args ...any) (template.HTML, error) {
	return g.Language.HTML(key, values(args)...)
}

// values dereferences non-nil pointers to strings, as templates do in their output.
func values(args []any) []any {
	for i, a := range args {
		if s, ok := a.(*string); ok && s != nil {
			args[i] = *s
		}
	}
	return args
}

// Code returns machine-readable text as markup.
func (*Page) Code(s string) template.HTML { return Code(s) }

// Link returns the address of a path of the vault. If the address of the page selects a language, the
// result selects the same language.
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

// LanguageLinks returns the links to this page in all languages. It does not use a template, because
// every page has these links, and a template would be slow.
func (g *Page) LanguageLinks() template.HTML {
	// All other parameters of the address stay the same.
	q := g.address.Query()
	q.Del("lang")
	// An address that begins with two slashes would lead to another host (RFC 3986, 4.2).
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
		fmt.Fprintf(&b, `<li><a href="%s%s%s" lang="%[2]s" hreflang="%[2]s"%[4]s>%[5]s</a></li>`, before, l.Tag, rest, current, l.Name)
	}
	return template.HTML(b.String()) //nolint:gosec // untrusted parts are escaped
}

// Day returns a stored date, YYYY-MM-DD or RFC 3339, in the format of the page's language. It returns
// "" for nil or a text of fewer than 10 bytes, and any other text that is not a date unchanged.
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

// Moment returns a stored time, RFC 3339, in the format of the page's language. It returns "" for
// nil, and any text that is not a time unchanged.
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

// Time returns an HTML time element for a time.Time or *time.Time, or "" for a nil pointer. Any other
// type is an error.
func (g *Page) Time(at any) (template.HTML, error) {
	switch t := at.(type) {
	case time.Time:
		return g.MomentTag(web.Timestamp(&t)), nil
	case *time.Time:
		return g.MomentTag(web.Timestamp(t)), nil
	}
	return "", fmt.Errorf("%T is not a time", at)
}

// DayTag returns an HTML time element for a date, or "" for nil.
func (g *Page) DayTag(s *string) template.HTML { return timeTag(s, g.Day(s)) }

// MomentTag returns an HTML time element for a time, or "" for nil.
func (g *Page) MomentTag(s *string) template.HTML { return timeTag(s, g.Moment(s)) }

func timeTag(at *string, text string) template.HTML {
	if at == nil {
		return ""
	}
	machine := *at
	if t, err := time.Parse(time.RFC3339Nano, machine); err == nil {
		// Write whole seconds, because HTML allows at most three fractional digits.
		machine = t.UTC().Format("2006-01-02T15:04:05Z")
	}
	return template.HTML(`<time datetime="`) + template.HTML(template.HTMLEscapeString(machine)) + template.HTML(`">`) + //nolint:gosec // the text is escaped
		template.HTML(template.HTMLEscapeString(text)) + template.HTML(`</time>`) //nolint:gosec // the text is escaped
}
