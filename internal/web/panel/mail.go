package panel

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/web/page"
)

// mailStates are the labels of the states of mail.
var mailStates = map[recipient.Status]status{
	recipient.Waiting: {"mail_state.waiting", "wait"}, recipient.Queued: {"mail_state.queued", "wait"}, recipient.Sent: {"mail_state.sent", "good"},
	recipient.Unsent: {"mail_state.unsent", "wait"}, recipient.Failed: {"mail_state.failed", "bad"}, recipient.Dropped: {Key: "mail_state.dropped"},
	recipient.Unsubscribed: {Key: "mail_state.unsubscribed"},
}

// mailReasons are the keys of the labels of the reasons for mail.
var mailReasons = map[recipient.Reason]string{
	recipient.Approval: "mail_reason.approval", recipient.Resent: "mail_reason.resent", recipient.Corrected: "mail_reason.corrected",
	recipient.Replacement: "mail_reason.replacement",
	recipient.Expiring:    "mail_reason.expiring",
	recipient.Revocation:  "mail_reason.revocation",
}

// unsentNotices maps a notice about sent mail to the notice that replaces it if there is no mail server.
var unsentNotices = map[string]string{
	"sample_mailed": "sample_unsent", "mailed_again": "mailed_unsent", "mail_leaves": "mailed_unsent", "address_kept": "address_unsent",
	"invited": "invited_unsent", "invitation_resent": "invited_unsent", "institution_made": "institution_unsent",
}

// mailNotice returns the notice or, without a mail server, its replacement in unsentNotices.
func (p *Panel) mailNotice(notice string) string {
	if unsent := unsentNotices[notice]; unsent != "" && p.Outbox != "" {
		return unsent
	}
	return notice
}

// noticeWarns reports whether the page shows one of the notices about mail that was not sent.
func noticeWarns(r *http.Request) bool {
	name := page.NoticeName(r)
	return slices.Contains(slices.Collect(maps.Values(unsentNotices)), name)
}

// noMail reports whether the pages say that the vault has no mail server. Only owners see this message.
func (p *Panel) noMail(v *Visit) bool {
	return p.Outbox != "" && v.Member != nil && v.Member.Role == account.Owner
}

// MailState returns the label of a mail's state.
func (*certificatePage) MailState(s recipient.Status) status { return mailStates[s] }

// MailReason returns the key of the label of a mail's reason.
func (*certificatePage) MailReason(r recipient.Reason) string { return mailReasons[r] }

// recorded returns a function that records an action on a certificate in the audit log, in the
// transaction of the action.
func (p *Panel) recorded(action audit.Action) cert.TxFunc {
	return func(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: c.InstitutionID, At: p.Now(), Action: action, Subject: audit.Subject{Type: "certificate", ID: c.UUID, Name: c.ReferenceID},
		})
	}
}

// resend mails a certificate again, and records the action in the audit log.
func (p *Panel) resend(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.certificatePage(r, v)
	if err != nil {
		return err
	}
	if err := p.Mail.Resend(r.Context(), v.Institution().ID, page.C.UUID, p.recorded(audit.CertificateMailed)); err != nil {
		return p.showAgain(w, r, "certificate.html", page, err)
	}
	return p.redirect(w, r, v, "certificates/"+page.C.UUID, "mailed_again")
}

// OpenCorrections returns the number of open correction requests.
func (c *certificatePage) OpenCorrections() (n int) {
	for _, r := range c.Corrections {
		if r.SettledAt == nil {
			n++
		}
	}
	return n
}

// settleCorrection closes an open correction request, and records the action in the audit log.
func (p *Panel) settleCorrection(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	if err := p.Mail.SettleCorrection(r.Context(), c, r.PathValue("correction"), p.recorded(audit.CorrectionClosed)); err != nil {
		return err
	}
	return p.redirect(w, r, v, "certificates/"+c.UUID, "correction_done")
}

// addressPage is the data of the form for a certificate's e-mail address.
type addressPage struct {
	Visit *Visit
	C     *cert.Certificate
	Email string
	// MailServer reports whether a mail server is configured.
	MailServer bool
}

// addressForm shows the form that corrects the e-mail address of a certificate.
func (p *Panel) addressForm(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "certificate_email.html", &addressPage{v, c, c.Email, p.Outbox == ""})
}

// correctAddress saves the corrected address, and records the action in the audit log.
func (p *Panel) correctAddress(w http.ResponseWriter, r *http.Request, v *Visit) error {
	c, err := p.certificateOf(r, v)
	if err != nil {
		return err
	}
	page := &addressPage{v, c, r.PostForm.Get("applicant_email"), p.Outbox == ""}
	_, err = p.Mail.CorrectEmail(r.Context(), v.Institution().ID, c.UUID, page.Email, p.recorded(audit.CertificateAddress))
	if err == nil {
		return p.redirect(w, r, v, "certificates/"+c.UUID, "address_kept")
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.NotFound {
		return err
	}
	return p.showAgain(w, r, "certificate_email.html", page, err)
}
