package recipient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// A plan says when the mail about a certificate, or about a batch, is sent: at a time, or never. Until that
// time, an approved certificate with a plan has a row in planned_notices and no notice. SweepPlans then
// creates the notice. A certificate without a plan gets its notice at its approval, and so does a certificate
// that is approved after the time of its plan.

const (
	// plansShown is the maximum number of plans in a list.
	plansShown = 100
	// plansAtOnce is the maximum number of plans that one sweep handles, and peopleAtOnce the maximum number
	// of certificates that the sweep reads for each plan.
	plansAtOnce, peopleAtOnce = 100, 500
	// firstRetry is the time after which a mail that could not be written is tried again. The time
	// doubles with each attempt, up to maxRetry.
	firstRetry, maxRetry = 30 * time.Second, time.Hour
	// planKept is how long a plan is kept after the time of its mail. A transaction that read the plan
	// before that time has ended by then.
	planKept = time.Hour
)

// Subject is the certificate or the batch to which a plan belongs.
type Subject struct {
	InstitutionID int64
	// CertificateID is 0 for a batch, and BatchID is "" for a certificate.
	CertificateID int64
	BatchID       string
}

// PlanTx stores when the recipients of a new certificate or batch get mail. Package vault calls PlanTx in
// the callbacks cert.Config.Planned and batch.Config.Planned.
func (s *Service) PlanTx(ctx context.Context, tx *db.Tx, of Subject, n cert.Notify) error {
	if n.Kept {
		var err error
		if n, err = s.keptTx(ctx, tx, of.CertificateID); err != nil || n.Now() {
			return err
		}
	}
	now := db.Micros(s.now())
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO notice_plans (uuid, institution_id, certificate_id, batch_id, send_at, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $6)`,
		uuid.Must(uuid.NewV7()).String(), of.InstitutionID, sql.NullInt64{Int64: of.CertificateID, Valid: of.CertificateID != 0},
		sql.NullString{String: of.BatchID, Valid: of.BatchID != ""}, sendAt(n), now); err != nil {
		return fmt.Errorf("storing the time of mail: %w", err)
	}
	return nil
}

// keptTx returns the time of the mail about the certificate that a replacement replaces. It returns the zero
// value if no such mail waits.
func (s *Service) keptTx(ctx context.Context, tx *db.Tx, replacement int64) (cert.Notify, error) {
	old, err := cert.Scan(tx.QueryRowContext(ctx, `SELECT `+cert.Columns+` FROM certificates WHERE uuid = (SELECT replaces FROM certificates WHERE id = $1)`, replacement))
	if err != nil {
		return cert.Notify{}, fmt.Errorf("reading a replaced certificate: %w", err)
	}
	p, err := s.planOf(ctx, tx, old)
	if err != nil || p == nil {
		return cert.Notify{}, err
	}
	return p.Notify(), nil
}

// sendAt returns the value of the column send_at for a choice other than mail at the approval. It is NULL if
// no mail is sent.
func sendAt(n cert.Notify) sql.NullInt64 {
	return sql.NullInt64{Int64: db.Micros(n.At), Valid: !n.Never}
}

// holdTx makes the first notice of an approved certificate wait for the plan of the certificate or of its
// batch. It reports whether the notice waits.
func (s *Service) holdTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) (held bool, err error) {
	query, of := `certificate_id = $1`, any(c.ID)
	if c.BatchID != "" {
		query, of = `batch_id = $1`, c.BatchID
	}
	var plan int64
	err = tx.QueryRowContext(ctx, `SELECT id FROM notice_plans WHERE `+query+` AND (send_at IS NULL OR send_at > $2)`, of, db.Micros(s.now())).Scan(&plan)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO planned_notices (certificate_id, plan_id) VALUES ($1, $2) ON CONFLICT (certificate_id) DO NOTHING`, c.ID, plan)
	}
	if err != nil {
		return false, fmt.Errorf("reading the time of mail: %w", err)
	}
	return true, nil
}

// heldTx reports whether the first notice of a certificate waits for a plan. On PostgreSQL it locks the row
// of a notice that waits, so that the notice still waits when the transaction is committed.
func heldTx(ctx context.Context, tx *db.Tx, certificateID int64) (bool, error) {
	query := `SELECT certificate_id FROM planned_notices WHERE certificate_id = $1`
	if tx.Dialect() == db.PostgreSQL {
		query += ` FOR UPDATE`
	}
	list, err := db.Column[int64](tx.QueryContext(ctx, query, certificateID))
	if err != nil {
		return false, fmt.Errorf("reading waiting mail: %w", err)
	}
	return len(list) > 0, nil
}

// dropPlannedTx ends the wait of a certificate's first notice, because another mail takes its place or
// the certificate is revoked.
func dropPlannedTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM planned_notices WHERE certificate_id = $1`, certificateID); err != nil {
		return fmt.Errorf("dropping waiting mail: %w", err)
	}
	return nil
}

// dropPlanTx ends the wait of a certificate's first notice, and deletes the plan of the certificate. The
// plan of a batch remains.
func dropPlanTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	if err := dropPlannedTx(ctx, tx, certificateID); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM notice_plans WHERE certificate_id = $1`, certificateID); err != nil {
		return fmt.Errorf("deleting the time of mail: %w", err)
	}
	return nil
}

// dueNotices selects the rows n of planned_notices of a plan. After a failed attempt to write a mail, it
// does not select the rows of the mail before the time of the next attempt.
const dueNotices = ` FROM planned_notices n WHERE n.plan_id = %s AND (n.retry_at IS NULL OR n.retry_at <= %s)`

// SweepPlans sends the mail of plans whose time has come, with one transaction for each person, and deletes
// old plans. Each transaction deletes the rows of planned_notices for which it sends mail. Therefore each
// mail is sent once, even if a sweep is interrupted or runs on several nodes.
func (s *Service) SweepPlans(ctx context.Context) error {
	now := s.now()
	due, err := db.Column[int64](s.db.QueryContext(ctx, `
		SELECT id FROM notice_plans p WHERE send_at IS NOT NULL AND send_at <= $1 AND EXISTS (SELECT 1`+fmt.Sprintf(dueNotices, "p.id", "$1")+`)
		ORDER BY send_at LIMIT $2`, db.Micros(now), s.plansAtOnce))
	if err != nil {
		return fmt.Errorf("sweeping waiting mail: %w", err)
	}
	failed := each(due, "sending waiting mail", func(plan int64) error { return s.sendPlan(ctx, plan) })
	return errors.Join(failed, s.deleteOldPlans(ctx, now.Add(-planKept)))
}

// deleteOldPlans deletes the plans whose time is at most the parameter before, and for which no notice waits. It writes
// nothing if there are no such plans.
func (s *Service) deleteOldPlans(ctx context.Context, before time.Time) error {
	const old = `send_at IS NOT NULL AND send_at <= $1 AND NOT EXISTS (SELECT 1 FROM planned_notices n WHERE n.plan_id = notice_plans.id)`
	var found bool
	err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM notice_plans WHERE `+old+`)`, db.Micros(before)).Scan(&found)
	if err == nil && found {
		err = s.db.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, `DELETE FROM notice_plans WHERE `+old, db.Micros(before))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("deleting old times of mail: %w", err)
	}
	return nil
}

// planned is a person with mail in a plan. tries is the number of attempts in which the mail could not be
// written.
type planned struct {
	plan, institution int64
	folded            string
	tries             int
}

// sendPlan sends the mail of a plan to the next people.
func (s *Service) sendPlan(ctx context.Context, plan int64) error {
	rows, err := s.db.QueryContext(ctx, `
		SELECT c.institution_id, c.email_folded, p.tries FROM (SELECT n.certificate_id, n.tries`+fmt.Sprintf(dueNotices, "$1", "$2")+`
			ORDER BY n.certificate_id LIMIT $3) p JOIN certificates c ON c.id = p.certificate_id ORDER BY p.certificate_id`, plan, db.Micros(s.now()), peopleAtOnce)
	if err != nil {
		return err
	}
	people, err := db.Collect(rows, func(rows *sql.Rows) (planned, error) {
		p := planned{plan: plan}
		err := rows.Scan(&p.institution, &p.folded, &p.tries)
		return p, err
	})
	if err != nil {
		return err
	}
	done := map[string]bool{}
	var failed error
	for _, p := range people {
		if done[p.folded] {
			continue
		}
		done[p.folded] = true
		if err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.sendPlannedTx(ctx, tx, plan, p.institution, p.folded) }); err != nil {
			failed = errors.Join(failed, err, s.delay(ctx, p))
		}
	}
	return failed
}

// delay sets the time of the next attempt for mail that could not be written.
func (s *Service) delay(ctx context.Context, p planned) error {
	wait := min(maxRetry, firstRetry<<min(p.tries, 10))
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE planned_notices SET tries = tries + 1, retry_at = $1
			WHERE plan_id = $2 AND certificate_id IN (SELECT id FROM certificates WHERE institution_id = $3 AND email_folded = $4)`,
			db.Micros(s.now().Add(wait)), p.plan, p.institution, p.folded)
		return err
	}); err != nil {
		return fmt.Errorf("delaying waiting mail: %w", err)
	}
	return nil
}

// sendPlannedTx creates the notices of a person's certificates in a plan whose time has come, and writes the
// mail. It does nothing if another transaction has already done this, or if the time was changed.
func (s *Service) sendPlannedTx(ctx context.Context, tx *db.Tx, plan, institutionID int64, emailFolded string) error {
	query := `SELECT id FROM notice_plans WHERE id = $1 AND send_at <= $2`
	if tx.Dialect() == db.PostgreSQL {
		query += ` FOR UPDATE` // changes of the plan and other sweeps wait for this transaction
	}
	due, err := db.Column[int64](tx.QueryContext(ctx, query, plan, db.Micros(s.now())))
	if err != nil || len(due) == 0 {
		return err
	}
	ids, err := db.Column[int64](tx.QueryContext(ctx, `
		DELETE FROM planned_notices WHERE plan_id = $1 AND certificate_id IN (SELECT id FROM certificates WHERE institution_id = $2 AND email_folded = $3)
		RETURNING certificate_id`, plan, institutionID, emailFolded))
	if err != nil {
		return err
	}
	slices.Sort(ids)
	list, emails := make([]*cert.Certificate, len(ids)), make([]account.Email, len(ids))
	// The address is read again, because it may have been corrected at the same time. The numbers are
	// assigned before a notice is locked: see numberTx.
	for i, id := range ids {
		if list[i], err = cert.Scan(tx.QueryRowContext(ctx, `SELECT `+cert.Columns+` FROM certificates WHERE id = $1`, id)); err != nil {
			return fmt.Errorf("reading a certificate: %w", err)
		}
		if emails[i], err = account.ParseEmail(list[i].Email); err != nil {
			return fmt.Errorf("reading the address of a certificate: %w", err)
		}
		if err := s.assignTx(ctx, tx, list[i], emails[i].Folded); err != nil {
			return err
		}
	}
	for i, c := range list {
		if err := s.insertFirstTx(ctx, tx, c, emails[i]); err != nil {
			return err
		}
	}
	// The first call may write one mail for all certificates of a batch. The later calls then find no
	// waiting notice.
	for i, c := range list {
		if err := s.writeDueTx(ctx, tx, c, emails[i]); err != nil {
			return err
		}
	}
	return nil
}

// Plan says when the mail about a certificate or a batch is sent.
type Plan struct {
	UUID string
	// At is the time of the mail, or nil if no mail is sent.
	At *time.Time
	// Certificate and Reference are the UUID and the reference id of a single certificate, or "". Batch
	// is the UUID of a batch, or "".
	Certificate, Reference, Batch string
	// Name is the name of the batch, or the title of the certificate.
	Name string
	// Size is the number of certificates in the batch, or 1.
	Size int
	// Leaving reports whether the time has come. The plan can then no longer be changed.
	Leaving bool

	institutionID int64
}

// Notify returns the choice of the plan.
func (p *Plan) Notify() cert.Notify {
	if p.At == nil {
		return cert.Notify{Never: true}
	}
	return cert.Notify{At: *p.At}
}

const planQuery = `
	SELECT p.uuid, p.institution_id, p.send_at, coalesce(c.uuid, ''), coalesce(c.reference_id, ''), coalesce(p.batch_id, ''), coalesce(b.name, c.title, ''), coalesce(b.total, 1)
	FROM notice_plans p LEFT JOIN certificates c ON c.id = p.certificate_id LEFT JOIN batches b ON b.uuid = p.batch_id`

func (s *Service) scanPlan(row interface{ Scan(dest ...any) error }) (*Plan, error) {
	var p Plan
	var at sql.NullInt64
	if err := row.Scan(&p.UUID, &p.institutionID, &at, &p.Certificate, &p.Reference, &p.Batch, &p.Name, &p.Size); err != nil {
		return nil, err
	}
	p.At = db.OptionalTime(at)
	p.Leaving = p.At != nil && !p.At.After(s.now())
	return &p, nil
}

// Plans returns the first plansShown plans of an institution whose mail waits for a time, in the order of
// their times. more reports whether there are further plans.
func (s *Service) Plans(ctx context.Context, institutionID int64) (list []*Plan, more bool, err error) {
	rows, err := s.db.QueryContext(ctx, planQuery+`
		WHERE p.institution_id = $1 AND p.send_at IS NOT NULL AND (p.send_at > $2 OR EXISTS (SELECT 1 FROM planned_notices n WHERE n.plan_id = p.id))
		ORDER BY p.send_at, p.id LIMIT $3`, institutionID, db.Micros(s.now()), plansShown+1)
	if err == nil {
		list, err = db.Collect(rows, func(rows *sql.Rows) (*Plan, error) { return s.scanPlan(rows) })
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading waiting mail: %w", err)
	}
	return list[:min(len(list), plansShown)], len(list) > plansShown, nil
}

// Plan returns a plan of an institution, or fault.NotFound.
func (s *Service) Plan(ctx context.Context, institutionID int64, id string) (*Plan, error) {
	p, err := s.scanPlan(s.db.QueryRowContext(ctx, planQuery+` WHERE p.uuid = $1 AND p.institution_id = $2`, id, institutionID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoPlan
	}
	if err != nil {
		return nil, fmt.Errorf("reading the time of mail: %w", err)
	}
	return p, nil
}

// PlanOfBatch returns the plan of a batch of an institution. It returns nil if the batch has no plan, or if
// the time of the plan has passed and no mail waits for it.
func (s *Service) PlanOfBatch(ctx context.Context, institutionID int64, batchID string) (*Plan, error) {
	p, err := s.scanPlan(s.db.QueryRowContext(ctx, planQuery+`
		WHERE p.batch_id = $1 AND p.institution_id = $2
			AND (p.send_at IS NULL OR p.send_at > $3 OR EXISTS (SELECT 1 FROM planned_notices n WHERE n.plan_id = p.id))`,
		batchID, institutionID, db.Micros(s.now())))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // most batches have no plan
	}
	if err != nil {
		return nil, fmt.Errorf("reading the time of mail: %w", err)
	}
	return p, nil
}

// PlanOf returns the plan for which the mail about a certificate waits, or nil. The caller must check the
// access to the certificate.
func (s *Service) PlanOf(ctx context.Context, c *cert.Certificate) (*Plan, error) {
	return s.planOf(ctx, s.db, c)
}

func (s *Service) planOf(ctx context.Context, q db.Queryer, c *cert.Certificate) (*Plan, error) {
	var where string
	var args []any
	switch c.Status {
	case cert.Approved:
		where, args = `p.id = (SELECT plan_id FROM planned_notices WHERE certificate_id = $1)`, []any{c.ID}
	case cert.Pending, cert.InReview, cert.Processing, cert.Failed:
		where, args = `p.certificate_id = $1`, []any{c.ID, db.Micros(s.now())}
		if c.BatchID != "" {
			where, args[0] = `p.batch_id = $1`, c.BatchID
		}
		where += ` AND (p.send_at IS NULL OR p.send_at > $2)`
	case cert.Revoked, cert.Rejected, cert.Withdrawn, cert.Lapsed:
		return nil, nil //nolint:nilnil // no mail waits
	}
	p, err := s.scanPlan(q.QueryRowContext(ctx, planQuery+` WHERE `+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // most certificates have no plan
	}
	if err != nil {
		return nil, fmt.Errorf("reading the time of mail: %w", err)
	}
	return p, nil
}

var (
	errNoPlan = fault.New(fault.NotFound, "There is no such planned mail.")
	errLeft   = fault.New(fault.BadRequest, "The time of this mail has passed.")
)

// ChangePlan changes the time of a plan of an institution. If n is the zero Notify, the next sweep sends the
// mail. The error is fault.Invalid with cert.Problems if the time is not valid, fault.NotFound if there is no
// such plan, and fault.BadRequest if the time of the plan has passed.
func (s *Service) ChangePlan(ctx context.Context, institutionID int64, id string, n cert.Notify) error {
	if p := n.Check(s.now()); p != nil {
		return cert.Problems{*p}.Err()
	}
	p, err := s.Plan(ctx, institutionID, id)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		now := s.now()
		choice := n.String()
		if n.Now() {
			n.At = now
		}
		r, err := tx.ExecContext(ctx, `
			UPDATE notice_plans SET send_at = $1, updated_at = $2 WHERE uuid = $3 AND institution_id = $4 AND (send_at IS NULL OR send_at > $2)`,
			sendAt(n), db.Micros(now), p.UUID, institutionID)
		if err != nil {
			return err
		}
		if changed, err := r.RowsAffected(); err != nil || changed == 0 {
			return errors.Join(err, errLeft)
		}
		entry := audit.Entry{
			InstitutionID: institutionID, At: now, Action: audit.CertificatePlanned, Detail: audit.Detail{"notify": choice},
			Subject: audit.Subject{Type: "certificate", ID: p.Certificate, Name: p.Reference},
		}
		if p.Batch != "" {
			entry.Action, entry.Subject = audit.BatchPlanned, audit.Subject{Type: "batch", ID: p.Batch, Name: p.Name}
		}
		return audit.RecordTx(ctx, tx, entry)
	})
	if err != nil {
		return fmt.Errorf("changing the time of mail: %w", err)
	}
	return nil
}
