package webhook

import (
	"fmt"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/mail"
)

// NoticeKind is the subject of a notice.
type NoticeKind string

const (
	// NoticeFailing means that no delivery has succeeded for an hour.
	NoticeFailing NoticeKind = "failing"
	// NoticeStillFailing means that no delivery has succeeded for three days.
	NoticeStillFailing NoticeKind = "still_failing"
	// NoticeSwitchedOff means that the vault switched the endpoint off and sends nothing more.
	NoticeSwitchedOff NoticeKind = "switched_off"
	// NoticeRecovered means that deliveries succeed again.
	NoticeRecovered NoticeKind = "recovered"
)

// Notice informs the owners of an endpoint about its health.
type Notice struct {
	Kind          NoticeKind
	InstitutionID int64
	// Endpoint is the UUID of the endpoint.
	Endpoint, URL string
	// Since is the time at which the endpoint began to fail, or recovered.
	Since time.Time
	// Reason is the reason why the endpoint was switched off. It is empty in other notices.
	Reason Reason
}

// Letter returns the text of the notice and its subject. institution is the name of the endpoint's
// institution. The text contains only the host of the endpoint's URL, because the path may contain a
// secret.
func (n Notice) Letter(institution string) (letter mail.Letter, subject string) {
	host := n.URL
	if u, err := url.Parse(n.URL); err == nil {
		host = u.Host
	}
	since := n.Since.UTC().Format("2 January 2006, 15:04 UTC")
	letter.Why = fmt.Sprintf("You received this because you are an owner of %s. Endpoint: %s.", institution, n.Endpoint)
	const logHint = "The delivery log shows each request and its response: certvault webhook log."
	switch n.Kind {
	case NoticeFailing:
		subject = "Webhooks to " + host + " have failed for an hour"
		letter.Paragraphs = []string{
			fmt.Sprintf("No delivery to %s has succeeded since %s.", host, since),
			"No event is lost. The vault sends the waiting events when the server responds with a status of 2xx within 15 seconds.", logHint,
		}
	case NoticeStillFailing:
		subject = "Webhooks to " + host + " have failed for three days"
		letter.Paragraphs = []string{
			fmt.Sprintf("No delivery to %s has succeeded since %s.", host, since),
			"The endpoint will be disabled in two days. Its events will then be kept for another 14 days.", logHint,
		}
	case NoticeSwitchedOff:
		subject = "Webhooks to " + host + " were disabled"
		why := fmt.Sprintf("No delivery to %s has succeeded since %s, so the vault has disabled the endpoint.", host, since)
		if n.Reason == ReasonGone {
			why = fmt.Sprintf("The server %s responded with 410 Gone, so the vault has disabled the endpoint.", host)
		}
		letter.Paragraphs = []string{
			why, "Its events are kept for 14 days. To send them, enable the endpoint again: certvault webhook resume.", logHint,
		}
	case NoticeRecovered:
		subject = "Webhooks to " + host + " work again"
		letter.Paragraphs = []string{
			fmt.Sprintf("A delivery to %s succeeded on %s. The vault is sending the waiting events.", host, since),
			"Deliveries that have no attempt left can be sent again: certvault webhook replay.",
		}
	}
	letter.Heading = subject
	return letter, subject
}
