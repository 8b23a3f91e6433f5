package recipient

import (
	"cmp"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/web/page"
)

// texts has the messages about problems of applications in the language of a page.
type texts struct{ language *locale.Language }

func (p *Pages) texts(r *http.Request) texts { return texts{p.signedIn.Reader(r).Language} }

// of returns the message whose key in the catalog is "my_application." and key. If there is no such message,
// it returns key.
func (t texts) of(key string, args ...any) string {
	text, err := t.language.Text("my_application."+key, args...)
	if err != nil {
		return key
	}
	return text
}

// applicationError returns err with messages for the applicant. Its fields are the names of the controls of
// the form. fields are the fields of the offer.
func (t texts) applicationError(err error, fields []application.Field) error {
	var bad fault.Fields
	whole := ""
	for _, p := range cert.ProblemsOf(err) {
		control, text := t.problem(p, fields)
		if control == "" {
			whole = text
			continue
		}
		bad.Add(control, text)
	}
	if e, ok := errors.AsType[*fault.Error](bad.Err()); ok {
		e.Message = whole
		return e
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	worded := *e
	worded.Fields = nil
	switch {
	case whole != "":
		worded.Message = whole
	case errors.Is(err, application.ErrAsked):
		worded.Message = "my_application.problem_asked"
	case errors.Is(err, application.ErrDraft):
		worded.Message = "my_application.problem_draft"
	case errors.Is(err, application.ErrFull):
		worded.Message = "my_application.problem_full"
	case e.Kind == fault.TooMany:
		worded.Message = "my_application.problem_too_often"
	case e.Kind == fault.NotFound:
		return &fault.Error{Kind: fault.Conflict, Message: "my_application.problem_closed", Err: err}
	case e.Kind == fault.BadRequest && !strings.HasPrefix(e.Message, "my_application."), e.Kind == fault.Conflict:
		worded.Message = "my_application.problem_changed"
	}
	return &worded
}

// problem returns the name of the control with a problem, and the message. The name is "" for a problem of
// the whole form.
func (t texts) problem(p cert.Problem, fields []application.Field) (control, text string) {
	switch p.Code {
	case application.CodeOpen:
		return "", t.of("problem_open")
	case application.CodeTooManyOpen:
		return "", t.of("problem_many")
	default:
	}
	switch p.Field {
	case cert.FieldName:
		if p.Code == cert.CodeRequired {
			return "full_name", t.of("problem_name")
		}
		return "full_name", t.about(p, t.of("name"), "")
	case "answer":
		return "answer", t.about(p, t.of("answer"), application.Area)
	case answerFiles:
		return "files", t.about(p, t.of("files"), application.Upload)
	case "files": // all files of the form
		return "", t.about(p, t.of("files"), application.Upload)
	default:
	}
	for _, f := range fields {
		if p.Field == application.FieldOf(f.Key) || p.Field == application.FileOf(f.Key) {
			return controlOf(f.Key), t.about(p, f.Label, f.Type)
		}
	}
	return "", t.of("problem_changed")
}

// required maps the type of a field to the key of the message about a missing answer. For other types, the
// key is problem_required.
var required = map[application.FieldType]string{application.Check: "problem_required_check", application.Upload: "problem_required_file"}

// about returns the message about a problem of a field. label is the label of the field.
func (t texts) about(p cert.Problem, label string, kind application.FieldType) string {
	var key string
	switch p.Code {
	case cert.CodeRequired:
		key = required[kind]
	case cert.CodeTooLong:
		return t.of("problem_too_long", "label", label, "limit", t.language.Number(p.Limit))
	case cert.CodeNotText:
		key = "problem_not_text"
	case cert.CodeNotDate:
		key = "problem_not_date"
	case cert.CodeRefusedFile, cert.CodeNotFile:
		if p.Limit > 0 {
			return t.of("problem_large_file", "label", label, "size", p.Limit>>20)
		}
		key = "problem_refused_file"
	case application.CodeNumber:
		key = "problem_not_number"
	case application.CodeChoice:
		key = "problem_not_choice"
	case application.CodeFiles:
		key = "problem_many_files"
	case application.CodeField, application.CodeCheck:
		key = "problem_invalid"
	default: // a text that does not fit the template
		key = "problem_fit"
	}
	return t.of(cmp.Or(key, "problem_required"), "label", label)
}

// applyFuncs are the template functions of the pages of applications.
var applyFuncs = template.FuncMap{"given": given, "about": about, "happened": happened}

// given returns the answer of a field as markup.
func given(g *page.Page, f application.Field, text string) (template.HTML, error) {
	switch {
	case f.Type == application.Check && text == "":
		return g.H("my_application.no")
	case f.Type == application.Check:
		return g.H("my_application.yes")
	case text == "":
		empty, err := g.T("my_application.review_empty")
		return element(`<span class="quiet">`, empty, "</span>"), err
	case f.Type == application.Date:
		return g.DayTag(&text), nil
	case f.Type == application.Area:
		return element(`<span class="lines" dir="auto">`, text, "</span>"), nil
	}
	return element("<bdi>", text, "</bdi>"), nil
}

// element returns a text between two tags.
func element(start, text, end string) template.HTML {
	return template.HTML(start + template.HTMLEscapeString(text) + end) //nolint:gosec // the text is escaped
}

// about returns the message with a key as markup. The message may contain the name of the institution.
func about(g *page.Page, key, institution string) (template.HTML, error) {
	if text, err := g.H(key, "institution", institution); err == nil {
		return text, nil
	}
	return g.H(key)
}

// happenings maps the action of an event to the key of its message in the timeline. Events with other
// actions are not shown.
var happenings = map[string]string{
	"submitted": "my_application.event_submitted", "claimed": "my_application.event_claimed", "held": "my_application.event_held", "answered": "my_application.event_answered",
	"released": "my_application.event_released", "approved": "my_application.event_approved", "rejected": "my_application.event_rejected",
	"withdrawn": "my_application.event_withdrawn", "expired": "my_application.event_expired", "certificate_approved": "my_application.event_certificate_approved",
	"failed": "my_application.event_failed", "retried": "my_application.event_retried", "revoked": "my_application.event_revoked",
}

// happened returns the message about an event, or "" if happenings has no message for its action.
func happened(g *page.Page, e application.Event) (string, error) {
	key, ok := happenings[e.Action]
	if !ok {
		return "", nil
	}
	if e.Action == "submitted" && e.By.Type == "token" {
		key = "my_application.event_submitted_api"
	}
	return g.Message(key)
}
