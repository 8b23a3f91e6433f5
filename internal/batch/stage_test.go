package batch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// received returns a received file of a given size.
func received(inst string, size int64) *cert.File {
	return &cert.File{Name: "a.pdf", Type: "application/pdf", Size: size, State: []byte{1}, Key: inst + "/aa/x.original"}
}

func TestStagedFilesHaveAQuota(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		other := v.institution("OTH")
		stage := func(size int64) (*StagedFile, error) { return v.Stage(ctx, v.inst, received("a", size), nil) }
		refused := func(what string, err error, wait time.Duration) {
			t.Helper()
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Kind != fault.TooMany || e.Message == "" || e.RetryAfter < wait || e.RetryAfter > wait+10*time.Minute {
				t.Errorf("%s: %v, want a refusal for about %v", what, err, wait)
			}
		}
		if err := v.Room(ctx, v.inst.ID); err != nil {
			t.Fatal(err)
		}
		_, err := stage(v.quota + 1)
		refused("the first file alone is over it", err, 0)
		first, err := stage(v.quota - 10)
		if err != nil {
			t.Fatal(err)
		}
		v.clock.Advance(time.Hour)
		_, err = stage(11)
		refused("a byte over it", err, 23*time.Hour)
		if err := v.Room(ctx, v.inst.ID); err != nil {
			t.Errorf("there is room for ten bytes: %v", err)
		}
		if _, err := stage(10); err != nil {
			t.Errorf("exactly the quota: %v", err)
		}
		refused("room when it is used up", v.Room(ctx, v.inst.ID), 23*time.Hour)
		if err := v.Room(ctx, other.ID); err != nil {
			t.Errorf("another institution: %v", err)
		}
		if n := one[int](v, `SELECT count(*) FROM staged_files`); n != 2 {
			t.Errorf("%d staged files, want the two that were taken", n)
		}
		// A file that belongs to a batch no longer counts toward the quota.
		b := v.submit(v.submission(v.inst, first.UUID, "Ada Obi"))
		if _, err := stage(v.quota - 10); err != nil {
			t.Errorf("after the batch %s was accepted: %v", b.UUID, err)
		}
		// A second batch with the same file frees nothing more.
		v.submit(v.submission(v.inst, first.UUID, "Bo Li"))
		_, err = stage(1)
		refused("after a second batch", err, 24*time.Hour)
	})
}

func TestStagedFilesExpire(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		unused, waited, used := v.stage(v.inst), v.stage(v.inst), v.stage(v.inst)
		v.submit(v.submission(v.inst, used.UUID, "Ada Obi"))
		v.expandAll()
		v.clock.Advance(StagedLife - time.Second)
		b := v.submit(v.submission(v.inst, waited.UUID, "Bo Li"))
		found := func() int {
			files, err := v.find(ctx, v.inst.ID, []string{unused.UUID, waited.UUID, used.UUID}, v.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			return len(files)
		}
		if n := found(); n != 3 {
			t.Errorf("%d files can be referred to within their time", n)
		}
		v.clock.Advance(2 * time.Second)
		if n := found(); n != 0 {
			t.Errorf("%d files can be referred to after their time", n)
		}
		staged := func() int { return one[int](v, `SELECT count(*) FROM staged_files`) }
		if err := v.Sweep(ctx); err != nil || staged() != 3 {
			t.Errorf("%d staged files just after their time, %v; want all, a batch may be about to keep them", staged(), err)
		}
		v.clock.Advance(stagedGrace)
		if err := v.Sweep(ctx); err != nil || staged() != 1 {
			t.Errorf("%d staged files, %v; want the one that an entry waits for", staged(), err)
		}
		if n := one[int64](v, `SELECT bytes FROM staged_usage WHERE institution_id = $1`, v.inst.ID); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
		v.expandAll()
		if err := v.Sweep(ctx); err != nil || staged() != 0 {
			t.Errorf("%d staged files, %v; want none", staged(), err)
		}
		if got, _ := v.get(v.inst, b.UUID); got.Rejected != 0 {
			t.Errorf("the batch lost its file: %+v", got)
		}
	})
}

// The sweep of files does not remove staged files, files of queued entries and files of
// certificates. It removes expired ones.
func TestSweepOfFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		unused, waited, used := v.stage(v.inst), v.stage(v.inst), v.stage(v.inst)
		v.submit(v.submission(v.inst, used.UUID, "Ada Obi"))
		v.expandAll()
		v.submit(v.submission(v.inst, waited.UUID, "Bo Li"))
		old := time.Now().Add(-48 * time.Hour)
		for _, f := range []*StagedFile{unused, waited, used} {
			if err := os.Chtimes(filepath.Join(v.root, "blobs", filepath.FromSlash(f.File.Key)), old, old); err != nil {
				t.Fatal(err)
			}
		}
		there := func(f *StagedFile) bool {
			o, err := v.folder.Open(ctx, f.File.Key)
			if err != nil {
				return false
			}
			content := make([]byte, o.Size())
			if _, err := o.ReadAt(content, 0); err != nil || !bytes.Equal(content, samplePDF()) {
				t.Errorf("the file is not what was staged: %v", err)
			}
			return o.Close() == nil
		}
		sweep := func() {
			t.Helper()
			if err := errors.Join(v.Sweep(ctx), v.certs.SweepBlobs(ctx, v.RefersTo)); err != nil {
				t.Fatal(err)
			}
		}
		sweep()
		for _, f := range []*StagedFile{unused, waited, used} {
			if !there(f) {
				t.Fatal("a staged file was swept")
			}
		}
		v.clock.Advance(StagedLife + stagedGrace + time.Second)
		sweep()
		if there(unused) || !there(waited) || !there(used) {
			t.Errorf("unused %v, waited for %v, a certificate's %v", there(unused), there(waited), there(used))
		}
		v.expandAll()
		sweep()
		if !there(waited) || !there(used) {
			t.Error("a certificate's file was swept")
		}
	})
}
