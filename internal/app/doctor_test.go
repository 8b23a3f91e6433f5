package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// TestEveryFindingHasARemedy checks that there is a remedy of one sentence for each finding about a
// working vault.
func TestEveryFindingHasARemedy(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, s config.Storage) {
		b, err := createBase(t, s, "https://vault.example")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.DB.Close(); err != nil {
			t.Fatal(err)
		}
		list := append(Examine(t.Context(), s), ExamineFileNames(t.Context(), s)...)
		if len(list) < 20 {
			t.Errorf("got %d findings, want at least 20: %+v", len(list), list)
		}
		for _, f := range list {
			if f.Remedy != "" && f.Good {
				t.Errorf("the good finding %s has the remedy %q", f.Name, f.Remedy)
			}
			if remedy := remedies[f.Name]; !strings.HasSuffix(remedy, ".") || strings.Count(remedy, ". ") > 0 {
				t.Errorf("the remedy of %s is %q, want one sentence", f.Name, remedy)
			}
		}
		missing := Examine(t.Context(), config.Storage{Data: filepath.Join(s.Data, "missing")})
		if len(missing) != 1 || missing[0].Remedy == "" {
			t.Errorf("findings of a missing folder = %+v, want one with a remedy", missing)
		}
	})
}

// TestDoctorReportsAnInterruptedRestore checks that doctor reports the mark of a restore, in the data folder
// and in a PostgreSQL database.
func TestDoctorReportsAnInterruptedRestore(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, s config.Storage) {
		b, err := createBase(t, s, "https://vault.example")
		if err != nil {
			t.Fatal(err)
		}
		if s.Database != "" {
			err = b.DB.BeginRestore(t.Context())
		} else {
			err = os.Mkdir(filepath.Join(s.Data, "restoring"), 0o700)
		}
		if err := errors.Join(err, b.DB.Close()); err != nil {
			t.Fatal(err)
		}
		list := Examine(t.Context(), s)
		if f := list[len(list)-1]; f.Name != "interrupted restore" || f.Good || !strings.Contains(f.Detail, "interrupted") || f.Remedy == "" {
			t.Errorf("last finding = %+v, want an interrupted restore with a remedy", f)
		}
	})
}

// TestDoctorComparesFileNames checks that doctor --deep names the missing files, and counts the files
// without a record.
func TestDoctorComparesFileNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, err := blob.NewFolder(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	v := vaulttest.New(t, dbtest.Open(t, dir, ""), func(d *vault.Deps) { d.Blobs = folder })
	inst := v.Institution("NWU", "Northern & Western University")
	lost := v.Upload(inst, "Ada Obi", "a.pdf")
	v.Upload(inst, "Ben Two", "b.pdf")
	v.Work(2)
	if lost, err = v.Certs.BySignedLink(t.Context(), lost.UUID); err != nil {
		t.Fatal(err)
	}
	find := func() Finding { return ExamineFileNames(t.Context(), config.Storage{Data: dir})[0] }
	if f := find(); !f.Good || !strings.HasPrefix(f.Detail, "4 files, 0 of them without a record") {
		t.Errorf("finding = %+v, want 4 files with records", f)
	}
	if _, err := folder.Put(t.Context(), "inst-1/aa/other.original", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if f := find(); !f.Good || !strings.HasPrefix(f.Detail, "5 files, 1 of them without a record") {
		t.Errorf("finding with another file = %+v, want 1 file without a record", f)
	}
	if err := folder.Delete(t.Context(), lost.Verified.TailKey); err != nil {
		t.Fatal(err)
	}
	if f := find(); f.Good || !strings.HasSuffix(f.Detail, "1 file missing: "+lost.Verified.TailKey) || f.Remedy != restoreFiles {
		t.Errorf("finding about a missing file = %+v, want the key of the file", f)
	}
}

// TestDoctorChecksTheServer checks that doctor reports a missing extension, an old version of the
// collation, and too few connections of a PostgreSQL server.
func TestDoctorChecksTheServer(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	for name, statement := range map[string]string{
		"extensions":  `DROP EXTENSION pg_trgm CASCADE`,
		"collation":   `UPDATE pg_database SET datcollversion = '1.0' WHERE datname = current_database() AND pg_database_collation_actual_version(oid) IS NOT NULL`,
		"connections": `INSERT INTO nodes (id, started_at, heartbeat_at, name, roles, release, outbox) SELECT 'n' || n, $1, $1, 'n', 'web', '', false FROM generate_series(1, 50) n`,
	} {
		find := func() Finding {
			for _, f := range examineServer(t.Context(), d, false) {
				if f.Name == name {
					return f
				}
			}
			return Finding{}
		}
		if f := find(); !f.Good {
			t.Errorf("%s: finding = %+v, want a good one", name, f)
		}
		var args []any
		if strings.Contains(statement, "$1") {
			args = append(args, db.Micros(d.Now()))
		}
		result, err := d.Writer().ExecContext(t.Context(), statement, args...)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := result.RowsAffected(); name == "collation" && (err != nil || n == 0) {
			continue // this server does not report a version of its collation
		}
		if f := find(); f.Good {
			t.Errorf("%s after %s: finding = %+v, want a problem", name, statement, f)
		}
	}
}
