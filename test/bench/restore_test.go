package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/test/scale"
)

const (
	// filesPerCertificate is the number of stored files of a certificate: the original, the tail and
	// the picture.
	filesPerCertificate = 3
	// storedSize is the size of each file.
	storedSize = 4 << 10
)

// BenchmarkRestore measures the restore of a backup with CERTVAULT_BENCH_RECORDS records, by default
// fewRecords. For comparison, it copies the same files with cp and with tar.
func BenchmarkRestore(b *testing.B) {
	records := fewRecords
	if text := os.Getenv(recordsVariable); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatalf("%s is not a number: %v", recordsVariable, err)
		}
	}
	b.Run("sqlite", func(b *testing.B) { benchmarkRestore(b, records, "") })
	b.Run("postgres", func(b *testing.B) { benchmarkRestore(b, records, dbtest.PostgresURL(b)) })
}

func benchmarkRestore(b *testing.B, records int, database string) {
	b.Helper()
	copied := largeBackup(b, records, database)
	measure := func(name string, run func(to string) error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				to := filepath.Join(b.TempDir(), "to")
				unix.Sync()
				began := time.Now()
				if err := run(to); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s")
				if err := os.RemoveAll(to); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	measure("restore", func(to string) error {
		s := config.Storage{Data: to}
		if database != "" {
			s.Database = dbtest.PostgresURL(b)
		}
		_, err := backup.Restore(b.Context(), backup.RestoreOptions{Dir: copied, Target: s, Now: time.Now})
		return err
	})
	for name, script := range map[string]string{
		"cp":  `cp -r "$0" "$1" && sync -f "$1"`,
		"tar": `mkdir "$1" && tar -C "$0" -cf - . | tar -C "$1" -xf - && sync -f "$1"`,
	} {
		measure(name, func(to string) error {
			return exec.CommandContext(b.Context(), "sh", "-c", script, copied, to).Run()
		})
	}
}

// largeBackup returns a backup of a vault with many certificates.
func largeBackup(b *testing.B, records int, database string) string {
	b.Helper()
	data := b.TempDir()
	ok := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	ring, err := keyring.Open(filepath.Join(data, "keys"))
	ok(err)
	ok(os.WriteFile(filepath.Join(data, "keys", "identity.txt"), []byte("AGE-SECRET-KEY-TEST\n"), 0o600))
	ok(scale.Fill{Count: records, Seed: 1}.Into(b.Context(), data, database, slug))
	d, err := db.Open(b.Context(), data, database)
	ok(err)
	defer func() { ok(d.Close()) }()
	ok(writeBlobs(filepath.Join(data, "files", "blobs"), records*filesPerCertificate))
	store, err := blob.NewFolder(filepath.Join(data, "files"))
	ok(err)
	dir := filepath.Join(b.TempDir(), "backup")
	_, err = backup.Create(b.Context(), backup.Config{
		DB: d, Keyring: ring, Data: data, Files: store, Version: "test",
		Keys: []backup.Keys{func(ctx context.Context, _ db.Queryer, visit func(string) error) error {
			return store.Walk(ctx, "", func(i blob.Info) error { return visit(i.Key) })
		}},
	}, backup.Options{Dir: dir})
	ok(err)
	return dir
}

// writeBlobs writes n files with random contents, in folders like those of the file store.
func writeBlobs(dir string, n int) error {
	institution := uuid.NewString()
	var made sync.Map
	random := rand.NewChaCha8([32]byte{})
	content := make([]byte, storedSize)
	for i := range n {
		id := uuid.NewString()
		folder := filepath.Join(dir, institution, id[len(id)-2:])
		if _, ok := made.LoadOrStore(folder, true); !ok {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				return err
			}
		}
		_, _ = random.Read(content)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%d", id, i)), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
