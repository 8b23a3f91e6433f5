package quota_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/vaulttest"
)

func usage(t *testing.T, v *vaulttest.Vault, inst *account.Institution) quota.Usage {
	t.Helper()
	all, err := quota.Of(t.Context(), v.DB, v.Now(), inst.ID)
	if err != nil {
		t.Fatal(err)
	}
	return all[inst.ID]
}

// stored returns the size in bytes of the files of an institution according to its certificates' records.
func stored(t *testing.T, v *vaulttest.Vault, inst *account.Institution) (n int64) {
	t.Helper()
	if err := v.DB.QueryRowContext(t.Context(), `
		SELECT coalesce(sum(CASE WHEN files_ended_at IS NOT NULL THEN 0 ELSE coalesce(verified_size, size) + CASE WHEN whole THEN size ELSE 0 END END), 0)
		FROM certificates WHERE institution_id = $1`, inst.ID).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUsageFollowsCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		v := vaulttest.New(t, d)
		inst, other := v.Institution("NWU", "Northern"), v.Institution("SEC", "South")
		v.Upload(inst, "Ada", "a.pdf")
		v.Upload(inst, "Bob", "b.pdf")
		before := usage(t, v, inst)
		if before.Certificates != 2 || before.Storage != stored(t, v, inst) || before.Storage == 0 || before.ChangedAt == nil {
			t.Fatalf("usage = %+v, want 2 certificates and %d bytes", before, stored(t, v, inst))
		}
		v.Settle()
		after := usage(t, v, inst)
		if after.Certificates != 2 || after.Storage != stored(t, v, inst) || after.Storage <= before.Storage {
			t.Fatalf("usage after sealing = %+v, want %d bytes", after, stored(t, v, inst))
		}
		if err := quota.Fold(ctx, d); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := d.QueryRowContext(ctx, `SELECT count(*) FROM institution_usage WHERE institution_id = $1`, inst.ID).Scan(&rows); err != nil || rows != 1 {
			t.Fatalf("%d rows after Fold, error %v; want 1", rows, err)
		}
		if got := usage(t, v, inst); got.Storage != after.Storage || got.Certificates != 2 || !got.ChangedAt.Equal(*after.ChangedAt) {
			t.Fatalf("usage after Fold = %+v, want %+v", got, after)
		}
		if got := usage(t, v, other); got.Storage != 0 || got.Certificates != 0 {
			t.Fatalf("usage of another institution = %+v, want nothing", got)
		}
		// In the next month no certificate is counted yet, and the bytes are the same.
		next, err := quota.Of(ctx, d, v.Now().AddDate(0, 1, 1), inst.ID)
		if err != nil || next[inst.ID].Certificates != 0 || next[inst.ID].Storage != after.Storage {
			t.Fatalf("usage in the next month = %+v, error %v; want 0 certificates and the same bytes", next[inst.ID], err)
		}
	})
}

func TestUsageOfBatches(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := vaulttest.New(t, d)
		inst := v.Institution("NWU", "Northern")
		first := v.Issue(inst, "Ada", "Bob")
		if got := usage(t, v, inst).Certificates; got != 2 {
			t.Fatalf("%d certificates are counted before the batch is expanded, want 2", got)
		}
		v.Finish(inst, first)
		v.Finish(inst, v.Issue(inst, "Ada", "Cyd")) // Ada has the certificate already
		if got := usage(t, v, inst); got.Certificates != 3 || got.Storage != stored(t, v, inst) {
			t.Fatalf("usage = %+v, want 3 certificates and %d bytes", got, stored(t, v, inst))
		}
		inst.Limits.Certificates = 4
		for n, want := range map[int]bool{1: true, 2: false} {
			err := d.Tx(t.Context(), func(tx *db.Tx) error { return quota.CheckTx(t.Context(), tx, inst, v.Now(), n, 0) })
			if (err == nil) != want {
				t.Errorf("CheckTx for %d more certificates returned %v, want success: %t", n, err, want)
			}
		}
	})
}

func TestStorageLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		v := vaulttest.New(t, d)
		inst := v.Institution("NWU", "Northern")
		file := v.Upload(inst, "First", "a.pdf").File
		for _, tc := range []struct {
			limit int64
			want  bool
		}{{2*file.Size - 1, false}, {2 * file.Size, true}} {
			inst.Limits = account.Limits{Storage: tc.limit}
			err := d.Tx(ctx, func(tx *db.Tx) error { return quota.CheckTx(ctx, tx, inst, time.Now(), 0, file.Size) })
			if (err == nil) != tc.want || err != nil && !fault.Is(err, fault.Forbidden) {
				t.Errorf("CheckTx with a limit of %d bytes returned %v, want success: %t", tc.limit, err, tc.want)
			}
			staged := file
			staged.Key = fmt.Sprint("key-", tc.limit)
			_, err = v.Batches.Stage(ctx, inst, &staged, nil)
			if (err == nil) != tc.want || err != nil && !fault.Is(err, fault.Forbidden) {
				t.Errorf("Stage with a limit of %d bytes returned %v, want success: %t", tc.limit, err, tc.want)
			}
		}
		if got := usage(t, v, inst).Storage; got != 2*file.Size {
			t.Errorf("storage = %d, want the certificate and the staged file, %d", got, 2*file.Size)
		}
	})
}
