package panel

import (
	"slices"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/webhook"
)

// eventLabels are the labels of events.
var eventLabels = map[webhook.Name]status{
	webhook.Created: {Key: "certificate.event_created"}, webhook.Approved: {"certificate.event_approved", "good"},
	webhook.Failed: {"certificate.event_failed", "bad"}, webhook.Retried: {"certificate.event_retried", "wait"},
	webhook.Revoked: {"certificate.event_revoked", "bad"}, webhook.Processing: {Key: "certificate.event_processing"},
	webhook.Updated: {Key: "certificate.event_updated"}, webhook.Expiring: {"certificate.event_expiring", "wait"},
	webhook.Expired: {"certificate.event_expired", "wait"},
}

// askLabels maps the name of an event to the label of its entries whose field Asks is true. The name "" is
// for the acceptance of an application.
var askLabels = map[webhook.Name]status{
	webhook.Created: {"certificate.event_waits", "wait"}, webhook.Retried: {"certificate.event_asked", "wait"}, "": {"certificate.event_accepted", "wait"},
}

// actionLabels are the keys of labels of actions on one certificate that the audit log records. EventLabel
// selects the labels of all other actions.
var actionLabels = map[audit.Action]string{
	audit.CertificateMailed: "certificate.event_mailed", audit.CertificateAddress: "certificate.event_address",
	audit.CorrectionClosed: "certificate.event_correction", audit.CertificateChecked: "certificate.event_checked",
	audit.CertificateExported: "history.exported", audit.CertificateExpired: "history.expired", audit.FilesExpired: "history.files_expired",
	audit.CertificateErased: "history.erased",
}

// EventLabel returns the label of an entry of the history, which is an event or an action.
func (c *certificatePage) EventLabel(m *cert.HistoryEntry) status {
	switch {
	case m.Asks:
		return askLabels[m.Event]
	case m.Event == webhook.Created && c.C.Source == cert.Template:
		return status{Key: "certificate.event_issued"}
	case m.Event == webhook.Created && c.C.Source == cert.Customer:
		return status{Key: "certificate.event_received"}
	case m.Event == webhook.Updated && m.Action != "":
		return status{Key: "audit_actions." + keyName(m.Action)}
	case m.Action == audit.CertificateDeclined:
		return status{"certificate.event_declined", "bad"}
	case m.Action == audit.CertificateSigned:
		return status{"certificate.event_signed", "good"}
	}
	if known, ok := eventLabels[m.Event]; ok {
		return known
	}
	if known, ok := actionLabels[m.Action]; ok {
		return status{Key: known}
	}
	return status{Key: "audit_actions." + keyName(m.Action)}
}

// moment is an entry of the timeline of a certificate: an event or a mail.
type moment struct {
	At    time.Time
	Event *cert.HistoryEntry
	Mail  *recipient.Notice
}

// Timeline returns the events and the mail of the certificate, the latest first.
func (c *certificatePage) Timeline() []moment {
	var list []moment
	for i := range c.History {
		list = append(list, moment{At: c.History[i].At, Event: &c.History[i]})
	}
	for _, m := range c.Mails {
		list = append(list, moment{At: m.UpdatedAt, Mail: m})
	}
	slices.SortStableFunc(list, func(a, b moment) int { return b.At.Compare(a.At) })
	return list
}
