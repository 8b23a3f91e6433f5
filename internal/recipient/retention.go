package recipient

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/webhook"
)

const (
	// purgeBatch is the maximum number of notices in one transaction, and purgeRounds the maximum
	// number of transactions for an institution in one sweep.
	purgeBatch  = 500
	purgeRounds = 20
)

// PurgedTx deletes the notices, plans, shares, corrections and portfolio entries of a certificate that
// is about to be deleted. Package vault calls PurgedTx in the callback cert.Config.Purged.
func PurgedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	for _, statement := range []string{
		`DELETE FROM notices WHERE certificate_id = $1`, `DELETE FROM shares WHERE certificate_id = $1`, `DELETE FROM corrections WHERE certificate_id = $1`,
		`DELETE FROM portfolio_entries WHERE certificate_id = $1`,
		`DELETE FROM planned_notices WHERE certificate_id = $1`, `DELETE FROM notice_plans WHERE certificate_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, c.ID); err != nil {
			return fmt.Errorf("removing a certificate's notices and links: %w", err)
		}
	}
	return nil
}

// SweepExpired purges expired data of institutions with a limited retention period for mail: the
// addresses of notices, and names and addresses in webhook events. SweepExpired does not change
// mail that was sent, or the links in that mail.
func (s *Service) SweepExpired(ctx context.Context) error {
	list, err := account.RetentionLimits(ctx, s.db)
	if err != nil {
		return err
	}
	for _, limit := range list {
		if limit.Mail == 0 {
			continue
		}
		for range purgeRounds {
			more, err := s.purgeMail(ctx, limit)
			if err != nil {
				return fmt.Errorf("purging mail addresses: %w", err)
			}
			if !more {
				break
			}
		}
	}
	return nil
}

// purgeMail purges the next notices and events of an institution, and reports whether there may be
// more.
func (s *Service) purgeMail(ctx context.Context, limit account.RetentionLimit) (more bool, err error) {
	before := cutoff(s.now(), limit.Mail)
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		notices, moreNotices, err := s.purgeNoticesTx(ctx, tx, limit.ID, before)
		if err != nil {
			return err
		}
		events, moreEvents, err := s.certs.RedactTextsTx(ctx, tx, limit.ID, before)
		if err != nil {
			return err
		}
		more = moreNotices || moreEvents
		if notices+events == 0 {
			return nil
		}
		return audit.RecordTx(audit.WithActor(ctx, audit.Certvault), tx, audit.Entry{
			InstitutionID: limit.ID, At: s.now(), Action: audit.MailExpired, Detail: audit.Detail{"days": limit.Mail, "mails": notices, "events": events},
		})
	})
	return more, err
}

// cutoff returns the time before which data has expired, for a retention period in days.
func cutoff(now time.Time, days int) time.Time { return now.AddDate(0, 0, -days) }

// purgeNoticesTx purges the addresses of notices that were last changed before a time, in the order
// of their ids. It starts after the last notice that was purged earlier, and stops at the first
// notice that is newer or not finished. It returns the number of purged notices, and whether there
// may be more.
func (*Service) purgeNoticesTx(ctx context.Context, tx *db.Tx, institutionID int64, before time.Time) (n int, more bool, err error) {
	last, err := account.LastPurged(ctx, tx, institutionID, account.PurgedNotice)
	if err != nil {
		return 0, false, err
	}
	rows, err := tx.QueryContext(ctx, `
		SELECT id, status, updated_at FROM notices WHERE id > $1 AND institution_id = $2 ORDER BY id LIMIT $3`, last, institutionID, purgeBatch)
	if err != nil {
		return 0, false, fmt.Errorf("reading notices: %w", err)
	}
	type notice struct {
		id, updated int64
		status      Status
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (n notice, err error) {
		err = rows.Scan(&n.id, &n.status, &n.updated)
		return n, err
	})
	if err != nil {
		return 0, false, fmt.Errorf("reading notices: %w", err)
	}
	var lastPurged int64
	for _, old := range list {
		if old.updated >= db.Micros(before) || old.status == Waiting || old.status == Queued {
			break
		}
		if _, err := tx.ExecContext(ctx, `UPDATE notices SET email = '', email_folded = '', error = NULL WHERE id = $1`, old.id); err != nil {
			return 0, false, fmt.Errorf("purging the address of a notice: %w", err)
		}
		lastPurged = old.id
		n++
	}
	if lastPurged == 0 {
		return 0, false, nil
	}
	if err := account.SetLastPurgedTx(ctx, tx, institutionID, account.PurgedNotice, lastPurged); err != nil {
		return 0, false, err
	}
	return n, n == purgeBatch, nil
}

// Expired counts the data that a retention period in days would purge at a time: mails with an
// address, and events with names and addresses.
func Expired(ctx context.Context, q db.Queryer, at time.Time, institutionID int64, days int) (mails, events int, err error) {
	if days == 0 {
		return 0, 0, nil
	}
	before := cutoff(at, days)
	last, err := account.LastPurged(ctx, q, institutionID, account.PurgedNotice)
	if err != nil {
		return 0, 0, err
	}
	if err := q.QueryRowContext(ctx, `
		SELECT count(*) FROM notices WHERE id > $1 AND institution_id = $2 AND updated_at < $3 AND status NOT IN ('waiting', 'queued')`,
		last, institutionID, db.Micros(before)).Scan(&mails); err != nil {
		return 0, 0, fmt.Errorf("counting mails: %w", err)
	}
	events, err = webhook.CountUnredacted(ctx, q, institutionID, before)
	return mails, events, err
}

// Expired counts the data that a retention period in days would purge now.
func (s *Service) Expired(ctx context.Context, institutionID int64, days int) (mails, events int, err error) {
	return Expired(ctx, s.db, s.now(), institutionID, days)
}
