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
)

const (
	// RetentionEvery is the interval of SweepExpired.
	RetentionEvery = time.Hour
	// keepMost bounds the records of one sweep, so that it does not delay other work.
	keepMost = 1000
)

// ErrFilesPurged is returned for the files of a certificate whose retention has ended. Its kind is
// NotFound, since the contract has no other status for it.
var ErrFilesPurged = fault.New(fault.NotFound,
	"The files of this certificate have ended: its institution keeps the files of revoked certificates for a time only. Its record stays.")

// filesEnded returns ErrFilesPurged if the retention of the files has ended.
func (c *Certificate) filesEnded() error {
	if c.FilesEndedAt != nil {
		return ErrFilesPurged
	}
	return nil
}

// since returns the time before which a record has expired.
func since(now time.Time, days int) int64 { return db.Micros(now.AddDate(0, 0, -days)) }

const (
	// overFailed selects failed certificates that have expired. It excludes the newest record,
	// because SQLite would reuse its id for the next record, and other servers know the id.
	overFailed = ` FROM certificates WHERE institution_id = $1 AND source = 'vault' AND status = 'failed' AND updated_at < $2
		AND id < (SELECT max(id) FROM certificates)`
	// overRevoked selects revoked certificates with files that have expired.
	overRevoked = ` FROM certificates WHERE institution_id = $1 AND status = 'revoked' AND files_ended_at IS NULL AND revoked_at < $2`
)

// Expired counts the certificates, and the certificates with files, that expire at a time
// with a retention.
func Expired(ctx context.Context, q db.Queryer, at time.Time, institutionID int64, k account.Retention) (failed, revoked int, err error) {
	for _, one := range []struct {
		days  int
		where string
		n     *int
	}{{k.Failed, overFailed, &failed}, {k.Revoked, overRevoked, &revoked}} {
		if one.days == 0 {
			continue
		}
		if err := q.QueryRowContext(ctx, `SELECT count(*)`+one.where, institutionID, since(at, one.days)).Scan(one.n); err != nil {
			return 0, 0, fmt.Errorf("counting expired records: %w", err)
		}
	}
	return failed, revoked, nil
}

// Expired counts what has expired now with a retention.
func (s *Service) Expired(ctx context.Context, institutionID int64, k account.Retention) (failed, revoked int, err error) {
	return Expired(ctx, s.db, s.now(), institutionID, k)
}

// SweepExpired deletes failed certificates and files of revoked ones that have expired. Each deletion
// has its own transaction, with an entry in the audit log. The sweep of files deletes the blobs,
// unless other records refer to them.
func (s *Service) SweepExpired(ctx context.Context) error {
	list, err := account.RetentionLimits(ctx, s.db)
	if err != nil {
		return err
	}
	for _, k := range list {
		for _, one := range []struct {
			days  int
			where string
			end   func(ctx context.Context, tx *db.Tx, id, before int64, days int) error
		}{{k.Failed, overFailed, s.endFailedTx}, {k.Revoked, overRevoked, s.endFilesTx}} {
			if one.days == 0 {
				continue
			}
			if err := s.sweepExpired(ctx, k.ID, one.days, one.where, one.end); err != nil {
				return fmt.Errorf("deleting expired records: %w", err)
			}
		}
	}
	return nil
}

func (s *Service) sweepExpired(ctx context.Context, institutionID int64, days int, where string, end func(ctx context.Context, tx *db.Tx, id, before int64, days int) error) error {
	before := since(s.now(), days)
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT id`+where+` LIMIT $3`, institutionID, before, keepMost))
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := s.db.Tx(ctx, func(tx *db.Tx) error { return end(ctx, tx, id, before, days) })
		if errors.Is(err, ErrInvalidState) {
			continue // retried, or deleted by another node, in the meantime
		}
		if err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		s.log.InfoContext(ctx, "what an institution keeps for a time only has ended",
			slog.Int64("institution", institutionID), slog.Int("certificates", len(ids)), slog.Int("days", days))
	}
	return nil
}

// endFailedTx deletes a failed certificate with its events and checks.
func (s *Service) endFailedTx(ctx context.Context, tx *db.Tx, id, before int64, days int) error {
	// A concurrent retry waits and finds no record, or this statement waits for the retry.
	c, err := Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET job_id = NULL WHERE id = $1 AND status = 'failed' AND updated_at < $2 RETURNING `+Columns, id, before))
	if errors.Is(err, sql.ErrNoRows) {
		return ErrInvalidState
	}
	if err != nil {
		return err
	}
	if err := s.ended.runTx(ctx, tx, c); err != nil {
		return err
	}
	if err := s.hooks.RemoveTx(ctx, tx, c.ID); err != nil {
		return err
	}
	if err := forgetChecksTx(ctx, tx, c.ID); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM certificates WHERE id = $1`, c.ID); err != nil {
		return err
	}
	detail := audit.Detail{"days": days}
	if c.Failure != nil {
		detail["failure"] = c.Failure.Code
	}
	return s.recordEndTx(ctx, tx, audit.CertificateEnded, c, detail)
}

// endFilesTx removes the files of a revoked certificate. The digests remain, so that the file is
// still recognised as revoked. The checks are deleted, because their files are gone.
func (s *Service) endFilesTx(ctx context.Context, tx *db.Tx, id, before int64, days int) error {
	c, err := Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET files_ended_at = $3, original_key = '', tail_key = CASE WHEN tail_key IS NULL THEN NULL ELSE '' END, image_key = NULL
		WHERE id = $1 AND status = 'revoked' AND files_ended_at IS NULL AND revoked_at < $2 RETURNING `+Columns, id, before, db.Micros(s.now())))
	if errors.Is(err, sql.ErrNoRows) {
		return ErrInvalidState
	}
	if err != nil {
		return err
	}
	if err := forgetChecksTx(ctx, tx, c.ID); err != nil {
		return err
	}
	return s.recordEndTx(ctx, tx, audit.FilesEnded, c, audit.Detail{"days": days})
}

// forgetChecksTx deletes the results of a certificate's checks.
func forgetChecksTx(ctx context.Context, tx *db.Tx, id int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM certificate_checks WHERE certificate_id = $1`, id); err != nil {
		return fmt.Errorf("removing the checks of a certificate: %w", err)
	}
	return nil
}

// recordEndTx records an automatic deletion in the audit log.
func (s *Service) recordEndTx(ctx context.Context, tx *db.Tx, action audit.Action, c *Certificate, detail audit.Detail) error {
	return audit.RecordTx(audit.WithActor(ctx, audit.Certvault), tx, audit.Entry{
		InstitutionID: c.InstitutionID, At: s.now(), Action: action, Detail: detail,
		Subject: audit.Subject{Type: "certificate", ID: c.UUID, Name: c.ReferenceID},
	})
}

// EndTextsTx removes names and addresses from an institution's events before a time;
// see webhook.
func (s *Service) EndTextsTx(ctx context.Context, tx *db.Tx, institutionID int64, before time.Time) (n int, more bool, err error) {
	return s.hooks.RedactEventsTx(ctx, tx, institutionID, before)
}
