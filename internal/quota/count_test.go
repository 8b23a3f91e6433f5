package quota_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/vaulttest"
)

// upgraded returns a vault with n certificates that are not counted yet, as after the migration.
func upgraded(t *testing.T, d *db.DB, n int) (v *vaulttest.Vault, inst *account.Institution, ids []int64) {
	t.Helper()
	v = vaulttest.New(t, d)
	inst = v.Institution("NWU", "Northern")
	for i := range n {
		v.Upload(inst, fmt.Sprint("Ada ", i), fmt.Sprintf("%d.pdf", i))
	}
	v.Settle()
	v.Exec(`DELETE FROM institution_usage`)
	v.Exec(`INSERT INTO usage_counting (id, counted_id, last_id) SELECT 1, 0, max(id) FROM certificates`)
	ids, err := db.Column[int64](d.QueryContext(t.Context(), `SELECT id FROM certificates ORDER BY id`))
	if err != nil {
		t.Fatal(err)
	}
	return v, inst, ids
}

// step counts at most two certificates, and reports whether there may be more certificates to count.
func step(t *testing.T, d *db.DB) (left bool) {
	t.Helper()
	left, err := quota.CountNext(t.Context(), d, 2)
	if err != nil {
		t.Error(err)
	}
	return left
}

// remove deletes a certificate.
func remove(ctx context.Context, v *vaulttest.Vault, id int64) {
	for _, table := range []string{"certificate_checks", "webhook_events", "notices"} {
		v.Exec(`DELETE FROM `+table+` WHERE certificate_id = $1`, id)
	}
	v.Exec(`DELETE FROM certificates WHERE id = $1`, id)
	v.Tx(func(tx *db.Tx) error { return db.KeepIDTx(ctx, tx, "certificates", id) })
}

// exact checks that the counting is complete and that the counters are equal to the records.
func exact(t *testing.T, v *vaulttest.Vault, inst *account.Institution, certificates int) {
	t.Helper()
	for range 2 { // before and after Fold
		if got := usage(t, v, inst); got.Counting || got.Storage != stored(t, v, inst) || got.Certificates != int64(certificates) {
			t.Errorf("usage = %+v, want %d certificates and %d bytes", got, certificates, stored(t, v, inst))
		}
		if err := quota.Fold(t.Context(), v.DB); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCountWithChanges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		v, inst, ids := upgraded(t, d, 8)
		fill := func(id int64, size int) {
			v.Exec(`UPDATE certificates SET verified_size = $1 WHERE id = $2`, size, id)
		}
		if got := usage(t, v, inst); !got.Counting || got.Storage != 0 {
			t.Fatalf("usage before the first step = %+v, want 0 bytes and Counting", got)
		}
		fill(ids[0], 1000)
		fill(ids[5], 1) // fewer bytes than before
		if got := usage(t, v, inst); got.Storage < 0 || got.Storage > stored(t, v, inst) {
			t.Fatalf("usage before the first step = %+v, want 0 to %d bytes", got, stored(t, v, inst))
		}
		inst.Limits.Storage = stored(t, v, inst) + 5000
		if err := d.Tx(ctx, func(tx *db.Tx) error { return quota.CheckTx(ctx, tx, inst, v.Now(), 1, 5000) }); err != nil {
			t.Errorf("CheckTx within the limit returned %v, want no error", err)
		}
		inst.Limits.Storage = 0
		step(t, d)
		fill(ids[0], 30)   // already counted
		fill(ids[5], 4000) // not counted yet
		for _, id := range []int64{ids[1], ids[7]} {
			remove(ctx, v, id)
		}
		if got := usage(t, v, inst); got.Storage > stored(t, v, inst) {
			t.Errorf("usage after the first step = %+v, want at most %d bytes", got, stored(t, v, inst))
		}
		if err := quota.Fold(ctx, d); err != nil {
			t.Fatal(err)
		}
		v.Exec(`UPDATE certificates SET files_ended_at = 1, size = size + 1 WHERE id = $1`, ids[6])
		v.Upload(inst, "Bob", "b.pdf")
		if d.Dialect == db.PostgreSQL {
			// The step does not see the open transaction. The transaction sees the step only in its second statement.
			v.Tx(func(tx *db.Tx) error {
				if _, err := tx.ExecContext(ctx, `UPDATE certificates SET verified_size = 70000 WHERE id = $1`, ids[2]); err != nil {
					return err
				}
				step(t, d)
				_, err := tx.ExecContext(ctx, `UPDATE certificates SET verified_size = 80000 WHERE id IN ($1, $2)`, ids[2], ids[3])
				return err
			})
		}
		if got := usage(t, v, inst); !got.Counting {
			t.Error("Counting = false before the last step, want true")
		}
		// Count does the remaining steps.
		if err := quota.Count(ctx, d); err != nil {
			t.Fatal(err)
		}
		if step(t, d) {
			t.Error("a step after the last certificate reports that there may be more, want none")
		}
		exact(t, v, inst, 8) // without the certificate that was deleted before it was counted
	})
}

// TestCountOfApplications checks that an application that is approved during the counting is counted once, in
// the month of its approval.
func TestCountOfApplications(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, ids := upgraded(t, d, 5)
		last := db.Micros(v.Now().AddDate(0, -2, 0))
		v.Exec(`UPDATE certificates SET source = 'customer', status = 'pending', created_at = $1 WHERE id > $2`, last, ids[0])
		approve := func(id int64) {
			v.Exec(`UPDATE certificates SET status = 'processing', updated_at = $1 WHERE id = $2`, db.Micros(v.Now()), id)
		}
		v.Exec(`UPDATE certificates SET status = 'rejected' WHERE id = $1`, ids[3])
		approve(ids[1])
		approve(ids[4])
		for range 3 {
			step(t, d)
		}
		approve(ids[2])
		exact(t, v, inst, 4)
		var all int
		if err := d.QueryRowContext(t.Context(), `SELECT sum(certificates) FROM institution_usage`).Scan(&all); err != nil || all != 4 {
			t.Errorf("%d certificates are counted in all months, want 4; error %v", all, err)
		}
	})
}

// TestCountByTwoServers checks the counters after two servers have counted while certificates were uploaded,
// changed and erased.
func TestCountByTwoServers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		v, inst, ids := upgraded(t, d, 24)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for step(t, d) {
				}
			})
		}
		for w := range 3 {
			all.Go(func() {
				for i := range 30 {
					id := ids[(7*i+11*w)%len(ids)]
					if err := d.Tx(ctx, func(tx *db.Tx) error {
						_, err := tx.ExecContext(ctx, `UPDATE certificates SET verified_size = verified_size + $1 WHERE id = $2`, 1+w, id)
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() {
			for i := range 4 {
				v.Exec(`UPDATE certificates SET files_ended_at = 1 WHERE id = $1`, ids[5*i])
				if err := quota.Fold(ctx, d); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() { v.Upload(inst, "Bob", "b.pdf") })
		all.Wait()
		exact(t, v, inst, 25)
	})
}
