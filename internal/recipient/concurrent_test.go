package recipient_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
)

// TestRevokeDoesNotWaitForTheEndOfAMessage checks that a revocation does not wait for the transaction
// that records the result of a message. This transaction locks the message and then its notices, but a
// revocation locks the notices first.
func TestRevokeDoesNotWaitForTheEndOfAMessage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if d.Dialect != db.PostgreSQL {
			t.Skip("only PostgreSQL has row locks")
		}
		b := open(t, d)
		c := b.upload()
		b.approve(c)
		id := b.mails()[0].uuid
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := d.Tx(ctx, func(tx *db.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE mails SET status = 'sent', message = '' WHERE uuid = $1`, id); err != nil {
				return err
			}
			revoked := *c
			revoked.Status = cert.Revoked
			if err := d.Tx(ctx, func(tx *db.Tx) error { return b.MovedTx(ctx, tx, &revoked) }); err != nil {
				t.Errorf("revoking during the other transaction returned %v, want no error", err)
			}
			return b.MailFinishedTx(ctx, tx, mail.Result{UUID: id, Status: mail.Sent})
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.statuses(c); !slices.Equal(got, []recipient.Status{recipient.Sent}) {
			t.Errorf("statuses of the notices = %v, want %v", got, recipient.Sent)
		}
	})
}
