package quota

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// firstStep and maxStep are the smallest and the largest size of a step, in certificates. The first
	// step has the size firstStep.
	firstStep = 500
	maxStep   = 20_000
	// stepTime is the time that a step should take at most. On SQLite, writers wait for a step.
	stepTime = 50 * time.Millisecond
)

// Count counts the certificates that existed before the counters. Each step is one transaction, which counts
// the next certificates in the order of their ids and stores the id up to which certificates are counted.
// Therefore Count can be interrupted at any time, and several servers may call it at once. Count returns nil
// when all certificates are counted.
//
// Certificates may change during the counting. A trigger stores each change of the bytes as a row, and marks
// the row if the certificate is not counted yet. A step counts the bytes in the records of certificates, and
// sets the bytes of the marked rows that it sees to 0, because the records already include these changes.
// Rows that the step does not see keep their bytes. On PostgreSQL, no writer waits for a step.
func Count(ctx context.Context, d *db.DB) error {
	for size := firstStep; ; {
		began := time.Now()
		left, err := countNext(ctx, d, size)
		if err != nil {
			return fmt.Errorf("counting what institutions use: %w", err)
		}
		if !left {
			return nil
		}
		took := time.Since(began)
		switch {
		case took > stepTime:
			size = max(size/2, firstStep)
		case took < stepTime/2:
			size = min(2*size, maxStep)
		}
		// Pause for as long as the step took, so that other work can use the database.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(took):
		}
	}
}

// countNext counts at most size certificates, and reports whether there may be more certificates to count.
func countNext(ctx context.Context, d *db.DB, size int) (left bool, err error) {
	err = d.Tx(ctx, func(tx *db.Tx) error {
		left = false
		if tx.Dialect() == db.PostgreSQL {
			// All statements must see the same changes. If two servers do the same step, one of them gets a
			// serialization failure, and its transaction is repeated with the next step.
			if _, err := tx.ExecContext(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
				return err
			}
		}
		var from, last int64
		err := tx.QueryRowContext(ctx, `SELECT counted_id, last_id FROM usage_counting`).Scan(&from, &last)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		var n int
		var to int64
		if err := tx.QueryRowContext(ctx, `
			SELECT count(*), coalesce(max(id), 0) FROM (SELECT id FROM certificates WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3) AS next`,
			from, last, size).Scan(&n, &to); err != nil {
			return err
		}
		if left = n == size; left {
			_, err = tx.ExecContext(ctx, `UPDATE usage_counting SET counted_id = $1`, to)
		} else {
			to = last
			_, err = tx.ExecContext(ctx, `DELETE FROM usage_counting`)
		}
		if err != nil {
			return err
		}
		return countTx(ctx, tx, from, to)
	})
	return left, err
}

// monthOf has the SQL expression for the month in which a certificate was created, as in the triggers.
var monthOf = map[db.Dialect]string{
	db.PostgreSQL: `month_of(c.created_at)`,
	db.SQLite:     `CAST(strftime('%Y%m', c.created_at / 1000000, 'unixepoch') AS INTEGER)`,
}

// countTx counts the certificates whose id is above from and at most to.
func countTx(ctx context.Context, tx *db.Tx, from, to int64) error {
	// If an application was approved after the triggers were created, its certificate is counted already.
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at)
		SELECT institution_id, month, sum(accepted), sum(bytes), max(updated_at) FROM (
			SELECT c.institution_id, `+monthOf[tx.Dialect()]+` AS month, c.updated_at,
				CASE WHEN (c.source <> 'customer' OR c.status NOT IN ('pending', 'in_review', 'rejected', 'withdrawn', 'expired'))
					AND NOT EXISTS (SELECT 1 FROM institution_usage u WHERE u.certificate_id = c.id AND u.certificates > 0) THEN 1 ELSE 0 END AS accepted,
				CASE WHEN c.files_ended_at IS NOT NULL THEN 0 WHEN c.whole THEN coalesce(c.verified_size, c.size) + c.size ELSE coalesce(c.verified_size, c.size) END AS bytes
			FROM certificates c WHERE c.id > $1 AND c.id <= $2) AS counted
		GROUP BY institution_id, month`, from, to); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE institution_usage SET bytes = 0, certificate_id = NULL WHERE certificate_id > $1 AND certificate_id <= $2`, from, to)
	return err
}
