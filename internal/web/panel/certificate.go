package panel

import (
	"encoding/hex"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/verification"
	"github.com/certvault/certvault/internal/web"
	"github.com/certvault/certvault/internal/web/page"
)

// status is the label of a certificate's status, of an entry of its history or of a mail. Key is the
// key of the label, and Tone selects the colour.
type status struct{ Key, Tone string }

var statuses = map[cert.Status]status{
	cert.Processing: {"status.processing", "wait"}, cert.Approved: {"status.approved", "good"}, cert.Failed: {"status.failed", "bad"},
	cert.Revoked: {"status.revoked", "bad"}, cert.Pending: {"status.pending", "wait"}, cert.InReview: {"status.in_review", "wait"},
}

func statusOf(s cert.Status) status { return statuses[s] }

// modes are the keys of the labels of the modes of placements.
var modes = map[seal.Mode]string{
	seal.Auto: "placement_mode.auto", seal.TopLeft: "placement_mode.top_left", seal.TopRight: "placement_mode.top_right",
	seal.BottomLeft: "placement_mode.bottom_left", seal.BottomRight: "placement_mode.bottom_right", seal.Exact: "placement_mode.exact",
	seal.Strip: "placement_mode.strip", seal.Appended: "placement_mode.appended", seal.Annotation: "placement_mode.annotation",
	seal.Cover: "placement_mode.cover",
}

// sources are the keys of the labels for how certificates were created.
var sources = map[cert.TriggerContext]string{
	cert.SingleUpload: "certificate.source_api", cert.BulkUpload: "certificate.source_api_bulk", cert.PanelUpload: "certificate.source_panel",
	cert.PanelBulkUpload: "certificate.source_panel_bulk", cert.FromTemplate: "certificate.source_template",
	cert.CustomerSubmission: "certificate.source_customer",
}

// checkNames are the keys of the labels of the checks.
var checkNames = map[string]string{
	cert.CheckRecord: "certificate.check_record", cert.CheckFile: "certificate.check_file", cert.CheckSignature: "certificate.check_signature",
}

// certificatePage is one certificate with all its details.
type certificatePage struct {
	Visit   *Visit
	C       *cert.Certificate
	Profile *account.PublicProfile
	Checks  []cert.Check
	History []cert.HistoryEntry
	Mails   []*recipient.Notice
	// MailServer reports whether a mail server is configured.
	MailServer bool
	// Plan is the plan for which the mail about the certificate waits, or nil.
	Plan *recipient.Plan
	// Notify reports whether a revocation sends mail to the recipient.
	Notify bool
	// Corrections are the correction requests for the certificate.
	Corrections []*recipient.Correction
	// Batch is the name of the certificate's batch, or "" if the certificate is in no batch. Verify
	// is the address of the certificate's public page.
	Batch, Verify string
	Reason, Note  string
	// Signature is the report on the signatures of the verified PDF. It is nil if the report was not
	// requested, there is no file, or the report failed. If the report failed, Unread is a message about
	// the failure; otherwise it is "".
	Signature *pades.Report
	Unread    string
	// OriginalDamaged reports whether the last check of the original failed. An original that is a
	// part of the verified PDF has no such check.
	OriginalDamaged bool
	// Signatures are the signatures of a certificate with signatories.
	Signatures []signatureView
	// Replacing is the newest replacement that is being made or has failed, or nil.
	Replacing *cert.Certificate
	Now       time.Time
	// Verifications are the numbers of verifications. A nil number is not shown.
	Verifications verification.Shown
}

// Badge returns the badge of the certificate for other websites, or nil if the certificate is neither
// approved nor revoked.
func (c *certificatePage) Badge() *page.Badge {
	if c.C.Status != cert.Approved && c.C.Status != cert.Revoked {
		return nil
	}
	return &page.Badge{ReferenceID: c.C.ReferenceID, Address: c.Verify}
}

// Verdict returns the verdict of the certificate's public page. The verdict selects the text of the
// preview.
func (c *certificatePage) Verdict() string {
	switch c.C.Status {
	case cert.Revoked:
		if c.C.Replaced() {
			return "replaced"
		}
		return "revoked"
	case cert.Processing:
		return "processing"
	case cert.Approved:
		if c.ExpiredOn() != "" {
			return "expired"
		}
		verdict := "valid"
		for _, k := range c.Checks {
			if k.Result == cert.FailedCheck {
				return "damaged"
			}
			if k.Result == cert.NotRun {
				verdict = "unchecked"
			}
		}
		return verdict
	default:
		return "unknown"
	}
}

// RevokedOn returns the time of the revocation, or the current time if the certificate is not
// revoked.
func (c *certificatePage) RevokedOn() *string {
	at := c.Now
	if c.C.RevokedAt != nil {
		at = *c.C.RevokedAt
	}
	return web.Timestamp(&at)
}

// PublicReason returns the reason that the public page shows, or would show after the revocation.
func (c *certificatePage) PublicReason() string {
	if c.C.Status == cert.Revoked {
		return c.C.RevocationReason
	}
	return c.Reason
}

// Ran reports whether the check with the given name has run.
func (c *certificatePage) Ran(name string) bool {
	return slices.ContainsFunc(c.Checks, func(k cert.Check) bool { return k.Name == name && k.Result != cert.NotRun })
}

// Damaged reports whether a stored file is known to be damaged or missing.
func (c *certificatePage) Damaged() bool {
	return c.OriginalDamaged || slices.ContainsFunc(c.Checks, func(k cert.Check) bool { return k.Name == cert.CheckFile && k.Result == cert.FailedCheck })
}

// Signed returns the last signature of the verified PDF, or nil if there is no report or the report
// contains no signature.
func (c *certificatePage) Signed() *pades.Signature {
	if c.Signature == nil || len(c.Signature.Signatures) == 0 {
		return nil
	}
	return &c.Signature.Signatures[len(c.Signature.Signatures)-1]
}

// IssuerName returns the name of the issuer of the signer's certificate: the common name if the
// issuer's name has no other part, or else the whole name. It must not be called if Signed returns nil.
func (c *certificatePage) IssuerName() string {
	issuer := c.Signed().Issuer
	if name, ok := strings.CutPrefix(issuer, "CN="); ok && !strings.ContainsAny(name, ",+") {
		return name
	}
	return issuer
}

// CheckName returns the key of the label of a check. The record of a certificate that has expired passes its
// check, but the label must not say that the record is valid.
func (c *certificatePage) CheckName(name string) string {
	if name == cert.CheckRecord && c.ExpiredOn() != "" {
		return "certificate.check_not_revoked"
	}
	return checkNames[name]
}

// NotYet reports whether k is the check of the record of a certificate in processing. The page then
// shows "Not yet" instead of a failed check.
func (c *certificatePage) NotYet(k cert.Check) bool {
	return k.Name == cert.CheckRecord && c.C.Status == cert.Processing
}

// Original returns the SHA-256 digest of the original as hexadecimal digits, or "" if it is not known
// yet.
func (c *certificatePage) Original() string { return c.C.OriginalDigest() }

// HasFile reports whether the certificate has a verified PDF that was not deleted.
func (c *certificatePage) HasFile() bool { return c.C.Verified != nil && c.C.FilesDeletedAt == nil }

// Verified returns the SHA-256 digest of the verified PDF as hexadecimal digits, or "" if the
// certificate has no verified PDF.
func (c *certificatePage) Verified() string {
	if c.C.Verified == nil {
		return ""
	}
	return hex.EncodeToString(c.C.Verified.SHA256[:])
}

// Place returns the key of the label of the stamp's placement, or "" if the certificate has no stamp.
func (c *certificatePage) Place() string { return modes[seal.Mode(c.C.Placement)] }

// Source returns the key of the label for how the certificate was created.
func (c *certificatePage) Source() string { return sources[c.C.TriggerContext] }

var errNoSuch = fault.New(fault.NotFound, "This institution has no such certificate.")

// CheckTone returns the tone of the line that sums up the checks.
func (c *certificatePage) CheckTone() string {
	switch {
	case c.C.Replaced() && !c.Damaged():
		return ""
	case c.Damaged(), c.C.Status == cert.Revoked, c.Verdict() == "damaged":
		return "bad"
	case c.Verdict() == "valid":
		return "good"
	case c.Verdict() == "unchecked", c.ExpiredOn() != "":
		return "wait"
	default:
		return ""
	}
}

// CheckKey returns the key of the line that sums up the checks.
func (c *certificatePage) CheckKey() string {
	switch {
	case c.C.Replaced():
		return "replace.checks"
	case c.C.Status == cert.Revoked:
		return "certificate.revoked_line"
	case c.C.Status == cert.Failed:
		return "certificate.failed_line"
	case c.C.Status == cert.Processing:
		return "certificate.processing_line"
	case c.ExpiredOn() != "":
		return "certificate.expired_line"
	case c.CheckTone() == "bad":
		return "certificate.some_bad"
	case c.CheckTone() == "good":
		return "certificate.all_good"
	default:
		return "certificate.some_open"
	}
}

// LastCheck returns the time of the oldest result of the checks, or nil if a check has not run or
// CheckTone is not good.
func (c *certificatePage) LastCheck() *time.Time {
	var oldest *time.Time
	for _, k := range c.Checks {
		if k.CheckedAt == nil {
			return nil
		}
		if oldest == nil || k.CheckedAt.Before(*oldest) {
			oldest = k.CheckedAt
		}
	}
	if c.CheckTone() != "good" {
		return nil
	}
	return oldest
}

// certificateOf returns the certificate in the path. The error is fault.NotFound if the institution
// has no such certificate.
func (p *Panel) certificateOf(r *http.Request, v *Visit) (*cert.Certificate, error) {
	id, err := uuid.Parse(r.PathValue("certificate"))
	if err != nil {
		return nil, errNoSuch
	}
	return p.Certs.ByUUID(r.Context(), v.Institution().ID, id.String())
}

// certificate shows one certificate. If the query requests the report on the signatures of the verified
// PDF, the page contains the report.
func (p *Panel) certificate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.certificatePage(r, v)
	if err != nil {
		return err
	}
	if to := recordPath(v, page.C); to != v.Path("certificates/"+page.C.UUID) {
		return p.view.Redirect(w, r, to, "")
	}
	if r.URL.Query().Get("signature") != "" && page.HasFile() {
		report, err := p.Certs.Signature(r.Context(), page.C)
		if err != nil {
			p.Log.ErrorContext(r.Context(), "the signature of a certificate could not be read", slog.String("certificate", page.C.UUID), slog.Any("error", err))
			// Read the certificate again, because Signature may have stored a failed check of the
			// file.
			if page, err = p.certificatePage(r, v); err != nil {
				return err
			}
			page.Unread = p.texts(r).of("history.unreadable")
		}
		page.Signature = report
	}
	return p.draw(w, r, "certificate.html", page)
}

func (p *Panel) certificatePage(r *http.Request, v *Visit) (*certificatePage, error) {
	ctx := r.Context()
	c, err := p.certificateOf(r, v)
	if err != nil {
		return nil, err
	}
	page := &certificatePage{Visit: v, C: c, Verify: p.Links.Verify(c.ReferenceID), Now: p.Now().UTC(), MailServer: p.Outbox == ""}
	if page.Checks, err = p.Certs.Checks(ctx, c); err != nil {
		return nil, err
	}
	if page.Signatures, err = p.signaturesOf(r, c); err != nil {
		return nil, err
	}
	if page.OriginalDamaged, err = p.Certs.OriginalDamaged(ctx, c); err != nil {
		return nil, err
	}
	if page.Profile, err = p.Accounts.PublicProfile(ctx, v.Institution().ID); err != nil {
		return nil, err
	}
	if c.BatchID != "" {
		names, err := p.Batches.Names(ctx, v.Institution().ID, []string{c.BatchID})
		if err != nil {
			return nil, err
		}
		page.Batch = names[c.BatchID]
	}
	if page.History, err = p.Certs.History(ctx, c); err != nil {
		return nil, err
	}
	if page.Mails, err = p.Mail.Notices(ctx, c); err != nil {
		return nil, err
	}
	if page.Plan, err = p.Mail.PlanOf(ctx, c); err != nil {
		return nil, err
	}
	if page.Corrections, err = p.Mail.CorrectionsOf(ctx, c); err != nil {
		return nil, err
	}
	if page.Replacing, err = p.Certs.Replacing(ctx, c); err != nil {
		return nil, err
	}
	counts, err := p.Verifications.Shown(ctx, nil, v.Institution().ID, c.ID)
	if err != nil {
		return nil, err
	}
	page.Verifications = counts[c.ID]
	slices.Reverse(page.History)
	return page, nil
}

// checkFiles checks the stored files and the signature of a certificate, stores the results, and
// records the check in the audit log.
func (p *Panel) checkFiles(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	if _, err := p.Certs.CheckFiles(r.Context(), c, p.recorded(audit.CertificateChecked)); err != nil {
		return err
	}
	return p.redirect(w, r, v, "certificates/"+c.UUID, "files_checked")
}

// retryCertificate restarts the processing of a failed certificate.
func (p *Panel) retryCertificate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	if _, err := p.Certs.Retry(r.Context(), v.Institution().ID, c.UUID, nil); err != nil {
		if fault.Is(err, fault.BadRequest) {
			err = fault.New(fault.BadRequest, "panel_error.not_failed")
		}
		return err
	}
	return p.redirect(w, r, v, "certificates/"+c.UUID, "retried")
}

// askRevokeCertificate shows the form for the reason, with a preview of the public page.
func (p *Panel) askRevokeCertificate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.certificatePage(r, v)
	if err != nil {
		return err
	}
	page.Notify = true
	return p.draw(w, r, "certificate_revoke.html", page)
}

// revokeCertificate revokes a certificate. If the form requests the preview, revokeCertificate only
// shows the form again, with the entered reason in the preview.
func (p *Panel) revokeCertificate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.certificatePage(r, v)
	if err != nil {
		return err
	}
	page.Reason, page.Note, page.Notify = r.PostForm.Get("reason"), r.PostForm.Get("note"), r.PostForm.Get("notify") != ""
	if r.PostForm.Get("look") != "" {
		return p.draw(w, r, "certificate_revoke.html", page)
	}
	if _, err := p.Certs.Revoke(r.Context(), v.Institution().ID, page.C.UUID, cert.Revocation{Reason: page.Reason, Note: page.Note, Notify: page.Notify}); err != nil {
		return p.showAgain(w, r, "certificate_revoke.html", page, err)
	}
	return p.redirect(w, r, v, "certificates/"+page.C.UUID, "revoked")
}

// certificateImage sends the image of the first page of a certificate's verified PDF.
func (p *Panel) certificateImage(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	content, err := p.Certs.OpenImage(r.Context(), c)
	return p.sendFile(w, r, content, err, file{mediaType: "image/png", tag: c.UUID + "-image"})
}

// verifiedFile sends a certificate's verified PDF.
func (p *Panel) verifiedFile(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	content, err := p.Certs.OpenVerified(r.Context(), c)
	return p.sendFile(w, r, content, err, file{mediaType: "application/pdf", tag: c.UUID + "-verified", name: c.ReferenceID + ".pdf"})
}

// originalFile sends a certificate's original.
func (p *Panel) originalFile(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	content, err := p.Certs.OpenOriginal(r.Context(), c)
	return p.sendFile(w, r, content, err, file{mediaType: string(c.File.Type), tag: c.UUID + "-original", name: c.File.Name})
}

// file describes a file that is sent. tag identifies the content of the file for caches. If name is
// set, the browser saves the file instead of showing it.
type file struct{ mediaType, tag, name string }

func (p *Panel) sendFile(w http.ResponseWriter, r *http.Request, content *cert.Content, err error, f file) error {
	if errors.Is(err, cert.ErrFilesPurged) {
		// Respond with a page here, because no kind of fault has the status 410 (RFC 9110,
		// 15.5.11).
		w.Header().Set("Cache-Control", "no-store")
		text := p.texts(r).domain(cert.ErrFilesPurged.Message)
		return p.view.Draw(w, r, http.StatusGone, "error.html", page.Failure{Status: http.StatusGone, Text: text, RequestID: web.RequestID(r)})
	}
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Content-Security-Policy", web.FilePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if f.name != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.name}))
	}
	return web.ServeContent(w, r, content, f.tag)
}

// finishStream handles the error of a response that has begun. If err is nil or the client has
// cancelled the request, finishStream returns nil. Otherwise finishStream closes the connection,
// because a partial file must not look complete.
func (p *Panel) finishStream(r *http.Request, err error) error {
	if err == nil || errors.Is(err, r.Context().Err()) {
		return nil
	}
	p.Log.WarnContext(r.Context(), "an export was interrupted", slog.Any("error", err))
	panic(http.ErrAbortHandler) //nolint:forbidigo // net/http then closes the connection
}
