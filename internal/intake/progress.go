package intake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/task"
)

// Progress is how far a draft is that was submitted. It is counted, of batches and
// certificates, each time it is asked for.
type Progress struct {
	Batches []*batch.Batch
	// Total rows were submitted; the others are what became of them. Waiting are in
	// no batch yet, Refused in one that was not accepted.
	Total, Waiting, Processing, Approved, Failed, Rejected, Revoked, Refused int
	// Skipped rows of the list were not submitted.
	Skipped int
	// Problems are why batches were not accepted.
	Problems []string
	// PerMinute is how many are approved in a minute of late, 0 when that is not
	// known; Remaining is how long the rest takes at that pace.
	PerMinute int
	Remaining time.Duration
}

// paceTime is the time over which the pace is measured.
const paceTime = time.Minute

// Done are the rows that are at their end.
func (p *Progress) Done() int { return p.Total - p.Waiting - p.Processing }

// Finished says that all are.
func (p *Progress) Finished() bool { return p.Waiting+p.Processing == 0 }

// Percent is the part that is done.
func (p *Progress) Percent() int {
	if p.Total == 0 {
		return 100
	}
	return 100 * p.Done() / p.Total
}

// part is a batch of a draft, or why there is none.
type part struct{ batchUUID, problem string }

func (s *Service) parts(ctx context.Context, d *Draft) (list []part, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT coalesce(batch_uuid, ''), problem FROM intake_batches WHERE draft_id = $1 ORDER BY part`, d.ID)
	if err != nil {
		return nil, fmt.Errorf("reading the parts of a bulk upload: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p part
		if err := rows.Scan(&p.batchUUID, &p.problem); err != nil {
			return nil, fmt.Errorf("reading the parts of a bulk upload: %w", err)
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// Progress tells how far a draft is.
func (s *Service) Progress(ctx context.Context, d *Draft) (*Progress, error) {
	p := &Progress{}
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM intake_rows WHERE draft_id = $1 AND NOT skipped`, d.ID).Scan(&p.Total); err != nil {
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
			p.Problems = append(p.Problems, part.problem)
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

// pace measures how fast it goes over the last minute, or since it began.
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

// settle finds out which drafts are done.
func (s *Service) settle(ctx context.Context, institutionID int64, list []*Draft) error {
	byID, args := map[int64]*Draft{}, []any{}
	for _, d := range list {
		if d.Done = d.Status == Submitted; d.Done {
			byID[d.ID], args = d, append(args, d.ID)
		}
	}
	if len(args) == 0 {
		return nil
	}
	rows, err := s.db.QueryContext(ctx, `SELECT batch_uuid, draft_id FROM intake_batches WHERE batch_uuid IS NOT NULL AND draft_id IN (`+db.Places(1, len(args))+`)`, args...)
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

// ByBatch gives the draft that a batch came of, for its page.
func (s *Service) ByBatch(ctx context.Context, institutionID int64, batchUUID string) (*Draft, error) {
	d, err := scanDraft(s.db.QueryRowContext(ctx, `
		SELECT `+draftColumns+` FROM intake_drafts WHERE institution_id = $1
		AND id = (SELECT draft_id FROM intake_batches WHERE batch_uuid = $2)`, institutionID, batchUUID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a bulk upload: %w", err)
	}
	return d, nil
}

// RetryFailed has the certificates of a draft that failed processed again, and no
// other. It returns the tasks that do so.
func (s *Service) RetryFailed(ctx context.Context, inst *account.Institution, d *Draft, then func(ctx context.Context, tx *db.Tx) error) ([]*task.Task, error) {
	parts, err := s.parts(ctx, d)
	if err != nil {
		return nil, err
	}
	var started []*task.Task
	for _, part := range parts {
		if part.batchUUID == "" {
			continue
		}
		one, err := s.tasks.Start(ctx, inst.ID, task.Request{Kind: task.Retry, Selection: task.Selection{Filter: search.Filter{BatchID: part.batchUUID}}, Then: then})
		if err != nil {
			return nil, err
		}
		started = append(started, one)
	}
	return started, nil
}
