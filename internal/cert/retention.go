package cert

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/verification"
)

const (
	// RetentionInterval is the time between two calls of SweepExpired.
	RetentionInterval = time.Hour
	// maxDeletions bounds the number of failed certificates, and the number of revoked certificates,
	// that one sweep processes for an institution, so that the sweep does not delay other work.
	maxDeletions = 1000
)

// ErrFilesPurged is the error for files that were erased or deleted by retention. Its kind is NotFound,
// because the contract of the API has no other status for this error.
var ErrFilesPurged = fault.New(fault.NotFound,
	"The files of this certificate are no longer available: they were erased, or deleted because the institution keeps "+
		"the files of revoked certificates for a limited time. The record remains.")

// checkFilesExist returns ErrFilesPurged if the files were erased or deleted by retention.
func (c *Certificate) checkFilesExist() error {
	if c.FilesDeletedAt != nil {
		return ErrFilesPurged
	}
	return nil
}

// cutoff returns the time that is the given number of days before now, in microseconds. A record
// that failed or was revoked before this time has expired.
func cutoff(now time.Time, days int) int64 { return db.Micros(now.AddDate(0, 0, -days)) }

const (
	// expiredFailed selects failed certificates that have expired. It excludes the newest record,
	// because SQLite would use its id again for the next record, and servers of institutions store ids.
	expiredFailed = ` FROM certificates WHERE institution_id = $1 AND source IN ('vault', 'template') AND status = 'failed' AND updated_at < $2
		AND id < (SELECT max(id) FROM certificates)`
	// expiredRevoked selects revoked certificates that have expired and still have files.
	expiredRevoked = ` FROM certificates WHERE institution_id = $1 AND status = 'revoked' AND files_ended_at IS NULL AND revoked_at < $2`
)

// Expired returns the numbers of failed certificates, and of revoked certificates with files, that have
// expired at the given time if the retention is k.
func Expired(ctx context.Context, q db.Queryer, at time.Time, institutionID int64, k account.Retention) (failed, revoked int, err error) {
	for _, rule := range []struct {
		days  int
		where string
		n     *int
	}{{k.Failed, expiredFailed, &failed}, {k.Revoked, expiredRevoked, &revoked}} {
		if rule.days == 0 {
			continue
		}
		if err := q.QueryRowContext(ctx, `SELECT count(*)`+rule.where, institutionID, cutoff(at, rule.days)).Scan(rule.n); err != nil {
			return 0, 0, fmt.Errorf("counting expired records: %w", err)
		}
	}
	return failed, revoked, nil
}

// Expired returns the results of the function Expired for the current time.
func (s *Service) Expired(ctx context.Context, institutionID int64, k account.Retention) (failed, revoked int, err error) {
	return Expired(ctx, s.db, s.now(), institutionID, k)
}

// removal deletes a certificate or its files. before is a time in microseconds. If the certificate did not
// fail or was not revoked before this time, the error is ErrInvalidState. days is the retention, for the
// audit log.
type removal func(ctx context.Context, tx *db.Tx, id, before int64, days int) error

// SweepExpired deletes expired failed certificates, and the files of expired revoked certificates.
// Each deletion has its own transaction, with an entry in the audit log. Package deletion deletes
// the blobs later, unless other records refer to them.
func (s *Service) SweepExpired(ctx context.Context) error {
	list, err := account.RetentionLimits(ctx, s.db)
	if err != nil {
		return err
	}
	for _, k := range list {
		for _, rule := range []struct {
			days   int
			where  string
			remove removal
		}{{k.Failed, expiredFailed, s.deleteFailedTx}, {k.Revoked, expiredRevoked, s.deleteFilesTx}} {
			if rule.days == 0 {
				continue
			}
			if err := s.sweepExpired(ctx, k.ID, rule.days, rule.where, rule.remove); err != nil {
				return fmt.Errorf("deleting expired records: %w", err)
			}
		}
	}
	return nil
}

func (s *Service) sweepExpired(ctx context.Context, institutionID int64, days int, where string, remove removal) error {
	before := cutoff(s.now(), days)
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT id`+where+` LIMIT $3`, institutionID, before, maxDeletions))
	if err != nil {
		return err
	}
	deleted := 0
	for _, id := range ids {
		err := s.db.Tx(ctx, func(tx *db.Tx) error { return remove(ctx, tx, id, before, days) })
		if errors.Is(err, ErrInvalidState) {
			continue // retried, or deleted by another node, in the meantime
		}
		if err != nil {
			return err
		}
		deleted++
	}
	if deleted > 0 {
		s.log.InfoContext(ctx, "deleted expired records or files of an institution",
			slog.Int64("institution", institutionID), slog.Int("certificates", deleted), slog.Int("days", days))
	}
	return nil
}

// deleteFailedTx deletes an expired failed certificate, and records the deletion in the audit log.
func (s *Service) deleteFailedTx(ctx context.Context, tx *db.Tx, id, before int64, days int) error {
	c, err := s.removeFailedTx(ctx, tx, id, before)
	if err != nil {
		return err
	}
	detail := audit.Detail{"days": days}
	if c.Failure != nil {
		detail["failure"] = c.Failure.Code
	}
	return s.recordDeletionTx(ctx, tx, audit.CertificateExpired, c, detail)
}

// removeFailedTx deletes a certificate that failed before a time, with its events, checks, signatures and
// counts of verifications.
func (s *Service) removeFailedTx(ctx context.Context, tx *db.Tx, id, before int64) (*Certificate, error) {
	// The update locks the row. A concurrent retry ends before it, or waits and then finds no record.
	c, err := Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET job_id = NULL WHERE id = $1 AND status = 'failed' AND updated_at < $2 RETURNING `+Columns, id, before))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrInvalidState
	}
	if err != nil {
		return nil, err
	}
	if err := s.purged.runTx(ctx, tx, c); err != nil {
		return nil, err
	}
	if err := s.hooks.RemoveTx(ctx, tx, c.ID); err != nil {
		return nil, err
	}
	if err := deleteChecksTx(ctx, tx, c.ID); err != nil {
		return nil, err
	}
	if err := deleteSignaturesTx(ctx, tx, c.ID); err != nil {
		return nil, err
	}
	if err := verification.DeleteTx(ctx, tx, c.ID); err != nil {
		return nil, err
	}
	if _, err = tx.ExecContext(ctx, `DELETE FROM certificates WHERE id = $1`, c.ID); err != nil {
		return nil, err
	}
	return c, forgetReplacedTx(ctx, tx, c)
}

// deleteFilesTx removes the expired files of a revoked certificate, and records the deletion in the
// audit log.
func (s *Service) deleteFilesTx(ctx context.Context, tx *db.Tx, id, before int64, days int) error {
	c, err := s.removeFilesTx(ctx, tx, id, before)
	if err != nil {
		return err
	}
	return s.recordDeletionTx(ctx, tx, audit.FilesExpired, c, audit.Detail{"days": days})
}

// removeFilesTx removes the references to the files from a certificate that was revoked before a
// time, so that package deletion deletes the files. The digests remain, so that a copy of the file is
// still recognized as revoked. The keys are added to former_keys, so that an erasure can delete the
// files earlier. The base of a template remains, because other certificates use it. The values are
// deleted, because the original could be drawn from them. The checks and the counts of verifications
// are deleted too.
func (s *Service) removeFilesTx(ctx context.Context, tx *db.Tx, id, before int64) (*Certificate, error) {
	c, err := Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET files_ended_at = $3,
			former_keys = coalesce(former_keys || ' ', '') || CASE WHEN template_version_id IS NULL THEN original_key ELSE '' END
				|| coalesce(' ' || tail_key, '') || coalesce(' ' || image_key, ''),
			original_key = '', template_values = NULL, tail_key = CASE WHEN tail_key IS NULL THEN NULL ELSE '' END, image_key = NULL
		WHERE id = $1 AND status = 'revoked' AND files_ended_at IS NULL AND revoked_at < $2 RETURNING `+Columns, id, before, db.Micros(s.now())))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrInvalidState
	}
	if err != nil {
		return nil, err
	}
	if err := verification.DeleteTx(ctx, tx, c.ID); err != nil {
		return nil, err
	}
	return c, deleteChecksTx(ctx, tx, c.ID)
}

// deleteChecksTx deletes the results of a certificate's checks.
func deleteChecksTx(ctx context.Context, tx *db.Tx, id int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM certificate_checks WHERE certificate_id = $1`, id); err != nil {
		return fmt.Errorf("deleting the checks of a certificate: %w", err)
	}
	return nil
}

// recordDeletionTx records an automatic deletion in the audit log.
func (s *Service) recordDeletionTx(ctx context.Context, tx *db.Tx, action audit.Action, c *Certificate, detail audit.Detail) error {
	return audit.RecordTx(audit.WithActor(ctx, audit.Certvault), tx, audit.Entry{
		InstitutionID: c.InstitutionID, At: s.now(), Action: action, Detail: detail,
		Subject: audit.Subject{Type: "certificate", ID: c.UUID, Name: c.ReferenceID},
	})
}

// RedactTextsTx removes names and addresses from the events of an institution that occurred before a
// time. It returns the results of webhook.Service.RedactEventsTx.
func (s *Service) RedactTextsTx(ctx context.Context, tx *db.Tx, institutionID int64, before time.Time) (n int, more bool, err error) {
	return s.hooks.RedactEventsTx(ctx, tx, institutionID, before)
}
