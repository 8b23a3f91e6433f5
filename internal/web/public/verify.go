package public

import (
	"context"
	"net/http"
	"net/url"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// verification is what the public may know of a certificate.
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

	// What follows is shown on pages alone.

	OriginalSHA256 string `json:"-"`
	VerifiedSHA256 string `json:"-"`
	// Face is the institution's.
	Face *account.Face `json:"-"`
	// Verdict is what the page says first of all.
	Verdict string `json:"-"`
	// Match is what a file that was looked up is to the certificate.
	Match cert.Match `json:"-"`
	// URL is the address of the page and CardURL of its picture, whole.
	URL         string `json:"-"`
	CardURL     string `json:"-"`
	certificate *cert.Certificate
}

type check struct {
	Name      string  `json:"name"`
	Result    string  `json:"result"`
	CheckedAt *string `json:"checked_at"`

	// What the page asks of it, answered once.
	Record bool `json:"-"`
	File   bool `json:"-"`
	Passed bool `json:"-"`
	Failed bool `json:"-"`
}

// Verdicts of the public page.
const (
	valid      = "valid"
	revoked    = "revoked"
	processing = "processing"
	// unchecked and damaged are valid records whose file or signature could not
	// be checked, or did not pass: pages never show them as valid.
	unchecked = "unchecked"
	damaged   = "damaged"
)

var errUnknown = fault.New(fault.NotFound, "No such certificate here.")

// verdict takes the record and the checks together.
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

// Ran tells whether a check ran.
func (v *verification) Ran(name string) bool {
	for _, k := range v.Checks {
		if k.Name == name {
			return k.Result != string(cert.NotRun)
		}
	}
	return false
}

// Downloadable tells whether the public may have the file.
func (v *verification) Downloadable() bool { return v.givenOut() && v.Face.AllowDownload }

// Pictured tells whether the public may see the picture.
func (v *verification) Pictured() bool { return v.givenOut() && v.Face.AllowImage }

// givenOut tells whether the file is one to give to anybody: of a certificate
// that stands, not known to be damaged, and showing no name that is hidden.
func (v *verification) givenOut() bool {
	return v.Status == valid && v.Verdict != damaged && !v.Face.HideName
}

// ContactLink is where a contact leads, empty when it is only text.
func (v *verification) ContactLink() string {
	if e, err := account.ParseEmail(v.Face.Contact); err == nil {
		return "mailto:" + e.Text
	}
	if u, err := url.Parse(v.Face.Contact); err == nil && u.Scheme == "https" && u.Host != "" {
		return u.String()
	}
	return ""
}

// Band is the institution's colour, which stands above what it certifies. Only a
// valid certificate has it, so that no colour says otherwise than the verdict does.
func (v *verification) Band() *colour.Brand {
	if v.Verdict != valid {
		return nil
	}
	return v.Face.Brand()
}

// notStored keeps every copy of a state from being used: a revocation must show
// at once.
func notStored(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Accept")
}

// verify shows the state of a certificate. One that failed is told as unknown.
func (p *Pages) verify(w http.ResponseWriter, r *http.Request) error {
	notStored(w)
	v, err := p.find(r.Context(), r.PathValue("reference_id"))
	if err != nil {
		if fault.Is(err, fault.NotFound) && !page.WantsJSON(r) {
			return p.unknown(w, r, r.PathValue("reference_id"))
		}
		return err
	}
	if page.WantsJSON(r) {
		return web.WriteJSON(w, http.StatusOK, struct {
			Data *verification `json:"data"`
		}{Data: v})
	}
	return p.show(w, r, v)
}

// show draws the page of a certificate.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, v *verification) error {
	if v.Status == processing {
		w.Header().Set("Refresh", "5")
		return p.view.Draw(w, r, http.StatusOK, "processing.html", v)
	}
	return p.view.Draw(w, r, http.StatusOK, "certificate.html", v)
}

// find gives what the public may know of the certificate of a typed reference
// id.
func (p *Pages) find(ctx context.Context, typed string) (*verification, error) {
	c, err := p.Certs.ByReference(ctx, typed)
	if fault.Is(err, fault.NotFound) {
		return nil, errUnknown
	}
	if err != nil {
		return nil, err
	}
	return p.tell(ctx, c)
}

// tell gives what the public may know of a certificate.
func (p *Pages) tell(ctx context.Context, c *cert.Certificate) (*verification, error) {
	v := &verification{ReferenceID: c.ReferenceID, Checks: []check{}, certificate: c}
	switch c.Status {
	case cert.Processing:
		v.Status = processing
		return v, nil
	case cert.Approved:
		v.Status = valid
	case cert.Revoked:
		v.Status = revoked
		v.Reason = &c.RevocationReason
	case cert.Failed:
		return nil, errUnknown
	default:
		return nil, errUnknown
	}
	face, err := p.Accounts.Face(ctx, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	v.Face = face
	v.Institution, v.CertificateTitle, v.IssueDate = &face.Name, &c.Title, &c.IssueDate
	if !face.HideName {
		v.FullName = &c.FullName
	}
	v.ApprovedAt, v.RevokedAt = web.Timestamp(c.ApprovedAt), web.Timestamp(c.RevokedAt)
	v.OriginalSHA256 = hexOf(c.File.SHA256)
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
			Name: k.Name, Result: string(k.Result), CheckedAt: web.Timestamp(k.CheckedAt),
			Record: k.Name == cert.CheckRecord, File: k.Name == cert.CheckFile, Passed: k.Result == cert.Passed, Failed: k.Result == cert.FailedCheck,
		})
	}
	v.Verdict = verdict(v.Status, v.Checks)
	return v, nil
}
