package bulkimport

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
)

// Progress is the progress of a submitted draft. It is not stored, but computed from the batches.
type Progress struct {
	Batches []*batch.Batch
	// Total is the number of submitted rows. The other numbers are the numbers of these rows by status.
	// Waiting rows are in no batch yet. Refused rows belong to a batch that was refused.
	Total, Waiting, Processing, Approved, Failed, Rejected, Revoked, Refused int
	// Skipped is the number of rows of the list that were not submitted.
	Skipped int
	// Refusals are the reasons why batches were refused.
	Refusals []Refusal
	// PerMinute is the recent number of approvals per minute, and Remaining is the estimated
	// remaining time. They are 0 if they are unknown.
	PerMinute int
	Remaining time.Duration
}

// paceTime is the maximum length of the period in which approvals are counted.
const paceTime = time.Minute

// Done returns the number of finished rows.
func (p *Progress) Done() int { return p.Total - p.Waiting - p.Processing }

// Finished reports whether all rows are finished.
func (p *Progress) Finished() bool { return p.Waiting+p.Processing == 0 }

// Percent returns the share of finished rows in percent.
func (p *Progress) Percent() int {
	if p.Total == 0 {
		return 100
	}
	return 100 * p.Done() / p.Total
}

// Refusal is the reason why a batch was refused.
type Refusal struct {
	// Problem is the reason. It is nil if an earlier release refused the batch, and Text is then the
	// reason.
	Problem *cert.Problem
	Text    string
}

// part is a batch of a draft. If the batch was refused, batchUUID is "", and refusal is the reason.
type part struct {
	batchUUID string
	refusal   Refusal
}

func (s *Service) parts(ctx context.Context, d *Draft) (list []part, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT coalesce(batch_uuid, ''), problem, coalesce(reason, '') FROM bulk_import_batches WHERE draft_id = $1 ORDER BY part`, d.ID)
	if err != nil {
		return nil, fmt.Errorf("reading the parts of a bulk upload: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p part
		var reason string
		if err := rows.Scan(&p.batchUUID, &p.refusal.Text, &reason); err != nil {
			return nil, fmt.Errorf("reading the parts of a bulk upload: %w", err)
		}
		if reason != "" {
			if err := decode(reason, &p.refusal.Problem); err != nil {
				return nil, err
			}
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// Progress returns the progress of a draft.
func (s *Service) Progress(ctx context.Context, d *Draft) (*Progress, error) {
	p := &Progress{}
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM bulk_import_rows WHERE draft_id = $1 AND NOT skipped`, d.ID).Scan(&p.Total); err != nil {
		return nil, fmt.Errorf("counting rows: %w", err)
	}
	p.Skipped = d.Total - p.Total
	parts, err := s.parts(ctx, d)
	if err != nil {
		return nil, err
	}
	var uuids []string
	left := p.Total
	for _, part := range parts {
		size := min(left, s.partSize)
		left -= size
		if part.batchUUID == "" {
			p.Refused += size
			p.Refusals = append(p.Refusals, part.refusal)
			continue
		}
		uuids = append(uuids, part.batchUUID)
	}
	if p.Batches, err = s.batches.ByUUIDs(ctx, d.InstitutionID, uuids); err != nil {
		return nil, err
	}
	p.Waiting = p.Total - p.Refused
	for _, b := range p.Batches {
		p.Waiting -= b.Total
		p.Processing += b.Processing
		p.Approved += b.Approved
		p.Failed += b.Failed
		p.Rejected += b.Rejected
		p.Revoked += b.Revoked
	}
	return p, s.pace(ctx, d, p)
}

// pace sets PerMinute and Remaining from the approvals of the last minute, or from the approvals
// since the submission if the draft was submitted less than a minute ago.
func (s *Service) pace(ctx context.Context, d *Draft, p *Progress) error {
	if p.Finished() || d.SubmittedAt == nil {
		return nil
	}
	now := s.now()
	since := now.Add(-paceTime)
	if d.SubmittedAt.After(since) {
		since = *d.SubmittedAt
	}
	span := now.Sub(since)
	n, err := s.batches.Pace(ctx, p.Batches, since)
	if err != nil || n == 0 || span < time.Second {
		return err
	}
	p.PerMinute = int(float64(n) * float64(time.Minute) / float64(span))
	p.Remaining = time.Duration(float64(span) * float64(p.Waiting+p.Processing) / float64(n)).Round(time.Second)
	return nil
}

// setDone sets Done of the drafts in a list.
func (s *Service) setDone(ctx context.Context, institutionID int64, list []*Draft) error {
	byID, args := map[int64]*Draft{}, []any{}
	for _, d := range list {
		if d.Done = d.Status == Submitted; d.Done {
			byID[d.ID], args = d, append(args, d.ID)
		}
	}
	if len(args) == 0 {
		return nil
	}
	rows, err := s.db.QueryContext(ctx,
		`SELECT batch_uuid, draft_id FROM bulk_import_batches WHERE batch_uuid IS NOT NULL AND draft_id IN (`+db.Placeholders(1, len(args))+`)`, args...)
	if err != nil {
		return fmt.Errorf("reading the parts of bulk uploads: %w", err)
	}
	of := map[string]*Draft{}
	uuids, err := db.Collect(rows, func(rows *sql.Rows) (batchUUID string, err error) {
		var id int64
		err = rows.Scan(&batchUUID, &id)
		of[batchUUID] = byID[id]
		return batchUUID, err
	})
	if err != nil {
		return fmt.Errorf("reading the parts of bulk uploads: %w", err)
	}
	busy, err := s.batches.Busy(ctx, institutionID, uuids)
	if err != nil {
		return err
	}
	for _, batchUUID := range busy {
		of[batchUUID].Done = false
	}
	return nil
}

// ByBatch returns the draft to which a batch belongs. The error is fault.NotFound if there is none.
func (s *Service) ByBatch(ctx context.Context, institutionID int64, batchUUID string) (*Draft, error) {
	d, err := scanDraft(s.db.QueryRowContext(ctx, `
		SELECT `+draftColumns+` FROM bulk_import_drafts WHERE institution_id = $1
		AND id = (SELECT draft_id FROM bulk_import_batches WHERE batch_uuid = $2)`, institutionID, batchUUID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a bulk upload: %w", err)
	}
	return d, nil
}

// RetryFailed retries the failed certificates of a draft. It starts one task for each batch with failed
// certificates. The parameter then is the Then of each task.Request. If a task cannot be started,
// RetryFailed returns the tasks that it has started and the error. The error is fault.BadRequest if no
// certificate has failed.
func (s *Service) RetryFailed(ctx context.Context, inst *account.Institution, d *Draft, then func(ctx context.Context, tx *db.Tx) error) ([]*task.Task, error) {
	progress, err := s.Progress(ctx, d)
	if err != nil {
		return nil, err
	}
	var started []*task.Task
	for _, b := range progress.Batches {
		if b.Failed == 0 {
			continue
		}
		t, err := s.tasks.Start(ctx, inst.ID, task.Request{Kind: task.Retry, Selection: task.Selection{Filter: search.Filter{BatchID: b.UUID}}, Then: then})
		if err != nil {
			return started, err
		}
		started = append(started, t)
	}
	if len(started) == 0 {
		return nil, fault.New(fault.BadRequest, "No certificate of this bulk upload has failed.")
	}
	return started, nil
}
