package panel

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
	certtemplate "github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web/page"
)

// A certificate is replaced on the page for one upload, or on the page that issues one certificate from its
// template. The query of the page then names the certificate to replace.

// replacing is the data of these pages about the certificate to replace.
type replacing struct {
	Visit *Visit
	Old   *cert.Certificate
	// Renew reports whether the new certificate has the current date, and the same period of validity.
	Renew bool
	// Requests are the open requests to correct the certificate.
	Requests []*recipient.Correction
	// Template is the template of the certificate, or nil if the replacement cannot be issued from it.
	Template *certtemplate.Template
	// Plan is the plan of the mail about the certificate, or nil.
	Plan *recipient.Plan
}

// Query returns the query that names the certificate.
func (o *replacing) Query() string {
	q := url.Values{"replaces": {o.Old.UUID}}
	if o.Renew {
		q.Set("renew", "1")
	}
	return "?" + q.Encode()
}

// fill fills in the fields of a form with the values of the certificate.
func (o *replacing) fill(fields url.Values, today string) error {
	text := o.Old.Text()
	fields.Set("certificate_title", text.Title)
	fields.Set("full_name", text.FullName)
	fields.Set("applicant_email", text.Email)
	fields.Set("details", text.Details)
	if o.Renew {
		until, err := o.Old.RenewedUntil(today)
		if err != nil {
			return err
		}
		text.IssueDate, text.ExpiresOn = today, until
	}
	fields.Set("issue_date", text.IssueDate)
	fields.Set("expires_on", text.ExpiresOn)
	if o.Plan != nil {
		setNotify(fields, o.Plan.Notify())
	}
	return nil
}

// errNotReplaceable is the error for a certificate that cannot be replaced now.
var errNotReplaceable = fault.New(fault.BadRequest, "replace.not_now")

// replacingOf returns the certificate that the query of a request names, or nil if it names none. The kind of
// the error is fault.NotFound if there is no such certificate, fault.Forbidden if the member may not revoke, and
// fault.BadRequest if the certificate cannot be replaced.
func (p *Panel) replacingOf(r *http.Request, v *Visit) (*replacing, error) {
	id := r.URL.Query().Get("replaces")
	if id == "" {
		return nil, nil //nolint:nilnil // most uploads replace nothing
	}
	if uuid.Validate(id) != nil {
		return nil, errNoSuch
	}
	c, err := p.Certs.ByUUID(r.Context(), v.Institution().ID, id)
	if err != nil {
		return nil, err
	}
	return p.replacing(r, v, c)
}

func (p *Panel) replacing(r *http.Request, v *Visit, c *cert.Certificate) (*replacing, error) {
	ctx := r.Context()
	if !v.Can(account.MayRevoke) {
		return nil, errForbidden
	}
	going, err := p.Certs.Replacing(ctx, c)
	if err != nil {
		return nil, err
	}
	if !c.Replaceable() || going != nil && going.Status != cert.Failed {
		return nil, errNotReplaceable
	}
	o := &replacing{Visit: v, Old: c, Renew: r.URL.Query().Get("renew") != ""}
	requests, err := p.Mail.CorrectionsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	if o.Plan, err = p.Mail.PlanOf(ctx, c); err != nil {
		return nil, err
	}
	o.Requests = slices.DeleteFunc(requests, func(q *recipient.Correction) bool { return q.SettledAt != nil })
	if c.Template == nil || c.Template.Values == nil {
		return o, nil
	}
	t, _, err := p.Templates.ByVersion(ctx, v.Institution().ID, c.Template.VersionID)
	switch {
	case fault.Is(err, fault.NotFound):
	case err != nil:
		return nil, err
	case t.ArchivedAt == nil && t.Published != nil:
		o.Template = t
	}
	return o, nil
}

// replaceCertificate redirects to the page on which the certificate in the path is replaced.
func (p *Panel) replaceCertificate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	o, err := p.replacing(r, v, c)
	if err != nil {
		return err
	}
	if o.Template != nil {
		return p.redirect(w, r, v, "templates/"+o.Template.UUID+"/issue"+o.Query(), "")
	}
	return p.redirect(w, r, v, "upload"+o.Query(), "")
}

// create creates a certificate. If o is not nil, the certificate replaces o.Old.
func (p *Panel) create(r *http.Request, o *replacing, u cert.Upload) (*cert.Certificate, error) {
	if o == nil {
		return p.Certs.Upload(r.Context(), u)
	}
	c, err := p.Certs.Replace(r.Context(), o.Old.UUID, u)
	switch {
	case fault.Is(err, fault.BadRequest) && len(cert.ProblemsOf(err)) == 0:
		return nil, errNotReplaceable
	case u.Template != nil && slices.ContainsFunc(cert.ProblemsOf(err), func(p cert.Problem) bool { return p.Code == cert.CodeSameFile }):
		return nil, fault.New(fault.Conflict, "replace.unchanged")
	}
	return c, err
}

// replacedSelectors maps the values of the filter by replacement to the keys of their names.
var replacedSelectors = map[search.Replaced]string{search.OnlyReplaced: "replaced.sign", search.NotReplaced: "replaced.not"}

// Replacements returns the values of the filter by replacement.
func (*certificateList) Replacements() []search.Replaced { return search.Replacements }

// ReplacedLabel returns the key of the name of a value of the filter by replacement, or "" if it is unknown.
func (*certificateList) ReplacedLabel(e search.Replaced) string { return replacedSelectors[e] }

// stateOf returns the label of the status of a certificate. A replaced certificate has its own label.
func stateOf(c *cert.Certificate) status {
	if c.Replaced() {
		return status{"status.replaced", "wait"}
	}
	return statusOf(c.Status)
}

// recordLink returns a link to the page of another certificate of the institution.
func recordLink(v *Visit, to *cert.Link) template.HTML {
	href := template.HTMLEscapeString(v.Path("certificates/" + to.UUID))
	return template.HTML(`<a href="`+href+`">`) + page.Code(to.ReferenceID) + `</a>` //nolint:gosec // both are escaped
}

// linkTo returns the link to a certificate for recordLink.
func linkTo(c *cert.Certificate) *cert.Link {
	return &cert.Link{UUID: c.UUID, ReferenceID: c.ReferenceID}
}

// MayReplace reports whether the member can replace the certificate now.
func (c *certificatePage) MayReplace() bool {
	return c.Visit.Can(account.MayUpload) && c.Visit.Can(account.MayRevoke) && c.C.Replaceable() &&
		(c.Replacing == nil || c.Replacing.Status == cert.Failed)
}
