package recipient

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/body"
)

// These are the states of an application as its applicant sees them. The keys of their messages contain
// these texts.
const (
	statePending    = "pending"
	stateInReview   = "in_review"
	stateHeld       = "held"
	stateAnswered   = "answered"
	stateSigning    = "signing"
	stateProcessing = "processing"
	stateApproved   = "approved"
	stateRejected   = "rejected"
	stateWithdrawn  = "withdrawn"
	stateExpired    = "expired"
	stateRevoked    = "revoked"
)

// states maps each state to the class for its colour and its picture.
var states = map[string]string{
	statePending: processing, stateInReview: processing, stateHeld: unchecked, stateAnswered: processing, stateSigning: processing, stateProcessing: processing,
	stateApproved: valid, stateRejected: revoked, stateWithdrawn: "none", stateExpired: "none", stateRevoked: revoked,
}

// processing is the class of an application that waits for the institution or for its certificate.
const processing = "processing"

// stateOf returns the state of an application. It returns stateProcessing for a failed certificate too,
// because the institution can correct the cause.
func stateOf(a *application.Application) string {
	switch a.Status {
	case cert.Pending, cert.InReview:
		switch {
		case a.Hold != nil && a.Hold.AnsweredAt == nil:
			return stateHeld
		case a.Hold != nil:
			return stateAnswered
		case a.DecidedAt != nil:
			return stateSigning
		case a.Status == cert.InReview:
			return stateInReview
		}
		return statePending
	case cert.Approved:
		return stateApproved
	case cert.Revoked:
		return stateRevoked
	case cert.Rejected:
		return stateRejected
	case cert.Withdrawn:
		return stateWithdrawn
	case cert.Lapsed:
		return stateExpired
	default:
		return stateProcessing
	}
}

// pathOf returns the path of the page of an application.
func pathOf(a *application.Application) string { return "/account/applications/" + a.UUID }

// applicationView is an application as its applicant sees it. It has no note and no advice. Pages must not
// show the names in Events.
type applicationView struct {
	UUID, Offer, ReferenceID, FullName, Email string
	State                                     string
	Institution                               *account.PublicProfile
	// SentAt is the time at which the application was sent. Reason is the reason for its rejection, or "".
	SentAt *string
	Reason string
	Hold   *application.Hold
	Fields []application.Field
	Values map[string]string
	Files  []application.File
	// FilesDeleted reports whether the files were deleted at the end of their retention.
	FilesDeleted bool
	// Open reports whether the application can be withdrawn.
	Open   bool
	Events []application.Event
	// Ended reports whether a person other than the applicant withdrew the application.
	Ended bool
	// Answer is the text of the answer, and Asked the name of the hold that it answers, for a form that is
	// shown again.
	Answer, Asked string
}

// Path returns the path of the page.
func (v *applicationView) Path() string { return "/account/applications/" + v.UUID }

// Class returns the class of the state.
func (v *applicationView) Class() string { return states[v.State] }

// Title returns the key of the name of the state.
func (v *applicationView) Title() string { return "my_application.state_" + v.State }

// Text returns the key of the description of the state.
func (v *applicationView) Text() string {
	if v.Ended {
		return "my_application.state_ended_text"
	}
	return v.Title() + "_text"
}

// Heading returns the key of the heading of the hold.
func (v *applicationView) Heading() string { return "my_application.hold_" + string(v.Hold.Kind) }

// Held reports whether the institution waits for an answer.
func (v *applicationView) Held() bool { return v.State == stateHeld }

// HoldName returns the name of the hold in the form of an answer. The hold that replaces it has another name.
func (v *applicationView) HoldName() string { return strconv.FormatInt(v.Hold.Since.UnixMicro(), 10) }

// Certificate returns the path of the certificate, or "".
func (v *applicationView) Certificate() string {
	if v.State == stateApproved || v.State == stateRevoked {
		return "/account/certificates/" + v.UUID
	}
	return ""
}

// FilesOf returns the files of a field.
func (v *applicationView) FilesOf(key string) []application.File {
	return application.FilesOf(v.Files, key)
}

// Room returns the number of files that an answer may add.
func (v *applicationView) Room() int { return application.MaxFiles - len(v.Files) }

// Megabytes returns the maximum size of a file in MB.
func (*applicationView) Megabytes() int { return cert.MaxFile >> 20 }

// applicationView returns the view of an application without its timeline.
func (p *Pages) applicationView(r *http.Request, a *application.Application) (*applicationView, error) {
	profile, err := p.Accounts.PublicProfile(r.Context(), a.InstitutionID)
	if err != nil {
		return nil, err
	}
	return &applicationView{
		UUID: a.UUID, Offer: a.OfferName, ReferenceID: a.ReferenceID, FullName: a.FullName, Email: a.Email, State: stateOf(a), Institution: profile,
		SentAt: web.Timestamp(&a.CreatedAt), Reason: a.Reason, Hold: a.Hold, Fields: a.Fields, Values: a.Values, Files: a.Files, FilesDeleted: a.FilesDeleted,
		Open: a.IsOpen(),
	}, nil
}

// applicationList is the data of the list of a person's applications and drafts.
type applicationList struct {
	Applications []*applicationView
	Drafts       []*offering
}

// applications lists the applications of the signed-in person.
func (p *Pages) applications(w http.ResponseWriter, r *http.Request) error {
	s, _ := p.Gate.Person(r)
	all, err := p.Applications.OfApplicant(r.Context(), s.Person.ID)
	if err != nil {
		return err
	}
	var list applicationList
	for _, a := range all {
		v, err := p.applicationView(r, a)
		if err != nil {
			return err
		}
		list.Applications = append(list.Applications, v)
	}
	drafts, err := p.Applications.Drafts(r.Context(), s.Person.ID)
	if err != nil {
		return err
	}
	for _, d := range drafts {
		profile, err := p.Accounts.PublicProfile(r.Context(), d.Offer.InstitutionID)
		if err != nil {
			return err
		}
		if d.Offer.Status == application.Open {
			inst := &account.Institution{ID: d.Offer.InstitutionID, Slug: profile.Slug}
			list.Drafts = append(list.Drafts, &offering{Institution: inst, Profile: profile, Offer: d.Offer})
		}
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "applications.html", list)
}

// application returns the application in the path of a request, and its view. The error is fault.NotFound
// if the application does not belong to the signed-in person.
func (p *Pages) application(r *http.Request) (*application.Application, *applicationView, error) {
	s, _ := p.Gate.Person(r)
	a, err := p.Applications.ByApplicant(r.Context(), s.Person.ID, r.PathValue("uuid"))
	if err != nil {
		return nil, nil, err
	}
	v, err := p.applicationView(r, a)
	return a, v, err
}

// withTimeline returns the view of the application in the path of a request, with its timeline.
func (p *Pages) withTimeline(r *http.Request) (*applicationView, error) {
	a, v, err := p.application(r)
	if err != nil {
		return nil, err
	}
	if v.Events, err = p.Applications.Timeline(r.Context(), a); err != nil {
		return nil, err
	}
	for _, e := range v.Events {
		v.Ended = v.Ended || e.Action == stateWithdrawn && e.By.ID != a.ApplicantID
	}
	return v, nil
}

// applicationPage shows an application.
func (p *Pages) applicationPage(w http.ResponseWriter, r *http.Request) error {
	v, err := p.withTimeline(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "application.html", v)
}

// applicationSent confirms that an application was sent.
func (p *Pages) applicationSent(w http.ResponseWriter, r *http.Request) error {
	_, v, err := p.application(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "application_sent.html", v)
}

// answer stores the answer to the question of the institution.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request) error {
	v, err := p.withTimeline(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	if err := p.receiveAnswer(w, r, v); err != nil {
		// The reviewer may have replaced the question while the form was received.
		if shown, timelineErr := p.withTimeline(r); timelineErr == nil {
			shown.Answer, shown.Asked, v = v.Answer, v.Asked, shown
		}
		if v.Held() && v.Asked != "" && v.Asked != v.HoldName() {
			err = application.ErrAsked
		}
		return p.signedIn.ShowAgain(w, r, "application.html", v, p.texts(r).applicationError(err, nil))
	}
	return p.signedIn.Redirect(web.AsScript(w, r), r, p.signedIn.Reader(r).Link(v.Path()), "application_answered")
}

// receiveAnswer receives the form of an answer with its files, and stores the answer. It sets v.Answer and
// v.Asked to the texts of the form.
func (p *Pages) receiveAnswer(w http.ResponseWriter, r *http.Request, v *applicationView) error {
	s, _ := p.Gate.Person(r)
	store := func(files []*cert.File) error {
		micros, _ := strconv.ParseInt(v.Asked, 10, 64) // 0, at which no hold began, if the text is not a number
		_, err := p.Applications.Answer(r.Context(), s.Person.ID, v.UUID, time.UnixMicro(micros), v.Answer, files)
		return err
	}
	if !isMultipart(r) {
		v.Answer, v.Asked = r.PostForm.Get("answer"), r.PostForm.Get("hold")
		return store(nil)
	}
	body.Limit(w, r, applyLimits)
	form, err := body.OpenForm(r)
	if err != nil {
		return err
	}
	inst, err := p.Accounts.InstitutionBySlug(r.Context(), v.Institution.Slug)
	if err != nil {
		return err
	}
	return p.receiveFiles(r, form, inst.UUID, v, nil, store)
}

// answerFiles is the field of a problem with the files of an answer.
var answerFiles = application.FileOf("answer")

// receiveFiles receives the rest of a form, and calls store with files and the files of the rest. Each file
// is deleted if a later step fails.
func (p *Pages) receiveFiles(r *http.Request, form *body.Form, institutionUUID string, v *applicationView, files []*cert.File, store func([]*cert.File) error) error {
	for form.Next() {
		part := form.Part()
		switch part.FormName() {
		case "answer":
			v.Answer = string(part.Value(maxValue, io.Discard))
		case "hold":
			v.Asked = string(part.Value(maxValue, io.Discard))
		}
		if part.FormName() != "files" || part.FileName() == "" {
			continue
		}
		if len(files) >= v.Room() {
			return cert.Problems{{Field: answerFiles, Code: application.CodeFiles, Limit: v.Room()}}.Err()
		}
		err := p.Applications.Receive(r.Context(), institutionUUID, cert.NewIncoming(part.FileName(), part), func(f *cert.File) error {
			return p.receiveFiles(r, form, institutionUUID, v, append(files, f), store)
		})
		if problem := cert.RefusedFile(err); problem != nil {
			problem.Field = answerFiles
			return cert.Problems{*problem}.Err()
		}
		return err
	}
	if err := form.Err(); err != nil {
		return err
	}
	return store(files)
}

// withdrawPage asks for confirmation before an application is withdrawn.
func (p *Pages) withdrawPage(w http.ResponseWriter, r *http.Request) error {
	_, v, err := p.application(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	if !v.Open {
		return p.signedIn.Redirect(w, r, p.signedIn.Reader(r).Link(v.Path()), "")
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "application_withdraw.html", v)
}

// withdraw withdraws an application.
func (p *Pages) withdraw(w http.ResponseWriter, r *http.Request) error {
	_, v, err := p.application(r)
	if err != nil {
		return p.notFound(w, r, err)
	}
	s, _ := p.Gate.Person(r)
	if _, err := p.Applications.WithdrawOwn(r.Context(), s.Person.ID, v.UUID); err != nil {
		if shown, timelineErr := p.withTimeline(r); timelineErr == nil {
			v = shown
		}
		return p.signedIn.ShowAgain(w, r, "application.html", v, p.texts(r).applicationError(err, nil))
	}
	return p.signedIn.Redirect(w, r, p.signedIn.Reader(r).Link(v.Path()), "application_withdrawn")
}

// applicationFile sends a file of an application to its applicant.
func (p *Pages) applicationFile(w http.ResponseWriter, r *http.Request) (err error) {
	s, _ := p.Gate.Person(r)
	content, f, err := p.Applications.OpenOwnFile(r.Context(), s.Person.ID, r.PathValue("uuid"), r.PathValue("file"))
	if fault.Is(err, fault.NotFound) {
		return p.notFound(w, r, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	h := w.Header()
	h.Set("Content-Type", f.Type)
	h.Set("Content-Security-Policy", web.StyledFilePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	return web.ServeContent(w, r, content, f.ID)
}
