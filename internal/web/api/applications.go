package api

import (
	"context"
	"errors"
	"maps"
	"mime"
	"net/http"
	"slices"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// applicationRecord is the wire type of an application. ID is the application_id of events.
type applicationRecord struct {
	ID               int64             `json:"id"`
	UUID             string            `json:"uuid"`
	ReferenceID      string            `json:"reference_id"`
	Status           status            `json:"status"`
	Offer            offerName         `json:"offer"`
	FullName         string            `json:"full_name"`
	ApplicantEmail   string            `json:"applicant_email"`
	CertificateTitle string            `json:"certificate_title"`
	Fields           []answer          `json:"fields"`
	Files            []applicationFile `json:"files"`
	Hold             *hold             `json:"hold"`
	RegisterAdvice   *string           `json:"register_advice"`
	ClaimedBy        *creator          `json:"claimed_by"`
	DecidedBy        *creator          `json:"decided_by"`
	RejectionReason  *string           `json:"rejection_reason"`
	Note             *string           `json:"note"`
	Failure          *failure          `json:"failure"`
	CreatedAt        string            `json:"created_at"`
	UpdatedAt        string            `json:"updated_at"`
	DecidedAt        *string           `json:"decided_at"`
}

type offerName struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

// answer is a field of the offer with the applicant's answer. The field is as it was at the submission.
type answer struct {
	Key   string  `json:"key"`
	Label string  `json:"label"`
	Type  string  `json:"type"`
	Value *string `json:"value"`
}

// applicationFile is an attachment. Field is the key of its field, or "answer" for a file of the answer to
// a hold. Path is nil if the file was deleted.
type applicationFile struct {
	ID       string  `json:"id"`
	Field    string  `json:"field"`
	Name     string  `json:"name"`
	MIMEType string  `json:"mime_type"`
	Size     int64   `json:"size"`
	Path     *string `json:"path"`
}

type hold struct {
	Kind       string  `json:"kind"`
	Text       string  `json:"text"`
	Since      string  `json:"since"`
	Until      string  `json:"until"`
	Answer     *string `json:"answer"`
	AnsweredAt *string `json:"answered_at"`
}

const applicationsPath = "/business/certificate-applications"

// applicationStatuses has all statuses of an application.
var applicationStatuses = []status{
	{string(cert.Pending), "Pending", "The application waits for a reviewer or, after its approval, for the signatories."},
	{string(cert.InReview), "In review", "A reviewer has claimed the application."},
	{string(cert.Processing), "Processing", "The application was approved, and the verified PDF is being created."},
	{string(cert.Approved), "Approved", "The certificate is valid and its verified PDF can be downloaded."},
	{string(cert.Failed), "Failed", "The verified PDF could not be created. See failure, then retry."},
	{string(cert.Revoked), "Revoked", "The institution has revoked the certificate."},
	{string(cert.Rejected), "Rejected", "A reviewer rejected the application."},
	{string(cert.Withdrawn), "Withdrawn", "The application was withdrawn."},
	{string(cert.Lapsed), "Expired", "The applicant did not answer in time."},
}

func applicationStatus(s cert.Status) status {
	i := slices.IndexFunc(applicationStatuses, func(known status) bool { return known.Value == string(s) })
	if i < 0 {
		return status{Value: string(s)}
	}
	return applicationStatuses[i]
}

// wireApplication converts an application to its wire type. slug is the slug of its offer.
func wireApplication(ap *application.Application, slug string) *applicationRecord {
	out := &applicationRecord{
		ID: ap.ID, UUID: ap.UUID, ReferenceID: ap.ReferenceID, Status: applicationStatus(ap.Status), Offer: offerName{ID: ap.OfferUUID, Slug: slug, Name: ap.OfferName},
		FullName: ap.FullName, ApplicantEmail: ap.Email, CertificateTitle: ap.Title, Fields: []answer{}, Files: make([]applicationFile, len(ap.Files)),
		RegisterAdvice: optional(string(ap.Advice)), ClaimedBy: wirePerson(ap.ClaimedBy), DecidedBy: wirePerson(ap.DecidedBy),
		RejectionReason: optional(ap.Reason), Note: optional(ap.Note),
		CreatedAt: *web.Timestamp(&ap.CreatedAt), UpdatedAt: *web.Timestamp(&ap.UpdatedAt), DecidedAt: web.Timestamp(ap.DecidedAt),
	}
	for _, f := range ap.Fields {
		if f.Type != application.Upload {
			out.Fields = append(out.Fields, answer{Key: f.Key, Label: f.Label, Type: string(f.Type), Value: optional(ap.Values[f.Key])})
		}
	}
	for i, f := range ap.Files {
		out.Files[i] = applicationFile{ID: f.ID, Field: f.Field, Name: f.Name, MIMEType: f.Type, Size: f.Size}
		if !f.Deleted {
			out.Files[i].Path = optional(applicationsPath + "/" + ap.UUID + "/files/" + f.ID)
		}
	}
	if h := ap.Hold; h != nil {
		out.Hold = &hold{
			Kind: string(h.Kind), Text: h.Text, Since: *web.Timestamp(&h.Since), Until: *web.Timestamp(&h.Until),
			Answer: optional(h.Answer), AnsweredAt: web.Timestamp(h.AnsweredAt),
		}
	}
	if ap.Failure != nil {
		out.Failure = &failure{Code: ap.Failure.Code, Message: ap.Failure.Message}
	}
	return out
}

func wirePerson(p application.Person) *creator {
	if p == (application.Person{}) {
		return nil
	}
	return &creator{Type: p.Type, ID: optional(p.ID), Name: p.Name}
}

// These are the values of the parameter hold besides the kinds of holds.
const (
	anyHold = "any"
	noHold  = "none"
)

// applicationParameters are the parameters of the list of applications. API.applications adds the parameter
// offer.
var applicationParameters = map[string]filterParameter[application.Filter]{
	"status": func(f *application.Filter, value string) string {
		names := make([]string, len(applicationStatuses))
		for i, s := range applicationStatuses {
			names[i] = s.Value
		}
		f.Statuses = []application.Status{application.Status(value)}
		return oneOf(names, value)
	},
	"applicant_email": func(f *application.Filter, value string) string { f.Email = value; return "" },
	"search":          func(f *application.Filter, value string) string { f.Search = value; return "" },
	"hold": func(f *application.Filter, value string) string {
		isOnHold := value != noHold
		f.OnHold = &isOnHold
		if isOnHold && value != anyHold {
			f.Hold = application.HoldKind(value)
		}
		return oneOf(append(slices.Clone(application.HoldKinds), anyHold, noHold), application.HoldKind(value))
	},
	"created_at_from": func(f *application.Filter, value string) string { f.CreatedFrom = value; return checkDay(value) },
	"created_at_to":   func(f *application.Filter, value string) string { f.CreatedTo = value; return checkDay(value) },
	"sort_field": func(f *application.Filter, value string) string {
		f.Sort = value
		return oneOf([]string{"created_at", "updated_at", "name", "email"}, value)
	},
	"sort_order": func(f *application.Filter, value string) string {
		f.Ascending = value == "asc"
		return oneOf([]string{"asc", "desc"}, value)
	},
}

// checkDay returns a message if value is not a date, and "" otherwise.
func checkDay(value string) string {
	if _, problem := cert.FieldIssueDate.Check(value); problem != nil {
		return "The value must be a date that exists, as YYYY-MM-DD."
	}
	return ""
}

func (a *API) applications(w http.ResponseWriter, c *call) error {
	offers, err := a.Applications.Offers(c.Context(), c.institution.ID, "")
	if err != nil {
		return err
	}
	f := application.Filter{}
	parameters := maps.Clone(applicationParameters)
	parameters["offer"] = func(f *application.Filter, value string) string {
		o := application.OfferNamed(offers, value)
		if o == nil {
			return "There is no offer with this id or slug."
		}
		f.OfferUUID = o.UUID
		return ""
	}
	query, err := readParameters(c, parameters, &f, &f.Range)
	if err != nil {
		return err
	}
	list, err := a.Applications.List(c.Context(), c.institution.ID, f)
	if err != nil {
		return err
	}
	slugs := make(map[string]string, len(offers))
	for _, o := range offers {
		slugs[o.UUID] = o.Slug
	}
	data := make([]*applicationRecord, len(list.Items))
	for i, ap := range list.Items {
		data[i] = wireApplication(ap, slugs[ap.OfferUUID])
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, f.Range, list.Part, len(data), data))
}

// findApplication returns the application whose id is in the path, and the slug of its offer.
func (a *API) findApplication(c *call) (ap *application.Application, slug string, err error) {
	id, ok := parseUUID(c.PathValue("uuid"))
	if !ok {
		return nil, "", fault.New(fault.NotFound, "There is no such application.")
	}
	if ap, err = a.Applications.ByUUID(c.Context(), c.institution.ID, id); err != nil {
		return nil, "", err
	}
	o, err := a.Applications.Offer(c.Context(), c.institution.ID, ap.OfferUUID)
	if err != nil {
		return nil, "", err
	}
	return ap, o.Slug, nil
}

func (a *API) application(w http.ResponseWriter, c *call) error {
	found, slug, err := a.findApplication(c)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, recordResponse{Data: wireApplication(found, slug)})
}

// applicationFile responds with an attachment.
func (a *API) applicationFile(w http.ResponseWriter, c *call) (err error) {
	uuid, okUUID := parseUUID(c.PathValue("uuid"))
	id, okFile := parseUUID(c.PathValue("id"))
	if !okUUID || !okFile {
		return fault.New(fault.NotFound, "There is no such file.")
	}
	content, file, err := a.Applications.OpenFile(c.Context(), c.institution.ID, uuid, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	h := w.Header()
	h.Set("Content-Type", file.Type)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": file.Name}))
	h.Set("Content-Security-Policy", web.FilePolicy)
	return web.ServeContent(w, c.Request, content, file.ID)
}

// withApplication returns a function that sets the response of an operation. The response contains text and
// the application.
func (x *exchange) withApplication(status int, text, slug string) application.TxFunc {
	return func(ctx context.Context, tx *db.Tx, ap *application.Application) error {
		return x.respondTx(ctx, tx, status, message{Message: text, Data: wireApplication(ap, slug)})
	}
}
