package db_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// empty runs a test on a database without a schema, for each dialect.
func empty(t *testing.T, f func(t *testing.T, d *db.DB)) {
	t.Helper()
	for name, u := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": dbtest.PostgresURL} {
		t.Run(name, func(t *testing.T) {
			d, err := db.Open(t.Context(), t.TempDir(), u(t))
			if err != nil {
				t.Fatal(err)
			}
			f(t, d)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

const insertCertificate = `
	INSERT INTO certificates (uuid, institution_id, reference_id, reference_folded, title, full_name, email, email_folded, issue_date, search_text, source,
		trigger_context, event_context, status, creator_type, creator_name, file_name, mime_type, size, sha256, sha256_state, original_key, created_at, updated_at, approved_at)
	VALUES ($1, 1, $1, $1, 'Diploma', 'Zoë Obi', $1, $1, '2026-01-01', $2, 'vault', 'single_upload', 'single_upload', $3, 'token', 'Registry',
		'a.pdf', 'application/pdf', 1, $4, $4, $1, 1000, 1000, $5)`

// TestMigrationFillsListColumns checks that the columns and tables for counting, sorting and searching
// certificates are filled. This applies to existing certificates, and to those that the previous release
// writes.
func TestMigrationFillsListColumns(t *testing.T) {
	empty(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		if err := d.MigrateBelow(ctx, 6); err != nil {
			t.Fatal(err)
		}
		insert := func(id, status string, approved any) {
			t.Helper()
			if err := d.Tx(ctx, func(tx *db.Tx) error {
				_, err := tx.ExecContext(ctx, insertCertificate, id, " zoë obi\n diploma\n "+id+"\n", status, []byte{1}, approved)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error { return insertInstitution(ctx, tx, "u", "s") }); err != nil {
			t.Fatal(err)
		}
		insert("before", "approved", 2000)
		insert("waiting", "processing", nil)
		if err := d.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
		insert("after", "approved", 500)
		search := `SELECT count(*) FROM certificate_search WHERE text LIKE '%zoë obi%'`
		if d.Dialect == db.SQLite {
			search = `SELECT count(*) FROM certificate_search WHERE certificate_search MATCH '"zoë" AND "obi" AND "ꀀꀀꀁ"'`
		}
		for query, want := range map[string]string{
			`SELECT sum(n) FROM certificate_counts WHERE institution_id = 1 AND source = 'vault' AND status = 'approved'`:          "2",
			`SELECT sum(n) FROM certificate_counts WHERE status = 'processing'`:                                                    "1",
			`SELECT count(*) FROM certificates WHERE name_folded = 'zoë obi'`:                                                      "3",
			`SELECT generated_at FROM certificates WHERE uuid = 'before'`:                                                          "2000",
			`SELECT generated_at FROM certificates WHERE uuid = 'waiting'`:                                                         "0",
			`SELECT generated_at FROM certificates WHERE uuid = 'after'`:                                                           "1000",
			`SELECT sum(certificates) FROM institution_usage WHERE institution_id = 1 AND month = 197001`:                          "1",
			`SELECT sum(bytes) FROM institution_usage WHERE institution_id = 1`:                                                    "1",
			`SELECT count(*) FROM certificates JOIN usage_counting ON certificates.id > counted_id AND certificates.id <= last_id`: "2",
			search: "3",
		} {
			var got string
			if err := d.QueryRowContext(ctx, query).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %s, %v, want %s", query, got, err, want)
			}
		}
	})
}

func TestMigrateWithoutExtensionRights(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(dbtest.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	owner, err := db.Open(ctx, "", u.String())
	if err != nil {
		t.Fatal(err)
	}
	role := strings.TrimPrefix(u.Path, "/") + "_user"
	run := func(ctx context.Context, statement string) {
		t.Helper()
		if _, err := owner.Writer().ExecContext(ctx, statement); err != nil {
			t.Errorf("the statement %s failed: %v", statement, err)
		}
	}
	run(ctx, `CREATE ROLE `+role+` LOGIN`)
	defer func() {
		run(context.WithoutCancel(ctx), `DROP OWNED BY `+role)
		run(context.WithoutCancel(ctx), `DROP ROLE `+role)
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	}()
	run(ctx, `GRANT ALL ON SCHEMA public TO `+role)
	u.User = url.User(role)
	d, err := db.Open(ctx, "", u.String())
	if err != nil {
		t.Fatal(err)
	}
	err = d.Migrate(ctx)
	if err == nil || !strings.Contains(err.Error(), "CREATE EXTENSION pg_trgm;") || !strings.Contains(err.Error(), "postgresql-contrib") {
		t.Errorf("error = %v, want instructions to create the extension", err)
	}
	run(ctx, `CREATE EXTENSION pg_trgm`)
	run(ctx, `CREATE EXTENSION btree_gin`)
	if err := errors.Join(d.Migrate(ctx), d.Close()); err != nil {
		t.Errorf("Migrate after the extensions were created failed: %v", err)
	}
}

// TestStatementEndsWithItsContext checks that the database cancels a statement whose context ends, and
// that the connections remain usable.
func TestStatementEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		var n int
		err := d.QueryRowContext(ctx, `WITH RECURSIVE endless (n) AS (SELECT 1 UNION ALL SELECT n % 7 + 1 FROM endless) SELECT count(*) FROM endless`).Scan(&n)
		if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Fatalf("the endless statement returned %d, %v, want an error at the deadline", n, err)
		}
		if err := d.Ping(t.Context()); err != nil {
			t.Errorf("Ping after the cancelled statement failed: %v", err)
		}
		if d.Dialect == db.SQLite {
			return
		}
		for running := 1; running > 0; {
			if err := d.QueryRowContext(t.Context(), `
				SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%endless%'`).
				Scan(&running); err != nil {
				t.Fatal(fmt.Errorf("counting the running statements: %w", err))
			}
		}
	})
}

// appliedVersions returns the numbers of the applied migrations.
func appliedVersions(t *testing.T, d *db.DB) []int {
	t.Helper()
	list, err := db.Column[int](d.QueryContext(t.Context(), `SELECT version FROM schema_migrations ORDER BY version`))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// exec executes a statement in a transaction.
func exec(t *testing.T, d *db.DB, query string, args ...any) {
	t.Helper()
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), query, args...)
		return err
	}); err != nil {
		t.Fatalf("the statement %s failed: %v", query, err)
	}
}

// TestMigrationsAreASet checks that a migration is applied although a migration with a higher
// number was applied before, for example by a binary of another branch.
func TestMigrationsAreASet(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		all := appliedVersions(t, d)
		exec(t, d, `DROP TABLE installations`)
		exec(t, d, `DROP TABLE schema_floor`)
		exec(t, d, `DELETE FROM schema_migrations WHERE version = 30`)
		exec(t, d, `INSERT INTO schema_migrations (version, name, applied_at) VALUES (9000, '9000_later.sql', 0)`)
		if err := d.CheckSchema(t.Context()); !errors.Is(err, db.ErrOldSchema) {
			t.Errorf("CheckSchema = %v, want ErrOldSchema", err)
		}
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := appliedVersions(t, d); !slices.Equal(got, append(all, 9000)) {
			t.Errorf("applied versions = %v, want %v and 9000", got, all)
		}
		// CheckSchema accepts the schema of a later release, unless its floor is too high.
		if err := d.CheckSchema(t.Context()); err != nil {
			t.Errorf("CheckSchema of a newer schema failed: %v", err)
		}
	})
}

// TestUsageIsCountedAgain checks that Migrate replaces the tables of the former migration 0074 with empty
// tables, so that a vault counts its usage again.
func TestUsageIsCountedAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		exec(t, d, `DROP TABLE usage_counting`)
		exec(t, d, `INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES (1, 202611, 3, 7, 0)`)
		exec(t, d, `UPDATE schema_migrations SET version = 74, name = '0074_institution_usage.sql' WHERE version = 79`)
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM institution_usage) + (SELECT count(*) FROM usage_counting)`).Scan(&n); err != nil || n != 0 {
			t.Errorf("the new tables of a vault without certificates have %d rows, %v, want 0", n, err)
		}
	})
}

// TestNewerSchemaIsRejected checks that neither Migrate nor CheckSchema accepts a schema whose
// floor is above the version of this binary, and that both accept a floor at this version.
func TestNewerSchemaIsRejected(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		_, known, err := d.SchemaVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for floor, want := range map[int]error{known: nil, known + 1: db.ErrNewSchema} {
			exec(t, d, `UPDATE schema_floor SET version = $1, release = '7.5.0'`, floor)
			for name, check := range map[string]func(context.Context) error{"CheckSchema": d.CheckSchema, "Migrate": d.Migrate} {
				if err := check(t.Context()); !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), "install certvault 7.5.0 or newer") {
					t.Errorf("floor %d: %s = %v, want %v", floor, name, err, want)
				}
			}
		}
	})
}

// TestCheckSchemaChangesNothing checks that CheckSchema creates no schema in an empty database.
func TestCheckSchemaChangesNothing(t *testing.T) {
	empty(t, func(t *testing.T, d *db.DB) {
		if err := d.CheckSchema(t.Context()); !errors.Is(err, db.ErrOldSchema) {
			t.Errorf("CheckSchema = %v, want ErrOldSchema", err)
		}
		if isEmpty, err := d.IsEmpty(t.Context()); err != nil || !isEmpty {
			t.Errorf("IsEmpty = %v, %v, want true", isEmpty, err)
		}
	})
}

// TestFailedMigrationKeepsEarlierOnes checks that a failed migration does not undo earlier migrations,
// because each migration has its own transaction.
func TestFailedMigrationKeepsEarlierOnes(t *testing.T) {
	empty(t, func(t *testing.T, d *db.DB) {
		if err := d.MigrateBelow(t.Context(), 25); err != nil {
			t.Fatal(err)
		}
		before := len(appliedVersions(t, d))
		exec(t, d, `CREATE TABLE installations (n INTEGER)`) // migration 30 fails
		if err := d.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "0030_installation.sql") {
			t.Fatalf("Migrate = %v, want an error of 0030_installation.sql", err)
		}
		if after := appliedVersions(t, d); len(after) <= before || slices.Contains(after, 30) {
			t.Errorf("applied versions = %v, want those of the migrations before 30", after)
		}
		exec(t, d, `DROP TABLE installations`)
		if err := d.Migrate(t.Context()); err != nil {
			t.Errorf("Migrate after the cause was removed failed: %v", err)
		}
	})
}

// TestMigrationDoesNotBlockReaders checks that a migration waits only briefly for a lock, so that
// statements of a running server continue, and that the migration is applied later.
func TestMigrationDoesNotBlockReaders(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), "", dbtest.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := t.Context()
	if err := d.MigrateBelow(ctx, 26); err != nil { // migration 26 locks the table allowances
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `LOCK TABLE allowances IN ACCESS SHARE MODE`); err != nil {
			return err
		}
		go func() { migrated <- d.Migrate(ctx) }()
		for waiting := false; !waiting; {
			// The statement also prevents the timeout of an idle transaction.
			if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'allowances'::regclass AND NOT granted)`).Scan(&waiting); err != nil {
				return err
			}
		}
		var n int
		return d.QueryRowContext(ctx, `SELECT count(*) FROM allowances`).Scan(&n)
	}); err != nil {
		t.Errorf("reading a table while a migration waits for it failed: %v", err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("Migrate after the lock was released failed: %v", err)
	}
	if err := d.CheckSchema(ctx); err != nil {
		t.Error(err)
	}
}
