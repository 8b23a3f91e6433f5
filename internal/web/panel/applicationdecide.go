package panel

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web/body"
)

// reviewer returns the visitor as a reviewer, with the revision of the application in the form.
func reviewer(v *Visit, form url.Values) application.Reviewer {
	revision, _ := strconv.ParseInt(form.Get("revision"), 10, 64) // 0 for a form without a revision
	return application.Reviewer{Institution: v.Institution(), Person: application.Person{ID: v.Person.ID, Type: "user", Name: v.Person.Name}, Revision: revision}
}

// A reviewStep is a step of a reviewer, such as a claim or a rejection. It returns the changed application.
type reviewStep func(ctx context.Context, by application.Reviewer, uuid string) (*application.Application, error)

// review takes a step with the application in the path. If the step fails, review shows the page of the
// application again. open is the name of the form that is then open, or "".
//
// If leaves is set, review redirects to the next application of the view, and appends "_next" to the name
// of the notice. If there is no next application, it redirects to the queue. If leaves is not set, it
// redirects to the page of the same application.
func (p *Panel) review(w http.ResponseWriter, r *http.Request, v *Visit, open, notice string, leaves bool, step reviewStep) error {
	a, err := p.applicationOf(r, v)
	if err != nil {
		return err
	}
	if a, err = step(r.Context(), reviewer(v, r.PostForm), a.UUID); err != nil {
		return p.reviewAgain(w, r, v, open, err)
	}
	view := viewOf(r.PostForm)
	if !leaves {
		return p.redirect(w, r, v, "applications/"+a.UUID+view.Query(), notice)
	}
	next, err := p.nextOf(r, v, view, a)
	if err != nil {
		return err
	}
	if next == "" {
		return p.redirect(w, r, v, "applications"+view.Query(), notice)
	}
	return p.redirect(w, r, v, "applications/"+next+view.Query(), notice+"_next")
}

// reviewAgain shows the page of the application again after a failed step.
func (p *Panel) reviewAgain(w http.ResponseWriter, r *http.Request, v *Visit, open string, err error) error {
	d, e := p.applicationPage(r, v, r.PostForm, r.PostForm)
	if e != nil {
		return e
	}
	form := d.known()
	maps.Copy(form, r.PostForm)
	d.Form, d.Open = form, open
	worded := p.texts(r).reviewError(err, d.A)
	if open == "note" && fault.Is(err, fault.Conflict) { // a note does not depend on the state
		worded = fault.Wrap(fault.Conflict, "application.was_changed", err)
	}
	return p.showAgain(w, r, "application.html", d, p.texts(r).approvalError(worded, d))
}

// reviewError replaces the message of err if the offer or the state of the application does not allow a
// step. The new message says what the offer requires, or how the application has changed in the meantime.
// reviewError returns any other error unchanged.
func (t texts) reviewError(err error, a *application.Application) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, application.ErrFourEyes):
		return fault.Wrap(fault.Conflict, "application.four_eyes", err)
	case errors.Is(err, application.ErrNotClaimed):
		return fault.Wrap(fault.BadRequest, "application.claim_first", err)
	case fault.Is(err, fault.Conflict), fault.Is(err, fault.BadRequest):
		return fault.Wrap(fault.Conflict, t.whatHappened(a), err)
	}
	return err
}

// whatHappened returns a sentence about the last change of an application, which made a step impossible.
func (t texts) whatHappened(a *application.Application) string {
	key, by := "application.was_changed", ""
	switch {
	case a.Status == cert.Withdrawn:
		key = "application.was_withdrawn"
	case a.Status == cert.Lapsed:
		key = "application.was_expired"
	case a.Status == cert.Rejected:
		key, by = "application.was_rejected", a.DecidedBy.Name
	case !a.IsOpen():
		key, by = "application.was_approved", a.DecidedBy.Name
	case a.Status == cert.InReview && a.ClaimedBy.Name != "":
		key, by = "application.was_claimed", a.ClaimedBy.Name
	}
	if by == "" && (strings.HasSuffix(key, "_rejected") || strings.HasSuffix(key, "_approved")) {
		key += "_other"
	}
	if by == "" {
		return t.of(key)
	}
	return t.of(key, "name", by)
}

// reviewControls are the form controls for the text of a hold or of a decision about many applications, and
// for the kind of a hold.
var reviewControls = map[cert.Field]string{"text": "text", "hold": "hold"}

// approvalError replaces the problems in the error of a step with messages. A problem of an answer, of the
// name or of the e-mail address has no control, because only the applicant could correct the text.
func (t texts) approvalError(err error, d *applicationPage) error {
	problems := slices.Clone(cert.ProblemsOf(err))
	if list, ok := errors.AsType[batch.Problems](err); ok {
		for _, p := range list {
			problems = append(problems, p.Problem)
		}
	}
	if len(problems) == 0 {
		return err
	}
	var bad fault.Fields
	for _, p := range problems {
		control, ok := reviewControls[p.Field]
		switch {
		case ok && p.Code == cert.CodeRequired:
			bad.Add(control, t.of("application.text_required"))
		case ok:
			bad.Add(control, t.of("application.text_invalid", "limit", t.language.Number(max(p.Limit, 1))))
		default:
			for _, f := range d.A.Fields {
				if p.Field == application.FieldOf(f.Key) {
					p.Field = template.ValueField(f.Label)
				}
			}
			if control = controlOf[p.Field]; p.Field == cert.FieldName || p.Field == cert.FieldEmail {
				control = ""
			}
			bad.Add(control, t.templateMessage(p, d.Form.Get(control)))
		}
	}
	return bad.Err()
}

// claimApplication records that the visitor reviews the application.
func (p *Panel) claimApplication(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.review(w, r, v, "", "application_claimed", false, p.Applications.Claim)
}

// holdApplication puts the application on hold, with a text for the applicant.
func (p *Panel) holdApplication(w http.ResponseWriter, r *http.Request, v *Visit) error {
	kind, text := application.HoldKind(r.PostForm.Get("hold")), r.PostForm.Get("text")
	return p.review(w, r, v, "hold", "application_held", true, func(ctx context.Context, by application.Reviewer, id string) (*application.Application, error) {
		return p.Applications.Hold(ctx, by, id, kind, text)
	})
}

// releaseApplication ends the hold, whether or not the applicant has answered.
func (p *Panel) releaseApplication(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.review(w, r, v, "", "application_released", false, p.Applications.Release)
}

// rejectApplication rejects the application.
func (p *Panel) rejectApplication(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.review(w, r, v, "reject", "application_rejected", true, func(ctx context.Context, by application.Reviewer, id string) (*application.Application, error) {
		return p.Applications.Reject(ctx, by, id, r.PostForm.Get("reason"), r.PostForm.Get("note"))
	})
}

// withdrawApplication withdraws the application at the request of its applicant.
func (p *Panel) withdrawApplication(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.review(w, r, v, "withdraw", "application_withdrawn", true, p.Applications.Withdraw)
}

// noteApplication saves the note, which the applicant does not see.
func (p *Panel) noteApplication(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.review(w, r, v, "note", "application_noted", false, func(ctx context.Context, by application.Reviewer, id string) (*application.Application, error) {
		return p.Applications.SetNote(ctx, by, id, r.PostForm.Get("note"))
	})
}

// maxFormText is the maximum size in bytes of a text in a form that can also contain a file.
const maxFormText = 16 << 10

// approveApplication approves the application. The form may contain the file of the certificate after the
// texts.
func (p *Panel) approveApplication(w http.ResponseWriter, r *http.Request, v *Visit) error {
	a, err := p.applicationOf(r, v)
	if err != nil {
		return err
	}
	form, err := body.OpenForm(r)
	if err != nil {
		return err
	}
	r.PostForm = url.Values{}
	approve := func(ctx context.Context, file *cert.File) error {
		_, err := p.Applications.Approve(ctx, reviewer(v, r.PostForm), a.UUID, approvalOf(r.PostForm, file))
		return err
	}
	approved := false
	for err == nil && !approved && form.Next() {
		part := form.Part()
		switch {
		case part.FormName() != "file":
			r.PostForm.Add(part.FormName(), string(part.Value(maxFormText, io.Discard)))
		case part.FileName() != "":
			err = p.Certs.Receive(r.Context(), v.Institution().UUID, cert.NewIncoming(part.FileName(), part), func(f *cert.File) error {
				return approve(r.Context(), f)
			})
			if problem := cert.RefusedFile(err); problem != nil {
				err = cert.Problems{*problem}.Err()
			}
			approved = err == nil
		}
	}
	if err == nil && !approved {
		if err = form.Err(); err == nil {
			err = approve(r.Context(), nil)
		}
	}
	return p.review(w, r, v, "", "application_approved", true, func(ctx context.Context, _ application.Reviewer, id string) (*application.Application, error) {
		if err != nil {
			return nil, err
		}
		return p.Applications.ByUUID(ctx, v.Institution().ID, id)
	})
}
