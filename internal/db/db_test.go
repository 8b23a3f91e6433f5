package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func insertInstitution(ctx context.Context, tx *db.Tx, uuid, slug string) error {
	_, err := tx.ExecContext(ctx,
		`INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $2, $3, $4, $5)`,
		uuid, slug, slug, slug, db.Micros(time.Now()))
	return err
}

func countInstitutions(t *testing.T, d *db.DB) int {
	t.Helper()
	var n int
	if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM institutions`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTxCommitsAndRollsBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		boom := errors.New("boom")
		err := d.Tx(ctx, func(tx *db.Tx) error {
			if err := insertInstitution(ctx, tx, "a", "a"); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Fatalf("error = %v, want boom", err)
		}
		if n := countInstitutions(t, d); n != 0 {
			t.Fatalf("%d rows after a rollback, want 0", n)
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error { return insertInstitution(ctx, tx, "a", "a") }); err != nil {
			t.Fatal(err)
		}
		if n := countInstitutions(t, d); n != 1 {
			t.Fatalf("%d rows after a commit, want 1", n)
		}
	})
}

// TestRelaxedTransactionRestoresDurability checks that a relaxed transaction commits and rolls back like
// any other transaction, and that the transactions after it are durable.
func TestRelaxedTransactionRestoresDurability(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		setting, fast, safe := `PRAGMA synchronous`, "1", "2"
		if d.Dialect == db.PostgreSQL {
			setting, fast = `SHOW synchronous_commit`, "off"
			// On the test server, this setting may be off.
			if err := d.QueryRowContext(ctx, setting).Scan(&safe); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(want string, result error) func(tx *db.Tx) error {
			return func(tx *db.Tx) error {
				var got string
				if err := tx.QueryRowContext(ctx, setting).Scan(&got); err != nil || got != want {
					t.Errorf("%s = %s, %v, want %s", setting, got, err, want)
				}
				return result
			}
		}
		boom := errors.New("boom")
		canceled, cancel := context.WithCancel(ctx)
		for name, relaxed := range map[string]func() error{
			"committed":   func() error { return d.TxRelaxed(ctx, expect(fast, nil)) },
			"rolled back": func() error { return d.TxRelaxed(ctx, expect(fast, boom)) },
			"canceled": func() error {
				return d.TxRelaxed(canceled, func(*db.Tx) error {
					cancel()
					return boom
				})
			},
			"panicked": func() (err error) {
				defer func() {
					if recover() != nil {
						err = boom
					}
				}()
				return d.TxRelaxed(ctx, func(*db.Tx) error { panic("boom") })
			},
		} {
			if err := relaxed(); (err == nil) != (name == "committed") {
				t.Errorf("%s: TxRelaxed = %v, want nil only after a commit", name, err)
			}
			for range 3 {
				if err := d.Tx(ctx, expect(safe, nil)); err != nil {
					t.Error(err)
				}
			}
		}
		if err := d.TxRelaxed(ctx, func(tx *db.Tx) error { return insertInstitution(ctx, tx, "a", "a") }); err != nil {
			t.Fatal(err)
		}
		if n := countInstitutions(t, d); n != 1 {
			t.Errorf("%d rows after a commit, want 1", n)
		}
	})
}

// TestAfterCommitRunsOnlyAfterCommit checks that a function that was passed to AfterCommit runs after the
// commit, when the change is visible, and does not run after a rollback.
func TestAfterCommitRunsOnlyAfterCommit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		seen := -1
		boom := errors.New("boom")
		for _, end := range []error{boom, nil} {
			err := d.Tx(ctx, func(tx *db.Tx) error {
				tx.AfterCommit(func() { seen = countInstitutions(t, d) })
				return errors.Join(insertInstitution(ctx, tx, "a", "a"), end)
			})
			if !errors.Is(err, end) {
				t.Fatalf("error = %v, want %v", err, end)
			}
			if end != nil && seen != -1 {
				t.Fatal("the function of AfterCommit ran after a rollback")
			}
		}
		if seen != 1 {
			t.Fatalf("the function of AfterCommit read %d rows, want 1", seen)
		}
	})
}

func TestUniqueOn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		add := func(slug string) error {
			return d.Tx(ctx, func(tx *db.Tx) error { return insertInstitution(ctx, tx, "same", slug) })
		}
		if err := add("a"); err != nil {
			t.Fatal(err)
		}
		err := add("b")
		if !db.IsUnique(err) || !db.UniqueOn(err, "institutions", "uuid") {
			t.Fatalf("error = %v, want a unique violation on uuid", err)
		}
		if db.UniqueOn(err, "certificates", "uuid") || db.IsUnique(errors.New("x")) {
			t.Fatal("an error of another kind or table is reported as a unique violation")
		}
	})
}

// TestConcurrentTransactionsSucceed checks that transactions of many goroutines can change the same row,
// without an error and without a lost change.
func TestConcurrentTransactionsSucceed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('n', 0, 0)`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		const writers, each = 10, 10
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if err := d.Tx(ctx, func(tx *db.Tx) error {
						// FOR UPDATE exists only in PostgreSQL. A single statement that reads and
						// writes works in both databases.
						var n int64
						return tx.QueryRowContext(ctx,
							`UPDATE nodes SET heartbeat_at = heartbeat_at + 1 WHERE id = 'n' RETURNING heartbeat_at`).Scan(&n)
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var n int
		if err := d.QueryRowContext(ctx, `SELECT heartbeat_at FROM nodes WHERE id = $1`, "n").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != writers*each {
			t.Fatalf("heartbeat_at = %d after all increments, want %d", n, writers*each)
		}
	})
}

// TestPanicRollsBack checks that a panic in a transaction rolls the transaction back and
// propagates, and that the connection is released for the next transaction.
func TestPanicRollsBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		insert := func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('n', 0, 0)`)
			return err
		}
		for range 20 { // more than the number of connections
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic did not propagate")
					}
				}()
				_ = d.Tx(ctx, func(tx *db.Tx) error {
					if err := insert(tx); err != nil {
						t.Error(err)
					}
					panic("nil map")
				})
			}()
		}
		if err := d.Tx(ctx, insert); err != nil {
			t.Fatalf("the insertion after a rollback failed: %v", err)
		}
	})
}

func TestMigrateTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		applied, known, err := d.SchemaVersion(t.Context())
		if err != nil || applied != known || known == 0 {
			t.Fatalf("SchemaVersion = %d, %d, %v, want equal versions", applied, known, err)
		}
	})
}

func TestReadPoolCannotWrite(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	var id int
	if err := d.QueryRowContext(t.Context(),
		`INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('n', 0, 0) RETURNING 1`).Scan(&id); err == nil {
		t.Fatal("the pool of readers accepted a write")
	}
}

func TestPostgresWithoutLocaleIsRejected(t *testing.T) {
	t.Parallel()
	u := dbtest.PostgresURL(t)
	d := dbtest.Open(t, "", u)
	if _, err := d.Writer().ExecContext(t.Context(), `CREATE DATABASE cv_plain_c TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := d.Writer().ExecContext(context.WithoutCancel(t.Context()), `DROP DATABASE cv_plain_c WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	plain, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	plain.Path = "/cv_plain_c"
	if other, err := db.Open(t.Context(), "", plain.String()); err == nil {
		t.Errorf("Open accepted a database with LC_CTYPE C; closing it: %v", other.Close())
	}
}

// TestMigrationToDeliveriesRetainsEvents checks that a migration from version 8 of the schema keeps an event
// and its delivery, and that a new delivery requires an existing event.
func TestMigrationToDeliveriesRetainsEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, err := sql.Open("sqlite", "file:"+filepath.Join(dir, db.FileName)+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	exec := func(query string) {
		t.Helper()
		if _, err := old.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("the statement %s failed: %v", query, err)
		}
	}
	exec(`CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)`)
	files, err := filepath.Glob("migrations/sqlite/000[1-8]_*.sql")
	if err != nil || len(files) < 4 {
		t.Fatalf("migrations = %v, %v, want at least 4", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		exec(string(text))
		number, name, _ := strings.Cut(filepath.Base(file), "_")
		exec(fmt.Sprintf(`INSERT INTO schema_migrations VALUES (%s, '%s', 0)`, number, name))
	}
	exec(`INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ('i', 'i', 'i', 'I', 0)`)
	exec(`INSERT INTO certificates (uuid, institution_id, reference_id, reference_folded, title, full_name, email, email_folded, issue_date, search_text,
		source, trigger_context, event_context, status, creator_type, creator_name, file_name, mime_type, size, sha256, sha256_state, original_key,
		created_at, updated_at) VALUES ('c', 1, 'r', 'r', 't', 'n', 'e', 'e', 'd', '', 's', 't', 't', 'x', 'c', 'n', 'f', 'm', 1, x'00', x'01', 'k', 0, 0)`)
	exec(`INSERT INTO webhook_endpoints (uuid, institution_id, url, events, secret, status, created_at) VALUES ('e', 1, 'u', '[]', x'00', 'active', 0)`)
	exec(`INSERT INTO webhook_events (id, uuid, institution_id, certificate_id, name, payload, occurred_at) VALUES (7, 'w', 1, 1, 'n', '{}', 0)`)
	exec(`INSERT INTO webhook_deliveries (id, event_id, endpoint_id, body, status, due_at, created_at) VALUES (9, 7, 1, '{"a":1}', 'pending', 5, 6)`)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	d := dbtest.Open(t, dir, "")
	var body, event string
	var due int64
	var replay bool
	if err := d.QueryRowContext(t.Context(), `
		SELECT d.body, d.due_at, d.replay, e.uuid FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id WHERE d.id = 9 AND d.status = 'pending'`).
		Scan(&body, &due, &replay, &event); err != nil || body != `{"a":1}` || due != 5 || replay || event != "w" {
		t.Errorf("after the migration: body = %q, due_at = %d, replay = %v, event = %q, %v, want the values before the migration", body, due, replay, event, err)
	}
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO webhook_deliveries (event_id, endpoint_id, body, status, due_at, created_at) VALUES (99, 1, '', 'pending', 0, 0)`)
		return err
	}); err == nil {
		t.Error("a delivery of a missing event was accepted")
	}
}
