package panel

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// approvalRoutes returns the routes for signatories.
func (p *Panel) approvalRoutes() []route {
	const list, signature, replace = "/panel/{institution}/approvals", "/panel/{institution}/signature", "/panel/{institution}/signatories"
	const ofTemplate = "/panel/{institution}/templates/{template}/signatories"
	may, edit, owner := account.MaySign, account.MayManageTemplates, account.MayManageOwners
	return []route{
		{pattern: "GET " + list, may: may, handler: p.approvals},
		{pattern: "GET " + list + "/{group}", may: may, handler: p.approvalGroup, recent: true},
		{pattern: "POST " + list + "/{group}", may: may, handler: p.decide, recent: true},
		{pattern: "GET /panel/{institution}/certificates/{certificate}/preview.png", may: account.MayView, handler: p.certificatePreview},

		{pattern: "GET " + signature, may: may, handler: p.signature},
		{pattern: "POST " + signature, may: may, handler: p.saveSignature, recent: true, limits: signatureLimits},
		{pattern: "POST " + signature + "/delete", may: may, handler: p.deleteSignature},
		{pattern: "GET " + signature + "/picture.png", may: may, handler: p.signaturePicture},

		{pattern: "GET " + ofTemplate, may: edit, handler: p.signatories},
		{pattern: "POST " + ofTemplate, may: edit, handler: p.saveSignatories},
		{pattern: "GET " + replace, may: owner, handler: p.missingSignatories, recent: true},
		{pattern: "POST " + replace, may: owner, handler: p.replaceSignatory, recent: true},
	}
}

// singles is the name, in addresses, of the group of certificates without a batch.
const singles = "single"

// approvalList is the data of the list of the certificates that wait for the approval of the member, in
// groups.
type approvalList struct {
	Visit  *Visit
	Groups []approval.Group
	// Picture reports whether the vault has a picture of the member's signature.
	Picture bool
	// Mails reports whether the vault has a mail server.
	Mails bool
}

// Name returns the name of a group in addresses.
func (*approvalList) Name(g approval.Group) string {
	if g.BatchID == "" {
		return singles
	}
	return g.BatchID
}

// approvals shows the groups of certificates that wait for the approval of the member.
func (p *Panel) approvals(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d := &approvalList{Visit: v, Mails: p.Outbox == ""}
	var err error
	if d.Groups, err = p.Approvals.Groups(r.Context(), v.Institution().ID, v.Person.ID); err != nil {
		return err
	}
	switch _, err := p.Templates.Signature(r.Context(), v.Institution().ID, v.Person.ID); {
	case err == nil:
		d.Picture = true
	case !fault.Is(err, fault.NotFound):
		return err
	}
	return p.draw(w, r, "approvals.html", d)
}

// listedApprovals is the maximum number of certificates on a page of a group.
const listedApprovals = 50

// reviewPage is the data of the page of a group.
type reviewPage struct {
	Visit *Visit
	*approval.Review

	// Listed are the certificates on the shown page of the group. Page is the number of this page, from
	// 1, and Pages is the number of all pages.
	Listed      []*cert.Certificate
	Page, Pages int
	// Chosen are the UUIDs of the certificates whose boxes are checked. Reason is the reason for declining
	// them.
	Chosen []string
	Reason string
}

// Checked reports whether the box of a certificate is checked.
func (d *reviewPage) Checked(uuid string) bool { return slices.Contains(d.Chosen, uuid) }

// Previous returns the number of the previous page, or 0.
func (d *reviewPage) Previous() int { return d.Page - 1 }

// Next returns the number of the next page, or 0.
func (d *reviewPage) Next() int {
	if d.Page == d.Pages {
		return 0
	}
	return d.Page + 1
}

// approvalGroup returns the UUID of the batch in the path, or "" for single certificates.
func approvalGroup(r *http.Request) (string, error) {
	name := r.PathValue("group")
	if name == singles {
		return "", nil
	}
	if _, err := uuid.Parse(name); err != nil {
		return "", fault.New(fault.NotFound, "None of these certificates is waiting for your approval.")
	}
	return name, nil
}

func (p *Panel) reviewPage(r *http.Request, v *Visit) (*reviewPage, error) {
	batchID, err := approvalGroup(r)
	if err != nil {
		return nil, err
	}
	d := &reviewPage{Visit: v}
	if d.Review, err = p.Approvals.Review(r.Context(), v.Institution().ID, v.Person.ID, batchID); err != nil {
		return nil, err
	}
	d.Pages = max(1, (len(d.Certificates)+listedApprovals-1)/listedApprovals)
	d.Page = min(queryNumber(r, "page"), d.Pages)
	from := (d.Page - 1) * listedApprovals
	d.Listed = d.Certificates[from:min(from+listedApprovals, len(d.Certificates))]
	return d, nil
}

// approvalGroup shows a group of certificates that wait for the approval of the member.
func (p *Panel) approvalGroup(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.reviewPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "approval.html", d)
}

// decide approves or declines the chosen certificates, or all certificates of a group. For all, the form
// contains the digest of the certificates that the member saw, so that no other certificate is approved.
func (p *Panel) decide(w http.ResponseWriter, r *http.Request, v *Visit) error {
	batchID, err := approvalGroup(r)
	if err != nil {
		return err
	}
	form := r.PostForm
	inst, person, ctx := v.Institution().ID, v.Person.ID, r.Context()
	choice := approval.Choice{UUIDs: form["certificate"]}
	do := form.Get("do")
	if do == "approve-all" || do == "decline-all" {
		// No set of certificates has the digest "none", so a form without a digest is shown again.
		choice = approval.Choice{BatchID: batchID, Single: batchID == "", Seen: cmp.Or(form.Get("seen"), "none")}
	} else if len(choice.UUIDs) == 0 {
		return p.decideAgain(w, r, v, fault.OfField("certificate", "approvals.none_chosen"))
	}
	var n int
	notice := "approval_given"
	switch do {
	case "approve-all", "approve":
		n, err = p.Approvals.Approve(ctx, inst, person, choice)
	case "decline-all", "decline":
		notice = "approval_declined"
		n, err = p.Approvals.Decline(ctx, inst, person, choice, form.Get("reason"))
	default:
		return fault.New(fault.BadRequest, "The form names no action.")
	}
	if err != nil {
		return p.decideAgain(w, r, v, err)
	}
	return p.redirect(w, r, v, "approvals", notice, n)
}

// decideAgain shows a group again with the problem of a decision. If the problem is a conflict and the group
// is now empty, it redirects to the list of groups.
func (p *Panel) decideAgain(w http.ResponseWriter, r *http.Request, v *Visit, problem error) error {
	d, err := p.reviewPage(r, v)
	if fault.Is(err, fault.NotFound) && fault.Is(problem, fault.Conflict) {
		return p.redirect(w, r, v, "approvals", "approval_nothing")
	}
	if err != nil {
		return err
	}
	d.Chosen, d.Reason = r.PostForm["certificate"], r.PostForm.Get("reason")
	return p.showAgain(w, r, "approval.html", d, problem)
}

// certificatePreview sends a picture of a certificate from a template.
func (p *Panel) certificatePreview(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.Certs.ByUUID(r.Context(), v.Institution().ID, r.PathValue("certificate"))
	if err != nil {
		return err
	}
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		page = 1
	}
	side := pictureSide
	if r.URL.Query().Get("small") != "" {
		side = thumbSide
	}
	picture, err := p.Templates.CertificatePicture(r.Context(), c, page, side)
	if err != nil {
		return err
	}
	return sendPrivate(w, picture)
}

// sendPrivate sends a PNG that no cache stores.
func sendPrivate(w http.ResponseWriter, picture []byte) error {
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Cache-Control", "private, no-store")
	h.Set("Content-Length", strconv.Itoa(len(picture)))
	_, err := w.Write(picture)
	return err //nolint:wrapcheck // the client has gone
}

// signatureView is a signature on the page of a certificate.
type signatureView struct {
	*cert.Signature

	Label status
}

// signaturesOf returns the signatures of a certificate, for the page of the certificate.
func (p *Panel) signaturesOf(r *http.Request, c *cert.Certificate) ([]signatureView, error) {
	found, err := p.Certs.Signatures(r.Context(), c.InstitutionID, c.ID)
	if err != nil {
		return nil, err
	}
	list := make([]signatureView, len(found[c.ID]))
	for i, s := range found[c.ID] {
		list[i] = signatureView{s, signatureLabel(s)}
	}
	return list, nil
}

func signatureLabel(s *cert.Signature) status {
	switch {
	case s.Status == cert.SignatureApproved:
		return status{"approvals.approved", "good"}
	case s.Status == cert.SignatureDeclined:
		return status{"approvals.declined", "bad"}
	case s.Left:
		return status{"approvals.left", "bad"}
	case s.Asked:
		return status{"approvals.asked", "wait"}
	}
	return status{"approvals.later", ""}
}

// waitingFor returns the number of certificates that wait for the approval of the visitor, and reports
// whether the navigation shows the approvals. It shows them if a certificate waits, if the visitor has the
// role of a signatory, or if a template names the visitor as a signatory.
func (p *Panel) waitingFor(r *http.Request, v *Visit) (n int, shown bool) {
	n, err := p.Certs.CountWaiting(r.Context(), v.Institution().ID, v.Person.ID)
	if err != nil || n > 0 || v.Member.Role == account.Signatory {
		return n, err == nil
	}
	shown, err = p.Templates.IsSignatory(r.Context(), v.Institution().ID, v.Person.ID)
	return 0, shown && err == nil
}
