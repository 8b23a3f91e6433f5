package vault_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// issueVariable is the name of the environment variable with the input of TestIssuingProcess. It has three
// lines: the folder of the vault, the URL of its database or "" for SQLite, and the step at which the
// process kills itself or "".
const issueVariable = "CERTVAULT_TEST_ISSUE"

// steps are the steps of an attempt at which a process kills itself.
var steps = []string{"draw", "seal", "put", "stored", "reread", "verify"}

// deadly kills this process when at is called with step for the n-th time. n is the initial value of left.
type deadly struct {
	step string
	left atomic.Int64
}

func (k *deadly) at(step string) {
	if k.step != step || k.left.Add(-1) != 0 {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

// These types call deadly.at in Draw, Seal, Open and PutReserved.
type (
	deadlyDrawer struct {
		vaulttest.Drawer
		*deadly
	}
	deadlySealer struct {
		*vaulttest.Sealer
		*deadly
	}
	deadlyStore struct {
		blob.Store
		*deadly
	}
)

func (k deadlyDrawer) Draw(ctx context.Context, c *cert.Certificate) (*cert.Drawn, error) {
	k.at("draw")
	return k.Drawer.Draw(ctx, c)
}

func (k deadlySealer) Seal(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
	k.at("seal")
	return k.Sealer.Seal(ctx, o, stamp)
}

func (k deadlyStore) PutReserved(ctx context.Context, key string, r io.Reader) (int64, error) {
	k.at("put")
	n, err := k.Store.PutReserved(ctx, key, r)
	k.at("stored")
	return n, err
}

func (k deadlyStore) Open(ctx context.Context, key string) (blob.Object, error) {
	k.at("reread")
	return k.Store.Open(ctx, key)
}

// vaultIn opens the vault in a folder, with its database in the folder or at a URL.
func vaultIn(t *testing.T, folder, url string, change func(*vault.Deps)) *vaulttest.Vault {
	t.Helper()
	data := filepath.Join(folder, "data")
	ok(t, os.MkdirAll(data, 0o700))
	d := dbtest.Open(t, data, url)
	blobs, err := blob.NewFolder(folder)
	ok(t, err)
	ring, err := keyring.Open(folder)
	ok(t, err)
	keys := certtest.KeysIn(t, d, time.Now, folder)
	v := vaulttest.New(t, d, func(deps *vault.Deps) {
		deps.Blobs, deps.Keyring, deps.Keys = blobs, ring, keys
		change(deps)
	})
	v.Blobs, v.Keyring, v.Keys = blobs, ring, keys
	return v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestIssuingProcess runs in the processes that TestKilledWhileIssuing starts. It runs the queue until no
// entry is queued and no certificate is in processing.
func TestIssuingProcess(t *testing.T) {
	config := strings.Split(os.Getenv(issueVariable), "\n")
	if len(config) != 3 {
		t.Skip("this is not the process of a test")
	}
	k := &deadly{step: config[2]}
	k.left.Store(1 + rand.Int64N(8))
	v := vaultIn(t, config[0], config[1], func(d *vault.Deps) {
		d.NodeID = fmt.Sprint("node ", os.Getpid())
		d.Drawer, d.Sealer, d.Blobs = deadlyDrawer{deadly: k}, deadlySealer{&vaulttest.Sealer{}, k}, deadlyStore{d.Blobs, k}
		d.Verify = func(io.ReaderAt, int64, pades.Options) (*pades.Report, error) {
			k.at("verify")
			return &pades.Report{Verdict: pades.Valid}, nil
		}
	})
	// A server also calls Rescue when it starts. Without a row in nodes, a process counts as dead.
	v.Exec(`DELETE FROM nodes`)
	ok(t, v.Queue.Rescue(t.Context(), time.Now(), v.Certs.Rescued))
	ok(t, v.Batches.Sweep(t.Context()))
	ok(t, v.Certs.SweepJobs(t.Context()))
	v.Until("the batch is finished", func() bool { return finished(t, v.DB) })
}

// finished reports whether no entry is queued and no certificate is in processing.
func finished(t *testing.T, d *db.DB) bool {
	t.Helper()
	var waiting int
	ok(t, d.QueryRowContext(t.Context(), `
		SELECT (SELECT count(*) FROM batch_entries WHERE status = 'queued') + (SELECT count(*) FROM certificates WHERE status = 'processing')`).Scan(&waiting))
	return waiting == 0
}

// work runs TestIssuingProcess in a new process and waits until the process ends. If step is not "", the
// process kills itself at that step. If after is positive, work kills the process after that time. work
// reports whether the process was killed.
func work(t *testing.T, folder, url, step string, after time.Duration) (killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestIssuingProcess$")
	c.Env = append(os.Environ(), issueVariable+"="+strings.Join([]string{folder, url, step}, "\n"), "TMPDIR="+t.TempDir())
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	ok(t, c.Start())
	if after > 0 {
		timer := time.AfterFunc(after, func() { _ = c.Process.Kill() }) // the process may have ended
		defer timer.Stop()
	}
	err := c.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == -1 && ctx.Err() == nil {
		return true
	}
	if err != nil {
		t.Fatalf("the process failed: %v\n%s", err, out.String())
	}
	return false
}

// Processes that issue a batch from a template are killed at each step of an attempt and at random times.
// Each entry that is not a duplicate still becomes exactly one certificate, with the name of the entry and
// with one file in addition to the base.
func TestKilledWhileIssuing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short skips this test, which starts many processes; make test/long runs it")
	}
	check := func(t *testing.T, url string) {
		t.Helper()
		folder := t.TempDir()
		v := vaultIn(t, folder, url, func(*vault.Deps) {})
		inst := v.Institution("NWU", "Northern & Western University")
		const people, twins = 240, 20
		names := make([]string, 0, people+twins)
		for i := range people {
			names = append(names, fmt.Sprintf("Person %d", i))
		}
		names = append(names, names[:twins]...) // duplicates
		b := v.Issue(inst, names...)
		work(t, folder, url, "", time.Duration(50+rand.IntN(150))*time.Millisecond)
		for _, step := range steps {
			if !work(t, folder, url, step, 0) {
				t.Errorf("the process was not killed at the step %s", step)
			}
		}
		for range 2 {
			work(t, folder, url, "", time.Duration(100+rand.IntN(200))*time.Millisecond)
		}
		work(t, folder, url, "", 0)
		// After two crashes, a certificate is sealed alone. If the process crashes again, the certificate
		// fails.
		crashed, err := db.Column[string](v.DB.QueryContext(t.Context(), `SELECT uuid FROM certificates WHERE failure_code = 'crashed'`))
		ok(t, err)
		for _, uuid := range crashed {
			_, err := v.Certs.Retry(t.Context(), inst.ID, uuid, nil)
			ok(t, err)
		}
		if len(crashed) > 0 {
			work(t, folder, url, "", 0)
		}
		got, err := v.Batches.ByUUID(t.Context(), inst.ID, b.UUID, "")
		ok(t, err)
		if got.Approved != people || got.Rejected != twins || got.Processing+got.Failed != 0 {
			t.Errorf("batch = %+v, want %d approved and %d rejected", got, people, twins)
		}
		entries, err := v.Batches.AllEntries(t.Context(), b)
		ok(t, err)
		seen := map[string]bool{}
		for i, e := range entries[:people] {
			c, err := v.Certs.ByUUID(t.Context(), inst.ID, e.UUID)
			ok(t, err)
			if c.FullName != names[i] || seen[e.UUID] {
				t.Errorf("entry %d is the certificate of %q (seen before: %v), want %q", i, c.FullName, seen[e.UUID], names[i])
			}
			seen[e.UUID] = true
			checkDrawn(t, v, c)
		}
		for name, want := range map[string]int{
			`SELECT count(*) FROM certificates`:                                people,
			`SELECT count(*) FROM webhook_events WHERE name LIKE '%.created'`:  people,
			`SELECT count(*) FROM webhook_events WHERE name LIKE '%.approved'`: people,
			`SELECT count(DISTINCT tail_key) FROM certificates`:                people,
		} {
			var n int
			ok(t, v.DB.QueryRowContext(t.Context(), name).Scan(&n))
			if n != want {
				t.Errorf("%s = %d, want %d", name, n, want)
			}
		}
		before := files(t, v)
		v.Advance(3 * time.Hour)
		v.SweepFiles()
		v.Advance(vaulttest.Keep + time.Hour)
		v.SweepFiles()
		if n := files(t, v); n != people+1 {
			t.Errorf("%d files before and %d after the sweeps, want %d: the base and the tail of each certificate", before, n, people+1)
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		check(t, "")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		check(t, dbtest.MigratedURL(t))
	})
}

// checkDrawn checks that the original of a certificate is the base followed by the certificate's fields tail,
// that the verified PDF begins with the original, and that both have the digests of the record.
func checkDrawn(t *testing.T, v *vaulttest.Vault, c *cert.Certificate) {
	t.Helper()
	want, err := vaulttest.Drawer{}.Draw(t.Context(), c)
	ok(t, err)
	original := slices.Concat(vaulttest.Base, want.Fields)
	for name, open := range map[string]func(context.Context, *cert.Certificate) (*cert.Content, error){"original": v.Certs.OpenOriginal, "verified PDF": v.Certs.OpenVerified} {
		content, err := open(t.Context(), c)
		ok(t, err)
		data, err := io.ReadAll(content)
		ok(t, errors.Join(err, content.Close()))
		if name == "original" && (!bytes.Equal(data, original) || sha256.Sum256(data) != c.File.SHA256) ||
			name != "original" && (!bytes.HasPrefix(data, original) || sha256.Sum256(data) != c.Verified.SHA256) {
			t.Errorf("the %s of %s has %d bytes, want the base and the fields tail at its beginning, and the digest of the record", name, c.FullName, len(data))
		}
	}
}
