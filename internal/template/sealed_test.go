package template_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/template"
)

func TestZZ(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, sealed(t))
		for _, name := range []string{"meridian", "heritage", "aurora", "letterpress", "guild", "token"} {
			tmpl := f.Template(f.inst, name, name)
			var entries []template.Entry
			for i, n := range []string{"Amelia Hart", "محمد بن عبد العزيز", "ज्ञानेश्वर त्रिपाठी"} {
				entries = append(entries, template.Entry{FullName: n, Email: fmt.Sprintf("%s%d@example.org", name, i), IssueDate: "2026-03-12", Details: "Awarded with distinction"})
			}
			problems, err := f.Templates.Check(t.Context(), f.inst, tmpl.UUID, entries)
			ok(t, err)
			t.Log(name, problems)
			b, err := f.Templates.Issue(t.Context(), tmpl.UUID, template.Issue{Institution: f.inst, Creator: creator, Entries: entries})
			ok(t, err)
			for i, c := range f.finish(t, b) {
				if c.Status != cert.Approved {
					t.Fatal(name, c.Status, c.Failure)
				}
				ok(t, os.WriteFile(filepath.Join("/tmp/w/h21/look", fmt.Sprintf("t-%s-%d.pdf", name, i)), file(t, c, f.Certs.OpenVerified), 0o600))
			}
		}
	})
}
