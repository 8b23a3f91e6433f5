package bulkimport_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// The database refers to the blob of an archive until the archive is unpacked.
func TestReferencedArchives(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		a, err := k.AddArchive(t.Context(), k.inst, k.create(), "a.zip", bytes.NewReader(zipOf(t, entry("a.pdf", vaulttest.PDF))))
		k.ok(err)
		key := one[string](k, `SELECT blob_key FROM bulk_import_archives`)
		check := func(want ...string) {
			t.Helper()
			got, err := bulkimport.ReferencedBlobs(t.Context(), d, []string{"inst/a.archive", key})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("ReferencedBlobs = %v, %v, want %v", got, err, want)
			}
			var walked []string
			k.ok(bulkimport.BlobKeys(t.Context(), d, func(key string) error { walked = append(walked, key); return nil }))
			if !slices.Equal(walked, want) {
				t.Errorf("BlobKeys visited %v, want %v", walked, want)
			}
		}
		check(key)
		k.ok(k.RunUnpack(t.Context(), a.ID))
		check()
		condition, arg, err := d.OneOf("blob_key", 2, []string{key})
		k.ok(err)
		plan := dbtest.Plan(t, d, bulkimport.ReferencedQuery+condition, "unpacking", arg)
		// PostgreSQL may prefer the index of the few archives that are not unpacked.
		if !strings.Contains(plan, "bulk_import_archives_blob_key_idx") && !strings.Contains(plan, "bulk_import_archives_open_idx") || strings.Contains(plan, "Seq Scan") {
			t.Errorf("the look-up does not use an index:\n%s", plan)
		}
	})
}
