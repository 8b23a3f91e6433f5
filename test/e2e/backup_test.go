//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

const (
	// loadVariable is the environment variable with the duration of the uploads of
	// TestBackupsUnderLoad.
	loadVariable = "CERTVAULT_BACKUP_LOAD"
	// restoresVariable is the environment variable with the number of backups that are restored.
	restoresVariable = "CERTVAULT_BACKUP_RESTORES"
	// backupEvery is the maximum interval of the ticker that starts the backups.
	backupEvery = 5 * time.Second
	// uploadEvery is the time between the starts of two uploads.
	uploadEvery = 200 * time.Millisecond
)

// steadyUploads uploads certificates at a constant rate. It starts an upload even if earlier uploads have
// no response yet, so that slow responses do not reduce the load.
type steadyUploads struct {
	mu    sync.Mutex
	acked []string
	times []time.Duration
}

func (u *steadyUploads) run(ctx context.Context, t *testing.T, f *fixture, prefix string) {
	t.Helper()
	api := f.api(t)
	ticker := time.NewTicker(uploadEvery)
	defer ticker.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		wg.Go(func() {
			began := time.Now()
			made, err := api.Upload(t.Context(), certificate(t, form(fmt.Sprintf("%s %d", prefix, n))))
			if err != nil {
				t.Errorf("upload %d: %v", n, err)
				return
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			u.acked = append(u.acked, made.UUID)
			u.times = append(u.times, time.Since(began))
		})
	}
}

// acknowledged returns the UUIDs of the acknowledged certificates.
func (u *steadyUploads) acknowledged() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.acked)
}

// percentile returns the time within which the given share of the uploads was acknowledged, for example
// 0.99.
func (u *steadyUploads) percentile(share float64) time.Duration {
	times := slices.Sorted(slices.Values(u.times))
	return times[min(len(times)-1, int(share*float64(len(times))))]
}

// fromEnvironment returns the parsed value of an environment variable. If the variable is empty or not
// set, it returns the default value.
func fromEnvironment[T any](t *testing.T, name string, otherwise T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// TestBackupsUnderLoad makes backups during uploads and restores some of them. A restored vault must
// have each certificate that was acknowledged before the backup began. Each certificate must be
// approved, and certvault verify must accept its file. The test only logs the times of the uploads,
// because they depend on the machine.
func TestBackupsUnderLoad(t *testing.T) {
	t.Parallel()
	load := fromEnvironment(t, loadVariable, 6*time.Second, time.ParseDuration)
	restores := fromEnvironment(t, restoresVariable, 2, strconv.Atoi)
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		root := writeTemp(t, "root.pem", get(t, f.as(t, ""), "/.well-known/certvault/root.pem", 200).Body)
		alone := &steadyUploads{}
		ctx, cancel := context.WithTimeout(t.Context(), load/2)
		alone.run(ctx, t, f, "Alone")
		cancel()

		loaded := &steadyUploads{}
		ctx, cancel = context.WithTimeout(t.Context(), load)
		defer cancel()
		var uploads sync.WaitGroup
		uploads.Go(func() { loaded.run(ctx, t, f, "Loaded") })
		var backups []string
		expected := map[string][]string{} // the UUIDs of the certificates that each backup must have
		folder := t.TempDir()
		ticker := time.NewTicker(min(backupEvery, load/3))
		defer ticker.Stop()
		for ctx.Err() == nil {
			dir := filepath.Join(folder, fmt.Sprintf("%04d", len(backups)))
			args := []string{"backup", dir}
			if n := len(backups); n > 0 {
				args = append(args, "--since", backups[n-1])
			}
			expected[dir] = append(alone.acknowledged(), loaded.acknowledged()...)
			command(t, f.Options, 0, args...)
			backups = append(backups, dir)
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
		uploads.Wait()
		t.Logf("%d backups; uploads without backups: median %v, p99 %v; with backups: median %v, p99 %v", len(backups),
			alone.percentile(.5), alone.percentile(.99), loaded.percentile(.5), loaded.percentile(.99))

		v := &verifier{root: root, valid: map[[sha256.Size]byte]bool{}}
		for i := range restores {
			dir := backups[(i+1)*(len(backups)-1)/restores]
			f.checkRestored(t, dir, expected[dir], v)
		}
		t.Logf("%d restores; %d files are valid", restores, len(v.valid))
	})
}

// verifier runs certvault verify. It skips files that have already been verified.
type verifier struct {
	root  string
	valid map[[sha256.Size]byte]bool
}

func (v *verifier) check(t *testing.T, uuid string, file []byte) {
	t.Helper()
	sum := sha256.Sum256(file)
	if v.valid[sum] {
		return
	}
	if code, out := runOffline(t, "verify", writeTemp(t, uuid+".pdf", file), "--root", v.root); code != 0 {
		t.Errorf("verify of %s = %d, want 0: %s", uuid, code, out)
		return
	}
	v.valid[sum] = true
}

// checkRestored restores a backup, starts the vault and checks the certificates. The vault may first
// have to process some of the certificates.
func (f *fixture) checkRestored(t *testing.T, dir string, uuids []string, v *verifier) {
	t.Helper()
	o := f.another(t)
	command(t, o, 0, "restore", dir)
	o.Args = unlimited(nil)
	server, err := vault.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("starting the vault restored from %s: %v", dir, err)
	}
	n := &fixture{Vault: server, institution: f.institution}
	n.client = n.as(t, f.client.Token)
	for _, uuid := range uuids {
		n.await(t, uuid, "approved")
		v.check(t, uuid, n.verified(t, uuid))
	}
	if code, err := server.Stop(); err != nil || code != 0 {
		t.Errorf("exit code of the restored vault = %d, %v; want 0", code, err)
	}
	if err := server.Forget(); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(o.Data); err != nil {
		t.Error(err)
	}
}
