package cert

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
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

// Rehash calls CheckFiles for the certificates whose last check of the verified PDF is older than
// rehashAge, up to the share of one turn. Rehash finds lost or changed files before the files are
// needed.
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
		if _, err := s.CheckFiles(ctx, c, nil); err != nil {
			return err
		}
	}
	return nil
}

// CheckFiles reads the stored files of a certificate, compares their digests, verifies the
// signature and stores the results. A damaged file is not an error. Its check has the result
// FailedCheck, and CheckFiles logs an alarm. A file that is correct again passes its check. then
// runs in the transaction that stores the results, unless the certificate or its files were
// deleted. then may be nil.
func (s *Service) CheckFiles(ctx context.Context, c *Certificate, then TxFunc) ([]Check, error) {
	var checks []Check
	if c.FilesDeletedAt == nil {
		var err error
		checks, err = s.recheck(ctx, c)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			s.logAlarm(ctx, c, err)
		}
	}
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		now, err := byUUID(ctx, tx, c.UUID)
		if fault.Is(err, fault.NotFound) {
			return nil // the certificate was deleted during the check
		}
		if err != nil {
			return err
		}
		if now.FilesDeletedAt != nil {
			// Retention deleted the files, perhaps during the check.
			checks = nil
			return deleteChecksTx(ctx, tx, c.ID)
		}
		for _, k := range checks {
			if err := recordCheckTx(ctx, tx, c.ID, k, db.Micros(s.now())); err != nil {
				return err
			}
		}
		return then.runTx(ctx, tx, c)
	})
	if err != nil {
		return nil, fmt.Errorf("storing the results of checks: %w", err)
	}
	return checks, nil
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

// recheck reads the files of a certificate again and returns the results of the checks. It may
// return results together with an error, so that one unreadable file does not stop the checks of
// other files. A missing file fails its check. If the store is unavailable, the result is NotRun.
func (s *Service) recheck(ctx context.Context, c *Certificate) (checks []Check, err error) {
	ctx = blob.WithoutCache(ctx)
	if originalCheck(c) == CheckOriginal {
		content, e := s.openOriginal(ctx, c)
		var k Check
		if k, err = recheckFile(CheckOriginal, content, e, c.File.Size, c.File.SHA256); e == nil {
			err = errors.Join(err, content.Close())
		}
		checks = append(checks, k)
	}
	if c.Verified == nil {
		return checks, err
	}
	content, e := s.openVerified(ctx, c)
	file, fileErr := recheckFile(CheckFile, content, e, c.Verified.Size, c.Verified.SHA256)
	checks, err = append(checks, file), errors.Join(err, fileErr)
	if e != nil {
		return checks, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	signed, e := s.signed(ctx, c.ID)
	if !signed || e != nil {
		return checks, errors.Join(err, e)
	}
	institution, e := account.InstitutionByID(ctx, s.db, c.InstitutionID)
	if e != nil {
		return checks, errors.Join(err, e)
	}
	anchors, e := s.anchors(ctx, institution.UUID)
	if e != nil {
		return checks, errors.Join(err, e)
	}
	result, e := s.verifySignature(content, content.Size(), anchors)
	if result == NotRun && e != nil {
		// The last result and its date do not change.
		return checks, errors.Join(err, e)
	}
	return append(checks, Check{Name: CheckSignature, Result: result}), errors.Join(err, e)
}

// recheckFile returns the result of a check of a file. It always reads the whole file. err is the
// error of opening the file.
func recheckFile(name string, content *Content, err error, size int64, sum [sha256.Size]byte) (Check, error) {
	if err == nil {
		err = compareWhole(content, size, sum)
	}
	switch {
	case err == nil:
		return Check{Name: name, Result: Passed}, nil
	case isDamage(err):
		return Check{Name: name, Result: FailedCheck}, fmt.Errorf("the check %q: %w", name, err)
	default:
		return Check{Name: name, Result: NotRun}, err
	}
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

// OriginalDamaged reports whether the last check of a certificate's original failed. For an original
// that is a part of the verified PDF, CheckFile has the result.
func (s *Service) OriginalDamaged(ctx context.Context, c *Certificate) (yes bool, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM certificate_checks WHERE certificate_id = $1 AND name = $2 AND result = $3)`,
		c.ID, CheckOriginal, string(FailedCheck)).Scan(&yes); err != nil {
		return false, fmt.Errorf("reading checks: %w", err)
	}
	return yes, nil
}

// Damaged counts the certificates with a stored file or a signature that failed its last check.
func (s *Service) Damaged(ctx context.Context) (n int, err error) {
	return CountDamaged(ctx, s.db)
}

// CheckAll calls CheckFiles for each certificate that has files, and then calls f with the results.
func (s *Service) CheckAll(ctx context.Context, f func(c *Certificate, checks []Check)) error {
	for after := int64(0); ; {
		ids, err := db.Column[int64](s.db.QueryContext(ctx, `
			SELECT id FROM certificates WHERE id > $1 AND files_ended_at IS NULL ORDER BY id LIMIT $2`, after, maxRehash))
		if err != nil {
			return fmt.Errorf("listing the files to check: %w", err)
		}
		if len(ids) == 0 {
			return nil
		}
		after = ids[len(ids)-1]
		list, err := s.ByIDs(ctx, ids)
		if err != nil {
			return err
		}
		for _, c := range list {
			checks, err := s.CheckFiles(ctx, c, nil)
			if err != nil {
				return err
			}
			f(c, checks)
		}
	}
}
