package public

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/locale"
)

// example is a reference id that belongs to nobody: its last sixteen are not
// random.
const example = "NWU-7K3M9QX2P4RTVW8Z"

// page is what a template is given: who reads it, where, and what it shows.
type page struct {
	Language *locale.Language
	// Chosen is set when the address names the language; links then keep it.
	Chosen bool
	// Indexed pages may be found by search engines. None that shows a
	// certificate may.
	Indexed bool
	Data    any

	address   *url.URL
	languages *locale.Catalog
}

// pair gives a part of a page one value of its own.
type pair struct {
	Page  *page
	Value string
}

// mostMegabytes bounds a file that a browser hashes: an original of 20 MB, and
// as much again of tail and to spare.
const mostMegabytes = 40

// reader finds out in which language a request is answered: the one that the
// address names, else the one that the browser asks for.
func (v *view) reader(r *http.Request) *page {
	g := &page{address: r.URL, languages: v.languages}
	if r.URL.RawQuery != "" {
		g.Language, g.Chosen = v.languages.Get(r.URL.Query().Get("lang"))
	}
	if !g.Chosen {
		g.Language = v.languages.Match(r.Header.Get("Accept-Language"))
	}
	return g
}

// T gives a message as text.
func (g *page) T(key string, args ...any) (string, error) {
	return g.Language.Text(key, values(args)...)
}

// H gives a message as markup.
func (g *page) H(key string, args ...any) (template.HTML, error) {
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
func (*page) Code(s string) template.HTML { return code(s) }

// MostMegabytes is how large a file may be that the browser hashes.
func (*page) MostMegabytes() int { return mostMegabytes }

// Example is what a reference id looks like.
func (*page) Example() template.HTML { return code(example) }

// Link gives the address of a path of ours, in the language that was chosen.
func (g *page) Link(path string) string { return g.inLanguage(path, nil) }

func (g *page) inLanguage(path string, q url.Values) string {
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
func (g *page) Readings() template.HTML {
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

// Anchor links to the page of a reference id.
func (g *page) Anchor(referenceID string) template.HTML {
	href := template.HTMLEscapeString(g.Link("/verify/" + url.PathEscape(referenceID)))
	return template.HTML(`<a href="`) + template.HTML(href) + template.HTML(`">`) + code(referenceID) + template.HTML(`</a>`) //nolint:gosec // both are escaped
}

// Day writes a stored date, YYYY-MM-DD or RFC 3339, as people do.
func (g *page) Day(s *string) string {
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
func (g *page) Moment(s *string) string {
	if s == nil {
		return ""
	}
	t, err := time.Parse(time.RFC3339Nano, *s)
	if err != nil {
		return *s
	}
	return g.Language.Time(t)
}

// DayTag writes a date with its machine-readable form.
func (g *page) DayTag(s *string) template.HTML { return timeTag(s, g.Day(s)) }

// MomentTag writes a time with its machine-readable form.
func (g *page) MomentTag(s *string) template.HTML { return timeTag(s, g.Moment(s)) }

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
