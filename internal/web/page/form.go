package page

import (
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// Problem is what is wrong with a form.
type Problem struct {
	// Field is the control, empty for the form as a whole.
	Field string
	Text  string
}

// Problems are all that is wrong with a form, in the order found.
type Problems []Problem

// Of gives what is wrong with a field.
func (p Problems) Of(field string) []string {
	var texts []string
	for _, one := range p {
		if one.Field == field {
			texts = append(texts, one.Text)
		}
	}
	return texts
}

// maxProblems bounds how much a page says is wrong.
const maxProblems = 100

// mendable are the errors that a person at a form can do something about.
var mendable = map[fault.Kind]bool{
	fault.Invalid: true, fault.BadRequest: true, fault.Conflict: true, fault.TooLarge: true, fault.Unsupported: true, fault.TooMany: true,
}

// Again shows a form once more, with what is wrong with it, when err is one that
// the person can mend; any other is given back. A message that is the name of one
// in the catalog is told in the reader's language.
func (s *Set) Again(w http.ResponseWriter, r *http.Request, name string, data any, err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || !mendable[e.Kind] {
		return err
	}
	status, text := web.Explain(w, r, err)
	l := s.Reader(r).Language
	say := func(text string) string {
		if said, err := l.Text(text); err == nil {
			return said
		}
		return text
	}
	var problems Problems
	if e.Message != "" || len(e.Fields) == 0 {
		problems = append(problems, Problem{Text: say(text)})
	}
	for _, f := range e.Fields {
		for _, m := range f.Messages {
			if len(problems) < maxProblems {
				problems = append(problems, Problem{Field: f.Name, Text: say(m)})
			}
		}
	}
	return s.draw(w, r, status, name, data, problems)
}

// Describe gives the attributes of a field's control: what describes it, its
// problem first, and that it has one.
func (g *Page) Describe(field string, hints ...string) template.HTMLAttr {
	var b strings.Builder
	if len(g.Problems.Of(field)) > 0 {
		b.WriteString(`aria-invalid="true" `)
		hints = append([]string{field + "-problem"}, hints...)
	}
	if len(hints) > 0 {
		b.WriteString(`aria-describedby="` + template.HTMLEscapeString(strings.Join(hints, " ")) + `"`)
	}
	return template.HTMLAttr(b.String()) //nolint:gosec // it is escaped
}

// noticeCookie carries the name of a notice over a redirect; a page shows only
// what its surface has under that name.
const (
	noticeCookie = "__Host-notice"
	noticeTime   = time.Minute
	// noticeNumbers is how many numbers a notice has at most.
	noticeNumbers = 4
)

// Redirect leads to another page after a deed (RFC 9110, 15.4.4), which tells
// the notice of that name with the numbers that it has; empty tells nothing.
func (s *Set) Redirect(w http.ResponseWriter, r *http.Request, to, notice string, numbers ...int) error {
	if notice != "" {
		s.Note(w, notice, numbers...)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// Note has the next page tell a notice, where a module leads to it. Its numbers
// stand in the places {1}, {2} of its text.
func (*Set) Note(w http.ResponseWriter, notice string, numbers ...int) {
	for _, n := range numbers {
		notice += "." + strconv.Itoa(n)
	}
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: notice, Path: "/", MaxAge: int(noticeTime.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// notice gives what was just done, empty for nothing.
func (s *Set) notice(r *http.Request, g *Page) string {
	if len(s.options.Notices) == 0 {
		return ""
	}
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	parts := strings.Split(c.Value, ".")
	text := s.options.Notices[parts[0]]
	if said, err := g.Language.Text(text); err == nil {
		text = said
	}
	// The cookie is the browser's: nothing but numbers comes from it into a page.
	for i, part := range parts[1:min(len(parts), 1+noticeNumbers)] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return ""
		}
		text = strings.ReplaceAll(text, "{"+strconv.Itoa(i+1)+"}", strconv.Itoa(n))
	}
	return text
}

// forgetNotice keeps a notice from being told twice.
func forgetNotice(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
