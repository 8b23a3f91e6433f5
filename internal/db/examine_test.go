package db_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestDamagedDatabaseIsDetected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := dbtest.Open(t, dir, "")
	if problems, err := d.QuickCheck(t.Context()); err != nil || len(problems) > 0 {
		t.Fatalf("QuickCheck of a new database = %v, %v, want no problems", problems, err)
	}
	var page int
	if err := d.QueryRowContext(t.Context(), `SELECT rootpage FROM sqlite_master WHERE name = 'webhook_deliveries'`).Scan(&page); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, db.FileName)
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	copy(file[(page-1)<<12:], strings.Repeat("\xff", 1<<12))
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := db.Open(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	problems, err := damaged.QuickCheck(t.Context())
	if err == nil && len(problems) == 0 {
		t.Error("QuickCheck of a damaged database found no problems")
	}
	if err := damaged.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadOnlyDatabaseIsDetected(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		if err := d.CheckWritable(ctx); err != nil {
			t.Fatal(err)
		}
		readOnly := `PRAGMA query_only = 1`
		if d.Dialect == db.PostgreSQL {
			d.Writer().SetMaxOpenConns(1)
			readOnly = `SET default_transaction_read_only = on`
		}
		if _, err := d.Writer().ExecContext(ctx, readOnly); err != nil {
			t.Fatal(err)
		}
		if err := d.CheckWritable(ctx); err == nil || !db.IsOutage(err) {
			t.Errorf("a read-only database: error = %v, want an outage", err)
		}
	})
}

func TestOldTransactionIsDetected(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		if text, err := d.OldTransaction(ctx, 0); err != nil || text != "" {
			t.Fatalf("without a transaction: OldTransaction = %q, %v, want an empty text", text, err)
		}
		if d.Dialect == db.SQLite {
			return // on SQLite, the test would need a backlog of 64 MB
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error {
			if _, err := tx.ExecContext(ctx, `SELECT 1`); err != nil {
				return err
			}
			text, err := d.OldTransaction(context.WithoutCancel(ctx), 0)
			if !strings.Contains(text, "(certvault, idle in transaction) has had a transaction since 20") {
				t.Errorf("OldTransaction = %q, want an idle transaction of certvault", text)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
