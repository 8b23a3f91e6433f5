package db

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// QuickCheck checks the structure of a SQLite database and returns the first problems, at most three. It
// reads the whole file. PostgreSQL has no equivalent check, so the result is empty on PostgreSQL.
func (d *DB) QuickCheck(ctx context.Context) (problems []string, err error) {
	if d.Dialect == PostgreSQL {
		return nil, nil
	}
	problems, err = Column[string](d.read.QueryContext(ctx, `PRAGMA quick_check(3)`))
	if err != nil {
		return nil, fmt.Errorf("checking the structure of the database: %w", err)
	}
	if len(problems) == 1 && problems[0] == "ok" {
		return nil, nil
	}
	return problems, nil
}

// errProbe rolls back the transaction of CheckWritable.
var errProbe = errors.New("the transaction is rolled back")

// CheckWritable returns an error if the database accepts no writes. CheckWritable changes no data.
func (d *DB) CheckWritable(ctx context.Context) error {
	err := d.Tx(ctx, func(tx *Tx) error {
		// A read-only database rejects the statement, although it changes no row, if it has not already
		// rejected the beginning of the transaction.
		if _, err := tx.ExecContext(ctx, `DELETE FROM schema_migrations WHERE version < 0`); err != nil {
			return err
		}
		return errProbe
	})
	if errors.Is(err, errProbe) {
		return nil
	}
	return fmt.Errorf("the database accepts no writes: %w", err)
}

// maxBacklog is the maximum number of pages, 64 MB, in the write-ahead log of SQLite that cannot be
// moved to the database because of a transaction. If there are more such pages, OldTransaction
// reports a problem.
const maxBacklog = 16384

// OldTransaction describes the oldest transaction that is older than age, or returns "". An old
// transaction holds locks and prevents the removal of old versions of rows. SQLite does not list
// transactions. On SQLite, OldTransaction ignores age and describes a write-ahead log that grows because
// of a transaction.
func (d *DB) OldTransaction(ctx context.Context, age time.Duration) (string, error) {
	if d.Dialect == SQLite {
		var busy, log, moved int
		if err := d.write.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &log, &moved); err != nil {
			return "", fmt.Errorf("reading the state of the write-ahead log: %w", err)
		}
		if log-moved > maxBacklog {
			return fmt.Sprintf("pages of the write-ahead log that cannot be moved to the database: %d; another program has an old transaction", log-moved), nil
		}
		return "", nil
	}
	list, err := Column[string](d.read.QueryContext(ctx, `
		SELECT 'process ' || pid || ' (' || application_name || ', ' || coalesce(state, 'unknown') || ') has had a transaction since ' || date_trunc('second', xact_start)
		FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < clock_timestamp() - $1 * interval '1 second'
		ORDER BY xact_start LIMIT 1`, age.Seconds()))
	if err != nil {
		return "", fmt.Errorf("reading the transactions of the database: %w", err)
	}
	if len(list) == 0 {
		return "", nil
	}
	return list[0], nil
}
