package recipient

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
	"github.com/certvault/certvault/internal/web/page"
)

// applyLimits bounds a form with files: ten files of 20 MB and the texts.
var applyLimits = body.Limits{
	Size: 10*cert.MaxFile + 4<<20, Time: 20 * time.Minute, Parts: 300,
	TooLarge: fault.New(fault.TooLarge, "my_application.problem_too_large"), Broken: fault.New(fault.BadRequest, "my_application.problem_interrupted"),
}

// maxValue is the maximum size in bytes of a text in a form with files. Package application has stricter
// limits.
const maxValue = 64 << 10

// offering is an open offer and its institution.
type offering struct {
	Institution *account.Institution
	Profile     *account.PublicProfile
	Offer       *application.Offer
}

// Base returns the path of the form.
func (o *offering) Base() string {
	return "/account/apply/" + o.Institution.Slug + "/" + o.Offer.Slug
}

// Public returns the path of the public page of the offer.
func (o *offering) Public() string { return "/apply/" + o.Institution.Slug + "/" + o.Offer.Slug }

// Megabytes returns the maximum size of a file in MB.
func (*offering) Megabytes() int { return cert.MaxFile >> 20 }

// applyStart is the data of the page that asks for an e-mail address.
type applyStart struct {
	*offering

	// Email is the address of the signed-in person, which is not verified, or "" if no person is signed in.
	Email string
}

// applyForm is the data of the form of an application, and of the page that shows the draft before it is
// sent.
type applyForm struct {
	*offering

	Email, FullName string
	Values          map[string]string
	Files           []application.File
	// Saved is the time at which the draft was saved, or nil.
	Saved *time.Time
	// Texts and Content are the digests of the draft that the page shows.
	Texts, Content string
}

// Control returns the name of the control of a field.
func (*applyForm) Control(f application.Field) string { return controlOf(f.Key) }

func controlOf(key string) string { return "field_" + key }

// FilesOf returns the files of a field.
func (a *applyForm) FilesOf(f application.Field) []application.File {
	return application.FilesOf(a.Files, f.Key)
}

// Room reports whether another file can be added.
func (a *applyForm) Room() bool { return len(a.Files) < a.Offer.MaxFiles }

// Uploads reports whether the form has controls for files.
func (a *applyForm) Uploads() bool {
	for _, f := range a.Offer.Fields {
		if f.Type == application.Upload {
			return true
		}
	}
	return false
}

// offering returns the open offer in the path of a request. If the institution is unknown, it returns
// page.ErrUnknown. If the offer is not open, it returns an offering without the offer, and
// fault.NotFound.
func (p *Pages) offering(r *http.Request) (*offering, error) {
	inst, err := p.Accounts.InstitutionBySlug(r.Context(), r.PathValue("institution"))
	if fault.Is(err, fault.NotFound) {
		return nil, page.ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	if err := web.CheckSlug(r.PathValue("institution"), inst.Slug); err != nil {
		return nil, err
	}
	o := &offering{Institution: inst}
	if o.Profile, err = p.Accounts.PublicProfile(r.Context(), inst.ID); err != nil {
		return nil, err
	}
	o.Offer, err = p.Applications.OpenOffer(r.Context(), inst.ID, r.PathValue("offer"))
	return o, err
}

// forOffer returns a handler that calls f with the open offer of a request. If the offer is not open, the
// handler shows apply_closed.html.
func (p *Pages) forOffer(f func(http.ResponseWriter, *http.Request, *offering) error) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		o, err := p.offering(r)
		if o != nil && fault.Is(err, fault.NotFound) {
			return p.signedIn.Draw(w, r, http.StatusNotFound, "apply_closed.html", o)
		}
		if err != nil {
			return err
		}
		return f(w, r, o)
	}
}

// forVerified returns a handler that calls f for a person with a verified address, and redirects other
// people to the page that asks them to verify an address.
func (p *Pages) forVerified(f web.Func) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s, ok := p.Gate.Person(r); ok && s.Person.Verified {
			return f(w, r)
		}
		return p.signedIn.Redirect(w, r, "/account/apply/"+url.PathEscape(r.PathValue("institution"))+"/"+url.PathEscape(r.PathValue("offer")), "")
	}
}

// applicant returns the signed-in person as an applicant.
func applicant(s *identity.Session) application.Applicant {
	return application.Applicant{UserID: s.Person.ID, Email: s.Person.Email, Name: s.Person.Name, Language: s.Person.Language}
}

// applyForm returns the form with the draft of the signed-in person.
func (p *Pages) applyForm(r *http.Request, o *offering, s *identity.Session) (*applyForm, error) {
	d, err := p.Applications.DraftOf(r.Context(), applicant(s), o.Offer)
	if err != nil {
		return nil, err
	}
	a := &applyForm{offering: o, Email: s.Person.Email, FullName: s.Person.Name, Values: map[string]string{}}
	if d == nil {
		a.Texts = (&application.DraftApplication{Offer: o.Offer, FullName: s.Person.Name}).Texts() // the draft that the first file creates
	} else {
		a.Files, a.Saved, a.Texts, a.Content = d.Files, &d.UpdatedAt, d.Texts(), d.Content()
		if d.FullName != "" {
			a.FullName = d.FullName
		}
		if d.Values != nil {
			a.Values = d.Values
		}
	}
	return a, nil
}

// apply shows the form of an application to a person with a verified address. It asks other people to
// verify an address first, so that no data of a person without a verified address is stored. It redirects a
// person with an open application for the offer to this application.
func (p *Pages) apply(w http.ResponseWriter, r *http.Request, o *offering) error {
	s, ok := p.Gate.Person(r)
	if !ok || !s.Person.Verified {
		start := applyStart{offering: o}
		if ok {
			start.Email = s.Person.Email
		}
		return p.signedIn.Draw(w, r, http.StatusOK, "apply_start.html", start)
	}
	mine, err := p.Applications.OfApplicant(r.Context(), s.Person.ID)
	if err != nil {
		return err
	}
	for _, a := range mine {
		if a.OfferID == o.Offer.ID && a.IsOpen() {
			return p.signedIn.Redirect(w, r, p.signedIn.Reader(r).Link(pathOf(a)), "application_open")
		}
	}
	a, err := p.applyForm(r, o, s)
	if err != nil {
		return err
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "apply.html", a)
}

// saveApplication saves the draft with its files, and removes a file if the form requests it. Then it
// redirects to the review or to the form. The response to the script that uploads files is the form.
func (p *Pages) saveApplication(w http.ResponseWriter, r *http.Request, o *offering) error {
	s, _ := p.Gate.Person(r)
	values, refused, err := p.receiveDraft(w, r, o, s)
	if err == nil {
		var d *application.DraftApplication
		d, err = p.Applications.SaveDraft(r.Context(), applicant(s), o.Offer, values.Get("draft"), values.Get("full_name"), answers(o.Offer, values))
		if err == nil {
			values.Set("draft", d.Texts())
		}
	}
	if err == nil {
		err = refused.Err()
	}
	remove := values.Get("remove")
	if err == nil && remove != "" {
		err = p.Applications.RemoveDraftFile(r.Context(), applicant(s), o.Offer, remove)
		if fault.Is(err, fault.NotFound) {
			err = nil // a second click
		}
	}
	if err == nil && values.Get("step") == "review" {
		err = p.Applications.CheckDraft(r.Context(), applicant(s), o.Offer)
	}
	if err != nil {
		return p.applyAgain(w, r, o, s, values, err)
	}
	base := p.signedIn.Reader(r).Link(o.Base())
	switch {
	case web.FromScript(r):
		a, err := p.applyForm(r, o, s)
		if err != nil {
			return err
		}
		return p.signedIn.Draw(w, r, http.StatusOK, "apply.html", a)
	case remove != "":
		return p.signedIn.Redirect(w, r, base, "application_file_removed")
	case values.Get("step") == "review":
		return p.signedIn.Redirect(w, r, p.signedIn.Reader(r).Link(o.Base()+"/review"), "")
	}
	return p.signedIn.Redirect(w, r, base, "application_saved")
}

// applyAgain shows the form again with the problems in err. The texts are those of values, or those of
// the draft if values is nil.
func (p *Pages) applyAgain(w http.ResponseWriter, r *http.Request, o *offering, s *identity.Session, values url.Values, err error) error {
	a, draftErr := p.applyForm(r, o, s)
	if draftErr != nil {
		return draftErr
	}
	if values != nil {
		a.FullName, a.Values = values.Get("full_name"), answers(o.Offer, values)
		// Only a whole page with the message about a changed draft permits to replace the draft.
		if !errors.Is(err, application.ErrDraft) || web.FromScript(r) {
			a.Texts = values.Get("draft")
		}
	}
	return p.signedIn.ShowAgain(w, r, "apply.html", a, p.texts(r).applicationError(err, o.Offer.Fields))
}

// answers maps the keys of the fields of an offer to the entered texts.
func answers(o *application.Offer, values url.Values) map[string]string {
	texts := map[string]string{}
	for _, f := range o.Fields {
		if text := values.Get(controlOf(f.Key)); text != "" && f.Type != application.Upload {
			texts[f.Key] = text
		}
	}
	return texts
}

// receiveDraft reads the form of an application. It adds the files to the draft and returns the texts.
// refused has the problems of the files that were not added.
func (p *Pages) receiveDraft(w http.ResponseWriter, r *http.Request, o *offering, s *identity.Session) (values url.Values, refused cert.Problems, err error) {
	if !isMultipart(r) {
		return r.PostForm, nil, nil
	}
	body.Limit(w, r, applyLimits)
	form, err := body.OpenForm(r)
	if err != nil {
		return nil, nil, err
	}
	fields := map[string]*application.Field{"draft": {}, "full_name": {}, "step": {}, "remove": {}}
	for i, f := range o.Offer.Fields {
		fields[controlOf(f.Key)] = &o.Offer.Fields[i]
	}
	values = url.Values{}
	for form.Next() {
		part := form.Part()
		f := fields[part.FormName()]
		switch {
		case f == nil: // not a control of the form
		case f.Type != application.Upload:
			values.Set(part.FormName(), string(part.Value(maxValue, io.Discard)))
		case part.FileName() != "":
			_, err := p.Applications.AddDraftFile(r.Context(), applicant(s), o.Offer, f.Key, cert.NewIncoming(part.FileName(), part))
			problems := cert.ProblemsOf(err)
			if err != nil && problems == nil {
				return values, nil, err
			}
			refused = append(refused, problems...)
		}
	}
	return values, refused, form.Err()
}

func isMultipart(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data")
}

// reviewApplication shows the draft for review before it is sent, or the form if the draft has problems.
func (p *Pages) reviewApplication(w http.ResponseWriter, r *http.Request, o *offering) error {
	s, _ := p.Gate.Person(r)
	a, err := p.applyForm(r, o, s)
	if err != nil {
		return err
	}
	if a.Saved == nil {
		return p.signedIn.Redirect(w, r, p.signedIn.Reader(r).Link(o.Base()), "")
	}
	if err := p.Applications.CheckDraft(r.Context(), applicant(s), o.Offer); err != nil {
		return p.applyAgain(w, r, o, s, nil, err)
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "apply_review.html", a)
}

// sendApplication submits the draft that the review showed. If the draft or the questions have changed, it shows
// the review again. If the person has an open application for the offer, it redirects to
// this application. If there is no draft, for example after a second click, it redirects to the form.
func (p *Pages) sendApplication(w http.ResponseWriter, r *http.Request, o *offering) error {
	s, _ := p.Gate.Person(r)
	a, err := p.Applications.SubmitDraft(r.Context(), o.Institution, applicant(s), o.Offer, r.PostForm.Get("draft"))
	link := p.signedIn.Reader(r).Link
	switch id := openApplication(err); {
	case err == nil:
		return p.signedIn.Redirect(w, r, link(pathOf(a)+"/sent"), "")
	case id != "":
		return p.signedIn.Redirect(w, r, link("/account/applications/"+id), "application_open")
	case fault.Is(err, fault.NotFound):
		return p.signedIn.Redirect(w, r, link(o.Base()), "")
	case errors.Is(err, application.ErrDraft):
		a, formErr := p.applyForm(r, o, s)
		if formErr != nil {
			return formErr
		}
		return p.signedIn.ShowAgain(w, r, "apply_review.html", a, fault.Wrap(fault.Conflict, "my_application.problem_reviewed", err))
	}
	return p.applyAgain(w, r, o, s, nil, err)
}

// openApplication returns the UUID of the open application that prevents another one, or "".
func openApplication(err error) string {
	for _, p := range cert.ProblemsOf(err) {
		if p.Code == application.CodeOpen {
			return p.Detail
		}
	}
	return ""
}
