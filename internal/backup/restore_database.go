package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/webhook"
)

// finishSQLite prepares the copied database and moves it to the data folder. Before the move, the
// database is in the folder restoringDir, where no other process opens it.
func (t *target) finishSQLite(ctx context.Context, r db.Restore) error {
	dir := filepath.Join(t.data, restoringDir)
	ctx = db.Unlimited(ctx)
	d, err := db.Open(ctx, dir, "")
	if err != nil {
		return err
	}
	// When the last connection is closed, SQLite writes the write-ahead log to the database and removes
	// the log.
	if err := errors.Join(prepare(ctx, d, r), d.Close()); err != nil {
		return err
	}
	from, to := filepath.Join(dir, db.FileName), filepath.Join(t.data, db.FileName)
	if _, err := os.Stat(from + "-wal"); err == nil {
		return fmt.Errorf("completing the restore: %s-wal exists", from)
	}
	if err := syncAll(dir); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("completing the restore: %w", err)
	}
	return blob.SyncDir(t.data)
}

// openDatabase opens the PostgreSQL database of the target, checks its content and marks it.
func (t *target) openDatabase(ctx context.Context) (err error) {
	if _, err := programVersion(ctx, "pg_restore"); errors.Is(err, exec.ErrNotFound) && !t.header.FilesOnly {
		return errors.New("pg_restore is not installed; install the client programs of PostgreSQL (package postgresql-client)")
	}
	// A restore has long statements, so the database is opened without statement_timeout.
	if t.db, err = db.Open(db.Unlimited(ctx), t.data, t.database); err != nil {
		return err
	}
	if err := t.db.CheckRestoring(ctx); err != nil {
		return err
	}
	if t.header.FilesOnly {
		err = t.checkRestoredDatabase(ctx)
	} else {
		err = t.checkEmptyDatabase(ctx)
	}
	if err != nil {
		return err
	}
	if err := t.db.BeginRestore(ctx); err != nil {
		return err
	}
	t.marked = true
	return nil
}

// checkEmptyDatabase returns ErrNotEmpty if the database contains a relation, such as a table.
func (t *target) checkEmptyDatabase(ctx context.Context) error {
	name, err := t.db.FirstTable(ctx)
	if err == nil && name != "" {
		err = fmt.Errorf("%w: the database of --database has the table %s; create a new database for the restore", ErrNotEmpty, name)
	}
	return err
}

// checkRestoredDatabase is for a backup without a database. It checks that the database of the target
// was restored by other means, belongs to the installation of the backup, and is not used by a server.
func (t *target) checkRestoredDatabase(ctx context.Context) error {
	empty, err := t.db.IsEmpty(ctx)
	if err != nil {
		return err
	}
	if empty {
		return errors.New("the backup contains no database; first restore the database of --database with the program that backed it up")
	}
	id, err := t.db.Installation(ctx)
	if err != nil {
		return err
	}
	if id != t.header.Installation {
		return fmt.Errorf("%w: the database of --database has the installation id %s, and the backup has %s", ErrOtherInstallation, id, t.header.Installation)
	}
	return checkUnused(ctx, t.db)
}

// checkUnused returns ErrInUse if a server uses a database.
func checkUnused(ctx context.Context, d *db.DB) error {
	if _, err := d.SyncClock(ctx); err != nil {
		return err
	}
	alive, err := job.Alive(ctx, d, d.Now())
	if err == nil && alive > 0 {
		err = fmt.Errorf("%w: a server uses the database of --database", ErrInUse)
	}
	return err
}

// finishPostgres loads the dump of a backup, if the backup has one, and prepares the database. dir is
// the folder of the backup.
func (t *target) finishPostgres(ctx context.Context, dir string, r db.Restore) error {
	if !t.header.FilesOnly {
		// pg_restore must not set comments, because only the owner of an extension may set its comment.
		if err := runProgram(ctx, t.database, "pg_restore", "--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges", "--no-comments",
			filepath.Join(dir, filepath.FromSlash(dumpName))); err != nil {
			return fmt.Errorf("loading the dump into the database: %w", err)
		}
		t.loaded = true
		// The statistics of the query planner are not in the dump.
		if err := t.db.Analyze(ctx); err != nil {
			return err
		}
	}
	return prepare(db.Unlimited(ctx), t.db, r)
}

// abandonDatabase removes the mark from the database after a restore failed. If the database has the
// data of the backup, abandonDatabase keeps the mark and returns db.ErrRestoring.
func (t *target) abandonDatabase(ctx context.Context) error {
	if !t.marked {
		return nil
	}
	if t.loaded {
		return db.ErrRestoring
	}
	return t.db.Tx(ctx, func(tx *db.Tx) error { return db.EndRestoreTx(ctx, tx) })
}

// prepare migrates a restored database to the schema of this binary and prepares it for use. It skips
// the ids that the original vault may have used after the backup. It ends all sessions and links, because
// these may have been ended or used after the backup. It releases the jobs, idempotency keys and leases of
// processes that no longer exist.
func prepare(ctx context.Context, d *db.DB, r db.Restore) error {
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	err := d.Tx(ctx, func(tx *db.Tx) error {
		institutions, err := account.InstitutionIDs(ctx, tx)
		if err != nil {
			return err
		}
		for _, step := range []func() error{
			func() error { return db.AdvanceIDsTx(ctx, tx) },
			func() error { return recipient.AdvanceNumbersTx(ctx, tx, institutions) },
			func() error { return identity.EndAllTx(ctx, tx) },
			func() error { return account.EndLinksTx(ctx, tx, r.RestoredAt) },
			func() error { return job.ForgetNodesTx(ctx, tx) },
			func() error { return limit.ReleaseAllTx(ctx, tx) },
			func() error { return webhook.FreeLeasesTx(ctx, tx) },
			func() error { return issuer.CloseListsTx(ctx, tx) },
			func() error { return db.RecordRestoreTx(ctx, tx, r) },
			func() error { return recordTx(ctx, tx, audit.VaultRestored, r.RestoredAt, &r) },
			func() error { return db.EndRestoreTx(ctx, tx) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("preparing the restored database: %w", err)
	}
	return nil
}

// recordTx writes an entry about a restore to the audit log of the installation.
func recordTx(ctx context.Context, tx *db.Tx, action audit.Action, at time.Time, r *db.Restore) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		At: at, Action: action, Subject: audit.Subject{Type: "vault"}, Detail: audit.Detail{"copied_at": r.CopiedAt, "restored_at": r.RestoredAt, "drill": r.Drill},
	})
}
