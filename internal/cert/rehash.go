package cert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

const (
	// RehashEvery is how often some stored files are looked at again.
	RehashEvery = time.Minute
	// rehashAge is after how long a file is looked at again.
	rehashAge = 30 * 24 * time.Hour
	// rehashTurns is how many turns there are in rehashAge: each turn takes its
	// share of all that are due, so that the work spreads over the month.
	rehashTurns = int(rehashAge / RehashEvery)
	// rehashMost bounds one turn.
	rehashMost = 200
)

// Rehash reads stored verified PDFs whole and compares their digests: storage
// that lost or changed a byte must be found out before someone needs the file.
// A difference is recorded as a failed check, which the public page shows, and
// is logged as an error.
func (s *Service) Rehash(ctx context.Context) error {
	due, err := s.rehashDue(ctx)
	if err != nil {
		return fmt.Errorf("looking for files to check: %w", err)
	}
	for _, uuid := range due {
		c, err := byUUID(ctx, s.db, uuid)
		if err != nil {
			return err
		}
		result, err := s.rehash(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil:
			// Recorded as not run, so that one file that cannot be read does not hold
			// up all others.
			s.log.ErrorContext(ctx, "ALARM: a stored file could not be read", slog.String("certificate", uuid), slog.Any("error", err))
		case result == FailedCheck:
			s.log.ErrorContext(ctx, "ALARM: a stored file is missing or differs from what was stored", slog.String("certificate", uuid))
		}
		if err := s.db.Tx(ctx, func(tx *db.Tx) error {
			return recordCheckTx(ctx, tx, c.ID, Check{Name: CheckFile, Result: result}, db.Micros(s.now()))
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) rehashDue(ctx context.Context) ([]string, error) {
	before := db.Micros(s.now().Add(-rehashAge))
	var waiting int
	if err := s.db.QueryRowContext(ctx,
		`SELECT count(*) FROM certificate_checks WHERE name = $1 AND checked_at < $2`, CheckFile, before).Scan(&waiting); err != nil {
		return nil, err
	}
	if waiting == 0 {
		return nil, nil
	}
	rows, err := s.db.QueryContext(ctx, `
		SELECT c.uuid FROM certificate_checks k JOIN certificates c ON c.id = k.certificate_id
		WHERE k.name = $1 AND k.checked_at < $2 ORDER BY k.checked_at LIMIT $3`,
		CheckFile, before, min(rehashMost, 1+waiting/rehashTurns))
	if err != nil {
		return nil, err
	}
	return scanTexts(rows)
}

// rehash reads a verified PDF. A file that is not there has failed; a store
// that cannot be asked is an error and tells nothing of the file.
func (s *Service) rehash(ctx context.Context, c *Certificate) (_ Result, err error) {
	content, err := s.OpenVerified(ctx, c)
	if errors.Is(err, blob.ErrNotFound) {
		return FailedCheck, nil
	}
	if err != nil {
		return NotRun, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	hash := sha256.New()
	n, err := io.Copy(hash, content)
	if err != nil {
		return NotRun, fmt.Errorf("reading a file: %w", err)
	}
	if n != c.Verified.Size || [sha256.Size]byte(hash.Sum(nil)) != c.Verified.SHA256 {
		return FailedCheck, nil
	}
	return Passed, nil
}

// Damaged counts the certificates whose stored file failed its last check.
func (s *Service) Damaged(ctx context.Context) (n int, err error) {
	if err := s.db.QueryRowContext(ctx,
		`SELECT count(*) FROM certificate_checks WHERE name = $1 AND result = $2`, CheckFile, string(FailedCheck)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting damaged files: %w", err)
	}
	return n, nil
}
