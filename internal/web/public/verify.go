package public

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
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

	// OriginalSHA256 and VerifiedSHA256 are shown on the page.
	OriginalSHA256 string `json:"-"`
	VerifiedSHA256 string `json:"-"`
}

type check struct {
	Name      string  `json:"name"`
	Result    string  `json:"result"`
	CheckedAt *string `json:"checked_at"`
}

// Verdicts of the public page.
const (
	valid      = "valid"
	revoked    = "revoked"
	processing = "processing"
)

var errUnknown = fault.New(fault.NotFound, "No such certificate here.")

// verify shows the state of a certificate. One that failed is told as unknown.
func (p *Pages) verify(w http.ResponseWriter, r *http.Request) error {
	// A revocation must show at once, so no copy is used unasked.
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Accept")
	v, err := p.find(r)
	if err != nil {
		if fault.Is(err, fault.NotFound) && !wantsJSON(r) {
			return p.view.page(w, http.StatusNotFound, "unknown.html", r.PathValue("reference_id"))
		}
		return err
	}
	if wantsJSON(r) {
		return web.WriteJSON(w, http.StatusOK, struct {
			Data *verification `json:"data"`
		}{Data: v})
	}
	if v.Status == processing {
		w.Header().Set("Refresh", "5")
	}
	return p.view.page(w, http.StatusOK, v.Status+".html", v)
}

func (p *Pages) find(r *http.Request) (*verification, error) {
	ctx := r.Context()
	c, err := p.Certs.ByReference(ctx, r.PathValue("reference_id"))
	if fault.Is(err, fault.NotFound) {
		return nil, errUnknown
	}
	if err != nil {
		return nil, err
	}
	v := &verification{ReferenceID: c.ReferenceID, Checks: []check{}}
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
	inst, err := p.Accounts.Institution(ctx, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	v.Institution, v.CertificateTitle, v.FullName, v.IssueDate = &inst.Name, &c.Title, &c.FullName, &c.IssueDate
	v.ApprovedAt, v.RevokedAt = web.Timestamp(c.ApprovedAt), web.Timestamp(c.RevokedAt)
	v.OriginalSHA256 = hexOf(c.File.SHA256)
	if c.Verified != nil {
		v.VerifiedSHA256 = hexOf(c.Verified.SHA256)
	}
	checks, err := p.Certs.Checks(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, k := range checks {
		v.Checks = append(v.Checks, check{Name: k.Name, Result: string(k.Result), CheckedAt: web.Timestamp(k.CheckedAt)})
	}
	return v, nil
}

// lookUp is the page on which a reference id, or a link that holds one, is
// typed.
func (p *Pages) lookUp(w http.ResponseWriter, r *http.Request) error {
	typed := strings.TrimSpace(r.URL.Query().Get("reference_id"))
	if typed == "" {
		return p.view.page(w, http.StatusOK, "lookup.html", nil)
	}
	// A link, with its scheme or without; what follows the id is of no use.
	typed, _, _ = strings.Cut(typed, "?")
	if _, after, found := strings.Cut(typed, "/verify/"); found {
		typed, _, _ = strings.Cut(after, "/")
	}
	typed = typed[strings.LastIndexByte(typed, '/')+1:]
	if folded := cert.FoldReference(typed); folded == "" {
		return p.view.page(w, http.StatusNotFound, "unknown.html", typed)
	}
	http.Redirect(w, r, "/verify/"+url.PathEscape(typed), http.StatusSeeOther)
	return nil
}

// wantsJSON tells whether a client prefers JSON to a page: it names it, and
// does not take HTML.
func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// render answers an error: as JSON to who asked for it, else as a page.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, err error) {
	if wantsJSON(r) {
		web.WriteJSONError(w, r, err)
		return
	}
	status, text := web.Explain(w, r, err)
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusInternalServerError {
		text = "Something went wrong on our side."
	}
	if err := p.view.page(w, status, "error.html", errorPage{Status: status, Message: text, RequestID: web.RequestID(r)}); err != nil {
		http.Error(w, text, status)
	}
}

type errorPage struct {
	Status    int
	Message   string
	RequestID string
}
