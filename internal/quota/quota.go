// Package quota counts what each institution uses, and checks the limits that an operator has set. The
// counters are maintained by triggers and added up by a sweep, so that no check counts certificates.
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
	// ChangedAt is the time at which a certificate or a staged file last changed, or nil.
	ChangedAt *time.Time `json:"changed_at"`
	// Counting reports that certificates from before an upgrade are still being counted. Storage and
	// Certificates are then at most the real numbers.
	Counting bool `json:"counting"`
}

// month returns the month of a time in UTC as the counters have it, such as 202611.
func month(at time.Time) int { return at.UTC().Year()*100 + int(at.UTC().Month()) }

// Of returns what the institutions with the ids use.
func Of(ctx context.Context, q db.Queryer, now time.Time, ids ...int64) (map[int64]Usage, error) {
	// This is read before the sums. If it was read after them and the counting ended in between, sums that
	// are too low would be reported as complete.
	var counting bool
	if err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM usage_counting)`).Scan(&counting); err != nil {
		return nil, fmt.Errorf("reading whether certificates are being counted: %w", err)
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

// sums returns the sums of the counters of the institutions with the ids. An institution that never had a
// certificate is missing.
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
			u.Storage = max(u.Storage, 0) // negative if certificates are deleted before they are counted
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

// CheckTx returns fault.Forbidden if an institution cannot have a number of further certificates, or a
// number of further bytes. The message names the limit, what is used, and who can change it. For an
// institution without limits, CheckTx executes no statement. With a limit, the checks of the institution
// wait for each other until their transactions end, so that the limit is never exceeded: on PostgreSQL by
// a lock, and on SQLite because it has one writer.
func CheckTx(ctx context.Context, tx *db.Tx, i *account.Institution, now time.Time, certificates int, bytes int64) error {
	if i.Limits.Certificates == 0 && i.Limits.Storage == 0 {
		return nil
	}
	if tx.Dialect() == db.PostgreSQL {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lockClass+i.ID); err != nil {
			return fmt.Errorf("locking what an institution uses: %w", err)
		}
	}
	all, err := sums(ctx, tx, now, i.ID)
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
	// At the limit, a certificate from a template is refused too, although the size of its file is not
	// known.
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

// foldBatch bounds the rows that one transaction folds.
const foldBatch = 5000

type key struct{ institution, month int64 }

type sum struct{ certificates, bytes, changed int64 }

// Fold adds up the changes since the last call. Each transaction removes changes and inserts their sum, so
// the counters are always exact. Fold leaves changes that Count still needs.
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

// removeTx removes up to foldBatch rows of the months that have several rows. It returns the sum of the
// removed rows of each month and the number of removed rows.
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
