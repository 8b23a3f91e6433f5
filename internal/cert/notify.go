package cert

import (
	"context"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
)

// FieldNotify is the input for the time of the mail about a new certificate.
const FieldNotify Field = "notify"

const (
	// CodeNotNotify is a text that is not a choice of the time of mail.
	CodeNotNotify Code = "not_notify"
	// CodePastTime is a time that has passed.
	CodePastTime Code = "past_time"
	// CodeFarTime is a time that is more than a year ahead.
	CodeFarTime Code = "far_time"
)

// Notify is the choice when the recipient of a new certificate gets the mail about it. The zero value is the
// approval of the certificate.
type Notify struct {
	// Never means that no mail is sent.
	Never bool
	// At is the time of the mail, or the zero time.
	At time.Time
	// Problem is the problem of a choice that is not valid. Each operation with a choice checks it.
	Problem *Problem
}

// ReadNotify returns the choice in a text: "" or "now", "never", or a time as in RFC 3339 that is in the
// future and at most a year ahead.
func ReadNotify(text string, now time.Time) Notify {
	text = strings.TrimSpace(text)
	switch text {
	case "", "now":
		return Notify{}
	case "never":
		return Notify{Never: true}
	}
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case !account.CleanText(text):
		return badNotify(CodeNotText)
	case err != nil:
		return badNotify(CodeNotNotify)
	default:
		return NotifyAt(at, now)
	}
}

// NotifyAt returns the choice of a time, which must be in the future and at most a year ahead.
func NotifyAt(at, now time.Time) Notify {
	at = at.UTC().Truncate(time.Microsecond)
	switch {
	case !at.After(now):
		return badNotify(CodePastTime)
	case at.After(now.UTC().AddDate(1, 0, 0)):
		return badNotify(CodeFarTime)
	}
	return Notify{At: at}
}

func badNotify(code Code) Notify { return Notify{Problem: &Problem{Field: FieldNotify, Code: code}} }

// Now reports whether the mail is sent at the approval.
func (n Notify) Now() bool { return !n.Never && n.At.IsZero() }

// String returns the text from which ReadNotify reads the choice.
func (n Notify) String() string {
	switch {
	case n.Never:
		return "never"
	case n.At.IsZero():
		return "now"
	default:
		return n.At.UTC().Format(time.RFC3339Nano)
	}
}

// Check adds the problem of the choice to bad.
func (n Notify) Check(bad *Problems) {
	if n.Problem != nil {
		*bad = append(*bad, *n.Problem)
	}
}

// planTx stores the choice for a certificate that belongs to no batch.
func (s *Service) planTx(ctx context.Context, tx *db.Tx, c *Certificate, n Notify) error {
	if n.Now() || s.plan == nil {
		return nil
	}
	return s.plan(ctx, tx, c, n)
}
