package mail

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Try hands a message over at once and tells how that went, for who wants to know
// whether mail leaves at all. It is not kept, and not tried again.
func (m *Mailer) Try(ctx context.Context, msg Message) error {
	if err := msg.check(); err != nil {
		return fmt.Errorf("trying to send a message: %w", err)
	}
	return m.sender.Send(ctx, &Envelope{Message: msg, ID: uuid.Must(uuid.NewV7()).String(), From: m.from, CreatedAt: m.now()})
}

// Count says how many messages stand where.
type Count struct{ Queued, Sent, Failed int }

// Count counts the messages that are kept: those that wait, and those that left
// or were given up in the last 30 days.
func (m *Mailer) Count(ctx context.Context) (c Count, err error) {
	rows, err := m.db.QueryContext(ctx, `SELECT status, count(*) FROM mails GROUP BY status`)
	if err != nil {
		return c, fmt.Errorf("counting messages: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var status Status
		var n int
		if err := rows.Scan(&status, &n); err != nil {
			return c, fmt.Errorf("counting messages: %w", err)
		}
		switch status {
		case Queued:
			c.Queued = n
		case Sent:
			c.Sent = n
		case Failed:
			c.Failed = n
		case Cancelled: // nobody waits for those
		}
	}
	return c, rows.Err()
}
