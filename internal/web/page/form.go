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

// Problem is an error in a form.
type Problem struct {
	// Field is the name of the control, or "" for the whole form.
	Field string
	Text  string
}

// Problems are all errors in a form, in the order in which they were found.
type Problems []Problem

// Of returns the texts of a field's problems.
func (p Problems) Of(field string) []string {
	var texts []string
	for _, problem := range p {
		if problem.Field == field {
			texts = append(texts, problem.Text)
		}
	}
	return texts
}

// maxProblems is the maximum number of problems on a page.
const maxProblems = 100

// correctable are the kinds of errors after which a person can correct the form or submit it again.
var correctable = map[fault.Kind]bool{
	fault.Invalid: true, fault.BadRequest: true, fault.Conflict: true, fault.TooLarge: true, fault.Unsupported: true, fault.TooMany: true,
	fault.Unavailable: true,
}

// ShowAgain shows a form again with its problems, if the person can correct err or can submit the form
// again later. It returns any other error. It translates messages that are keys of the catalog.
func (s *Set) ShowAgain(w http.ResponseWriter, r *http.Request, name string, data any, err error) error {
	if web.IsOutage(err) {
		status, _ := web.Explain(w, r, err)
		text, err := s.Reader(r).Language.Text("error.unavailable")
		if err != nil {
			return err
		}
		return s.draw(w, r, status, name, data, Problems{{Text: text}})
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || !correctable[e.Kind] {
		return err
	}
	status, text := web.Explain(w, r, err)
	l := s.Reader(r).Language
	translate := func(text string) string {
		if translated, err := l.Text(text); err == nil {
			return translated
		}
		return text
	}
	var problems Problems
	if e.Message != "" || len(e.Fields) == 0 {
		problems = append(problems, Problem{Text: translate(text)})
	}
	for _, f := range e.Fields {
		for _, m := range f.Messages {
			if len(problems) < maxProblems {
				problems = append(problems, Problem{Field: f.Name, Text: translate(m)})
			}
		}
	}
	return s.draw(w, r, status, name, data, problems)
}

// Describe returns the ARIA attributes of the control of a field: whether the control is invalid, and
// the ids of the field's problem and of the hints.
func (g *Page) Describe(field string, hints ...string) template.HTMLAttr {
	var b strings.Builder
	if len(g.Problems.Of(field)) > 0 {
		b.WriteString(`aria-invalid="true" `)
		hints = append([]string{field + "-problem"}, hints...)
	}
	if len(hints) > 0 {
		b.WriteString(`aria-describedby="` + template.HTMLEscapeString(strings.Join(hints, " ")) + `"`)
	}
	return template.HTMLAttr(b.String()) //nolint:gosec // the text is escaped
}

// noticeCookie contains the name and the numbers of the notice that the next page shows. A page
// shows only notices that its surface defines.
const (
	noticeCookie = "__Host-notice"
	noticeTime   = time.Minute
	// noticeNumbers is the maximum number of numbers in a notice.
	noticeNumbers = 4
)

// Redirect redirects to another page after a form was processed (RFC 9110, 15.4.4). The target shows
// the notice with the numbers. If notice is "", the target shows no notice.
func (s *Set) Redirect(w http.ResponseWriter, r *http.Request, to, notice string, numbers ...int) error {
	if notice != "" {
		s.Note(w, notice, numbers...)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// Note makes the next page show a notice. The numbers replace {1}, {2} and so on in the text. A handler
// calls Note instead of Redirect if a script opens the next page.
func (*Set) Note(w http.ResponseWriter, notice string, numbers ...int) {
	for _, n := range numbers {
		notice += "." + strconv.Itoa(n)
	}
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: notice, Path: "/", MaxAge: int(noticeTime.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// notice returns the text of the notice in the cookie of a request, in the language of the page. It
// returns "" if there is no valid notice.
func (s *Set) notice(r *http.Request, g *Page) string {
	if len(s.options.Notices) == 0 {
		return ""
	}
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	parts := strings.Split(c.Value, ".")
	// A person can change the cookie, so only numbers from the cookie are shown.
	var numbers []any
	for i, part := range parts[1:min(len(parts), 1+noticeNumbers)] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return ""
		}
		numbers = append(numbers, strconv.Itoa(i+1), n)
	}
	text, err := g.Language.Text(s.options.Notices[parts[0]], numbers...)
	if err != nil {
		return "" // the notice is unknown, or its text needs other numbers
	}
	return text
}

// forgetNotice deletes the cookie, so that the notice is shown only once.
func forgetNotice(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
