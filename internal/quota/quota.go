// Package quota counts what each institution uses, and checks the limits that an operator has set. Triggers
// and AddTx maintain the counters, and a sweep adds them up, so that no check counts certificates.
// Package account stores the limits; package limit counts requests.
package quota

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Usage is what an institution uses.
type Usage struct {
	// Storage is the size in bytes of the files of certificates and of staged files. A file that several
	// certificates share counts for each of them. Logos, templates and attachments do not count.
	Storage int64 `json:"storage"`
	// Certificates is the number of certificates that were accepted in the current month in UTC.
	Certificates int64 `json:"certificates"`
	// ChangedAt is the time of the last change that was counted, or nil if there was none.
	ChangedAt *time.Time `json:"changed_at"`
	// Counting reports whether certificates from before an upgrade are still being counted. Storage and
	// Certificates are then not above the real numbers, but may be too low.
	Counting bool `json:"counting"`
}

// month returns the year and month of a time in UTC as one number, such as 202611.
func month(at time.Time) int { return at.UTC().Year()*100 + int(at.UTC().Month()) }

// Of returns what the institutions with the ids use.
func Of(ctx context.Context, q db.Queryer, now time.Time, ids ...int64) (map[int64]Usage, error) {
	// usage_counting is read before the sums, because sums that were read during the counting must not be
	// reported as complete.
	var counting bool
	if err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM usage_counting)`).Scan(&counting); err != nil {
		return nil, fmt.Errorf("checking whether certificates are being counted: %w", err)
	}
	used, err := sums(ctx, q, now, ids...)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		u := used[id]
		u.Counting = counting
		used[id] = u
	}
	return used, nil
}

// sums returns the sums of the counters of the institutions with the ids. An institution without counters is
// not in the map.
func sums(ctx context.Context, q db.Queryer, now time.Time, ids ...int64) (map[int64]Usage, error) {
	used := map[int64]Usage{}
	if len(ids) == 0 {
		return used, nil
	}
	args := []any{month(now)}
	for _, id := range ids {
		args = append(args, id)
	}
	rows, err := q.QueryContext(ctx, `
		SELECT institution_id, sum(bytes), coalesce(sum(certificates) FILTER (WHERE month = $1), 0), max(changed_at) FROM institution_usage
		WHERE institution_id IN (`+db.Placeholders(2, len(ids))+`) GROUP BY institution_id`, args...)
	if err == nil {
		_, err = db.Collect(rows, func(rows *sql.Rows) (none struct{}, err error) {
			var id int64
			var u Usage
			var at sql.NullInt64
			err = rows.Scan(&id, &u.Storage, &u.Certificates, &at)
			u.Storage = max(u.Storage, 0) // the sum may be negative during the counting
			u.ChangedAt = db.OptionalTime(at)
			used[id] = u
			return none, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading what institutions use: %w", err)
	}
	return used, nil
}

// lockClass distinguishes the advisory locks of this package: "cvqt" in ASCII, in the upper 32 bits of the
// key. The institution's id is in the lower bits.
const lockClass = 0x63767174 << 32

// CheckTx returns fault.Forbidden if the given number of further certificates or bytes would exceed a
// limit of an institution. The message states the limit, what is used, and who can change the limit. For an
// institution without limits, CheckTx executes no statement. Otherwise the transactions that check the same
// institution run one after another, so that they cannot exceed the limit together: on PostgreSQL because
// of a lock, and on SQLite because it has one writer.
func CheckTx(ctx context.Context, tx *db.Tx, i *account.Institution, now time.Time, certificates int, bytes int64) error {
	if i.Limits.Certificates == 0 && i.Limits.Storage == 0 {
		return nil
	}
	if tx.Dialect() == db.PostgreSQL {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lockClass+i.ID); err != nil {
			return fmt.Errorf("locking what an institution uses: %w", err)
		}
	}
	return Check(ctx, tx, i, now, certificates, bytes)
}

// Check is CheckTx without the lock, for pages that show the message in advance. Concurrent transactions may
// change the result.
func Check(ctx context.Context, q db.Queryer, i *account.Institution, now time.Time, certificates int, bytes int64) error {
	if i.Limits.Certificates == 0 && i.Limits.Storage == 0 {
		return nil
	}
	all, err := sums(ctx, q, now, i.ID)
	if err != nil {
		return err
	}
	used := all[i.ID]
	if most := i.Limits.Certificates; most > 0 && certificates > 0 && used.Certificates+int64(certificates) > most {
		y, m, _ := now.UTC().Date()
		return fault.New(fault.Forbidden, fmt.Sprintf(
			"This would exceed the monthly limit of the institution “%s” on new certificates. Limit: %d; used: %d. "+
				"The next month begins on %s (UTC). The operator of this vault can change the limit.",
			i.Name, most, used.Certificates, time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)))
	}
	// The size of a certificate from a template is not known yet. It counts as 1 byte, so that it is refused
	// if the limit is reached.
	if most := i.Limits.Storage; most > 0 && used.Storage+max(bytes, 1) > most {
		return fault.New(fault.Forbidden, fmt.Sprintf(
			"This would exceed the storage limit of the institution “%s”. Limit: %d bytes; used: %d bytes. The operator of this vault can change the limit.",
			i.Name, most, used.Storage))
	}
	return nil
}

// AddTx counts the certificates of an accepted batch. A negative number subtracts entries of the batch
// that were rejected. at is the time at which the batch was accepted.
func AddTx(ctx context.Context, tx *db.Tx, institutionID int64, at time.Time, certificates int) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES ($1, $2, $3, 0, $4)`,
		institutionID, month(at), certificates, db.Micros(at)); err != nil {
		return fmt.Errorf("counting the certificates of a batch: %w", err)
	}
	return nil
}

// foldBatch is the maximum number of rows that one transaction of Fold removes.
const foldBatch = 5000

type key struct{ institution, month int64 }

type sum struct{ certificates, bytes, changed int64 }

// Fold adds up the rows of each institution and month. Each transaction removes rows and inserts their sum,
// so Fold does not change the numbers that Of returns. Fold does not remove the rows that Count still needs.
func Fold(ctx context.Context, d *db.DB) error {
	for {
		var taken, left int
		err := d.Tx(ctx, func(tx *db.Tx) error {
			sums, n, err := removeTx(ctx, tx)
			if err != nil {
				return err
			}
			taken, left = n, len(sums)
			for k, v := range sums {
				if _, err := tx.ExecContext(ctx, `INSERT INTO institution_usage (institution_id, month, certificates, bytes, changed_at) VALUES ($1, $2, $3, $4, $5)`,
					k.institution, k.month, v.certificates, v.bytes, v.changed); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("adding up what institutions use: %w", err)
		}
		if taken == left {
			return nil
		}
	}
}

// removeTx removes at most foldBatch rows of the institutions and months that have several rows. It returns
// the sum of the removed rows of each institution and month, and the number of removed rows.
func removeTx(ctx context.Context, tx *db.Tx) (sums map[key]sum, n int, err error) {
	rows, err := tx.QueryContext(ctx, `
		DELETE FROM institution_usage WHERE id IN (
			SELECT a.id FROM institution_usage a WHERE EXISTS (
				SELECT 1 FROM institution_usage b WHERE b.institution_id = a.institution_id AND b.month = a.month AND b.id <> a.id)
				AND (a.certificate_id IS NULL OR NOT EXISTS (SELECT 1 FROM usage_counting))`+
		tx.FirstLocked("a", "a.institution_id, a.month")+`)
		RETURNING institution_id, month, certificates, bytes, changed_at`, foldBatch)
	if err != nil {
		return nil, 0, err
	}
	sums = map[key]sum{}
	_, err = db.Collect(rows, func(rows *sql.Rows) (none struct{}, err error) {
		var k key
		var v sum
		if err := rows.Scan(&k.institution, &k.month, &v.certificates, &v.bytes, &v.changed); err != nil {
			return none, err
		}
		all := sums[k]
		sums[k] = sum{all.certificates + v.certificates, all.bytes + v.bytes, max(all.changed, v.changed)}
		n++
		return none, nil
	})
	return sums, n, err
}
