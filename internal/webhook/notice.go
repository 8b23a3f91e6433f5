package webhook

import (
	"fmt"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// NoticeKind is the kind of a notice.
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

// Notice informs the owners of an institution about the health of an endpoint.
type Notice struct {
	Kind          NoticeKind
	InstitutionID int64
	// Endpoint is the UUID of the endpoint.
	Endpoint, URL string
	// Since is the time at which the endpoint began to fail, or recovered.
	Since time.Time
	// Reason is set only in a notice of the kind NoticeSwitchedOff.
	Reason Reason
}

// Letter returns the text of the notice and its subject in a language. institution is the name of the
// endpoint's institution, and link is the address of the endpoint's page. The text contains only the
// host of the endpoint's URL, because the path may contain a secret.
func (n Notice) Letter(l *locale.Language, institution, link string) (letter mail.Letter, subject string, err error) {
	host := n.URL
	if u, err := url.Parse(n.URL); err == nil {
		host = u.Host
	}
	say, failed := l.Texts("webhook_mail.")
	letter = mail.Letter{
		Language: l.Tag, Direction: l.Direction, Button: &mail.Button{Label: say("button"), URL: link},
		Why: say("why", "institution", institution, "endpoint", n.Endpoint),
	}
	since := l.Time(n.Since)
	switch n.Kind {
	case NoticeFailing:
		subject = say("failing_subject", "host", host)
		letter.Paragraphs = []string{say("none_since", "host", host, "time", since), say("failing_kept"), say("log")}
	case NoticeStillFailing:
		subject = say("still_subject", "host", host)
		letter.Paragraphs = []string{say("none_since", "host", host, "time", since), say("still_kept"), say("log")}
	case NoticeSwitchedOff:
		subject = say("off_subject", "host", host)
		why := say("off_failing", "host", host, "time", since)
		if n.Reason == ReasonGone {
			why = say("off_gone", "host", host)
		}
		letter.Paragraphs = []string{why, say("off_kept"), say("log")}
	case NoticeRecovered:
		subject = say("recovered_subject", "host", host)
		letter.Paragraphs = []string{say("recovered_text", "host", host, "time", since), say("recovered_again")}
	}
	letter.Heading = subject
	if err := failed(); err != nil {
		return mail.Letter{}, "", fmt.Errorf("writing a mail about an endpoint: %w", err)
	}
	return letter, subject, nil
}
