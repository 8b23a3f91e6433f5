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
	// KeepEvery is how often what is over by its institution's wish is looked for.
	KeepEvery = time.Hour
	// keepMost bounds what ends in one round, so that nothing else waits long.
	keepMost = 1000
)

// ErrFilesEnded is a file that its institution let end. It is told as what is missing is
// (the interface knows no other status for it), in words of its own.
var ErrFilesEnded = fault.New(fault.NotFound,
	"The files of this certificate have ended: its institution keeps the files of revoked certificates for a time only. Its record stays.")

// filesEnded refuses files that have ended.
func (c *Certificate) filesEnded() error {
	if c.FilesEndedAt != nil {
		return ErrFilesEnded
	}
	return nil
}

// since is the moment before which something is over.
func since(now time.Time, days int) int64 { return db.Micros(now.AddDate(0, 0, -days)) }

const (
	// overFailed are certificates that failed long ago. The newest record of all
	// stays, since SQLite would give its number to the next, and the number is told to
	// other servers.
	overFailed = ` FROM certificates WHERE institution_id = $1 AND source = 'vault' AND status = 'failed' AND updated_at < $2
		AND id < (SELECT max(id) FROM certificates)`
	// overRevoked are certificates that were revoked long ago and have files.
	overRevoked = ` FROM certificates WHERE institution_id = $1 AND status = 'revoked' AND files_ended_at IS NULL AND revoked_at < $2`
)

// Over counts the certificates that would end at a time, or the files of which would,
// if an institution kept them for so long.
func Over(ctx context.Context, q db.Queryer, at time.Time, institutionID int64, k account.Keep) (failed, revoked int, err error) {
	for _, one := range []struct {
		days  int
		where string
		n     *int
	}{{k.Failed, overFailed, &failed}, {k.Revoked, overRevoked, &revoked}} {
		if one.days == 0 {
			continue
		}
		if err := q.QueryRowContext(ctx, `SELECT count(*)`+one.where, institutionID, since(at, one.days)).Scan(one.n); err != nil {
			return 0, 0, fmt.Errorf("counting what is over: %w", err)
		}
	}
	return failed, revoked, nil
}

// Over counts what would end now if an institution kept it for so long.
func (s *Service) Over(ctx context.Context, institutionID int64, k account.Keep) (failed, revoked int, err error) {
	return Over(ctx, s.db, s.now(), institutionID, k)
}

// SweepKept ends what institutions keep for a time only and is over: certificates
// that failed, and the files of revoked ones. Each ends in a transaction of its own,
// with its entry in the audit log; the blobs go with the sweep of files, which spares
// those that others refer to.
func (s *Service) SweepKept(ctx context.Context) error {
	list, err := account.Keeping(ctx, s.db)
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
			if err := s.sweepKept(ctx, k.ID, one.days, one.where, one.end); err != nil {
				return fmt.Errorf("ending what is over: %w", err)
			}
		}
	}
	return nil
}

func (s *Service) sweepKept(ctx context.Context, institutionID int64, days int, where string, end func(ctx context.Context, tx *db.Tx, id, before int64, days int) error) error {
	before := since(s.now(), days)
	ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT id`+where+` LIMIT $3`, institutionID, before, keepMost))
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := s.db.Tx(ctx, func(tx *db.Tx) error { return end(ctx, tx, id, before, days) })
		if errors.Is(err, ErrMoved) {
			continue // retried, or ended by another node, in the meantime
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

// endFailedTx removes a certificate that failed, with all that was said of it.
func (s *Service) endFailedTx(ctx context.Context, tx *db.Tx, id, before int64, days int) error {
	// Whoever retries it at this moment waits, and finds it gone, or is waited for.
	c, err := Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET job_id = NULL WHERE id = $1 AND status = 'failed' AND updated_at < $2 RETURNING `+Columns, id, before))
	if errors.Is(err, sql.ErrNoRows) {
		return ErrMoved
	}
	if err != nil {
		return err
	}
	if err := s.ended.runTx(ctx, tx, c); err != nil {
		return err
	}
	if err := s.hooks.ForgetTx(ctx, tx, c.ID); err != nil {
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

// endFilesTx takes the files off a revoked certificate. Its digests stay, by which
// whoever has the file learns that it was revoked. Its checks go: they are of files
// that are not there.
func (s *Service) endFilesTx(ctx context.Context, tx *db.Tx, id, before int64, days int) error {
	c, err := Scan(tx.QueryRowContext(ctx, `
		UPDATE certificates SET files_ended_at = $3, original_key = '', tail_key = CASE WHEN tail_key IS NULL THEN NULL ELSE '' END, image_key = NULL
		WHERE id = $1 AND status = 'revoked' AND files_ended_at IS NULL AND revoked_at < $2 RETURNING `+Columns, id, before, db.Micros(s.now())))
	if errors.Is(err, sql.ErrNoRows) {
		return ErrMoved
	}
	if err != nil {
		return err
	}
	if err := forgetChecksTx(ctx, tx, c.ID); err != nil {
		return err
	}
	return s.recordEndTx(ctx, tx, audit.FilesEnded, c, audit.Detail{"days": days})
}

// forgetChecksTx removes the results of a certificate's checks.
func forgetChecksTx(ctx context.Context, tx *db.Tx, id int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM certificate_checks WHERE certificate_id = $1`, id); err != nil {
		return fmt.Errorf("removing the checks of a certificate: %w", err)
	}
	return nil
}

// recordEndTx writes into the log what the vault ended by itself.
func (s *Service) recordEndTx(ctx context.Context, tx *db.Tx, action audit.Action, c *Certificate, detail audit.Detail) error {
	return audit.RecordTx(audit.With(ctx, audit.Itself), tx, audit.Entry{
		InstitutionID: c.InstitutionID, At: s.now(), Action: action, Detail: detail,
		Subject: audit.Subject{Type: "certificate", ID: c.UUID, Name: c.ReferenceID},
	})
}

// EndTextsTx takes names and addresses out of what an institution's events told
// before a time; see webhook.
func (s *Service) EndTextsTx(ctx context.Context, tx *db.Tx, institutionID int64, before time.Time) (n int, more bool, err error) {
	return s.hooks.EndTextsTx(ctx, tx, institutionID, before)
}
