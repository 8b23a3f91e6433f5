package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

const (
	// leaseTime is the duration of a lease that is not renewed. After it, another server may make the
	// backup.
	leaseTime = time.Minute
	// renewEvery is the interval at which a server renews its lease.
	renewEvery = 10 * time.Second
	// stopTime is the time limit of interrupt, which ends the lease of a server that stops.
	stopTime = time.Second
	// retryAfter is the time from the start of a backup that failed to the next attempt, unless the
	// interval is shorter.
	retryAfter = time.Hour
	// maxPoll is the maximum interval at which a server checks whether a backup is due.
	maxPoll = 10 * time.Second
	// minPoll is the minimum interval at which a server checks whether a backup is due.
	minPoll = time.Second
	// maxFailure is the maximum length of the stored error in bytes.
	maxFailure = 2000
)

// errLost means that another server has the lease.
var errLost = errors.New("the lease was lost, because this server was too slow; another server makes this backup")

// Schedule makes backups of a vault at intervals, each in a new folder. If several servers use one
// database, only one of them makes each backup.
type Schedule struct {
	Config

	// Dir is the folder of all backups. The name of a backup is the UTC time of its start.
	Dir string
	// Every is the interval. Keep is the number of complete backups that are not removed.
	Every time.Duration
	Keep  int
	// Node is the id of this server.
	Node string
	Log  *slog.Logger
}

// Poll returns the interval at which Run should be called.
func (s *Schedule) Poll() time.Duration { return max(minPoll, min(maxPoll, s.Every/4)) }

// Run makes a backup if one is due and no other server makes it. If the backup fails, Run stores the
// error for LastRecord and returns it.
func (s *Schedule) Run(ctx context.Context) error {
	due, err := s.claim(ctx)
	if err != nil || !due {
		return err
	}
	result, err := s.leased(ctx)
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), s.interrupt(context.WithoutCancel(ctx)))
	}
	if err == nil {
		err = RecordResult(ctx, s.DB, result)
	}
	return errors.Join(err, s.release(ctx, err))
}

// Stop records that no server makes backups at intervals. A server that still has a schedule records
// it again in its next call of Run.
func Stop(ctx context.Context, d *db.DB) error {
	err := d.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE backups SET every_seconds = 0, failure = '' WHERE id = 1 AND every_seconds <> 0`)
		return err
	})
	if err != nil {
		return fmt.Errorf("recording that no backups are scheduled: %w", err)
	}
	return nil
}

// dueCondition is true if the next backup is due and no server is making one. A backup is due if
// the interval has passed, if the last backup failed and the time to the next attempt has passed, or
// if the server that was making the last backup died or stopped. In the last case, leased_by is still
// set. A time after $2 was written while a clock was ahead, and is ignored.
//
// $1 is the present time, $2 is later than any lease, $3 is the present time minus the interval, and
// $4 is the present time minus the time from a failed backup to the next attempt.
const dueCondition = `(leased_until < $1 OR leased_until > $2) AND (leased_by <> '' OR started_at <= $3 OR failure <> '' AND started_at <= $4 OR started_at > $2)`

// claim records the schedule, and leases the next backup if it is due and no server makes one.
func (s *Schedule) claim(ctx context.Context) (due bool, err error) {
	now := s.DB.Now()
	args := []any{db.Micros(now), db.Micros(now.Add(2 * leaseTime)), db.Micros(now.Add(-s.Every)), db.Micros(now.Add(-min(s.Every, retryAfter)))}
	var recorded int64
	// Most calls find nothing to do, so this query without a transaction comes first.
	if err := s.DB.QueryRowContext(ctx, `SELECT every_seconds, `+dueCondition+` FROM backups WHERE id = 1`, args...).Scan(&recorded, &due); err != nil {
		return false, fmt.Errorf("reading the schedule of backups: %w", err)
	}
	every := int64(s.Every / time.Second)
	if !due && recorded == every {
		return false, nil
	}
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE backups SET every_seconds = $1 WHERE id = 1`, every); err != nil {
			return err
		}
		// Until the first backup is complete, the start of an interrupted attempt is kept, so that Problem
		// reports late backups even if each attempt is interrupted.
		r, err := tx.ExecContext(ctx, `
			UPDATE backups SET leased_by = $5, leased_until = $6,
				started_at = CASE WHEN completed_at = 0 AND leased_by <> '' AND started_at BETWEEN 1 AND $2 THEN started_at ELSE $1 END
			WHERE id = 1 AND `+dueCondition,
			append(args, s.Node, db.Micros(now.Add(leaseTime)))...)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		due = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claiming a scheduled backup: %w", err)
	}
	return due, nil
}

// renew renews the lease until ctx ends. If another server has the lease, renew calls lost and returns.
func (s *Schedule) renew(ctx context.Context, lost context.CancelCauseFunc) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var n int64
		err := s.DB.Tx(ctx, func(tx *db.Tx) error {
			r, err := tx.ExecContext(ctx, `UPDATE backups SET leased_until = $1 WHERE id = 1 AND leased_by = $2`, db.Micros(s.DB.Now().Add(leaseTime)), s.Node)
			if err != nil {
				return err
			}
			n, err = r.RowsAffected()
			return err
		})
		// An error is ignored. If the lease expires before it is renewed, another server may take it.
		// The next attempt detects this.
		if err == nil && n == 0 {
			lost(errLost)
			return
		}
	}
}

// interrupt ends the lease of a server that stops during a backup, so that the backup is due at
// once.
func (s *Schedule) interrupt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	err := s.DB.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE backups SET leased_until = 0 WHERE id = 1 AND leased_by = $1`, s.Node)
		return err
	})
	if err != nil {
		return fmt.Errorf("recording an interrupted backup: %w", err)
	}
	return nil
}

// release ends the lease and stores the error of the backup. If failed is nil, it removes the stored
// error.
func (s *Schedule) release(ctx context.Context, failed error) error {
	text, at := "", int64(0)
	if failed != nil {
		text, at = failed.Error(), db.Micros(s.DB.Now())
		text = strings.ToValidUTF8(text[:min(len(text), maxFailure)], "") // the cut may be within a character
	}
	err := s.DB.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE backups SET leased_by = '', leased_until = 0, failed_at = $1, failure = $2 WHERE id = 1 AND leased_by = $3`, at, text, s.Node)
		return err
	})
	if err != nil {
		return fmt.Errorf("recording a scheduled backup: %w", err)
	}
	return nil
}

// leased makes a backup while it renews the lease. Before the backup, it removes partial backups. After
// the backup, it removes the oldest complete backups, unless the new backup lacks files.
func (s *Schedule) leased(ctx context.Context) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.renew(ctx, cancel)
	}()
	defer func() {
		cancel(nil)
		<-ended
	}()
	if err := CheckFolder(s.Data, s.Dir); err != nil {
		return nil, err
	}
	complete, partial, future, err := s.list()
	if err != nil {
		return nil, err
	}
	if len(future) > 0 {
		s.Log.WarnContext(ctx, "backups have a date in the future and count as the oldest", slog.Any("folders", future))
	}
	last, err := LastRecord(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	// This server has the lease, so no other server is writing the partial backups.
	for _, dir := range partial {
		s.Log.WarnContext(ctx, "a backup was interrupted and is removed", slog.String("folder", dir))
		if err := removeBackup(dir); err != nil {
			return nil, err
		}
	}
	result, err := s.create(ctx, complete)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errLost) {
		err = cause
	}
	if err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "a backup was made", slog.String("folder", result.Dir), slog.Int("files", result.Files), slog.Int64("bytes", result.Bytes),
		slog.Int64("copied_bytes", result.Copied))
	if result.Missing > 0 {
		// An older backup may be the last one that has the missing files.
		s.Log.ErrorContext(ctx, "ALARM: the file store lacks files to which the database refers; old backups are kept", slog.Int("missing", result.Missing))
		return result, nil
	}
	complete = append(complete, result.Dir)
	for _, dir := range complete[:max(0, len(complete)-s.Keep)] {
		if dir == last.Dir && s.Keep > 1 {
			continue // it is newer than the others, even if its date is not, because a clock was wrong
		}
		if err := removeBackup(dir); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// create makes a backup that links the blobs of the last complete backup. If the last backup
// cannot be used, for example because it was made with another master key, create makes the new one
// without it.
func (s *Schedule) create(ctx context.Context, complete []string) (*Result, error) {
	installation, err := s.DB.Installation(ctx)
	if err != nil {
		return nil, err
	}
	var since *earlier
	if len(complete) > 0 {
		last := complete[len(complete)-1]
		if since, err = openEarlier(last, s.Keyring, installation); err != nil {
			s.Log.WarnContext(ctx, "the last backup cannot be used for the next one", slog.Any("error", err))
			since = nil
		}
	}
	return create(ctx, s.Config, Options{Dir: filepath.Join(s.Dir, s.DB.Now().UTC().Format(folderTime))}, installation, since)
}

// list returns the folders of scheduled backups in the order of listScheduled: those that are complete,
// and those that are not. future are the complete ones with a date in the future.
func (s *Schedule) list() (complete, partial, future []string, err error) {
	list, err := listScheduled(s.Dir, s.DB.Now())
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range list {
		switch b := &list[i]; {
		case b.complete():
			complete = append(complete, b.dir)
			if b.future {
				future = append(future, b.dir)
			}
		case b.partial():
			partial = append(partial, b.dir)
		default:
			return nil, nil, nil, b.err
		}
	}
	return complete, partial, future, nil
}

// removeBackup removes a backup. It removes the manifest first, so that an interrupted removal
// leaves a partial backup, which is not used and is removed later.
func removeBackup(dir string) error {
	if err := os.Remove(filepath.Join(dir, manifestName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing an old backup: %w", err)
	}
	if err := blob.SyncDir(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing an old backup: %w", err)
	}
	return nil
}
