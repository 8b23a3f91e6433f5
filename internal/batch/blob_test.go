package batch

import (
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestReferencedBlobs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		one, two := v.stage(v.inst), v.stage(v.inst)
		want := []string{one.File.Key, two.File.Key}
		slices.Sort(want)
		got, err := ReferencedBlobs(t.Context(), d, append([]string{"inst/a.original", "inst/a.verified"}, want...))
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ReferencedBlobs = %v, %v, want the staged files %v", got, err, want)
		}
		var walked []string
		if err := BlobKeys(t.Context(), d, func(key string) error { walked = append(walked, key); return nil }); err != nil || !slices.Equal(walked, want) {
			t.Errorf("BlobKeys visited %v, %v, want %v", walked, err, want)
		}
		staged, arg, err := d.OneOf("original_key", 1, want)
		if err != nil {
			t.Fatal(err)
		}
		based, _, err := d.OneOf("base_key", 1, want)
		if err != nil {
			t.Fatal(err)
		}
		plan := dbtest.Plan(t, d, referencedQuery(staged, based), arg)
		for _, index := range []string{"staged_files_original_key_idx", "batches_base_key_idx"} {
			if !strings.Contains(plan, index) {
				t.Errorf("the look-up does not use the index %s:\n%s", index, plan)
			}
		}
	})
}
