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

// Letter returns the text of the notice and its subject. The parameter vault is the base URL of the
// installation, which is the sender of the notice. The text contains only the host of the
// endpoint's URL, because the path may contain a secret.
func (n Notice) Letter(vault string) (letter mail.Letter, subject string) {
	host := n.URL
	if u, err := url.Parse(n.URL); err == nil {
		host = u.Host
	}
	since := n.Since.UTC().Format("2 January 2006, 15:04 UTC")
	letter.Why = fmt.Sprintf("You get this because you own an institution in the certificate vault at %s. Endpoint: %s.", vault, n.Endpoint)
	const logHint = "The delivery log shows each request and its answer: certvault webhook log."
	switch n.Kind {
	case NoticeFailing:
		subject = "Webhooks to " + host + " have failed for an hour"
		letter.Paragraphs = []string{
			fmt.Sprintf("Your server %s has not taken a single event since %s.", host, since),
			"Nothing is lost: events wait, and are sent when it answers with a status of 2xx within 15 seconds.", logHint,
		}
	case NoticeStillFailing:
		subject = "Webhooks to " + host + " have failed for three days"
		letter.Paragraphs = []string{
			fmt.Sprintf("Your server %s has not taken a single event since %s.", host, since),
			"In two days its endpoint will be switched off. Events then wait for another 14 days.", logHint,
		}
	case NoticeSwitchedOff:
		subject = "Webhooks to " + host + " were switched off"
		why := fmt.Sprintf("Your server %s has not taken a single event since %s, so nothing is sent to it any more.", host, since)
		if n.Reason == ReasonGone {
			why = fmt.Sprintf("Your server %s answered 410 Gone, which says that it wants no more events. Nothing is sent to it any more.", host)
		}
		letter.Paragraphs = []string{
			why, "Its events are kept for 14 days. To have them sent, switch the endpoint on again: certvault webhook resume.", logHint,
		}
	case NoticeRecovered:
		subject = "Webhooks to " + host + " arrive again"
		letter.Paragraphs = []string{
			fmt.Sprintf("Your server %s took an event on %s. What waited is being sent.", host, since),
			"Events that had run out of attempts can be sent again: certvault webhook replay.",
		}
	}
	letter.Heading = subject
	return letter, subject
}
