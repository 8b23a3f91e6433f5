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
	// CodeNotNotify is a text that is not "now", "never" or a time.
	CodeNotNotify Code = "not_notify"
	// CodePastTime is a time that is not in the future.
	CodePastTime Code = "past_time"
	// CodeFarTime is a time that is more than a year ahead.
	CodeFarTime Code = "far_time"
)

// Notify is the choice of when the mail about a new certificate is sent to its recipient. With the zero
// value, the mail is sent at the approval of the certificate.
type Notify struct {
	// Never means that no mail is sent.
	Never bool
	// At is the time of the mail, or the zero time.
	At time.Time
	// Kept is only for a replacement. It means that the choice for the mail about the replaced certificate
	// also applies to the replacement, if that mail still waits. Otherwise the mail about the replacement
	// is sent at the approval.
	Kept bool

	// problem is the code for a text that ReadNotify could not parse, or "".
	problem Code
}

// ReadNotify parses a choice: "" or "now", "never", or a time in the format of RFC 3339. For any other
// text, Check returns a problem.
func ReadNotify(text string) Notify {
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
		return Notify{problem: CodeNotText}
	case err != nil:
		return Notify{problem: CodeNotNotify}
	}
	return Notify{At: at.UTC().Truncate(time.Microsecond)}
}

// Check returns the problem of the choice, or nil. A time must be in the future, at most one year ahead.
func (n Notify) Check(now time.Time) *Problem {
	code := n.problem
	switch {
	case code != "" || n.At.IsZero():
	case !n.At.After(now):
		code = CodePastTime
	case n.At.After(now.UTC().AddDate(1, 0, 0)):
		code = CodeFarTime
	}
	if code == "" {
		return nil
	}
	return &Problem{Field: FieldNotify, Code: code}
}

// Now reports whether the mail is sent at the approval.
func (n Notify) Now() bool { return !n.Never && n.At.IsZero() && !n.Kept }

// String returns the choice as a text that ReadNotify parses. It ignores Kept.
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

// planTx stores when the mail about a certificate without a batch is sent, if not at the approval.
func (s *Service) planTx(ctx context.Context, tx *db.Tx, c *Certificate, n Notify) error {
	if n.Now() || s.plan == nil {
		return nil
	}
	return s.plan(ctx, tx, c, n)
}
