package cert

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// RehashEvery is the time between two calls of Rehash.
	RehashEvery = 10 * time.Second
	// RehashAge is the time after which the files of a certificate are checked again.
	RehashAge = 30 * 24 * time.Hour
	// rehashTurns is the number of calls of Rehash in RehashAge. Each call checks its share of all
	// files, which distributes the work over RehashAge.
	rehashTurns = int64(RehashAge / RehashEvery)
	// rehashTime is the time after which Rehash returns although more files are due.
	rehashTime = 5 * time.Minute
	// maxRehash bounds the number of certificates that one statement lists.
	maxRehash = 200
)

// Rehash calls CheckFiles for the certificates whose last check of the verified PDF is older than
// RehashAge, oldest first. Rehash finds missing or changed files before the files are needed. The
// stored times of the checks are its only state, so after a restart or on another node it continues
// where it stopped.
//
// all is the number of certificates with files. A call checks the share of one interval and a quarter
// more, to catch up after a delay. If this takes longer than the interval, Rehash continues with the
// next share. It reads at most rate bytes a second. If the file store is unavailable, Rehash returns
// the error, and the stored results do not change.
func (s *Service) Rehash(ctx context.Context, all, rate int64) error {
	share := 1 + (all+all/4)/rehashTurns
	for began := time.Now(); time.Since(began) < rehashTime; {
		turn := time.Now()
		more, err := s.rehashShare(ctx, int(share), rate)
		if err != nil {
			return err
		}
		if !more || time.Since(turn) < RehashEvery {
			return nil
		}
	}
	return nil
}

// rehashShare checks up to share certificates. It reports whether more may be due.
func (s *Service) rehashShare(ctx context.Context, share int, rate int64) (more bool, err error) {
	for share > 0 {
		due, err := s.rehashDue(ctx, min(share, maxRehash))
		if err != nil || len(due) == 0 {
			return false, err
		}
		share -= len(due)
		for _, uuid := range due {
			if err := s.rehash(ctx, uuid, rate); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// rehash checks the files of a certificate, and then waits so that at most rate bytes a second are read.
func (s *Service) rehash(ctx context.Context, uuid string, rate int64) error {
	c, err := byUUID(ctx, s.db, uuid)
	if fault.Is(err, fault.NotFound) {
		return nil // the certificate was deleted in the meantime
	}
	if err != nil {
		return err
	}
	began := time.Now()
	checks, err := s.CheckFiles(ctx, c, nil)
	if err != nil {
		return err
	}
	size := sizeOf(c, checks)
	s.metrics.rehashed(checks, size)
	timer := time.NewTimer(time.Duration(float64(size)/float64(rate)*float64(time.Second)) - time.Since(began))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// sizeOf returns the size of the files that the checks read.
func sizeOf(c *Certificate, checks []Check) (size int64) {
	for _, k := range checks {
		switch k.Name {
		case CheckOriginal:
			size += c.File.Size
		case CheckFile:
			size += c.Verified.Size
		default: // the check of the signature reads the file of CheckFile
		}
	}
	return size
}

// OldestCheck returns the time of the oldest stored check of a verified PDF, or the zero time if there
// is no check.
func OldestCheck(ctx context.Context, q db.Queryer) (time.Time, error) {
	var at int64
	err := q.QueryRowContext(ctx, `SELECT checked_at FROM certificate_checks WHERE name = $1 ORDER BY checked_at LIMIT 1`, CheckFile).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("finding the oldest check of a file: %w", err)
	}
	return db.Time(at), nil
}

// CheckFiles reads the stored files of a certificate, checks their digests, verifies the signature,
// and stores and returns the results. A damaged file is not an error: the result of its check is
// FailedCheck, and CheckFiles logs an alarm. If the file store is unavailable, CheckFiles returns the
// error, and the stored results do not change.
//
// If then is not nil, it runs in the transaction that stores the results, unless the certificate or its
// files were deleted.
func (s *Service) CheckFiles(ctx context.Context, c *Certificate, then TxFunc) ([]Check, error) {
	var checks []Check
	if c.FilesDeletedAt == nil {
		var err error
		checks, err = s.recheck(ctx, c)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, blob.ErrUnavailable) {
			return nil, fmt.Errorf("checking files: %w", err)
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
			// The files were deleted, perhaps during the check.
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

// rehashDue returns the UUIDs of up to limit certificates whose check is due, oldest check first.
func (s *Service) rehashDue(ctx context.Context, limit int) ([]string, error) {
	uuids, err := db.Column[string](s.db.QueryContext(ctx, `
		SELECT c.uuid FROM certificate_checks k JOIN certificates c ON c.id = k.certificate_id
		WHERE k.name = $1 AND k.checked_at < $2 ORDER BY k.checked_at LIMIT $3`,
		CheckFile, db.Micros(s.now().Add(-RehashAge)), limit))
	if err != nil {
		return nil, fmt.Errorf("listing the files to check: %w", err)
	}
	return uuids, nil
}

// recheck reads the files of a certificate again and returns the results of the checks. It may return
// results together with an error, so that one unreadable file does not stop the checks of other files.
// The result is FailedCheck for a missing or damaged file, and NotRun for a file that cannot be read for
// another reason.
func (s *Service) recheck(ctx context.Context, c *Certificate) (checks []Check, err error) {
	ctx = blob.WithoutCache(ctx)
	// An application may have no file.
	if originalCheck(c) == CheckOriginal && c.File.Key != "" {
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
		// The stored result of the last check does not change.
		return checks, errors.Join(err, e)
	}
	return append(checks, Check{Name: CheckSignature, Result: result}), errors.Join(err, e)
}

// recheckFile checks a whole file and returns the result. err is the error of opening the file.
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

// signed reports whether the verified PDF of a certificate is signed. Files from the first version of the
// vault are not signed and have no signature check.
func (s *Service) signed(ctx context.Context, id int64) (yes bool, err error) {
	if err := s.db.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM certificate_checks WHERE certificate_id = $1 AND name = $2)`, id, CheckSignature).Scan(&yes); err != nil {
		return false, fmt.Errorf("reading checks: %w", err)
	}
	return yes, nil
}

// OriginalDamaged reports whether the last CheckOriginal of a certificate failed. An original that is a
// part of the verified PDF has no such check, because CheckFile includes it.
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

// CheckAll calls CheckFiles for each record whose files were not deleted, and then calls f with the results.
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
