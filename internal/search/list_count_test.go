package search

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/listing"
)

func (v *vault) miscounted() int {
	v.tb.Helper()
	n, err := CountError(v.tb.Context(), v.d)
	if err != nil {
		v.tb.Fatal(err)
	}
	return n
}

// countRows returns the number of rows in the table of counts.
func (v *vault) countRows() (n int) {
	v.tb.Helper()
	if err := v.d.QueryRowContext(v.tb.Context(), `SELECT count(*) FROM certificate_counts`).Scan(&n); err != nil {
		v.tb.Fatal(err)
	}
	return n
}

// The counts are exact at any time, even while several writers add and change certificates and sweeps
// run. A transaction that is rolled back does not change the counts.
func TestCountsAreAlwaysExact(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		const writers, each = 4, 12
		file := v.input().File
		rollback := errors.New("rollback")
		move := func(tx *db.Tx, c *cert.Certificate, to cert.Status) error {
			_, err := tx.ExecContext(ctx, `UPDATE certificates SET status = $1 WHERE id = $2`, string(to), c.ID)
			return err
		}
		var writing sync.WaitGroup
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					u := cert.Upload{
						Institution: v.inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload,
						Title: fmt.Sprintf("%d %d", w, i), FullName: "Ada Obi", Email: "ada@example.org", File: file,
					}
					c, err := v.certs.Upload(ctx, u)
					if err != nil {
						t.Error(err)
						return
					}
					if err := v.d.Tx(ctx, func(tx *db.Tx) error { return errors.Join(move(tx, c, cert.Approved), rollback) }); !errors.Is(err, rollback) {
						t.Errorf("transaction to roll back: err = %v, want %v", err, rollback)
					}
					for _, status := range []cert.Status{cert.Failed, cert.Processing, cert.Approved, cert.Revoked}[:1+i%4] {
						if err := v.d.Tx(ctx, func(tx *db.Tx) error { return move(tx, c, status) }); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		var done atomic.Bool
		var checking sync.WaitGroup
		for range 2 {
			checking.Go(func() {
				for !done.Load() {
					if err := v.SweepCounts(ctx); err != nil {
						t.Error(err)
					}
					if n, err := CountError(ctx, v.d); err != nil || n != 0 {
						t.Errorf("CountError = %d, err = %v, want 0", n, err)
					}
				}
			})
		}
		writing.Wait()
		done.Store(true)
		checking.Wait()
		for status, want := range map[cert.Status]int{cert.Failed: writers * each / 4, cert.Processing: writers * each / 4, cert.Approved: writers * each / 4, cert.Revoked: writers * each / 4} {
			if l := v.list(Filter{Statuses: []cert.Status{status}}); l.Total == nil || *l.Total != want || len(l.Items) != want {
				t.Errorf("%s: %d records, want %d and this total", status, len(l.Items), want)
			}
		}
		if err := v.SweepCounts(ctx); err != nil {
			t.Fatal(err)
		}
		if n := v.countRows(); n != len(cert.VaultStatuses) {
			t.Errorf("after SweepCounts: %d rows of counts, want %d, one for each status", n, len(cert.VaultStatuses))
		}
	})
}

func TestFoldInSeveralTransactions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.insert(sampleRecords(3, v.inst.ID))
		// The sum of these 12,000 changes is 0. Folding them takes more than one transaction.
		v.exec(`INSERT INTO certificate_counts (institution_id, source, status, n)
			WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 12000) SELECT $1, 'vault', 'approved', CASE i % 2 WHEN 0 THEN 1 ELSE -1 END FROM n WHERE i > 0`, v.inst.ID)
		if n := v.miscounted(); n != 0 {
			t.Fatalf("before SweepCounts: CountError = %d, want 0", n)
		}
		if err := v.SweepCounts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := v.miscounted(); n != 0 || v.countRows() > 3 {
			t.Errorf("after SweepCounts: CountError = %d with %d rows, want 0 with at most 3", n, v.countRows())
		}
		v.exec(`UPDATE certificate_counts SET n = n + 5 WHERE id = (SELECT min(id) FROM certificate_counts)`)
		if n := v.miscounted(); n != 5 {
			t.Errorf("a count that is too high by 5: CountError = %d, want 5", n)
		}
	})
}

// Deleting or changing a certificate updates the counts and the search index.
func TestCountsAfterChanges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.insert(sampleRecords(10, v.inst.ID))
		v.exec(`DELETE FROM certificates WHERE title IN ('Diploma 2', 'Diploma 7')`)
		v.exec(`UPDATE certificates SET status = 'revoked' WHERE title = 'Diploma 3'`)
		if n := v.miscounted(); n != 0 {
			t.Errorf("after deleting and changing rows: CountError = %d, want 0", n)
		}
		v.bounds = bounds{}
		if got := titles(v.list(Filter{Search: "diploma 7"})); len(got) != 0 {
			t.Errorf("a search for the deleted certificate finds %q, want none", got)
		}
		v.exec(`UPDATE certificates SET search_text = $1 WHERE title = 'Diploma 3'`, " another name\n diploma 3\n")
		if got := titles(v.list(Filter{Search: "another name"})); len(got) != 1 {
			t.Errorf("a search for the new text finds %q, want one certificate", got)
		}
		if got := titles(v.list(Filter{Search: "person"})); len(got) != 7 {
			t.Errorf("a search for %q finds %q, want the 7 unchanged certificates", "person", got)
		}
	})
}

// The count of a search with many matches is exact up to bounds.count.
func TestCommonSearchIsCounted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		all := sampleRecords(120, v.inst.ID)
		v.insert(all)
		f := Filter{Search: "ada o", Range: listing.Range{Page: 1, PerPage: 5}}
		n := len(model(all, v.inst.ID, &f))
		if n < 15 || n > 60 {
			t.Fatalf("%d of 120 records match, want 15 to 60 for this test", n)
		}
		for count, exact := range map[int]bool{n + 1: true, n: true, n - 1: false} {
			v.bounds = bounds{count: count, scan: 50}
			l := v.list(f)
			counts, ok, err := v.CountByStatus(t.Context(), v.inst.ID, f)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0
			for _, count := range counts {
				sum += count
			}
			if exact && (l.Total == nil || *l.Total != n || !ok || sum != n) || !exact && (l.Total != nil || l.AtLeast != count || ok) {
				t.Errorf("bounds.count = %d: exact %t, AtLeast = %d; counts by status = %v, exact %t; want %d records, exact %t",
					count, l.Total != nil, l.AtLeast, counts, ok, n, exact)
			}
		}
	})
}
