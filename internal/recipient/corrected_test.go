package recipient_test

import (
	"context"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
)

// TestCorrectionInvalidatesConcurrentShare checks that a person to whom a certificate was mailed by
// mistake cannot create a link during the correction of the address that still works after it.
func TestCorrectionInvalidatesConcurrentShare(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		wrong := recipient.Person(b.user("ada@example.org", true), "Ada", "ada@example.org")
		c := b.upload()
		b.approve(c)
		created := make(chan error, 1)
		if _, err := b.CorrectEmail(ctx, b.inst.ID, c.UUID, "right@example.org", func(context.Context, *db.Tx, *cert.Certificate) error {
			go func() {
				_, _, err := b.CreateShare(ctx, wrong, c, recipient.NewShare{})
				created <- err
			}()
			select {
			case err := <-created:
				created <- err
			case <-time.After(50 * time.Millisecond): // the creation waits for the correction
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := <-created; !fault.Is(err, fault.NotFound) {
			t.Errorf("creating a link during the correction: error = %v, want fault.NotFound", err)
		}
		list, err := b.Shares(ctx, c)
		if err != nil || len(list) != 0 {
			t.Errorf("the links are %+v, %v, want none", list, err)
		}
	})
}
