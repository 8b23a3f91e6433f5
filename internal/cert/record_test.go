package cert

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// The audit log has no entries for automatic changes, or for operations that changed nothing.
func TestOperationsAreRecorded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(nil)
		if _, err := v.Upload(t.Context(), v.input(v.inst)); err == nil {
			t.Fatal("the upload of a duplicate returned no error")
		}
		v.force(c, Failed)
		if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
			t.Fatal(err)
		}
		v.approved(c)
		if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err == nil {
			t.Fatal("the retry of an approved certificate returned no error")
		}
		for range 2 {
			if _, err := v.Revoke(t.Context(), v.inst.ID, c.UUID, Revocation{Reason: "typo", Note: "a private note"}); err != nil {
				t.Fatal(err)
			}
		}
		list, _, err := audit.New(d).List(t.Context(), v.inst.ID, audit.Filter{Subject: c.UUID}, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range slices.Backward(list) {
			got = append(got, fmt.Sprint(e.Action, " ", e.Subject.Name == c.ReferenceID, " ", e.Detail))
		}
		if want := []string{"certificate.uploaded true map[]", "certificate.retried true map[]", "certificate.revoked true map[reason:typo]"}; !slices.Equal(got, want) {
			t.Errorf("entries of the audit log = %q, want %q", got, want)
		}
		p, err := ReadPolicy(t.Context(), d, v.inst.ID)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p.RefuseActive = true
			if err := SetPolicy(t.Context(), d, v.inst.ID, p); err != nil {
				t.Fatal(err)
			}
		}
		list, _, err = audit.New(d).List(t.Context(), v.inst.ID, audit.Filter{Action: "institution"}, "", 10)
		if err != nil || len(list) != 1 || fmt.Sprint(list[0].Detail) != "map[refuse_active:map[from:false to:true]]" {
			t.Errorf("entries of the audit log for the policy = %+v, err = %v, want one change of refuse_active", list, err)
		}
	})
}

// BenchmarkRecord measures the cost of an entry in the audit log for the creation of a certificate. It
// reports the median times of transactions with and without an entry, and their ratio.
func BenchmarkRecord(b *testing.B) {
	each := map[string]func(b *testing.B) *db.DB{
		"sqlite":   func(b *testing.B) *db.DB { return dbtest.Open(b, b.TempDir(), "") },
		"postgres": func(b *testing.B) *db.DB { return dbtest.Open(b, "", dbtest.PostgresURL(b)) },
	}
	for name, open := range each {
		b.Run(name, func(b *testing.B) {
			v := newVault(b, open(b))
			u := v.input(v.inst)
			took := map[bool][]time.Duration{}
			n := 0
			for b.Loop() {
				for _, recorded := range []bool{n%2 == 0, n%2 != 0} {
					n++
					u.Title = fmt.Sprint("Certificate ", n)
					c, email, err := v.validate(&u)
					if err != nil {
						b.Fatal(err)
					}
					began := time.Now()
					if err := v.d.Tx(b.Context(), func(tx *db.Tx) error {
						if err := v.insertTx(b.Context(), tx, c, email, triggerUpload); err != nil || !recorded {
							return err
						}
						return recordTx(b.Context(), tx, audit.CertificateUploaded, c, nil)
					}); err != nil {
						b.Fatal(err)
					}
					took[recorded] = append(took[recorded], time.Since(began))
				}
				n++
			}
			median := func(recorded bool) float64 {
				slices.Sort(took[recorded])
				return float64(took[recorded][len(took[recorded])/2]) / float64(time.Microsecond)
			}
			b.ReportMetric(median(false), "µs-without")
			b.ReportMetric(median(true), "µs-with")
			b.ReportMetric(median(true)/median(false), "with/without")
		})
	}
}
