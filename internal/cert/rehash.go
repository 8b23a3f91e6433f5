package cert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

const (
	// RehashEvery is the interval of Rehash.
	RehashEvery = time.Minute
	// rehashAge is the time after which a file is checked again.
	rehashAge = 30 * 24 * time.Hour
	// rehashTurns is the number of turns in rehashAge. Each turn checks its share of the files that
	// are due, which distributes the work over the month.
	rehashTurns = int(rehashAge / RehashEvery)
	// maxRehash bounds the files of one turn.
	maxRehash = 200
)

// Rehash reads stored verified PDFs, compares their digests and verifies their signatures. It finds
// lost or changed files before they are needed. It stores a difference as a failed check, which the
// public page shows, and logs an error.
func (s *Service) Rehash(ctx context.Context) error {
	due, err := s.rehashDue(ctx)
	if err != nil {
		return fmt.Errorf("listing the files to check: %w", err)
	}
	for _, uuid := range due {
		c, err := byUUID(ctx, s.db, uuid)
		if err != nil {
			return err
		}
		if c.FilesDeletedAt != nil {
			// The retention of its files ended during the check.
			if err := s.db.Tx(ctx, func(tx *db.Tx) error { return deleteChecksTx(ctx, tx, c.ID) }); err != nil {
				return err
			}
			continue
		}
		checks, err := s.recheck(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.log.ErrorContext(ctx, "ALARM: a stored file has changed or could not be checked", slog.String("certificate", uuid), slog.Any("error", err))
		}
		if err := s.db.Tx(ctx, func(tx *db.Tx) error {
			for _, k := range checks {
				if err := recordCheckTx(ctx, tx, c.ID, k, db.Micros(s.now())); err != nil {
					return err
				}
			}
			return nil
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
	return db.Column[string](s.db.QueryContext(ctx, `
		SELECT c.uuid FROM certificate_checks k JOIN certificates c ON c.id = k.certificate_id
		WHERE k.name = $1 AND k.checked_at < $2 ORDER BY k.checked_at LIMIT $3`,
		CheckFile, before, min(maxRehash, 1+waiting/rehashTurns)))
}

// errDiffers is the error for a stored file that is missing or changed.
var errDiffers = errors.New("a stored file is missing or differs from what was stored")

// recheck reads a verified PDF again and returns the results of its checks. It may return results
// together with an error, so that one unreadable file does not stop the checks of other files. A
// missing file fails the check. If the store is unavailable, the result is NotRun.
func (s *Service) recheck(ctx context.Context, c *Certificate) (_ []Check, err error) {
	file := Check{Name: CheckFile, Result: NotRun}
	content, err := s.OpenVerified(ctx, c)
	if errors.Is(err, blob.ErrNotFound) {
		file.Result = FailedCheck
		return []Check{file}, errors.Join(errDiffers, err)
	}
	if err != nil {
		return []Check{file}, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	hash := sha256.New()
	n, err := io.Copy(hash, content)
	if err != nil {
		return []Check{file}, fmt.Errorf("reading a file: %w", err)
	}
	file.Result = Passed
	if n != c.Verified.Size || [sha256.Size]byte(hash.Sum(nil)) != c.Verified.SHA256 {
		file.Result, err = FailedCheck, errDiffers
	}
	checks := []Check{file}
	signed, e := s.signed(ctx, c.ID)
	if !signed || e != nil {
		return checks, errors.Join(err, e)
	}
	institution, e := account.InstitutionByID(ctx, s.db, c.InstitutionID)
	if e != nil {
		return checks, errors.Join(err, e)
	}
	result, e := s.verifySignature(content, content.Size(), institution.UUID)
	if result == NotRun && e != nil {
		// The last result and its date do not change.
		return checks, errors.Join(err, e)
	}
	return append(checks, Check{Name: CheckSignature, Result: result}), errors.Join(err, e)
}

// signed reports whether a certificate's file is signed. Files from the first version of the vault
// are not signed and have no signature check.
func (s *Service) signed(ctx context.Context, id int64) (yes bool, err error) {
	if err := s.db.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM certificate_checks WHERE certificate_id = $1 AND name = $2)`, id, CheckSignature).Scan(&yes); err != nil {
		return false, fmt.Errorf("reading checks: %w", err)
	}
	return yes, nil
}

// Damaged counts the certificates whose stored file or signature failed its last
// check.
func (s *Service) Damaged(ctx context.Context) (n int, err error) {
	return CountDamaged(ctx, s.db)
}
