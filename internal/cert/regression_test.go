package cert

import (
	"context"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/seal"
)

// In an earlier version, a worker that did not receive the response to the commit deleted the verified
// PDF, although the commit had succeeded and the certificate was approved.
func TestRegressionLostCommitResponseLosesNoFile(t *testing.T) {
	t.Parallel()
	proxy, proxied := dbtest.NewProxy(t, dbtest.MigratedURL(t))
	v := newVault(t, dbtest.Open(t, "", proxied))
	c := v.upload(nil)
	v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
		proxy.LoseResponse("")
		return sealed(o, []byte(tailText), false)
	}
	if err := v.work(t.Context(), c, 1); err == nil {
		t.Error("the attempt whose response to the commit was lost returned no error")
	}
	got := v.get(c.UUID)
	if got.Status != Approved {
		t.Fatalf("status = %s, want approved", got.Status)
	}
	content, err := v.OpenVerified(t.Context(), got)
	if err != nil {
		t.Fatal(err)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}
	// The next attempt changes nothing, because the certificate is already approved.
	if err := v.work(t.Context(), c, 2); err != nil || len(v.keys()) != 2 {
		t.Errorf("second attempt: err = %v, files = %v, want no error and 2 files", err, v.keys())
	}
}

// The sweep deletes the file of a failed attempt.
func TestSweepDeletesFileOfFailedAttempt(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	v := newVault(t, d)
	c := v.upload(nil)
	v.exec(`CREATE TRIGGER broken BEFORE UPDATE ON certificates WHEN new.status = 'approved' BEGIN SELECT raise(ABORT, 'broken'); END`)
	if err := v.work(t.Context(), c, 1); err == nil || v.get(c.UUID).Status != Processing {
		t.Fatalf("attempt that cannot approve: err = %v, status = %s, want an error and processing", err, v.get(c.UUID).Status)
	}
	v.exec(`DROP TRIGGER broken`)
	v.clock.Advance(3 * time.Hour)
	v.sweepFiles()
	if keys := v.keys(); len(keys) != 1 || keys[0] != c.File.Key {
		t.Errorf("files after the sweep = %v, want only the original", keys)
	}
	v.approved(c)
}
