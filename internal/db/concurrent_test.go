package db_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestIndexIsCreatedWhileOthersWrite checks that a migration replaces an invalid index while other
// transactions write to its table.
func TestIndexIsCreatedWhileOthersWrite(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	ctx := t.Context()
	exec(t, d, `DELETE FROM schema_migrations WHERE name = '0063_damaged.sql'`)
	exec(t, d, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'certificate_checks_failed_idx'::regclass`)
	migrated := make(chan error, 1)
	if err := d.Tx(ctx, func(tx *db.Tx) error {
		for _, statement := range []string{`SET LOCAL idle_in_transaction_session_timeout = 0`, `LOCK TABLE certificate_checks IN ROW EXCLUSIVE MODE`} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		go func() { migrated <- d.Migrate(ctx) }()
		// The migration waits for this transaction, and another transaction can still write.
		for waiting := 0; waiting == 0; {
			if err := d.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
				AND query LIKE '%INDEX CONCURRENTLY%'`).Scan(&waiting); err != nil {
				return err
			}
			select {
			case err := <-migrated:
				return errors.Join(errors.New("the migration ended before the transaction"), err)
			case <-time.After(time.Millisecond):
			}
		}
		return d.Tx(ctx, func(other *db.Tx) error {
			if _, err := other.ExecContext(ctx, `SET LOCAL lock_timeout = 1000`); err != nil {
				return err
			}
			_, err := other.ExecContext(ctx, `DELETE FROM certificate_checks`)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	var valid bool
	if err := d.QueryRowContext(ctx, `SELECT indisvalid FROM pg_index WHERE indexrelid = 'certificate_checks_failed_idx'::regclass`).Scan(&valid); err != nil || !valid {
		t.Errorf("indisvalid = %v, %v, want true", valid, err)
	}
}

// TestIndexesReplaceFormerOnes checks that the migrations that create indexes concurrently lead to the same
// indexes in a new vault, in a vault of release 0.1.0 and in a vault of the development branch. A vault of
// the development branch already has valid indexes, and the migrations do not create them again.
func TestIndexesReplaceFormerOnes(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.MigratedURL(t))
	definitions := func() []string {
		t.Helper()
		list, err := db.Column[string](d.QueryContext(t.Context(), `SELECT indexdef || CASE WHEN indisvalid THEN '' ELSE ' invalid' END
			FROM pg_indexes JOIN pg_index ON indexrelid = indexname::regclass WHERE schemaname = 'public' ORDER BY indexname`))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	// An index that was created again has another file.
	files := func() []string {
		t.Helper()
		list, err := db.Column[string](d.QueryContext(t.Context(), `SELECT relname || relfilenode FROM pg_class WHERE relkind = 'i' AND relname ~ '^(certificates|batches)_' ORDER BY 1`))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want, before := definitions(), files()
	exec(t, d, `DELETE FROM schema_migrations WHERE name = '0080_indexes.sql'`)
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := files(); !slices.Equal(got, before) {
		t.Errorf("files of the indexes of a vault of the development branch = %v, want %v", got, before)
	}
	for _, statement := range []string{
		`DELETE FROM schema_migrations WHERE name IN ('0033_issuers.sql', '0080_indexes.sql')`,
		`DROP INDEX certificates_sha256_idx`,
		`CREATE INDEX certificates_sha256_idx ON certificates (sha256) WHERE status IN ('approved', 'revoked')`,
		`DROP INDEX certificates_values_key`,
		`CREATE UNIQUE INDEX certificates_email_folded_title_issue_date_key ON certificates (institution_id, email_folded, title, issue_date) WHERE source = 'vault'`,
		`DROP INDEX certificates_replaces_key`,
		`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'certificates_lineage_idx'::regclass`,
	} {
		exec(t, d, statement)
	}
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := definitions(); !slices.Equal(got, want) {
		t.Errorf("indexes after the migration = %v, want %v", got, want)
	}
}

// largeTables matches the names of tables that grow with certificates, events, mails, changes or people.
const largeTables = `(?:applications|application_events|application_files|audit_entries|batches|batch_entries|certificates|certificate_checks|certificate_expiries|` +
	`certificate_search|certificate_signatures|corrections|credentials|credential_status_entries|credential_versions|customers|devices|idempotency_keys|` +
	`mail_links|mails|notices|planned_notices|portfolio_entries|sessions|shares|unsubscribes|users|user_addresses|verification_counts|` +
	`webhook_attempts|webhook_deliveries|webhook_events)\b`

var (
	bodyOrComment = regexp.MustCompile(`(?s)\$\$.*?\$\$|--[^\n]*`)
	createdTable  = regexp.MustCompile(`CREATE (?:UNLOGGED )?TABLE (\w+)`)
	largeTable    = regexp.MustCompile(largeTables)
	// longStatements matches statements that read or write all rows of a large table, or create an index on it.
	longStatements = regexp.MustCompile(`CREATE (?:UNIQUE )?INDEX\s.*\sON ` + largeTables +
		`|ALTER TABLE ` + largeTables + `.* (?:PRIMARY|UNIQUE|CHECK|REFERENCES|EXCLUDE|TYPE|SET NOT NULL|SET LOGGED|SET UNLOGGED|GENERATED|DEFAULT \w+\()` +
		`|(?:UPDATE|FROM|JOIN) ` + largeTables)
	// shortStatements matches the exceptions: a constraint for new rows only, and a query that reads only the
	// end of an index.
	shortStatements = regexp.MustCompile(`NOT VALID$|SELECT [^()]*max\(id\) FROM \w+ HAVING max\(id\) > 0$`)
)

// longIn returns the statements of a migration that may hold locks on large tables for a long time. A table
// that the migration creates is empty, so longIn ignores it.
func longIn(text string) (found []string) {
	text = bodyOrComment.ReplaceAllString(text, "")
	var created []string
	for _, m := range createdTable.FindAllStringSubmatch(text, -1) {
		created = append(created, m[1])
	}
	for statement := range strings.SplitSeq(text, ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		long := longStatements.FindString(statement)
		if long == "" || shortStatements.MatchString(statement) || slices.Contains(created, largeTable.FindString(long)) {
			continue
		}
		found = append(found, statement)
	}
	return found
}

// TestMigrationsDoNotHoldUpWriters checks that no migration since release 0.1.0 creates an index on a large
// table, checks a constraint on its rows, or reads its rows in a transaction. Such a migration would hold its
// locks for a long time, and all writers would wait.
func TestMigrationsDoNotHoldUpWriters(t *testing.T) {
	t.Parallel()
	migrations, err := db.TransactionalMigrations(22)
	if err != nil || len(migrations) < 40 {
		t.Fatalf("%d migrations, %v, want at least 40", len(migrations), err)
	}
	for name, text := range migrations {
		for _, statement := range longIn(text) {
			t.Errorf("%s blocks the writers of a large table; begin the migration with the line %q and let it create the index concurrently, "+
				"or leave the change of data to a periodic task: %s", name, "-- outside a transaction", statement)
		}
	}
}

// TestLongStatementsAreFound checks which statements longIn returns.
func TestLongStatementsAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"ALTER TABLE certificates ADD COLUMN a TEXT;\nCREATE UNIQUE INDEX i\n    ON certificates (a) WHERE a IS NOT NULL;":               1,
		"CREATE INDEX i ON audit_entries USING gin (a)":                                                                                  1,
		"ALTER TABLE users ADD COLUMN a BIGINT REFERENCES templates (id); ALTER TABLE users ADD COLUMN b BOOLEAN NOT NULL DEFAULT false": 1,
		"ALTER TABLE mails ADD CONSTRAINT c CHECK (a > 0); ALTER TABLE mails ADD CONSTRAINT c CHECK (a > 0) NOT VALID":                   1,
		"ALTER TABLE notices ALTER COLUMN a TYPE TEXT; ALTER TABLE notices ALTER COLUMN a SET NOT NULL":                                  2,
		"UPDATE webhook_events SET a = 1; DELETE FROM batch_entries; INSERT INTO templates SELECT a FROM shares":                         3,
		"CREATE TABLE credentials (id BIGINT); CREATE INDEX i ON credentials (id); CREATE INDEX i ON templates (id)":                     0,
		"-- UPDATE users;\nCREATE FUNCTION f() AS $$ BEGIN UPDATE users SET a = 1; END $$":                                               0,
	} {
		if got := longIn(text); len(got) != want {
			t.Errorf("%s: longIn = %q, want %d statements", text, got, want)
		}
	}
}
