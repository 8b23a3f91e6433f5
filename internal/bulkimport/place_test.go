package bulkimport_test

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/vaulttest"
)

// A certificate has the placement of its row, or else the placement for all rows. Resubmit copies both
// placements to the new draft.
func TestPlacements(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		k.SetPartSize(2)
		draft := k.list(k.create(), rows(5))
		for _, name := range []string{"0.pdf", "1.pdf", "2.pdf", "3.pdf", "4.pdf"} {
			k.file(draft, name)
		}
		box := &seal.Box{0.1, 0.2, 0.4, 0.3}
		k.ok(k.PlaceAll(t.Context(), draft, &cert.RequestedPlacement{Mode: seal.TopLeft, Page: 1}))
		k.ok(k.Place(t.Context(), draft, 3, &cert.RequestedPlacement{Mode: seal.Exact, Page: 1, Box: box}))
		k.ok(k.Place(t.Context(), draft, 4, &cert.RequestedPlacement{Mode: seal.Strip, Page: 1}))
		k.ok(k.Place(t.Context(), draft, 4, nil))
		k.ok(k.Place(t.Context(), draft, 6, &cert.RequestedPlacement{Mode: seal.Appended, Page: 1}))
		k.ok(k.Fix(t.Context(), draft, 6, map[sheet.Column]string{sheet.Name: ""}))
		k.ok(k.Skip(t.Context(), draft, 6, true))
		for name, bad := range map[string]*cert.RequestedPlacement{"no mode": {Page: 1}, "a mode that cannot be requested": {Mode: seal.Cover, Page: 1}, "no box": {Mode: seal.Exact, Page: 1}} {
			if err := k.Place(t.Context(), draft, 3, bad); !fault.Is(err, fault.Invalid) {
				t.Errorf("placement with %s: error = %v, want fault.Invalid", name, err)
			}
		}
		if err := k.Place(t.Context(), draft, 99, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("placement of an unknown row: error = %v, want fault.NotFound", err)
		}
		k.ok(k.Submit(t.Context(), k.reload(draft), nil))
		if err := k.PlaceAll(t.Context(), draft, nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("PlaceAll after the submission: error = %v, want fault.BadRequest", err)
		}
		k.finish(draft)
		for name, want := range map[string]string{
			"Person 0": `{"mode":"top-left","page":1}`, "Person 1": `{"mode":"exact","page":1,"box":[0.1,0.2,0.4,0.3]}`, "Person 2": `{"mode":"top-left","page":1}`,
		} {
			if got := one[string](k, `SELECT coalesce(wanted_placement, '') FROM certificates WHERE full_name = $1`, name); got != want {
				t.Errorf("placement of %s = %s, want %s", name, got, want)
			}
		}
		again, err := k.Resubmit(t.Context(), k.reload(draft), k.person)
		k.ok(err)
		v := k.review(again)
		if len(v.Rows) != 1 || v.Rows[0].Wanted == nil || v.Rows[0].Wanted.Mode != seal.Appended || v.Wanted == nil || v.Wanted.Mode != seal.TopLeft {
			t.Errorf("the draft of the skipped row has the rows %+v and the placement %+v, want one row on an appended page and top-left for all rows", v.Rows, v.Wanted)
		}
	})
}

// The next sweeps delete the bytes of a removed file.
func TestRemovedFileIsDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), rows(2))
		k.file(draft, "0.pdf")
		k.file(draft, "1.pdf")
		staged := func() int { return one[int](k, `SELECT count(*) FROM staged_files`) }
		used := func() int { return one[int](k, `SELECT bytes FROM staged_usage`) }
		full := used()
		v := k.review(draft)
		keyOf := func(f *bulkimport.File) string {
			return one[string](k, `SELECT original_key FROM staged_files WHERE uuid = $1`, f.StagedUUID)
		}
		removed, remaining := keyOf(v.Files[0]), keyOf(v.Files[1])
		k.ok(k.RemoveFile(t.Context(), draft, v.Files[0].ID))
		if err := k.RemoveFile(t.Context(), draft, v.Files[0].ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("removing a removed file: error = %v, want fault.NotFound", err)
		}
		if v := k.review(draft); len(v.Files) != 1 || len(v.Missing) != 1 || v.Missing[0].Number != 2 || v.Valid != 1 {
			t.Errorf("the draft has %d files and the rows without a file are %v, want one file and row 2", len(v.Files), v.Missing)
		}
		k.Advance(10 * time.Minute)
		k.ok(k.Batches.SweepStaged(t.Context()))
		if staged() != 1 || used() != full/2 {
			t.Errorf("%d staged files with %d of %d bytes, want 1 file with half of the bytes", staged(), used(), full)
		}
		k.Advance(25 * time.Hour)
		k.SweepFiles()
		k.Advance(vaulttest.Keep)
		k.SweepFiles()
		o, err := k.Blobs.Open(t.Context(), remaining)
		k.ok(err)
		k.ok(o.Close())
		if o, err := k.Blobs.Open(t.Context(), removed); err == nil {
			t.Error("the bytes of the removed file still exist")
			k.ok(o.Close())
		}
	})
}
