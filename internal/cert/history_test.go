package cert

import (
	"context"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/webhook"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		if _, _, err := v.hooks.Create(t.Context(), v.inst.ID, "https://receiver.example/hooks", nil); err != nil {
			t.Fatal(err)
		}
		c := v.upload(nil)
		v.clock.Advance(time.Minute)
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) { return nil, pades.ErrKey }
		if err := v.work(t.Context(), c, v.attempts); err != nil {
			t.Fatal(err)
		}
		v.clock.Advance(time.Minute)
		if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
			t.Fatal(err)
		}
		v.clock.Advance(time.Minute)
		ada := audit.WithActor(t.Context(), audit.Actor{Type: audit.User, ID: "1", Name: "Ada Obi"})
		if _, err := v.Revoke(ada, v.inst.ID, c.UUID, Revocation{Reason: "Issued in error."}); err != nil {
			t.Fatal(err)
		}
		check := func(name string, want ...webhook.Name) []HistoryEntry {
			t.Helper()
			list, err := v.History(t.Context(), v.get(c.UUID))
			if err != nil || len(list) != len(want) {
				t.Fatalf("%s: history = %+v, err = %v, want %d entries", name, list, err, len(want))
			}
			for i, m := range list {
				if m.Event != want[i] || i > 0 && m.At.Before(list[i-1].At) {
					t.Errorf("%s: entry %d = %+v, want the event %q, not before the previous entry", name, i, m, want[i])
				}
			}
			return list
		}
		list := check("all", webhook.Created, webhook.Failed, webhook.Retried, webhook.Revoked)
		if list[0].By.Name != "Registry" || list[1].Failure == nil || list[3].Reason != "Issued in error." || list[3].By.Name != "Ada Obi" || len(list[2].Deliveries) != 1 ||
			list[2].Deliveries[0].Status != webhook.DeliveryPending {
			t.Errorf("history = %+v, want the creator, the failure, the reason and the pending delivery", list)
		}
		// The history of a certificate without events is built from the record and the audit log.
		v.exec(`DELETE FROM webhook_deliveries`)
		v.exec(`DELETE FROM webhook_events`)
		if list := check("without events", webhook.Created, "", webhook.Revoked); list[1].Action != audit.CertificateRetried {
			t.Errorf("the entry between the creation and the revocation = %+v, want the action certificate.retried", list[1])
		}
	})
}
