package batch

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/seal"
)

const (
	// StagedLife is the time for which a file that Stage adds is valid.
	StagedLife = 24 * time.Hour
	// StagedQuota is the maximum total size of the staged files of an institution: 20 GiB.
	StagedQuota = 20 << 30
	// SweepInterval is the interval between sweeps for expired staged files and for queued entries
	// without a job.
	SweepInterval = time.Minute
	// stagedGrace is the time after the expiry of a file before a sweep deletes its record. Submit may
	// find the file just before the expiry, and store the entries that refer to it just after the expiry.
	stagedGrace = 5 * time.Minute
)

// StagedFile is a file that entries can refer to.
type StagedFile struct {
	UUID      string
	File      cert.File
	ExpiresAt time.Time
}

// CheckQuota returns fault.TooMany if an institution has reached its quota of staged files. A
// caller can call it before it receives a file that Stage would reject.
func (s *Service) CheckQuota(ctx context.Context, institutionID int64) error {
	var used int64
	err := s.db.QueryRowContext(ctx, `SELECT bytes FROM staged_usage WHERE institution_id = $1`, institutionID).Scan(&used)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("reading the staged bytes: %w", err)
	}
	if used >= s.quota {
		return s.overQuota(ctx, s.db, institutionID)
	}
	return nil
}

// Stage adds a received file to an institution's staged files. If the function then is not nil, Stage calls it
// in the same transaction. The error is fault.TooMany if the file exceeds the quota, and fault.Forbidden if it
// exceeds the storage limit of the institution. After an error, the caller must discard the file.
func (s *Service) Stage(ctx context.Context, inst *account.Institution, f *cert.File, then func(context.Context, *db.Tx, *StagedFile) error) (*StagedFile, error) {
	return s.StageUntil(ctx, inst, f, s.now().Add(StagedLife), then)
}

// StageUntil is like Stage, but the file is valid until the given time.
func (s *Service) StageUntil(
	ctx context.Context, inst *account.Institution, f *cert.File, until time.Time, then func(context.Context, *db.Tx, *StagedFile) error,
) (*StagedFile, error) {
	now := s.now().UTC()
	staged := &StagedFile{UUID: uuid.Must(uuid.NewV7()).String(), File: *f, ExpiresAt: until.UTC().Truncate(time.Microsecond)}
	notices, err := json.Marshal(append([]seal.Notice{}, f.Notices...))
	if err != nil {
		return nil, fmt.Errorf("writing notices: %w", err)
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := quota.CheckTx(ctx, tx, inst, now, 0, f.Size); err != nil {
			return err
		}
		if err := s.reserveSpaceTx(ctx, tx, inst.ID, f.Size); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO staged_files (uuid, institution_id, file_name, mime_type, size, sha256, sha256_state, original_key, notices, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			staged.UUID, inst.ID, f.Name, string(f.Type), f.Size, f.SHA256[:], f.State, f.Key, string(notices), db.Micros(now), db.Micros(staged.ExpiresAt))
		if err != nil || then == nil {
			return err
		}
		return then(ctx, tx, staged)
	})
	if err != nil {
		return nil, fmt.Errorf("staging a file: %w", err)
	}
	return staged, nil
}

// reserveSpaceTx adds a size to the staged bytes of an institution. The error is fault.TooMany if
// the sum exceeds the quota.
func (s *Service) reserveSpaceTx(ctx context.Context, tx *db.Tx, institutionID, size int64) error {
	if size > s.quota {
		return s.overQuota(ctx, tx, institutionID)
	}
	res, err := tx.ExecContext(ctx, `
		INSERT INTO staged_usage (institution_id, bytes) VALUES ($1, $2)
		ON CONFLICT (institution_id) DO UPDATE SET bytes = staged_usage.bytes + excluded.bytes
		WHERE staged_usage.bytes + excluded.bytes <= $3`, institutionID, size, s.quota)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return s.overQuota(ctx, tx, institutionID)
}

// overQuota returns the error for a file that exceeds the quota. RetryAfter is the time after which a
// sweep has deleted the record of the staged file that expires first.
func (s *Service) overQuota(ctx context.Context, q db.Queryer, institutionID int64) error {
	var first sql.NullInt64
	if err := q.QueryRowContext(ctx, `SELECT min(expires_at) FROM staged_files WHERE institution_id = $1 AND NOT kept`, institutionID).
		Scan(&first); err != nil {
		return fmt.Errorf("finding the staged file that expires first: %w", err)
	}
	wait := stagedGrace
	if first.Valid {
		wait += max(0, db.Time(first.Int64).Sub(s.now()))
	}
	return &fault.Error{
		Kind: fault.TooMany, RetryAfter: wait + SweepInterval,
		Message: fmt.Sprintf("The files staged for bulk uploads would be more than %d GB. Submit the entries that refer to them, or wait until they expire.", s.quota>>30),
	}
}

// releaseSpaceTx subtracts a size from the staged bytes of an institution.
func releaseSpaceTx(ctx context.Context, tx *db.Tx, institutionID, size int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE staged_usage SET bytes = bytes - $1 WHERE institution_id = $2`, size, institutionID)
	return err
}

// find maps the UUIDs to the ids of the institution's valid staged files with these UUIDs.
func (s *Service) find(ctx context.Context, institutionID int64, uuids []string, now time.Time) (map[string]int64, error) {
	found := make(map[string]int64, len(uuids))
	for len(uuids) > 0 {
		some := uuids[:min(len(uuids), rowsAtOnce)]
		uuids = uuids[len(some):]
		args := []any{institutionID, db.Micros(now)}
		for _, u := range some {
			args = append(args, u)
		}
		if err := s.findSome(ctx, found, `
			SELECT uuid, id FROM staged_files WHERE institution_id = $1 AND expires_at > $2 AND uuid IN (`+db.Placeholders(3, len(some))+`)`, args); err != nil {
			return nil, fmt.Errorf("finding staged files: %w", err)
		}
	}
	return found, nil
}

func (s *Service) findSome(ctx context.Context, found map[string]int64, query string, args []any) (err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var u string
		var id int64
		if err := rows.Scan(&u, &id); err != nil {
			return err
		}
		found[u] = id
	}
	return rows.Err()
}

// Staged returns a valid staged file of an institution. The error is fault.NotFound if there is
// none.
func (s *Service) Staged(ctx context.Context, institutionID int64, id string) (*StagedFile, error) {
	staged := &StagedFile{UUID: id}
	f := &staged.File
	var digest []byte
	var notices string
	var expires int64
	err := s.db.QueryRowContext(ctx, `
		SELECT file_name, mime_type, size, sha256, sha256_state, original_key, notices, expires_at FROM staged_files
		WHERE uuid = $1 AND institution_id = $2 AND expires_at > $3`, id, institutionID, db.Micros(s.now())).
		Scan(&f.Name, &f.Type, &f.Size, &digest, &f.State, &f.Key, &notices, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoFile
	}
	if err != nil {
		return nil, fmt.Errorf("reading a staged file: %w", err)
	}
	copy(f.SHA256[:], digest)
	staged.ExpiresAt = db.Time(expires)
	if err := json.Unmarshal([]byte(notices), &f.Notices); err != nil {
		return nil, fmt.Errorf("reading notices: %w", err)
	}
	return staged, nil
}

var errNoFile = fault.New(fault.NotFound, "There is no such file. Unused files are deleted a day after their upload.")

// SetExpiryTx sets the time until which staged files of an institution are valid. If the time has
// passed, a sweep deletes the records of the files.
func (s *Service) SetExpiryTx(ctx context.Context, tx *db.Tx, institutionID int64, uuids []string, until time.Time) error {
	for some := range slices.Chunk(uuids, rowsAtOnce) {
		args := []any{db.Micros(until), institutionID}
		for _, u := range some {
			args = append(args, u)
		}
		if _, err := tx.ExecContext(ctx, `
			UPDATE staged_files SET expires_at = $1 WHERE institution_id = $2 AND uuid IN (`+db.Placeholders(3, len(some))+`)`, args...); err != nil {
			return fmt.Errorf("setting the expiry of staged files: %w", err)
		}
	}
	return nil
}

// UseTx deletes the record of a staged file, because a certificate now refers to the file. The
// error is fault.NotFound if there is no such file, if another transaction used the file first, or
// if a batch refers to the file.
func (s *Service) UseTx(ctx context.Context, tx *db.Tx, institutionID int64, id string) error {
	rows, err := tx.QueryContext(ctx, `
		DELETE FROM staged_files WHERE uuid = $1 AND institution_id = $2 AND NOT kept RETURNING institution_id, size`, id, institutionID)
	if err != nil {
		return fmt.Errorf("using a staged file: %w", err)
	}
	freed, n, err := sumSizes(rows)
	if err != nil {
		return fmt.Errorf("using a staged file: %w", err)
	}
	if n == 0 {
		return errNoFile
	}
	return releaseSpaceTx(ctx, tx, institutionID, freed[institutionID])
}

// SweepStaged deletes the records of expired staged files to which no entry refers. Package
// deletion deletes the files later, unless certificates refer to them.
func (s *Service) SweepStaged(ctx context.Context) error {
	for {
		n, err := s.sweepSome(ctx)
		if err != nil {
			return fmt.Errorf("sweeping staged files: %w", err)
		}
		if n < rowsAtOnce {
			return nil
		}
	}
}

func (s *Service) sweepSome(ctx context.Context) (n int, err error) {
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		rows, err := tx.QueryContext(ctx, `
			DELETE FROM staged_files WHERE id IN (
				SELECT f.id FROM staged_files f
				WHERE f.expires_at < $1 AND NOT EXISTS (SELECT 1 FROM batch_entries e WHERE e.staged_id = f.id AND e.staged_id IS NOT NULL)
				ORDER BY f.expires_at LIMIT $2)
			RETURNING institution_id, CASE WHEN kept THEN 0 ELSE size END`,
			db.Micros(s.now().Add(-stagedGrace)), rowsAtOnce)
		if err != nil {
			return err
		}
		freed, count, err := sumSizes(rows)
		if err != nil {
			return err
		}
		n = count
		// The order is always the same, so that two nodes that sweep at the same time do not
		// deadlock.
		for _, id := range slices.Sorted(maps.Keys(freed)) {
			if err := releaseSpaceTx(ctx, tx, id, freed[id]); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// sumSizes returns the sum of the sizes for each institution, and the number of rows.
func sumSizes(rows *sql.Rows) (sums map[int64]int64, n int, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	sums = map[int64]int64{}
	for ; rows.Next(); n++ {
		var id, size int64
		if err := rows.Scan(&id, &size); err != nil {
			return nil, 0, err
		}
		sums[id] += size
	}
	return sums, n, rows.Err()
}
