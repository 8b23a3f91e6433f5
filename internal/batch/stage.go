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
	"github.com/certvault/certvault/internal/seal"
)

const (
	// StagedLife is for how long a staged file can be referred to.
	StagedLife = 24 * time.Hour
	// StagedQuota is how many bytes of staged files an institution may have: 20 GB.
	StagedQuota = 20 << 30
	// SweepEvery is how often staged files whose time is over are looked for, and
	// batches that lost their job.
	SweepEvery = time.Minute
	// stagedGrace keeps the record of a file whose time is over from the sweep: a
	// batch that was just accepted may be about to say that it keeps the file.
	stagedGrace = 5 * time.Minute
)

// StagedFile is a file that entries can refer to.
type StagedFile struct {
	UUID      string
	File      cert.File
	ExpiresAt time.Time
}

// Room tells whether an institution may stage another file; if not, it is
// TooMany. It spares the institution the sending of a file that Stage would
// refuse.
func (s *Service) Room(ctx context.Context, institutionID int64) error {
	var used int64
	err := s.db.QueryRowContext(ctx, `SELECT bytes FROM staged_usage WHERE institution_id = $1`, institutionID).Scan(&used)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("reading how much is staged: %w", err)
	}
	if used >= s.quota {
		return s.overQuota(ctx, s.db, institutionID)
	}
	return nil
}

// Stage takes a received file into an institution's staged files. A refusal is
// TooMany, and the file is then the caller's to discard. then, which may be nil, is
// done in the same transaction.
func (s *Service) Stage(ctx context.Context, inst *account.Institution, f *cert.File, then func(context.Context, *db.Tx, *StagedFile) error) (*StagedFile, error) {
	return s.StageUntil(ctx, inst, f, s.now().Add(StagedLife), then)
}

// StageUntil is Stage for a file that can be referred to until a time of the
// caller's.
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
		if err := s.takeRoomTx(ctx, tx, inst.ID, f.Size); err != nil {
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

// takeRoomTx counts bytes to what an institution has staged, as long as that
// stays within the quota.
func (s *Service) takeRoomTx(ctx context.Context, tx *db.Tx, institutionID, size int64) error {
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

// overQuota refuses a file, and says when the first of those that are staged
// goes.
func (s *Service) overQuota(ctx context.Context, q db.Queryer, institutionID int64) error {
	var first sql.NullInt64
	if err := q.QueryRowContext(ctx, `SELECT min(expires_at) FROM staged_files WHERE institution_id = $1 AND NOT kept`, institutionID).
		Scan(&first); err != nil {
		return fmt.Errorf("looking for the first staged file that goes: %w", err)
	}
	wait := stagedGrace
	if first.Valid {
		wait += max(0, db.Time(first.Int64).Sub(s.now()))
	}
	return &fault.Error{
		Kind: fault.TooMany, RetryAfter: wait + SweepEvery,
		Message: fmt.Sprintf("The files staged for bulk uploads would be more than %d GB. Submit the entries that refer to them, or wait until they expire.", s.quota>>30),
	}
}

// freeRoomTx takes bytes off what an institution has staged.
func freeRoomTx(ctx context.Context, tx *db.Tx, institutionID, size int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE staged_usage SET bytes = bytes - $1 WHERE institution_id = $2`, size, institutionID)
	return err
}

// find gives the ids of an institution's staged files that can be referred to
// now, by UUID.
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
			SELECT uuid, id FROM staged_files WHERE institution_id = $1 AND expires_at > $2 AND uuid IN (`+db.Places(3, len(some))+`)`, args); err != nil {
			return nil, fmt.Errorf("looking for staged files: %w", err)
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

// Staged gives a staged file of an institution that can be referred to now.
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

var errNoFile = fault.New(fault.NotFound, "No such file. Files that were uploaded and not used are kept for a day.")

// EndTx sets until when staged files of an institution can be referred to: the
// past has them go with the next sweep.
func (s *Service) EndTx(ctx context.Context, tx *db.Tx, institutionID int64, uuids []string, until time.Time) error {
	for some := range slices.Chunk(uuids, rowsAtOnce) {
		args := []any{db.Micros(until), institutionID}
		for _, u := range some {
			args = append(args, u)
		}
		if _, err := tx.ExecContext(ctx, `
			UPDATE staged_files SET expires_at = $1 WHERE institution_id = $2 AND uuid IN (`+db.Places(3, len(some))+`)`, args...); err != nil {
			return fmt.Errorf("setting the end of staged files: %w", err)
		}
	}
	return nil
}

// UseTx takes a staged file out of what the institution has staged: a certificate
// has it now. It is NotFound when another was first.
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
	return freeRoomTx(ctx, tx, institutionID, freed[institutionID])
}

// RefersTo tells whether a staged file has a blob, for the sweep of files.
func (s *Service) RefersTo(ctx context.Context, key string) (bool, error) {
	var n int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM staged_files WHERE original_key = $1`, key).Scan(&n); err != nil {
		return false, fmt.Errorf("looking for the staged file of a blob: %w", err)
	}
	return n > 0, nil
}

// SweepStaged forgets staged files whose time is over and which no entry waits
// for. Their blobs go with the sweep of files, unless they became certificates.
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
		// In one order, or two nodes that sweep at once may wait for each other.
		for _, id := range slices.Sorted(maps.Keys(freed)) {
			if err := freeRoomTx(ctx, tx, id, freed[id]); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// sumSizes adds up rows of an institution and a size.
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
