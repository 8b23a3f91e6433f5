package public

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// verification is the public information about a certificate.
type verification struct {
	ReferenceID      string  `json:"reference_id"`
	Status           string  `json:"status"`
	Institution      *string `json:"institution"`
	CertificateTitle *string `json:"certificate_title"`
	FullName         *string `json:"full_name"`
	IssueDate        *string `json:"issue_date"`
	ApprovedAt       *string `json:"approved_at"`
	RevokedAt        *string `json:"revoked_at"`
	Reason           *string `json:"reason"`
	Checks           []check `json:"checks"`
	ExpiresOn        *string `json:"expires_on"`
	// Replaces is the certificate that this certificate has replaced, or nil. ReplacedBy is its
	// replacement, or nil.
	Replaces   *link `json:"replaces,omitempty"`
	ReplacedBy *link `json:"replaced_by,omitempty"`

	// The following fields are only for pages.

	OriginalSHA256 string `json:"-"`
	VerifiedSHA256 string `json:"-"`
	// Profile is the institution's public profile.
	Profile *account.PublicProfile `json:"-"`
	// Verdict is the state that the page shows, for example valid or damaged.
	Verdict string `json:"-"`
	// Match is the relation between the certificate and the file that the visitor looked up, or "".
	Match cert.Match `json:"-"`
	// URL is the URL of the page, and CardURL is the URL of its preview picture.
	URL string `json:"-"`
	// ReadAt is the time at which the record was read.
	ReadAt      *string `json:"-"`
	CardURL     string  `json:"-"`
	certificate *cert.Certificate
}

// link is a reference to another certificate.
type link struct {
	ReferenceID string `json:"reference_id"`
	URL         string `json:"url"`
}

// linkTo returns the link to another certificate, or nil if l is nil.
func (p *Pages) linkTo(l *cert.Link) *link {
	if l == nil {
		return nil
	}
	return &link{ReferenceID: l.ReferenceID, URL: p.Links.Verify(l.ReferenceID)}
}

type check struct {
	Name      string  `json:"name"`
	Result    string  `json:"result"`
	CheckedAt *string `json:"checked_at"`

	// The following fields are only for pages. Record and File report whether this is the check of the
	// record or of the file. Passed and Failed report its result.

	Record bool `json:"-"`
	File   bool `json:"-"`
	Passed bool `json:"-"`
	Failed bool `json:"-"`

	at *time.Time
	// expired reports whether the certificate has expired. Its record passes the check, but the page must
	// not say that the record is valid.
	expired bool
}

// These are the verdicts of the public page.
const (
	valid      = "valid"
	revoked    = "revoked"
	replaced   = "replaced"
	expired    = "expired"
	processing = "processing"
	// unchecked means that the record is valid, but the file or the signature could not be checked.
	// damaged means that the record is valid, but a check of the file or the signature failed.
	// Pages show neither as valid.
	unchecked = "unchecked"
	damaged   = "damaged"
)

var errUnknown = fault.New(fault.NotFound, "Certificate not found.")

// recently is the age below which the page shows the time of a check as "just now".
const recently = time.Minute

// checkLine returns a check with its result and its time as one line.
func (p *Pages) checkLine(g *page.Page, k check) (template.HTML, error) {
	name, err := g.Message("checks." + k.Name)
	if err != nil {
		return "", err
	}
	if k.at == nil {
		return g.H("checks.line_not_run", "check", element("<strong>", name, "</strong>"))
	}
	key := "checks." + k.Name + "_" + k.Result
	if k.Record && k.Passed && k.expired {
		key = "checks.record_not_revoked"
	}
	result, err := g.Message(key)
	if err != nil {
		return "", err
	}
	var when template.HTML
	if p.Now().Sub(*k.at) < recently {
		text, err := g.Message("checks.just_now")
		if err != nil {
			return "", err
		}
		when = element(`<span title="`+template.HTMLEscapeString(g.Moment(k.CheckedAt))+`">`, text, "</span>")
	} else if when, err = g.H("checks.checked", "time", g.MomentTag(k.CheckedAt)); err != nil {
		return "", err
	}
	return g.H("checks.line", "check", element("<strong>", name, "</strong>"), "result", element(`<span class="tone">`, result, "</span>"), "time", when)
}

// element returns a text between two tags.
func element(start, text, end string) template.HTML {
	return template.HTML(start + template.HTMLEscapeString(text) + end) //nolint:gosec // the text is escaped
}

// verdict returns the verdict for the status of a record and the results of its checks.
func verdict(status string, checks []check) string {
	if status != valid {
		return status
	}
	verdict := valid
	for _, k := range checks {
		switch cert.Result(k.Result) {
		case cert.Passed:
		case cert.FailedCheck:
			return damaged
		case cert.NotRun:
			verdict = unchecked
		}
	}
	return verdict
}

// Ran reports whether a check ran.
func (v *verification) Ran(name string) bool {
	for _, k := range v.Checks {
		if k.Name == name {
			return k.Result != string(cert.NotRun)
		}
	}
	return false
}

// Downloadable reports whether the public may download the file.
func (v *verification) Downloadable() bool { return v.filesPublic() && v.Profile.AllowDownload }

// Pictured reports whether the public may see the picture.
func (v *verification) Pictured() bool { return v.filesPublic() && v.Profile.AllowImage }

// filesPublic reports whether the files may be public: the certificate is not revoked, no check failed,
// and the institution does not hide the name, which the files show.
func (v *verification) filesPublic() bool {
	return (v.Status == valid || v.Status == expired) && verdict(valid, v.Checks) != damaged && !v.Profile.HideName
}

// ContactLink returns the link to the institution's contact, or "" if the contact is neither an
// e-mail address nor an https URL.
func (v *verification) ContactLink() string {
	if e, err := account.ParseEmail(v.Profile.Contact); err == nil {
		return "mailto:" + e.Text
	}
	if u, err := url.Parse(v.Profile.Contact); err == nil && u.Scheme == "https" && u.Host != "" {
		return u.String()
	}
	return ""
}

// Band returns the institution's colour if the certificate is valid, and nil otherwise, so that no
// colour contradicts the verdict.
func (v *verification) Band() *colour.Brand {
	if v.Verdict != valid {
		return nil
	}
	return v.Profile.Brand()
}

// noStore prevents caching, because a revocation must be visible immediately.
func noStore(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Accept")
}

// verify shows the state of a certificate. It shows a failed certificate as unknown.
func (p *Pages) verify(w http.ResponseWriter, r *http.Request) error {
	noStore(w)
	v, err := p.findRecent(r.Context(), r.PathValue("reference_id"))
	if err != nil {
		if fault.Is(err, fault.NotFound) && !page.WantsJSON(r) {
			return p.unknown(w, r, r.PathValue("reference_id"))
		}
		return err
	}
	p.count(r, v)
	if page.WantsJSON(r) {
		return web.WriteJSON(w, http.StatusOK, struct {
			Data *verification `json:"data"`
		}{Data: v})
	}
	return p.show(w, r, v)
}

// show writes the page of a certificate.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, v *verification) error {
	if v.Status == processing {
		w.Header().Set("Refresh", "5")
		return p.view.Draw(w, r, http.StatusOK, "processing.html", v)
	}
	return p.view.Draw(w, r, http.StatusOK, "certificate.html", v)
}

// errProcessing means that a replica may not have the approval of a certificate yet.
var errProcessing = errors.New("the replica has the certificate in processing")

// findRecent is like find, but may read from a replica. If the replica does not have the certificate, or
// has it in processing, findRecent reads from the primary, because the certificate may be approved there.
func (p *Pages) findRecent(ctx context.Context, typed string) (v *verification, err error) {
	err = p.read(ctx, func(ctx context.Context) (err error) {
		v, err = p.find(ctx, typed)
		if err == nil && v.Status == processing && db.FromReplica(ctx) {
			return errProcessing
		}
		return err
	})
	return v, err
}

// read calls Read, or f if Read is not set.
func (p *Pages) read(ctx context.Context, f func(ctx context.Context) error) error {
	if p.Read == nil {
		return f(ctx)
	}
	return p.Read(ctx, f)
}

// find returns the public information about the certificate with an entered reference id. It returns
// errUnknown if there is no such certificate, or if it is not in processing, approved or revoked.
func (p *Pages) find(ctx context.Context, typed string) (*verification, error) {
	c, err := p.Certs.ByReference(ctx, typed)
	if fault.Is(err, fault.NotFound) {
		return nil, errUnknown
	}
	if err != nil {
		return nil, err
	}
	return p.describe(ctx, c)
}

// describe returns the public information about an approved or revoked certificate. For a certificate in
// processing, it returns only the reference id and the status. For other states, it returns errUnknown.
func (p *Pages) describe(ctx context.Context, c *cert.Certificate) (*verification, error) {
	v := &verification{ReferenceID: c.ReferenceID, Checks: []check{}, certificate: c}
	switch c.Status {
	case cert.Processing:
		v.Status = processing
		return v, nil
	case cert.Approved:
		v.Status, v.Replaces = valid, p.linkTo(c.Replaces)
		if p.Certs.HasExpired(c) {
			v.Status = expired
		}
	case cert.Revoked:
		v.Status = revoked
		if c.Replaced() {
			v.Status, v.ReplacedBy = replaced, p.linkTo(c.ReplacedBy)
		}
		if c.RevocationReason != "" {
			v.Reason = &c.RevocationReason
		}
	case cert.Failed:
		return nil, errUnknown
	default:
		return nil, errUnknown
	}
	profile, err := p.Accounts.PublicProfile(ctx, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	v.Profile = profile
	v.Institution, v.CertificateTitle, v.IssueDate = &profile.Name, &c.Title, &c.IssueDate
	if !profile.HideName {
		v.FullName = &c.FullName
	}
	if c.ExpiresOn != "" {
		v.ExpiresOn = &c.ExpiresOn
	}
	v.ApprovedAt, v.RevokedAt = web.Timestamp(c.ApprovedAt), web.Timestamp(c.RevokedAt)
	if c.HasDigest() {
		v.OriginalSHA256 = hexOf(c.File.SHA256)
	}
	if c.Verified != nil {
		v.VerifiedSHA256 = hexOf(c.Verified.SHA256)
	}
	v.URL = p.Links.Verify(c.ReferenceID)
	v.CardURL = v.URL + "/card.png"
	checks, err := p.Certs.Checks(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, k := range checks {
		v.Checks = append(v.Checks, check{
			Name: k.Name, Result: string(k.Result), CheckedAt: web.Timestamp(k.CheckedAt), at: k.CheckedAt, expired: v.Status == expired,
			Record: k.Name == cert.CheckRecord, File: k.Name == cert.CheckFile, Passed: k.Result == cert.Passed, Failed: k.Result == cert.FailedCheck,
		})
	}
	v.ReadAt = v.Checks[0].CheckedAt
	v.Verdict = verdict(v.Status, v.Checks)
	return v, nil
}
