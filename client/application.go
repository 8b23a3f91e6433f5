package client

import (
	"context"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	offersPath       = "/business/certificate-offers"
	applicationsPath = "/business/certificate-applications"
)

// These are the statuses of an application besides those of a certificate. Rejected, Withdrawn and Expired
// are final. An application that a reviewer approved is Pending while it waits for signatories, and then
// has the status of its certificate.
const (
	Pending   Status = "pending"
	InReview  Status = "in_review"
	Rejected  Status = "rejected"
	Withdrawn Status = "withdrawn"
	Expired   Status = "expired"
)

// Offer is a certificate for which people can apply.
type Offer struct {
	ID          string  `json:"id"`
	Slug        string  `json:"slug"`
	Name        string  `json:"name"`
	Description *string `json:"description"`
	Criteria    *string `json:"criteria"`
	Status      string  `json:"status"` // draft, open or closed
	// TemplateID is nil if the offer has no template. The reviewer then uploads the file of the certificate.
	TemplateID *string      `json:"template_id"`
	Fields     []OfferField `json:"fields"`
	// FourEyes requires that the person who approves is not the person who claimed the application.
	FourEyes  bool      `json:"four_eyes"`
	HoldDays  int       `json:"hold_days"`
	MaxFiles  int       `json:"max_files"`
	URL       string    `json:"url"` // the public page on which people apply
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// OfferField is a question of an offer.
type OfferField struct {
	Key      string   `json:"key"`
	Label    string   `json:"label"`
	Type     string   `json:"type"` // text, area, date, number, choice, check or file
	Help     *string  `json:"help"`
	Required bool     `json:"required"`
	Choices  []string `json:"choices"`
	Column   *string  `json:"column"` // the column of the template that the answer fills
}

// Offers returns the offers of the institution with a status, or all offers if the status is "".
// An error ends the sequence.
func (c *Client) Offers(ctx context.Context, status string) iter.Seq2[*Offer, error] {
	q := url.Values{}
	set(q, "status", status)
	return every[Offer](ctx, c, offersPath, q)
}

// Offer returns one offer by its id.
func (c *Client) Offer(ctx context.Context, id string) (*Offer, error) {
	return one[Offer](ctx, c, &call{method: http.MethodGet, path: offersPath + "/" + url.PathEscape(id)})
}

// Application is the application of a person for a certificate. The certificate has the same UUID as the
// application.
type Application struct {
	ID               int64             `json:"id"` // as in Event.ApplicationID
	UUID             string            `json:"uuid"`
	ReferenceID      string            `json:"reference_id"`
	Status           Label[Status]     `json:"status"`
	Offer            OfferName         `json:"offer"`
	FullName         string            `json:"full_name"`
	ApplicantEmail   string            `json:"applicant_email"`
	CertificateTitle string            `json:"certificate_title"`
	Fields           []Answer          `json:"fields"`
	Files            []ApplicationFile `json:"files"`
	// Hold is nil if the application is not on hold.
	Hold *Hold `json:"hold"`
	// RegisterAdvice is the result of the comparison with the register of the offer: match, differs or
	// unknown, or nil if the offer has no register.
	RegisterAdvice  *string    `json:"register_advice"`
	ClaimedBy       *Creator   `json:"claimed_by"`
	DecidedBy       *Creator   `json:"decided_by"`
	RejectionReason *string    `json:"rejection_reason"`
	Note            *string    `json:"note"`
	Failure         *Failure   `json:"failure"`
	CreatedAt       time.Time  `json:"created_at"`
	UpdatedAt       time.Time  `json:"updated_at"`
	DecidedAt       *time.Time `json:"decided_at"`
}

// Value returns the answer to the field with a key, or "" if there is no answer.
func (a *Application) Value(key string) string {
	for _, f := range a.Fields {
		if f.Key == key && f.Value != nil {
			return *f.Value
		}
	}
	return ""
}

// OfferName identifies the offer of an application.
type OfferName struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

// Answer is the answer to a question of the offer, with the text of the question at the submission.
type Answer struct {
	Key   string  `json:"key"`
	Label string  `json:"label"`
	Type  string  `json:"type"`
	Value *string `json:"value"`
}

// ApplicationFile is a file of an application.
type ApplicationFile struct {
	ID string `json:"id"`
	// Field is the key of the OfferField, or "answer" if the applicant sent the file in answer to a hold.
	Field    string  `json:"field"`
	Name     string  `json:"name"`
	MIMEType string  `json:"mime_type"`
	Size     int64   `json:"size"`
	Path     *string `json:"path"` // nil after the file was deleted
}

// Hold is a question to the applicant, or a request for a payment or proof of identity.
type Hold struct {
	Kind       string     `json:"kind"` // information, payment or identity
	Text       string     `json:"text"`
	Since      time.Time  `json:"since"`
	Until      time.Time  `json:"until"`
	Answer     *string    `json:"answer"`
	AnsweredAt *time.Time `json:"answered_at"`
}

// ApplicationFilter filters and sorts a list of applications; its zero value selects all of them.
type ApplicationFilter struct {
	Status Status
	// Offer is the id or the slug of an offer.
	Offer          string
	ApplicantEmail string
	// Search is part of a name, an e-mail address, a title or a reference id.
	Search string
	// Hold is information, payment or identity, any for all applications on hold, or none for all others.
	Hold string
	// The dates are YYYY-MM-DD and inclusive.
	CreatedFrom, CreatedTo string
	// SortField is created_at, updated_at, name or email; SortOrder is asc or desc.
	SortField, SortOrder string
}

func (f ApplicationFilter) query() url.Values {
	q := url.Values{}
	set(q, "status", string(f.Status))
	set(q, "offer", f.Offer)
	set(q, "applicant_email", f.ApplicantEmail)
	set(q, "search", f.Search)
	set(q, "hold", f.Hold)
	set(q, "created_at_from", f.CreatedFrom)
	set(q, "created_at_to", f.CreatedTo)
	set(q, "sort_field", f.SortField)
	set(q, "sort_order", f.SortOrder)
	return q
}

// Applications returns all applications that match a filter. An error ends the sequence.
func (c *Client) Applications(ctx context.Context, f ApplicationFilter) iter.Seq2[*Application, error] {
	return every[Application](ctx, c, applicationsPath, f.query())
}

// ApplicationPage returns one page of the list; pages count from 1.
func (c *Client) ApplicationPage(ctx context.Context, f ApplicationFilter, number, perPage int) (*Page[Application], error) {
	return numbered[Application](ctx, c, applicationsPath, f.query(), number, perPage)
}

// Application returns one application by its UUID.
func (c *Client) Application(ctx context.Context, uuid string) (*Application, error) {
	return one[Application](ctx, c, &call{method: http.MethodGet, path: applicationPath(uuid, "")})
}

// DownloadAttachment writes a file of an application to w, as Download does.
func (c *Client) DownloadAttachment(ctx context.Context, uuid, fileID string, w io.Writer) error {
	return c.download(ctx, &call{method: http.MethodGet, path: applicationPath(uuid, "/files/"+url.PathEscape(fileID)), accept: "*/*"}, w)
}

// NewApplication is the input of Apply.
type NewApplication struct {
	// Offer is the id or the slug of an open offer.
	Offer          string
	FullName       string
	ApplicantEmail string
	// Fields maps the keys of the offer's fields to the answers.
	Fields map[string]string
	// Files maps the keys of the offer's fields to the files. A request has at most 24 MiB.
	Files map[string][]*File
}

// Apply submits an application for a person. Its status is pending. If the person has an open
// application for the offer, the error is ErrDuplicate, and Error.Existing returns the UUID of that
// application.
func (c *Client) Apply(ctx context.Context, a NewApplication, options ...Option) (*Application, error) {
	fields := []formField{{"offer", a.Offer}, {"full_name", a.FullName}, {"applicant_email", a.ApplicantEmail}}
	for _, key := range slices.Sorted(maps.Keys(a.Fields)) {
		fields = append(fields, formField{"fields[" + key + "]", a.Fields[key]})
	}
	var files []formFile
	for _, key := range slices.Sorted(maps.Keys(a.Files)) {
		for _, file := range a.Files[key] {
			files = append(files, formFile{"files[" + key + "]", file})
		}
	}
	b, err := newFormBody(fields, files...)
	if err != nil {
		return nil, err
	}
	return one[Application](ctx, c, post(applicationsPath, b, options))
}

// Claim claims a pending application. Its status becomes InReview.
func (c *Client) Claim(ctx context.Context, uuid string, options ...Option) (*Application, error) {
	return one[Application](ctx, c, post(applicationPath(uuid, "/claim"), nil, options))
}

// Approval describes the certificate of an approved application.
type Approval struct {
	// CertificateTitle may be empty. The certificate then has the title of the template or the application.
	CertificateTitle string
	IssueDate        string // YYYY-MM-DD; empty means today in UTC
	Details          string
	ExpiresOn        string // the last day of validity, YYYY-MM-DD, or empty
	// File replaces the template of the offer. It is required if the offer has no template.
	File *File
}

// Approve approves an application. If another reviewer changes the application at the same time, the
// error is ErrConflict. If the application is already decided, the error is ErrInvalidOperation.
func (c *Client) Approve(ctx context.Context, uuid string, a Approval, options ...Option) (*Application, error) {
	path := applicationPath(uuid, "/approve")
	if a.File == nil {
		b, err := jsonBody(struct {
			Title     string `json:"certificate_title,omitempty"`
			IssueDate string `json:"issue_date,omitempty"`
			Details   string `json:"details,omitempty"`
			ExpiresOn string `json:"expires_on,omitempty"`
		}{a.CertificateTitle, a.IssueDate, a.Details, a.ExpiresOn})
		if err != nil {
			return nil, err
		}
		return one[Application](ctx, c, post(path, b, options))
	}
	b, err := newFormBody([]formField{
		{"certificate_title", a.CertificateTitle}, {"issue_date", a.IssueDate}, {"details", a.Details}, {"expires_on", a.ExpiresOn},
	}, formFile{"certificate_file", a.File})
	if err != nil {
		return nil, err
	}
	return one[Application](ctx, c, post(path, b, options))
}

// Reject rejects an application. The applicant receives the reason, but not the note, which may be empty.
func (c *Client) Reject(ctx context.Context, uuid, reason, note string, options ...Option) (*Application, error) {
	return c.decide(ctx, uuid, "/reject", struct {
		Reason string `json:"reason"`
		Note   string `json:"note,omitempty"`
	}{reason, note}, options)
}

// PutOnHold puts an application on hold. kind is information, payment or identity. The applicant receives
// the text.
func (c *Client) PutOnHold(ctx context.Context, uuid, kind, text string, options ...Option) (*Application, error) {
	return c.decide(ctx, uuid, "/hold", struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}{kind, text}, options)
}

func (c *Client) decide(ctx context.Context, uuid, step string, content any, options []Option) (*Application, error) {
	b, err := jsonBody(content)
	if err != nil {
		return nil, err
	}
	return one[Application](ctx, c, post(applicationPath(uuid, step), b, options))
}

// Release ends the hold of an application.
func (c *Client) Release(ctx context.Context, uuid string, options ...Option) (*Application, error) {
	return one[Application](ctx, c, post(applicationPath(uuid, "/release"), nil, options))
}

// Withdraw ends an application at the request of its applicant.
func (c *Client) Withdraw(ctx context.Context, uuid string, options ...Option) (*Application, error) {
	return one[Application](ctx, c, post(applicationPath(uuid, "/withdraw"), nil, options))
}

func applicationPath(uuid, rest string) string {
	return applicationsPath + "/" + url.PathEscape(uuid) + rest
}
