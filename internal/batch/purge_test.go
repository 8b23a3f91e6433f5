package batch

import (
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// The numbers of a batch do not change when its certificates are purged.
func TestPurgeKeepsTheNumbersOfABatch(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		b := v.submit(v.submission(v.inst, v.stage(v.inst).UUID, people("Person", 5)...))
		v.expandAll()
		_, entries := v.get(v.inst, b.UUID)
		failing := []string{entries[1].ReferenceID, entries[2].ReferenceID}
		v.sealer.refuse = func(id string) bool { return slices.Contains(failing, id) }
		v.process("all are sealed", func() bool { got, _ := v.get(v.inst, b.UUID); return got.Processing == 0 })
		before, _ := v.get(v.inst, b.UUID)
		if err := account.New(d, v.clock.Now).SetRetention(ctx, v.inst.ID, account.Retention{Failed: 30}); err != nil {
			t.Fatal(err)
		}
		v.clock.Advance(31 * 24 * time.Hour)
		if err := v.certs.SweepExpired(ctx); err != nil {
			t.Fatal(err)
		}
		got, entries := v.get(v.inst, b.UUID)
		if !got.CompletedAt.Equal(*before.CompletedAt) || got.Approved != before.Approved || got.sum() != got.Total || got.Failed != 2 || got.Status() != CompletedWithErrors {
			t.Errorf("the batch changed from %+v to %+v, want the same numbers and time of completion", before, got)
		}
		for _, i := range []int{1, 2} {
			if e := entries[i]; e.Status != "failed" || e.UUID != "" || e.ReferenceID != "" || e.ErrorCode != "ended" || e.Error == "" {
				t.Errorf("entry %d is %+v, want a failed entry with the code ended and no certificate", i, e)
			}
		}
		if entries[0].UUID == "" || entries[0].Status != "approved" {
			t.Errorf("the entry of an approved certificate is %+v, want the status approved and the certificate's UUID", entries[0])
		}
		if n := one[int](v, `SELECT count(*) FROM certificates WHERE batch_id = $1`, b.UUID); n != 3 {
			t.Errorf("%d certificates of the batch exist, want 3", n)
		}
	})
}
