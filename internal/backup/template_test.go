package backup_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// A backup contains the bases and the tails of certificates from templates, and the base of a batch whose
// certificates do not exist yet. It contains each base once.
func TestBackupOfTemplates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.Issue(f.inst, "Ada Obi", "Bo Ek", "Cy Day")
		f.Until("the batch is finished", func() bool {
			var approved int
			err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificates WHERE source = 'template' AND status = 'approved'`).Scan(&approved)
			return err == nil && approved == 3
		})
		f.Issue(f.inst, "Di Eng") // the certificate of this batch does not exist yet
		want := f.keys()
		f.ok(batch.BlobKeys(t.Context(), d, func(key string) error { want = append(want, key); return nil }))
		r := f.backup(backup.Options{})
		if problems := f.verify(r.Dir); len(problems) != 0 || r.Missing != 0 {
			t.Errorf("the backup has the problems %v and lacks %d files, want none", problems, r.Missing)
		}
		var names []string
		for _, e := range entries(t, r.Dir) {
			if name, ok := strings.CutPrefix(e.Name, "files/blobs/"); ok {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		slices.Sort(want)
		bases := 0
		for _, name := range names {
			if strings.HasSuffix(name, "."+cert.BaseKind) {
				bases++
			}
		}
		// The 7 files are the original and the tail of the uploaded certificate, three tails and two bases.
		if !slices.Equal(names, want) || len(names) != 7 || bases != 2 {
			t.Errorf("the backup has the files %v with %d bases, want %v with 2", names, bases, want)
		}
	})
}
