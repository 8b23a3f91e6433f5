package mail

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
)

// Try sends a message at once and returns the error, as a test of the mail settings. The message is
// neither stored nor retried.
func (m *Mailer) Try(ctx context.Context, msg Message) error {
	if err := msg.check(); err != nil {
		return fmt.Errorf("sending a test message: %w", err)
	}
	return m.sender.Send(ctx, &Envelope{Message: msg, ID: uuid.Must(uuid.NewV7()).String(), From: m.from, CreatedAt: m.now()})
}

// OldestQueued returns the time at which the oldest waiting message was stored, or the zero time if
// no message waits.
func OldestQueued(ctx context.Context, q db.Queryer) (time.Time, error) {
	var at sql.NullInt64
	if err := q.QueryRowContext(ctx, `SELECT min(created_at) FROM mails WHERE status = 'queued'`).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("reading the oldest message: %w", err)
	}
	if !at.Valid {
		return time.Time{}, nil
	}
	return db.Time(at.Int64), nil
}

// UnsentSince returns the number of messages that were only written to the outbox after the last
// message was sent. It counts only messages of the last 30 days, because older records are deleted. It
// returns 0 if a mail server has accepted the latest message.
func UnsentSince(ctx context.Context, q db.Queryer) (n int, err error) {
	if err := q.QueryRowContext(ctx, `
		SELECT count(*) FROM mails WHERE status = 'unsent' AND updated_at > coalesce((SELECT max(updated_at) FROM mails WHERE status = 'sent'), 0)`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting messages that were not sent: %w", err)
	}
	return n, nil
}

// Count has the numbers of messages by status.
type Count struct {
	Queued, Sent, Failed int
	// Unsent is the number of messages that were only written to the outbox.
	Unsent int
	// OldestAt is the creation time of the oldest message that waits to be sent, or nil.
	OldestAt *time.Time
	// LastError is the reason for the last failure, without addresses, or "". LastFailedAt is the time of
	// that failure, or nil.
	LastError    string
	LastFailedAt *time.Time
}

// Count counts the stored messages by status. Messages that were sent, were written to the outbox or have
// failed are stored for 30 days.
func (m *Mailer) Count(ctx context.Context) (Count, error) { return CountOf(ctx, m.db) }

// CountOf is like Mailer.Count, for a process without a Mailer.
func CountOf(ctx context.Context, q db.Queryer) (c Count, err error) {
	rows, err := q.QueryContext(ctx, `SELECT status, count(*) FROM mails GROUP BY status`)
	if err == nil {
		_, err = db.Collect(rows, func(rows *sql.Rows) (none struct{}, err error) {
			var status Status
			var n int
			err = rows.Scan(&status, &n)
			switch status {
			case Queued:
				c.Queued = n
			case Sent:
				c.Sent = n
			case Unsent:
				c.Unsent = n
			case Failed:
				c.Failed = n
			case Cancelled: // not reported
			}
			return none, err
		})
	}
	if err != nil {
		return c, fmt.Errorf("counting messages: %w", err)
	}
	oldest, err := OldestQueued(ctx, q)
	if err != nil {
		return c, err
	}
	if !oldest.IsZero() {
		c.OldestAt = &oldest
	}
	var failed sql.NullInt64
	err = q.QueryRowContext(ctx, `SELECT coalesce(error, ''), updated_at FROM mails WHERE status = 'failed' ORDER BY updated_at DESC LIMIT 1`).Scan(&c.LastError, &failed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return c, fmt.Errorf("reading the last failed message: %w", err)
	}
	c.LastFailedAt = db.OptionalTime(failed)
	return c, nil
}
