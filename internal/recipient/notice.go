package recipient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
)

const (
	// SweepInterval is the interval of Sweep. It limits the delay between the approval of the last entry
	// of a batch and the mail about the batch.
	SweepInterval = 5 * time.Second
	// maxWait is the maximum time that the first approved entry of a batch waits for the other
	// entries with its address.
	maxWait = 15 * time.Minute
	// jobWait is the time that a notice outside a batch waits for its job. After this time, a sweep
	// handles the notice.
	jobWait    = 10 * time.Second
	sweepBatch = 100
)

// Status is the state of a notice.
type Status string

const (
	// Waiting notices have no mail yet: a job or a sweep must still write it, or their batch is not complete.
	Waiting Status = "waiting"
	// Queued notices are in a message that waits to be sent.
	Queued Status = "queued"
	// Sent notices were accepted by the mail server.
	Sent Status = "sent"
	// Unsent notices are in a message that was not sent, because the vault has no mail server.
	Unsent Status = "unsent"
	// Failed notices will not arrive, because the mail server refused them or could not be reached.
	Failed Status = "failed"
	// Dropped notices belong to certificates that were revoked, whose address was corrected, or that
	// were mailed again, before the mail was sent.
	Dropped Status = "dropped"
	// Unsubscribed notices were not sent, because the address is unsubscribed.
	Unsubscribed Status = "unsubscribed"
)

// Reason is the reason for a notice.
type Reason string

const (
	// Approval is the reason for the first notice of a certificate, unless the reason is Replacement.
	Approval Reason = "approval"
	// Resent notices were requested by the institution.
	Resent Reason = "resent"
	// Corrected notices go to an address that the institution has corrected.
	Corrected Reason = "corrected"
	// Expiring notices remind the recipient that the certificate expires soon.
	Expiring Reason = "expiring"
)

// Notice is a mail about one certificate to its recipient.
type Notice struct {
	// Occasion numbers the notices of a certificate, from 1.
	Occasion int
	Reason   Reason
	// Email is the address of the recipient.
	Email  string
	Status Status
	// Error is the reason of a failure, as a sentence.
	Error                string
	CreatedAt, UpdatedAt time.Time
	// OpenedAt is the first time at which the link in the mail was opened, or nil.
	OpenedAt *time.Time
}

// MovedTx creates a notice and writes the mail if the certificate is approved, unless they have to
// wait for a plan, a job or other entries of the batch. If the certificate is revoked, MovedTx
// withdraws its notices. Package vault calls MovedTx in the callback cert.Config.StatusChanged, in the
// transaction of the change.
func (s *Service) MovedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	switch c.Status {
	case cert.Approved:
		return s.approvedTx(ctx, tx, c)
	case cert.Revoked:
		if err := dropPlanTx(ctx, tx, c.ID); err != nil {
			return err
		}
		return s.withdrawTx(ctx, tx, c.ID)
	default:
		return nil
	}
}

func (s *Service) approvedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return fmt.Errorf("reading the address of a certificate: %w", err)
	}
	held, err := s.holdTx(ctx, tx, c)
	if err != nil {
		return err
	}
	if !held {
		if err := s.insertFirstTx(ctx, tx, c, email); err != nil {
			return err
		}
	}
	if err := s.takeOverTx(ctx, tx, c, email.Folded); err != nil {
		return err
	}
	if c.CustomerID == 0 {
		_, err := account.VerifiedUser(ctx, tx, email.Folded)
		if err == nil {
			// The person verified the address during the processing. A job assigns the certificate,
			// because this transaction has already changed it: see numberTx.
			_, err = s.queue.InsertTx(ctx, tx, noticeArgs{UUID: c.UUID}, noticeOptions)
			return err
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	if held {
		return nil
	}
	return s.writeDueTx(ctx, tx, c, email)
}

// writeDueTx writes the mail of an approved certificate, unless the mail has to wait for other
// entries of the batch. If the last two entries are approved at the same time on PostgreSQL, each
// transaction sees the other entry in processing, and Sweep writes the mail.
func (s *Service) writeDueTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, email account.Email) error {
	if c.BatchID == "" {
		return s.writeTx(ctx, tx, `certificate_id = $1 AND reason <> 'expiring'`, c.ID)
	}
	ready, err := s.readyTx(ctx, tx, c.BatchID, email.Folded)
	if err != nil || !ready {
		return err
	}
	return s.writeTx(ctx, tx, `batch_id = $1 AND email_folded = $2`, c.BatchID, email.Folded)
}

// insertFirstTx inserts the first notice of an approved certificate, if there is none.
func (s *Service) insertFirstTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, email account.Email) error {
	reason, err := firstReasonTx(ctx, tx, c, email.Folded)
	if err != nil {
		return err
	}
	_, err = s.insertTx(ctx, tx, c, email, reason, c.BatchID)
	return err
}

// insertTx inserts a notice for a certificate's recipient and returns its id. A certificate has one
// notice for its approval, and one more for each later mail. If the reason is Approval or Replacement
// and the certificate already has a first notice, insertTx returns 0.
func (s *Service) insertTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, email account.Email, reason Reason, batch string) (id int64, err error) {
	occasion := 1
	if reason != Approval && reason != Replacement {
		if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(occasion), 1) + 1 FROM notices WHERE certificate_id = $1`, c.ID).Scan(&occasion); err != nil {
			return 0, fmt.Errorf("counting notices: %w", err)
		}
	}
	err = tx.QueryRowContext(ctx, `
		INSERT INTO notices (certificate_id, occasion, institution_id, reason, batch_id, email, email_folded, status, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 'waiting', $8, $8) ON CONFLICT (certificate_id, occasion) DO NOTHING RETURNING id`,
		c.ID, occasion, c.InstitutionID, string(reason), sql.NullString{String: batch, Valid: batch != ""}, email.Text, email.Folded, db.Micros(s.now())).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("creating a notice: %w", err)
	}
	return id, nil
}

// withdrawTx drops the waiting and queued notices of a certificate, except queued notices whose message
// can no longer be cancelled. If a cancelled message also has notices of other certificates, the notices
// of the other certificates wait for a new message.
func (s *Service) withdrawTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	// All notices of the same messages are locked in one order, so that concurrent withdrawals do
	// not deadlock.
	query := `SELECT id, certificate_id, status, coalesce(mail_uuid, '') FROM notices WHERE status IN ('waiting', 'queued')
		AND (certificate_id = $1 OR mail_uuid IN (SELECT mail_uuid FROM notices WHERE certificate_id = $1 AND status = 'queued')) ORDER BY id`
	if tx.Dialect() == db.PostgreSQL {
		// The lock waits for a transaction that is writing the mail.
		query += ` FOR UPDATE`
	}
	rows, err := tx.QueryContext(ctx, query, certificateID)
	if err != nil {
		return fmt.Errorf("withdrawing notices: %w", err)
	}
	type notice struct {
		id, certificate int64
		status          Status
		mail            string
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (n notice, err error) {
		err = rows.Scan(&n.id, &n.certificate, &n.status, &n.mail)
		return n, err
	})
	if err != nil {
		return fmt.Errorf("withdrawing notices: %w", err)
	}
	now := db.Micros(s.now())
	for _, n := range list {
		if n.certificate != certificateID {
			continue
		}
		if n.status == Queued {
			ok, err := mail.CancelTx(ctx, tx, n.mail, s.now())
			if err != nil {
				return err
			}
			if !ok {
				continue // the message is already sent or cancelled
			}
			if _, err := tx.ExecContext(ctx, `
				UPDATE notices SET status = 'waiting', mail_uuid = NULL, link_id = NULL, updated_at = $1 WHERE mail_uuid = $2 AND id <> $3`,
				now, n.mail, n.id); err != nil {
				return fmt.Errorf("withdrawing notices: %w", err)
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE notices SET status = 'dropped', mail_uuid = NULL, link_id = NULL, updated_at = $1 WHERE id = $2`,
			now, n.id); err != nil {
			return fmt.Errorf("withdrawing notices: %w", err)
		}
	}
	return nil
}

// MailFinishedTx records the result of a message. It ignores messages without a notice.
// MailFinishedTx is the callback mail.Config.Finished.
func (s *Service) MailFinishedTx(ctx context.Context, tx *db.Tx, e mail.Result) error {
	status := Sent
	switch e.Status { //nolint:exhaustive // the other results mean that the message was sent
	case mail.Failed:
		status = Failed
	case mail.Unsent:
		status = Unsent
	}
	if _, err := tx.ExecContext(ctx, `UPDATE notices SET status = $1, error = $2, updated_at = $3 WHERE mail_uuid = $4`,
		string(status), sql.NullString{String: e.Reason, Valid: e.Reason != ""}, db.Micros(s.now()), e.UUID); err != nil {
		return fmt.Errorf("recording the result of a message: %w", err)
	}
	return nil
}

// notify handles an approved certificate. It assigns the certificate to the person with its
// address, creates a missing notice, and writes the mail, unless the mail has to wait for a plan or
// for other entries of the batch.
func (s *Service) notify(ctx context.Context, uuid string) error {
	c, err := s.certs.BySignedLink(ctx, uuid)
	if err != nil {
		return err
	}
	email, err := account.ParseEmail(c.Email)
	if err != nil {
		return fmt.Errorf("reading the address of a certificate: %w", err)
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		if c.Status != cert.Approved {
			return nil // the notices of a revoked certificate are withdrawn
		}
		// The number is assigned before the notice is locked: see numberTx.
		if err := s.assignTx(ctx, tx, c, email.Folded); err != nil {
			return err
		}
		if held, err := heldTx(ctx, tx, c.ID); err != nil || held {
			return err
		}
		// A certificate that was approved by an earlier release has no notice, and gets its first one here. A
		// certificate that was mailed again while its first notice waited for a plan has only later notices,
		// and does not get the first one.
		hasNotice, err := hasNoticeTx(ctx, tx, c.ID)
		if err == nil && !hasNotice {
			err = s.insertFirstTx(ctx, tx, c, email)
		}
		if err != nil {
			return err
		}
		return s.writeDueTx(ctx, tx, c, email)
	})
}

func hasNoticeTx(ctx context.Context, tx *db.Tx, certificateID int64) (has bool, err error) {
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM notices WHERE certificate_id = $1)`, certificateID).Scan(&has); err != nil {
		return false, fmt.Errorf("reading notices: %w", err)
	}
	return has, nil
}

// readyTx reports whether the mail about a batch to an address can be written: the batch is
// expanded and no entry with the address is in processing, or the first notice has waited for
// maxWait.
func (s *Service) readyTx(ctx context.Context, tx *db.Tx, batch, emailFolded string) (ready bool, err error) {
	err = tx.QueryRowContext(ctx, `
		SELECT (EXISTS (SELECT 1 FROM batches WHERE uuid = $1 AND expanded)
				AND NOT EXISTS (SELECT 1 FROM certificates WHERE batch_id = $1 AND email_folded = $2 AND status = 'processing'))
			OR EXISTS (SELECT 1 FROM notices WHERE batch_id = $1 AND email_folded = $2 AND status = 'waiting' AND created_at <= $3)`,
		batch, emailFolded, db.Micros(s.now().Add(-maxWait))).Scan(&ready)
	if err != nil {
		return false, fmt.Errorf("reading the progress of a batch: %w", err)
	}
	return ready, nil
}

// Sweep writes mail that is due, handles notices whose job is missing, and deletes old counts of actions.
// Sweep reads the rows of the notices, so that mail is written even if the queue has lost the job of a
// notice. A mail that cannot be written does not delay other mail.
func (s *Service) Sweep(ctx context.Context) error {
	return errors.Join(s.sweepGroups(ctx), s.sweepWithoutJob(ctx), s.writeReminders(ctx), s.deleteAllowances(ctx))
}

// each calls f for each element, and returns the errors with the prefix what. It stops after an error
// that is an outage of the database.
func each[T any](list []T, what string, f func(T) error) (failed error) {
	for _, e := range list {
		err := f(e)
		failed = errors.Join(failed, err)
		if db.IsOutage(err) {
			break
		}
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", what, failed)
	}
	return nil
}

// sweepGroups writes the mail to each address in a batch whose entries with the address are finished, or
// whose first notice has waited for maxWait.
func (s *Service) sweepGroups(ctx context.Context) error {
	now := s.now()
	rows, err := s.db.QueryContext(ctx, `
		SELECT n.batch_id, n.email_folded FROM notices n WHERE n.status = 'waiting' AND n.batch_id IS NOT NULL
		GROUP BY n.batch_id, n.email_folded
		HAVING min(n.created_at) <= $1 OR EXISTS (SELECT 1 FROM batches b WHERE b.uuid = n.batch_id AND b.expanded)
			AND NOT EXISTS (SELECT 1 FROM certificates c WHERE c.batch_id = n.batch_id AND c.email_folded = n.email_folded AND c.status = 'processing')
		LIMIT $2`, db.Micros(now.Add(-maxWait)), sweepBatch)
	if err != nil {
		return fmt.Errorf("sweeping notices: %w", err)
	}
	groups, err := db.Collect(rows, func(rows *sql.Rows) (g [2]string, err error) {
		err = rows.Scan(&g[0], &g[1])
		return g, err
	})
	if err != nil {
		return fmt.Errorf("sweeping notices: %w", err)
	}
	return each(groups, "sweeping notices", func(g [2]string) error {
		return s.db.Tx(ctx, func(tx *db.Tx) error {
			return s.writeTx(ctx, tx, `batch_id = $1 AND email_folded = $2`, g[0], g[1])
		})
	})
}

// sweepWithoutJob handles the notices whose job is missing.
func (s *Service) sweepWithoutJob(ctx context.Context) error {
	withoutJob, err := db.Column[string](s.db.QueryContext(ctx, `
		SELECT c.uuid FROM notices n JOIN certificates c ON c.id = n.certificate_id
		WHERE n.status = 'waiting' AND n.batch_id IS NULL AND n.reason <> 'expiring' AND n.created_at <= $1 ORDER BY n.created_at LIMIT $2`,
		db.Micros(s.now().Add(-jobWait)), sweepBatch))
	if err != nil {
		return fmt.Errorf("sweeping notices: %w", err)
	}
	return each(withoutJob, "sweeping notices", func(uuid string) error { return s.notify(ctx, uuid) })
}

const noticeColumns = `occasion, reason, email, status, coalesce(error, ''), created_at, updated_at, (SELECT opened_at FROM mail_links WHERE id = link_id)`

func scanNotice(row interface{ Scan(dest ...any) error }, before ...any) (*Notice, error) {
	var n Notice
	var created, updated int64
	var opened sql.NullInt64
	if err := row.Scan(append(before, &n.Occasion, &n.Reason, &n.Email, &n.Status, &n.Error, &created, &updated, &opened)...); err != nil {
		return nil, err
	}
	n.CreatedAt, n.UpdatedAt = db.Time(created), db.Time(updated)
	if opened.Valid {
		at := db.Time(opened.Int64)
		n.OpenedAt = &at
	}
	return &n, nil
}

// Notices returns the notices of a certificate, the latest first. The caller must check the access to
// the certificate.
func (s *Service) Notices(ctx context.Context, c *cert.Certificate) ([]*Notice, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+noticeColumns+` FROM notices WHERE certificate_id = $1 ORDER BY occasion DESC`, c.ID)
	if err != nil {
		return nil, fmt.Errorf("reading notices: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Notice, error) { return scanNotice(rows) })
	if err != nil {
		return nil, fmt.Errorf("reading notices: %w", err)
	}
	return list, nil
}

// Latest maps the ids of certificates to their latest notices. The caller must limit the number of
// certificates, because each is a parameter of the query.
func (s *Service) Latest(ctx context.Context, certificates []*cert.Certificate) (latest map[int64]*Notice, err error) {
	latest = map[int64]*Notice{}
	if len(certificates) == 0 {
		return latest, nil
	}
	args := make([]any, len(certificates))
	for i, c := range certificates {
		args[i] = c.ID
	}
	rows, err := s.db.QueryContext(ctx,
		`SELECT certificate_id, `+noticeColumns+` FROM notices WHERE certificate_id IN (`+db.Placeholders(1, len(args))+`) ORDER BY occasion`, args...)
	if err != nil {
		return nil, fmt.Errorf("reading notices: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id int64
		n, err := scanNotice(rows, &id)
		if err != nil {
			return nil, fmt.Errorf("reading notices: %w", err)
		}
		latest[id] = n
	}
	return latest, rows.Err()
}
