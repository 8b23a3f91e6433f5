package approval_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// BenchmarkApprove measures the time in which each of two signatories approves a batch of 5,000
// certificates. The second approval also starts the processing.
func BenchmarkApprove(b *testing.B) {
	run := func(b *testing.B, d *db.DB) {
		const certificates = 5000
		f := newFixture(b, d, false)
		names := make([]string, certificates)
		for i := range names {
			names[i] = fmt.Sprintf("Person %d", i)
		}
		var first, second, used time.Duration
		for b.Loop() {
			b.StopTimer()
			f.Exec(`UPDATE certificates SET title = title || 'x'`)
			batch, _ := f.issue(b, names...)
			b.StartTimer()
			for _, of := range []struct {
				m    *account.Member
				took *time.Duration
			}{{f.dean, &first}, {f.rec, &second}} {
				began, processor := time.Now(), processorTime(b)
				n, err := f.Approvals.Approve(b.Context(), f.inst.ID, of.m.UserID, approval.Choice{BatchID: batch.UUID})
				ok(b, err)
				if n != certificates {
					b.Fatalf("%d approvals, want %d", n, certificates)
				}
				*of.took, used = *of.took+time.Since(began), used+processorTime(b)-processor
			}
		}
		b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "first-ms")
		b.ReportMetric(float64(second.Milliseconds())/float64(b.N), "second-ms")
		b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms")
	}
	b.Run("sqlite", func(b *testing.B) { run(b, dbtest.SQLite(b)) })
	b.Run("postgres", func(b *testing.B) { run(b, dbtest.Open(b, "", dbtest.MigratedURL(b))) })
}

// processorTime returns the processor time of this process. It depends less on other processes than the
// elapsed time does. It does not include the processor time of PostgreSQL.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	ok(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
