package deletion

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

const (
	// TaskInterval is the interval of the periodic task that calls Sweep.
	TaskInterval = 10 * time.Minute
	// sweepEvery is the minimum time between the starts of two sweeps.
	sweepEvery = 24 * time.Hour
	// takeover is the time without stored progress after which another node continues a sweep.
	takeover = 10 * time.Minute
	// minAge is the minimum age of a file for the sweep to consider it. The row of a younger file
	// may not be written yet.
	minAge = 2 * time.Hour
	// pageSize is the number of files for which rows are looked up at once.
	pageSize = 1000
)

var errLost = errors.New("another node continues the sweep of files")

// Sweep removes the files of interrupted uploads. If the last sweep of the store started at least a day
// ago and no other node is sweeping, Sweep then records the files to which no row refers, and deletes
// the files whose time to keep has ended. It continues an interrupted sweep after the last stored page.
// It does not sweep the store while a restore is not accepted.
func (s *Service) Sweep(ctx context.Context) error {
	if err := s.blobs.Clean(ctx, s.now().Add(-minAge)); err != nil {
		return fmt.Errorf("removing unfinished files: %w", err)
	}
	restore, err := s.db.LastRestore(ctx)
	if err != nil {
		return err
	}
	if restore.Pending() {
		if !restore.Drill {
			s.log.WarnContext(ctx, "files without records are kept until the restore is accepted with certvault restore --accept")
		}
		return nil
	}
	w, err := s.claim(ctx)
	if err != nil {
		return fmt.Errorf("claiming the sweep of files: %w", err)
	}
	if w == nil {
		return nil
	}
	err = w.run(ctx)
	if errors.Is(err, errLost) {
		s.log.WarnContext(ctx, "the sweep of files was too slow, and another node continues it")
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweeping files: %w", err)
	}
	return nil
}

// sweep is one sweep of the store by this node.
type sweep struct {
	*Service

	// id is a random text that identifies the claim of this node in blob_sweeps.
	id        string
	startedAt int64
	// after is the key up to which all files have been swept.
	after string

	files, found, deleted int
	size                  int64
}

// claim claims the sweep for this node. It returns nil if the sweep is not due or another node is
// sweeping.
func (s *Service) claim(ctx context.Context) (*sweep, error) {
	now := s.now()
	w := &sweep{Service: s, id: rand.Text()}
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		// If next_at is more than a day in the future, a clock was wrong, so the sweep is due.
		return tx.QueryRowContext(ctx, `
			UPDATE blob_sweeps SET claim = $1, next_at = $2, started_at = CASE WHEN after_key = '' THEN $3 ELSE started_at END
			WHERE id = 1 AND (next_at <= $3 OR next_at > $4) RETURNING started_at, after_key`,
			w.id, db.Micros(now.Add(takeover)), db.Micros(now), db.Micros(now.Add(sweepEvery))).Scan(&w.startedAt, &w.after)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is nothing to do
	}
	return w, err
}

// run sweeps the store.
func (w *sweep) run(ctx context.Context) error {
	page := make([]blob.Info, 0, pageSize)
	err := w.blobs.Walk(ctx, w.after, func(i blob.Info) error {
		if page = append(page, i); len(page) < pageSize {
			return nil
		}
		err := w.page(ctx, page, false)
		page = page[:0]
		return err
	})
	if err != nil {
		return err
	}
	if err := w.page(ctx, page, true); err != nil {
		return err
	}
	w.log.InfoContext(ctx, "swept the files", slog.Int("files", w.files), slog.Int("found", w.found),
		slog.Int("deleted", w.deleted), slog.Int64("bytes", w.size))
	return nil
}

// record is an entry of blob_deletions.
type record struct {
	due    int64
	erased bool
}

// change contains the changes of blob_deletions after one page of files.
type change struct {
	// add are the keys that get a record or an earlier time.
	add []string
	// remove are the keys whose records are removed.
	remove []string
}

// page sweeps the files of a page, which are all files after w.after up to the last file of the
// page, or up to the end of the store if last is true.
func (w *sweep) page(ctx context.Context, files []blob.Info, last bool) error {
	end := w.after
	if len(files) > 0 {
		end = files[len(files)-1].Key
	}
	records, err := w.records(ctx, end, last)
	if err != nil {
		return err
	}
	now := w.now()
	var old []blob.Info
	var keys []string
	var c change
	for _, f := range files {
		r, known := records[f.Key]
		// A copy of the store may bring an erased file back with a new time, so its age does not matter.
		if r.erased || f.Modified.Before(now.Add(-minAge)) {
			old, keys = append(old, f), append(keys, f.Key)
		} else if known {
			delete(records, f.Key)
		}
	}
	used, err := w.referenced(ctx, keys)
	if err != nil {
		return err
	}
	for _, f := range old {
		r, known := records[f.Key]
		delete(records, f.Key)
		switch due := w.due(r, known, now); {
		case used[f.Key]:
			c.drop(f.Key, r, known)
		case due > db.Micros(now):
			if !known || due != r.due {
				c.add = append(c.add, f.Key)
			}
		default:
			if w.delete(ctx, f) {
				c.drop(f.Key, r, known)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if !known && !used[f.Key] {
			w.found++
		}
	}
	for key, r := range records { // the files of the remaining records do not exist
		c.drop(key, r, true)
	}
	w.files += len(files)
	return w.save(ctx, c, end, last, now)
}

// drop removes the record of a key, if there is one. The record of an erased file stays.
func (c *change) drop(key string, r record, known bool) {
	if known && !r.erased {
		c.remove = append(c.remove, key)
	}
}

// due returns the time from which a file without a row may be deleted. This is the recorded time, or now
// plus w.keep if there is no record or if the recorded time is later than that. It can be later if
// w.keep was longer before, or if a clock was ahead. For an erased file, due returns 0.
func (w *sweep) due(r record, known bool, now time.Time) int64 {
	latest := db.Micros(now.Add(w.keep))
	switch {
	case r.erased:
		return 0
	case known:
		return min(r.due, latest)
	default:
		return latest
	}
}

// delete deletes a file. It reports whether the file was deleted. If the deletion fails, the sweep
// continues, and the next sweep tries again.
func (w *sweep) delete(ctx context.Context, f blob.Info) bool {
	log := w.log.With(slog.String("key", f.Key), slog.Int64("size", f.Size))
	if err := w.blobs.Delete(ctx, f.Key); err != nil {
		log.ErrorContext(ctx, "a file without references could not be deleted", slog.Any("error", err))
		return false
	}
	log.InfoContext(ctx, "deleted a file without references")
	w.deleted++
	w.size += f.Size
	return true
}

// records returns the records of the keys after w.after and up to end. If last is true, there is no
// end.
func (w *sweep) records(ctx context.Context, end string, last bool) (_ map[string]record, err error) {
	query, args := `SELECT key, due_at, erased_at IS NOT NULL FROM blob_deletions WHERE key > $1 AND key <= $2`, []any{w.after, end}
	if last {
		query, args = `SELECT key, due_at, erased_at IS NOT NULL FROM blob_deletions WHERE key > $1`, args[:1]
	}
	rows, err := w.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the files to delete: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	list := map[string]record{}
	for rows.Next() {
		var key string
		var r record
		if err := rows.Scan(&key, &r.due, &r.erased); err != nil {
			return nil, fmt.Errorf("reading the files to delete: %w", err)
		}
		list[key] = r
	}
	return list, rows.Err()
}

// save stores the changes of a page and the progress of the sweep. The error is errLost if another
// node has claimed the sweep.
func (w *sweep) save(ctx context.Context, c change, end string, last bool, now time.Time) error {
	next, after := db.Micros(now.Add(takeover)), end
	if last {
		next, after = w.startedAt+sweepEvery.Microseconds(), ""
	}
	err := w.db.Tx(ctx, func(tx *db.Tx) error {
		var claimed bool
		err := tx.QueryRowContext(ctx, `UPDATE blob_sweeps SET next_at = $1, after_key = $2 WHERE id = 1 AND claim = $3 RETURNING true`,
			next, after, w.id).Scan(&claimed)
		if errors.Is(err, sql.ErrNoRows) {
			return errLost
		}
		if err != nil {
			return err
		}
		if err := addTx(ctx, tx, c.add, db.Micros(now.Add(w.keep))); err != nil {
			return err
		}
		return removeTx(ctx, tx, c.remove)
	})
	if err != nil {
		return fmt.Errorf("storing the progress: %w", err)
	}
	w.after = after
	return nil
}

// addTx stores the time from which files without a row may be deleted.
func addTx(ctx context.Context, tx *db.Tx, keys []string, due int64) error {
	if len(keys) == 0 {
		return nil
	}
	var values strings.Builder
	args := []any{due}
	for i, key := range keys {
		if i > 0 {
			values.WriteString(", ")
		}
		args = append(args, key)
		fmt.Fprintf(&values, "($%d, $1)", len(args))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO blob_deletions (key, due_at) VALUES `+values.String()+`
		ON CONFLICT (key) DO UPDATE SET due_at = excluded.due_at`, args...)
	return err
}

// removeTx removes the records of files that no longer exist or have a row again.
func removeTx(ctx context.Context, tx *db.Tx, keys []string) error {
	for len(keys) > 0 {
		some := keys[:min(len(keys), pageSize)]
		keys = keys[len(some):]
		args := make([]any, len(some))
		for i, key := range some {
			args[i] = key
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM blob_deletions WHERE erased_at IS NULL AND key IN (`+db.Placeholders(1, len(some))+`)`, args...); err != nil {
			return err
		}
	}
	return nil
}
