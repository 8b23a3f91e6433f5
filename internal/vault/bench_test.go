package vault_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// issued is the number of certificates of one batch of BenchmarkIssue.
const issued = 500

// BenchmarkIssue measures how long it takes to issue certificates from a built-in design, from the check
// of a list to the last approval. It draws, seals and signs with as many workers for each CPU as a server
// with two to four CPUs.
func BenchmarkIssue(b *testing.B) {
	run := func(b *testing.B, d *db.DB) {
		cache, err := os.UserCacheDir()
		if err != nil {
			b.Fatal(err)
		}
		renderer, err := pdfium.New(b.Context(), pdfium.Options{CacheDir: filepath.Join(cache, "certvault-test", "pdfium")})
		if err != nil {
			b.Skip(err)
		}
		fonts, err := typeset.New()
		if err != nil {
			b.Skip(err)
		}
		v := vaulttest.New(b, d, vaulttest.DrawTemplates, func(deps *vault.Deps) {
			workers := job.DefaultWorkers()
			deps.Sealer, deps.Verify, deps.Now = seal.New(renderer, fonts), pades.Verify, time.Now
			deps.SealWorkers, deps.BulkWorkers, deps.Processors = 3*workers, 4*workers, workers
		})
		inst := v.Institution("NWU", "Northern & Western University")
		go heartbeats(b, v)
		go func() {
			for {
				select {
				case <-v.Mails:
				case <-b.Context().Done():
					return
				}
			}
		}()
		finish := func(n int) {
			v.Until("the certificates are approved", func() bool {
				time.Sleep(20 * time.Millisecond) // the query below uses processor time, which is measured too
				var approved int
				err := d.QueryRowContext(b.Context(), `SELECT count(*) FROM certificates WHERE status = 'approved'`).Scan(&approved)
				return err == nil && approved >= n
			})
		}
		meridian := v.Template(inst, "Diploma", "meridian")
		total := 0
		issue := func(n int) {
			entries := make([]template.Entry, n)
			for i := range entries {
				total++
				entries[i] = template.Entry{FullName: fmt.Sprintf("Person %d", total), Email: fmt.Sprintf("person.%d@example.org", total)}
			}
			if _, err := v.Templates.Issue(b.Context(), meridian.UUID, template.Issue{Institution: inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Entries: entries}); err != nil {
				b.Fatal(err)
			}
			finish(total)
		}
		issue(20)
		warm := total
		var wall, processor time.Duration
		for b.Loop() {
			began, used := time.Now(), processorTime(b)
			issue(issued)
			wall, processor = wall+time.Since(began), processor+processorTime(b)-used
		}
		n := float64(total - warm)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(math.Round(n/wall.Seconds()), "certs/s")
		b.ReportMetric(processor.Seconds()*1000/n, "cpu-ms/cert")
	}
	b.Run("sqlite", func(b *testing.B) { run(b, dbtest.SQLite(b)) })
	b.Run("postgres", func(b *testing.B) { run(b, dbtest.Open(b, "", dbtest.MigratedURL(b))) })
}

// heartbeats sends the heartbeats of a vault until the benchmark ends. Without them, the vault would assume
// that other nodes may have considered this node dead. With PostgreSQL, it would then execute an additional
// statement for each certificate; see job.Queue.Interrupted.
func heartbeats(b *testing.B, v *vaulttest.Vault) {
	beat := time.NewTicker(job.HeartbeatInterval)
	defer beat.Stop()
	for {
		if err := v.Queue.Heartbeat(b.Context(), time.Now()); err != nil && b.Context().Err() == nil {
			b.Error(err)
		}
		select {
		case <-b.Context().Done():
			return
		case <-beat.C:
		}
	}
}

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
