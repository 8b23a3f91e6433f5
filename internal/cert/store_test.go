package cert

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

func TestSweepJobsRequeuesLostJobs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		stored := func(name string, status Status, query string) *Certificate {
			c := v.upload(titled(name))
			v.force(c, status)
			if query != "" {
				v.exec(query, c.jobID)
			}
			return c
		}
		const remove = `DELETE FROM river_job WHERE id = $1`
		const discard = `UPDATE river_job SET state = 'discarded', finalized_at = scheduled_at WHERE id = $1`
		lost := []*Certificate{stored("vanished", Processing, remove), stored("discarded", Processing, discard)}
		kept := []*Certificate{
			stored("waiting", Processing, ""), stored("approved", Approved, remove), stored("failed", Failed, remove), stored("revoked", Revoked, remove),
		}
		v.clock.Advance(requeueAfter + time.Second)
		kept = append(kept, stored("just changed", Processing, remove))
		before := map[string]*Certificate{}
		for _, c := range kept {
			before[c.UUID] = v.get(c.UUID)
		}
		jobs := len(v.jobs())
		if err := v.SweepJobs(ctx); err != nil {
			t.Fatal(err)
		}
		for _, c := range kept {
			if got := v.get(c.UUID); !reflect.DeepEqual(got, before[c.UUID]) {
				t.Errorf("the certificate %q changed: %+v", c.Title, got)
			}
		}
		after := v.jobs()
		if len(after) != jobs+len(lost) {
			t.Errorf("got %d jobs after the sweep, want %d more than %d", len(after), len(lost), jobs)
		}
		for _, c := range lost {
			got := v.get(c.UUID)
			at := slices.IndexFunc(after, func(j jobRow) bool { return j.ID == got.jobID })
			if at < 0 || after[at].Kind != "seal" || after[at].State != "available" || got.Status != Processing {
				t.Errorf("the certificate %q is not in processing with an available seal job: %+v", c.Title, got)
			}
			v.approved(c)
		}
		v.clock.Advance(requeueAfter + time.Second)
		v.force(kept[len(kept)-1], Approved)
		jobs = len(v.jobs())
		if err := v.SweepJobs(ctx); err != nil || len(v.jobs()) != jobs {
			t.Errorf("a second sweep added %d jobs, want 0; err = %v", len(v.jobs())-jobs, err)
		}
	})
}

func TestSweepBlobsDeletesUnreferencedFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		c := v.approved(v.upload(nil))
		picture, err := v.OpenImage(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := picture.Close(); err != nil {
			t.Fatal(err)
		}
		referred := v.keys()
		if len(referred) != 3 {
			t.Fatalf("files = %v, want original, tail and picture", referred)
		}
		put := func(key string, age time.Duration) string {
			if _, err := v.folder.Put(ctx, key, bytes.NewReader([]byte("x"))); err != nil {
				t.Fatal(err)
			}
			v.age(filepath.Join("blobs", filepath.FromSlash(key)), age)
			return key
		}
		for _, key := range referred {
			v.age(filepath.Join("blobs", filepath.FromSlash(key)), 24*time.Hour)
		}
		want := append(slices.Clone(referred),
			put(v.inst.UUID+"/aa/young.original", 2*time.Hour-time.Minute), put(v.inst.UUID+"/aa/young.verified", time.Minute),
			put("ledger/aa/leaf.proof", 24*time.Hour))
		for _, kind := range []string{"original", "verified", "image"} {
			put(v.inst.UUID+"/aa/old."+kind, 2*time.Hour+time.Minute)
		}
		unfinished := filepath.Join("incoming", "123")
		if err := os.WriteFile(filepath.Join(v.root, unfinished), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		v.age(unfinished, 3*time.Hour)
		v.sweepFiles()
		slices.Sort(want)
		if got := v.keys(); !slices.Equal(got, want) {
			t.Errorf("files after the sweep = %v, want %v", got, want)
		}
		if _, err := os.Stat(filepath.Join(v.root, unfinished)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Stat of an unfinished file after the sweep: err = %v, want os.ErrNotExist", err)
		}
	})
}

// age sets the modification time of a file to the past.
func (v *vault) age(name string, age time.Duration) {
	v.tb.Helper()
	at := v.clock.Now().Add(-age)
	if err := os.Chtimes(filepath.Join(v.root, name), at, at); err != nil {
		v.tb.Fatal(err)
	}
}

func TestOpenVerifiedJoinsOriginalAndTail(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	content := samplePDF("a diploma", 0)
	for _, whole := range []bool{false, true} {
		v.sealer.seal = func(_ context.Context, o seal.Original, _ seal.Stamp) (*seal.Verified, error) {
			return sealed(o, []byte(tailText), whole)
		}
		want := []byte(tailText)
		if !whole {
			want = append(bytes.Clone(content), tailText...)
		}
		c := v.upload(titled(map[bool]string{true: "whole", false: "joined"}[whole]))
		if _, err := v.OpenVerified(t.Context(), c); !fault.Is(err, fault.NotFound) {
			t.Errorf("before approval: err = %v, want NotFound", err)
		}
		got, err := v.OpenVerified(t.Context(), v.approved(c))
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(got, want); err != nil {
			t.Errorf("the verified PDF with whole %t failed TestReader: %v", whole, err)
		}
		// Read short ranges across the end of the original, and directly before and after it.
		for off := len(content) - 3; !whole && off <= len(content)+3; off++ {
			for n := 1; n < 8; n++ {
				p := make([]byte, n)
				if read, err := got.ReadAt(p, int64(off)); read != n || err != nil || !bytes.Equal(p, want[off:off+n]) {
					t.Errorf("ReadAt of %d bytes at %d = %d, %v, %q, want all bytes of the range", n, off, read, err, p)
				}
			}
		}
		if err := got.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenVerifiedWithoutItsFile(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	c := v.approved(v.upload(nil))
	for _, key := range []string{c.File.Key, c.Verified.TailKey} {
		if err := v.folder.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		// The error is not a fault of kind NotFound, because the certificate has a verified PDF.
		if _, err := v.OpenVerified(t.Context(), c); !errors.Is(err, blob.ErrNotFound) || fault.Is(err, fault.NotFound) {
			t.Errorf("opening a verified PDF with a missing file: err = %v, want blob.ErrNotFound and not the kind NotFound", err)
		}
	}
}

func TestRevokedCertificateHasItsFile(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	c := v.approved(v.upload(nil))
	revoked, err := v.Revoke(t.Context(), v.inst.ID, c.UUID, Revocation{Reason: "x"})
	if err != nil {
		t.Fatal(err)
	}
	content, err := v.OpenVerified(t.Context(), revoked)
	if err != nil || content.Size() != c.Verified.Size {
		t.Fatalf("opening the verified PDF of a revoked certificate: err = %v, want nil and a PDF of %d bytes", err, c.Verified.Size)
	}
	if err := content.Close(); err != nil {
		t.Error(err)
	}
}

func TestImageIsDrawnOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		var drawn atomic.Int32
		var size atomic.Int64
		release := make(chan struct{})
		v.sealer.png = func(_ context.Context, _ io.ReaderAt, n int64) ([]byte, error) {
			drawn.Add(1)
			size.Store(n)
			<-release
			return []byte("a picture"), nil
		}
		c := v.upload(nil)
		if _, err := v.OpenImage(t.Context(), c); !fault.Is(err, fault.NotFound) {
			t.Errorf("before approval: err = %v, want NotFound", err)
		}
		c = v.approved(c)
		var wg sync.WaitGroup
		for i := range 20 {
			if i == 10 {
				close(release)
			}
			wg.Go(func() { v.checkImage(c) })
		}
		wg.Wait()
		if n := drawn.Load(); n != 1 || size.Load() != c.Verified.Size {
			t.Errorf("the picture was drawn %d times from %d bytes, want once from the verified PDF", n, size.Load())
		}
		stored := v.get(c.UUID)
		if stored.imageKey == "" || len(v.keys()) != 3 || !stored.UpdatedAt.Equal(c.UpdatedAt) {
			t.Errorf("image key = %q, files = %v, want a key, 3 files and an unchanged time of update", stored.imageKey, v.keys())
		}
		v.checkImage(stored)
		if n := drawn.Load(); n != 1 {
			t.Errorf("the picture was drawn %d times, want once", n)
		}
	})
}

func (v *vault) checkImage(c *Certificate) {
	v.tb.Helper()
	content, err := v.OpenImage(v.tb.Context(), c)
	if err != nil {
		v.tb.Error(err)
		return
	}
	got, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil || string(got) != "a picture" {
		v.tb.Errorf("content of OpenImage = %q, err = %v, want a picture", got, err)
	}
}

// If a picture cannot be drawn, OpenImage stores nothing, and the next call draws it again.
func TestFailedImageIsDrawnAgain(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	c := v.approved(v.upload(nil))
	failure := errors.New("out of memory")
	draw := v.sealer.png
	v.sealer.png = func(context.Context, io.ReaderAt, int64) ([]byte, error) { return nil, failure }
	if _, err := v.OpenImage(t.Context(), c); !errors.Is(err, failure) || len(v.keys()) != 2 {
		t.Errorf("OpenImage with a failing sealer: err = %v, files = %v, want its error and 2 files", err, v.keys())
	}
	v.sealer.png = draw
	v.checkImage(c)
}

func results(checks []Check) map[string]Result {
	m := map[string]Result{}
	for _, k := range checks {
		m[k.Name] = k.Result
	}
	return m
}

func TestChecksOfApprovedAndRevokedCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		c := v.approved(v.upload(nil))
		made := db.Time(db.Micros(v.clock.Now()))
		v.clock.Advance(time.Hour)
		list, err := v.Checks(ctx, c)
		if err != nil || len(list) != 3 {
			t.Fatalf("checks = %+v, err = %v, want 3", list, err)
		}
		for i, want := range []struct {
			name   string
			result Result
			at     *time.Time
		}{{"record", Passed, new(v.clock.Now())}, {"file", Passed, &made}, {"signature", Passed, &made}} {
			got := list[i]
			if got.Name != want.name || got.Result != want.result || (got.CheckedAt == nil) != (want.at == nil) ||
				want.at != nil && !got.CheckedAt.Equal(*want.at) {
				t.Errorf("check %d = %+v, want %+v", i, got, want)
			}
		}
		revoked, err := v.Revoke(ctx, v.inst.ID, c.UUID, Revocation{Reason: "x"})
		if err != nil {
			t.Fatal(err)
		}
		list, err = v.Checks(ctx, revoked)
		if want := map[string]Result{"record": FailedCheck, "file": Passed, "signature": Passed}; err != nil || !reflect.DeepEqual(results(list), want) {
			t.Errorf("checks of a revoked certificate = %+v, err = %v, want a failed record and a passed file and signature", list, err)
		}
		// A certificate that was revoked before approval has no verified PDF to check.
		early := v.upload(titled("early"))
		if early, err = v.Revoke(ctx, v.inst.ID, early.UUID, Revocation{Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		list, err = v.Checks(ctx, early)
		if want := map[string]Result{"record": FailedCheck, "file": NotRun, "signature": NotRun}; err != nil || !reflect.DeepEqual(results(list), want) {
			t.Errorf("checks of a certificate that was never approved = %+v, err = %v, want a failed record and not_run for the others", list, err)
		}
	})
}

func (v *vault) fileCheck(c *Certificate) Check {
	v.tb.Helper()
	list, err := v.Checks(v.tb.Context(), c)
	if err != nil {
		v.tb.Fatal(err)
	}
	return list[slices.IndexFunc(list, func(k Check) bool { return k.Name == CheckFile })]
}

func TestRehashFindsDamagedFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		intact := v.approved(v.upload(titled("intact")))
		missing := v.approved(v.upload(titled("missing")))
		changed := v.approved(v.upload(titled("changed")))
		if err := v.folder.Delete(ctx, missing.Verified.TailKey); err != nil {
			t.Fatal(err)
		}
		// Change one bit of the original, which is the first part of the verified PDF.
		name := filepath.Join(v.root, "blobs", filepath.FromSlash(changed.File.Key))
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)/2] ^= 1
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		v.clock.Advance(RehashAge - time.Minute)
		if err := v.Rehash(ctx, 0, fastRate); err != nil {
			t.Fatal(err)
		}
		if n, err := v.Damaged(ctx); err != nil || n != 0 {
			t.Errorf("%d certificates are damaged before the check is due, want 0; err = %v", n, err)
		}
		v.clock.Advance(2 * time.Minute)
		for range 3 {
			if err := v.Rehash(ctx, 0, fastRate); err != nil {
				t.Fatal(err)
			}
		}
		now := db.Time(db.Micros(v.clock.Now()))
		for c, want := range map[*Certificate]Result{intact: Passed, missing: FailedCheck, changed: FailedCheck} {
			if k := v.fileCheck(c); k.Result != want || !k.CheckedAt.Equal(now) {
				t.Errorf("the check of %q = %s at %v, want %s at the current time", c.Title, k.Result, k.CheckedAt, want)
			}
		}
		if n, err := v.Damaged(ctx); err != nil || n != 2 {
			t.Errorf("%d certificates are damaged, want 2; err = %v", n, err)
		}
	})
}
