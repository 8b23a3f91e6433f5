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
	// endBatch bounds the notices of one transaction, and endRounds the transactions of one sweep
	// for an institution.
	endBatch  = 500
	endRounds = 20
)

// PurgedTx removes the notices, shares and corrections of a certificate that is about to be removed.
// It implements cert.Config.Purged.
func PurgedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	for _, statement := range []string{
		`DELETE FROM notices WHERE certificate_id = $1`, `DELETE FROM shares WHERE certificate_id = $1`, `DELETE FROM corrections WHERE certificate_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, c.ID); err != nil {
			return fmt.Errorf("removing a certificate's notices and links: %w", err)
		}
	}
	return nil
}

// SweepExpired purges expired data of institutions with a limited retention period for mail: the
// addresses of notices, and names and addresses in webhook events. Mail that was sent and its links
// do not change.
func (s *Service) SweepExpired(ctx context.Context) error {
	list, err := account.RetentionLimits(ctx, s.db)
	if err != nil {
		return err
	}
	for _, k := range list {
		if k.Mail == 0 {
			continue
		}
		for range endRounds {
			more, err := s.endTexts(ctx, k)
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

// endTexts purges a batch, and reports whether there may be more.
func (s *Service) endTexts(ctx context.Context, k account.RetentionLimit) (more bool, err error) {
	before := since(s.now(), k.Mail)
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		notices, moreNotices, err := s.endNoticesTx(ctx, tx, k.ID, before)
		if err != nil {
			return err
		}
		events, moreEvents, err := s.certs.EndTextsTx(ctx, tx, k.ID, before)
		if err != nil {
			return err
		}
		more = moreNotices || moreEvents
		if notices+events == 0 {
			return nil
		}
		return audit.RecordTx(audit.WithActor(ctx, audit.Certvault), tx, audit.Entry{
			InstitutionID: k.ID, At: s.now(), Action: audit.MailEnded, Detail: audit.Detail{"days": k.Mail, "mails": notices, "events": events},
		})
	})
	return more, err
}

// since returns the time before which a record has expired.
func since(now time.Time, days int) time.Time { return now.AddDate(0, 0, -days) }

// endNoticesTx purges the addresses of notices from before a time, in the order of their ids, and
// continues after the last one that was purged.
func (*Service) endNoticesTx(ctx context.Context, tx *db.Tx, institutionID int64, before time.Time) (n int, more bool, err error) {
	last, err := account.LastPurged(ctx, tx, institutionID, account.PurgedNotice)
	if err != nil {
		return 0, false, err
	}
	rows, err := tx.QueryContext(ctx, `
		SELECT id, status, updated_at FROM notices WHERE id > $1 AND institution_id = $2 ORDER BY id LIMIT $3`, last, institutionID, endBatch)
	if err != nil {
		return 0, false, fmt.Errorf("reading notices: %w", err)
	}
	type notice struct {
		id, updated int64
		status      Status
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (one notice, err error) {
		err = rows.Scan(&one.id, &one.status, &one.updated)
		return one, err
	})
	if err != nil {
		return 0, false, fmt.Errorf("reading notices: %w", err)
	}
	var place int64
	for _, one := range list {
		if one.updated >= db.Micros(before) || one.status == Waiting || one.status == Queued {
			break
		}
		if _, err := tx.ExecContext(ctx, `UPDATE notices SET email = '', email_folded = '', error = NULL WHERE id = $1`, one.id); err != nil {
			return 0, false, fmt.Errorf("purging the address of a notice: %w", err)
		}
		place = one.id
		n++
	}
	if place == 0 {
		return 0, false, nil
	}
	if err := account.SetLastPurgedTx(ctx, tx, institutionID, account.PurgedNotice, place); err != nil {
		return 0, false, err
	}
	return n, n == endBatch, nil
}

// Expired counts what would be purged at a time with a retention period in days: mails with an
// address, and events with names and addresses.
func Expired(ctx context.Context, q db.Queryer, at time.Time, institutionID int64, days int) (mails, events int, err error) {
	if days == 0 {
		return 0, 0, nil
	}
	before := since(at, days)
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

// Expired counts what would be purged now with a retention period in days.
func (s *Service) Expired(ctx context.Context, institutionID int64, days int) (mails, events int, err error) {
	return Expired(ctx, s.db, s.now(), institutionID, days)
}
