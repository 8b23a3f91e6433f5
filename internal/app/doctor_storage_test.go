package app

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestDoctorDetectsBrokenStorage checks that all findings about a new database are good. It then checks
// the findings about late mail, a late backup, a damaged file, a late check of a file, and a database
// that accepts no writes.
func TestDoctorDetectsBrokenStorage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx, now := t.Context(), time.Now()
		findings := func() map[string]Finding {
			found := map[string]Finding{}
			for _, f := range examineStorage(ctx, d, false, now) {
				found[f.Name] = f
			}
			return found
		}
		good := findings()
		for name, f := range good {
			if name != "durability" && !f.Good { // PostgreSQL has fsync=off in most runs of the tests
				t.Errorf("%s: finding about a new database = %q, want a good one", name, f.Detail)
			}
		}
		only := "clock"
		if d.Dialect == db.SQLite {
			only = "database structure"
		}
		for _, name := range []string{only, "database writes", "database transactions", "mail", "backups", "stored files", "checks of stored files"} {
			if _, ok := good[name]; !ok {
				t.Errorf("there is no finding %s", name)
			}
		}
		exec := func(statement string, args ...any) {
			t.Helper()
			if _, err := d.Writer().ExecContext(ctx, statement, args...); err != nil {
				t.Fatal(err)
			}
		}
		d.Writer().SetMaxOpenConns(1)
		readOnly := `PRAGMA query_only = 1`
		if d.Dialect == db.SQLite {
			exec(`PRAGMA foreign_keys = 0`)
		} else {
			exec(`SET session_replication_role = replica`)
			readOnly = `SET default_transaction_read_only = on`
		}
		exec(`INSERT INTO mails (uuid, message, status, created_at, updated_at) VALUES ('m', '', 'queued', $1, $1)`, db.Micros(now.Add(-2*time.Hour)))
		exec(`INSERT INTO certificate_checks (certificate_id, name, result, checked_at) VALUES (1, 'file', 'failed', 1)`)
		exec(`UPDATE backups SET every_seconds = 3600, started_at = $1, completed_at = $1, dir = '/backups/a'`, db.Micros(now.Add(-3*time.Hour)))
		exec(readOnly)
		found := findings()
		for name, want := range map[string]string{
			"mail": "has been waiting since", "stored files": "1 certificate with a file that failed", "database writes": "accepts no writes",
			"backups": "although one is made every 1h", "checks of stored files": "the oldest check of a file was on 1970-01-01",
		} {
			if f := found[name]; f.Good || !strings.Contains(f.Detail, want) {
				t.Errorf("%s: finding = %+v, want %s", name, f, want)
			}
		}
		if !found["checks of stored files"].Warning {
			t.Error("a late check of a stored file is an error, want a warning")
		}
	})
}

// TestDoctorExaminesDurability checks the findings about a server without fsync, and about a URL with
// synchronous_commit=off.
func TestDoctorExaminesDurability(t *testing.T) {
	t.Parallel()
	address := dbtest.PostgresURL(t)
	examine := func(parameter string) (fsync string, err error) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		query.Set("synchronous_commit", parameter)
		u.RawQuery = query.Encode()
		d := dbtest.Open(t, "", u.String())
		if err := d.QueryRowContext(t.Context(), `SHOW fsync`).Scan(&fsync); err != nil {
			t.Fatal(err)
		}
		_, err = examineDurability(t.Context(), d, false)
		return fsync, err
	}
	for _, parameter := range []string{"on", "off"} {
		fsync, err := examine(parameter)
		switch {
		case fsync == "off":
			if err == nil || !strings.Contains(err.Error(), "fsync of the server is off") {
				t.Errorf("without fsync: %v, want an error about it", err)
			}
		case (err != nil) != (parameter == "off"):
			t.Errorf("with synchronous_commit=%s: %v, want an error only for off", parameter, err)
		}
	}
}

// TestDoctorDetectsMissingMailServer checks that doctor reports messages that were not sent, until a
// mail server has accepted a later message.
func TestDoctorDetectsMissingMailServer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Now()
		for _, step := range []struct {
			status string
			good   bool
		}{{"unsent", false}, {"sent", true}, {"unsent", false}} {
			now = now.Add(time.Minute)
			if _, err := d.Writer().ExecContext(t.Context(), `INSERT INTO mails (uuid, message, status, created_at, updated_at) VALUES ($1, '', $2, $3, $3)`,
				now.String(), step.status, db.Micros(now)); err != nil {
				t.Fatal(err)
			}
			for _, f := range examineStorage(t.Context(), d, false, now) {
				if f.Name == "mail" && (f.Good != step.good || f.Warning == step.good || !f.Good && !strings.Contains(f.Detail, "1 message not sent, because no mail server is configured")) {
					t.Errorf("after a message with the status %s: finding = %+v, want good = %v", step.status, f, step.good)
				}
			}
		}
	})
}
