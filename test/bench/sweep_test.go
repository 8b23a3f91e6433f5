package bench

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/deletion"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/test/scale"
)

const (
	// sweepCertificates is the number of certificates. Most of them have two files.
	sweepCertificates = 150_000
	// sweepOrphans is the number of further files that no certificate refers to.
	sweepOrphans = 3000
)

// listing is a store that lists files and cannot read or write them.
type listing struct {
	blob.Store

	keys []string
	at   time.Time
}

func (l *listing) Walk(_ context.Context, after string, visit func(blob.Info) error) error {
	i, found := slices.BinarySearch(l.keys, after)
	if found {
		i++
	}
	for _, key := range l.keys[i:] {
		if err := visit(blob.Info{Key: key, Size: 1, Modified: l.at}); err != nil {
			return err
		}
	}
	return nil
}

func (*listing) Clean(context.Context, time.Time) error { return nil }

// BenchmarkSweep measures two daily sweeps of files. The first sweep records the files that no certificate
// refers to. For comparison, the benchmark also measures the walk alone, and a read of the keys of all
// certificates.
func BenchmarkSweep(b *testing.B) {
	for name, open := range map[string]func() *db.DB{
		"sqlite":   func() *db.DB { return dbtest.SQLite(b) },
		"postgres": func() *db.DB { return dbtest.Open(b, "", dbtest.PostgresURL(b)) },
	} {
		b.Run(name, func(b *testing.B) { benchmarkSweep(b, open()) })
	}
}

func benchmarkSweep(b *testing.B, d *db.DB) {
	b.Helper()
	ctx := db.Unlimited(b.Context())
	inst := certtest.Institution(b, d, nil, "NWU", "Northern & Western University")
	if err := (scale.Fill{InstitutionID: inst.ID, Count: sweepCertificates, Seed: 1}).Run(ctx, d); err != nil {
		b.Fatal(err)
	}
	keys := map[string]bool{}
	add := func(key string) error { keys[key] = true; return nil }
	if err := cert.BlobKeys(ctx, d, add); err != nil {
		b.Fatal(err)
	}
	referenced := len(keys)
	for i := range sweepOrphans {
		_ = add(fmt.Sprintf("scale/%dx.original", i*(sweepCertificates/sweepOrphans)))
	}
	store := &listing{keys: slices.Sorted(maps.Keys(keys)), at: time.Now().Add(-24 * time.Hour)}
	now := time.Now()
	files := vault.Deletions(deletion.Config{
		DB: d, Blobs: store, Keep: 14 * 24 * time.Hour, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	rate := func(unit string, n int, f func() error) {
		began := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n)/time.Since(began).Seconds(), unit)
	}
	for b.Loop() {
		rate("walk-alone-files/s", len(store.keys), func() error {
			return store.Walk(ctx, "", func(blob.Info) error { return nil })
		})
		rate("keys-alone-files/s", referenced, func() error { return cert.BlobKeys(ctx, d, func(string) error { return nil }) })
		rate("first-files/s", len(store.keys), func() error { return files.Sweep(ctx) })
		now = now.Add(24 * time.Hour)
		rate("files/s", len(store.keys), func() error { return files.Sweep(ctx) })
		now = now.Add(24 * time.Hour)
	}
	b.ReportMetric(0, "ns/op") // hides the time of both sweeps
	b.ReportMetric(float64(len(store.keys)), "files")
}
