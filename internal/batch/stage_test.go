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

// received returns a file of the given size.
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
				t.Errorf("%s: error = %v, want fault.TooMany with a RetryAfter of about %v", what, err, wait)
			}
		}
		if err := v.CheckQuota(ctx, v.inst.ID); err != nil {
			t.Fatal(err)
		}
		_, err := stage(v.quota + 1)
		refused("a file larger than the quota", err, 0)
		first, err := stage(v.quota - 10)
		if err != nil {
			t.Fatal(err)
		}
		v.clock.Advance(time.Hour)
		_, err = stage(11)
		refused("one byte too many", err, 23*time.Hour)
		if err := v.CheckQuota(ctx, v.inst.ID); err != nil {
			t.Errorf("CheckQuota with ten bytes left: error = %v, want none", err)
		}
		if _, err := stage(10); err != nil {
			t.Errorf("a file that fills the quota: error = %v, want none", err)
		}
		refused("CheckQuota with no bytes left", v.CheckQuota(ctx, v.inst.ID), 23*time.Hour)
		if err := v.CheckQuota(ctx, other.ID); err != nil {
			t.Errorf("CheckQuota of another institution: error = %v, want none", err)
		}
		if n := one[int](v, `SELECT count(*) FROM staged_files`); n != 2 {
			t.Errorf("%d staged files, want the two accepted ones", n)
		}
		// A file to which a batch refers does not count toward the quota.
		b := v.submit(v.submission(v.inst, first.UUID, "Ada Obi"))
		if _, err := stage(v.quota - 10); err != nil {
			t.Errorf("a file after the batch %s was accepted: error = %v, want none", b.UUID, err)
		}
		// The file no longer counts toward the quota, so a second batch with it changes nothing.
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
		unused, queued, used := v.stage(v.inst), v.stage(v.inst), v.stage(v.inst)
		v.submit(v.submission(v.inst, used.UUID, "Ada Obi"))
		v.expandAll()
		v.clock.Advance(StagedLife - time.Second)
		b := v.submit(v.submission(v.inst, queued.UUID, "Bo Li"))
		found := func() int {
			files, err := v.find(ctx, v.inst.ID, []string{unused.UUID, queued.UUID, used.UUID}, v.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			return len(files)
		}
		if n := found(); n != 3 {
			t.Errorf("%d files are found before they expire, want 3", n)
		}
		v.clock.Advance(2 * time.Second)
		if n := found(); n != 0 {
			t.Errorf("%d files are found after they expired, want 0", n)
		}
		staged := func() int { return one[int](v, `SELECT count(*) FROM staged_files`) }
		if err := v.Sweep(ctx); err != nil || staged() != 3 {
			t.Errorf("%d staged files shortly after they expired, want 3, because a batch may need them; error %v", staged(), err)
		}
		v.clock.Advance(stagedGrace)
		if err := v.Sweep(ctx); err != nil || staged() != 1 {
			t.Errorf("%d staged files after stagedGrace, want only that of the queued entry; error %v", staged(), err)
		}
		if n := one[int64](v, `SELECT bytes FROM staged_usage WHERE institution_id = $1`, v.inst.ID); n != 0 {
			t.Errorf("%d bytes count toward the quota, want 0", n)
		}
		v.expandAll()
		if err := v.Sweep(ctx); err != nil || staged() != 0 {
			t.Errorf("%d staged files after the entry became a certificate, want none; error %v", staged(), err)
		}
		if got, _ := v.get(v.inst, b.UUID); got.Rejected != 0 {
			t.Errorf("the batch is %+v, want no rejected entries", got)
		}
	})
}

// The sweep of blobs keeps staged files, files of queued entries and files of certificates. It deletes
// expired files to which nothing refers.
func TestSweepOfFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		unused, queued, used := v.stage(v.inst), v.stage(v.inst), v.stage(v.inst)
		v.submit(v.submission(v.inst, used.UUID, "Ada Obi"))
		v.expandAll()
		v.submit(v.submission(v.inst, queued.UUID, "Bo Li"))
		old := time.Now().Add(-48 * time.Hour)
		for _, f := range []*StagedFile{unused, queued, used} {
			if err := os.Chtimes(filepath.Join(v.root, "blobs", filepath.FromSlash(f.File.Key)), old, old); err != nil {
				t.Fatal(err)
			}
		}
		exists := func(f *StagedFile) bool {
			o, err := v.folder.Open(ctx, f.File.Key)
			if err != nil {
				return false
			}
			content := make([]byte, o.Size())
			if _, err := o.ReadAt(content, 0); err != nil || !bytes.Equal(content, samplePDF()) {
				t.Errorf("the content of the file differs from the staged content; error %v", err)
			}
			return o.Close() == nil
		}
		sweep := func() {
			t.Helper()
			v.exec(`UPDATE blob_sweeps SET next_at = 0`)
			if err := errors.Join(v.Sweep(ctx), v.deletions.Sweep(ctx)); err != nil {
				t.Fatal(err)
			}
		}
		sweep()
		for _, f := range []*StagedFile{unused, queued, used} {
			if !exists(f) {
				t.Fatal("the sweep deleted a file before it expired")
			}
		}
		v.clock.Advance(StagedLife + stagedGrace + time.Second)
		sweep()
		if exists(unused) || !exists(queued) || !exists(used) {
			t.Errorf("files that exist: unused %v, of a queued entry %v, of a certificate %v; want false, true, true", exists(unused), exists(queued), exists(used))
		}
		v.expandAll()
		sweep()
		if !exists(queued) || !exists(used) {
			t.Error("the sweep deleted the file of a certificate")
		}
	})
}
