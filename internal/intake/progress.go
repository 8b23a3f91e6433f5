package intake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// Progress is how far a draft is that was submitted. It is counted, of batches and
// certificates, each time it is asked for.
type Progress struct {
	Batches []*batch.Batch
	// Total rows were submitted; the others are what became of them. Waiting are in
	// no batch yet, Refused in one that was not accepted.
	Total, Waiting, Processing, Approved, Failed, Rejected, Revoked, Refused int
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

// Result is what came of a row.
type Result struct {
	*Row

	// Status is skipped, waiting, refused or that of the batch's entry.
	Status            string
	UUID, ReferenceID string
	Error             string
	ExistingUUID      string

	// isAgain says that it can be submitted again.
	isAgain bool
}

// The statuses of rows that are in no batch.
const (
	StatusSkipped = "skipped"
	StatusWaiting = "waiting"
	StatusRefused = "refused"
)

// Results gives what came of each row of a draft that was submitted, in the order
// of the list.
func (s *Service) Results(ctx context.Context, d *Draft) ([]*Result, error) {
	review, err := s.Review(ctx, d)
	if err != nil {
		return nil, err
	}
	parts, err := s.parts(ctx, d)
	if err != nil {
		return nil, err
	}
	results := make([]*Result, len(review.Rows))
	byNumber := make(map[int]*Result, len(results))
	at := 0
	for i, row := range review.Rows {
		results[i] = &Result{Row: row, Status: StatusWaiting}
		byNumber[row.Number] = results[i]
		if row.Skipped {
			results[i].Status = StatusSkipped
			continue
		}
		if n := at / s.partSize; n < len(parts) && parts[n].batchUUID == "" {
			results[i].Status, results[i].Error, results[i].isAgain = StatusRefused, parts[n].problem, true
		}
		at++
	}
	for _, part := range parts {
		if part.batchUUID == "" {
			continue
		}
		b, err := s.batches.ByUUID(ctx, d.InstitutionID, part.batchUUID, "")
		if err != nil {
			return nil, err
		}
		entries, err := s.batches.AllEntries(ctx, b)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if r := byNumber[e.Index]; r != nil {
				r.Status, r.UUID, r.ReferenceID, r.Error, r.ExistingUUID = e.Status, e.UUID, e.ReferenceID, e.Error, e.ExistingUUID
				r.isAgain = e.UUID == "" && e.Status == "rejected"
			}
		}
	}
	return results, nil
}

// WriteResults writes what came of each row as CSV: the columns of the list, then
// the result.
func (s *Service) WriteResults(ctx context.Context, d *Draft, verifyURL func(referenceID string) string, out io.Writer) error {
	results, err := s.Results(ctx, d)
	if err != nil {
		return err
	}
	w := sheet.NewWriter(out)
	if err := w.Write(slices.Concat(d.Header, []string{
		"Row in the list", "Result", "Reference id", "Verification address", "Certificate", "Error", "Existing certificate",
	})...); err != nil {
		return err
	}
	for _, r := range results {
		cells := make([]string, len(d.Header))
		copy(cells, r.Cells)
		address := ""
		if r.ReferenceID != "" {
			address = verifyURL(r.ReferenceID)
		}
		if err := w.Write(slices.Concat(cells, []string{strconv.Itoa(r.Number), r.Status, r.ReferenceID, address, r.UUID, r.Error, r.ExistingUUID})...); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Again begins a draft with the rows that became no certificate, skipped ones too,
// and the files of the one before.
func (s *Service) Again(ctx context.Context, d *Draft, creator cert.Actor) (*Draft, error) {
	if d.Status != Submitted {
		return nil, fault.New(fault.BadRequest, "This bulk upload is not done yet.")
	}
	results, err := s.Results(ctx, d)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, r := range results {
		if r.isAgain || r.Status == StatusSkipped {
			numbers = append(numbers, r.Number)
		}
	}
	if len(numbers) == 0 {
		return nil, fault.New(fault.BadRequest, "All rows became certificates, so none is left.")
	}
	var again *Draft
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if again, err = s.createTx(ctx, tx, d.InstitutionID, creator); err != nil {
			return err
		}
		return s.copyTx(ctx, tx, d, again, numbers)
	})
	if err != nil {
		return nil, fmt.Errorf("beginning a bulk upload again: %w", err)
	}
	return s.ByUUID(ctx, d.InstitutionID, creator.ID, again.UUID)
}

// copyTx gives one draft the list, some rows and the files of another, and keeps
// the files for as long as it lasts.
func (s *Service) copyTx(ctx context.Context, tx *db.Tx, from, to *Draft, numbers []int) error {
	if _, err := tx.ExecContext(ctx, `
		UPDATE intake_drafts SET list_name = o.list_name, header = o.header, mapping = o.mapping, mapped = true, wanted = o.wanted, total = $1
		FROM (SELECT list_name, header, mapping, wanted FROM intake_drafts WHERE id = $2) AS o WHERE intake_drafts.id = $3`,
		len(numbers), from.ID, to.ID); err != nil {
		return err
	}
	for some := range slices.Chunk(numbers, rowsAtOnce) {
		args := []any{to.ID, from.ID}
		for _, n := range some {
			args = append(args, n)
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO intake_rows (draft_id, number, cells, fixed, skipped, wanted)
			SELECT $1, number, cells, fixed, false, wanted FROM intake_rows WHERE draft_id = $2 AND number IN (`+db.Places(3, len(some))+`)`, args...); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO intake_files (draft_id, path, size, staged_uuid, problem, notices)
		SELECT $1, f.path, f.size, f.staged_uuid, f.problem, f.notices FROM intake_files f WHERE f.draft_id = $2 AND f.problem = ''
			AND EXISTS (SELECT 1 FROM staged_files s WHERE s.uuid = f.staged_uuid AND s.institution_id = $3)`, to.ID, from.ID, from.InstitutionID); err != nil {
		return err
	}
	staged, err := db.Column[string](tx.QueryContext(ctx, `SELECT staged_uuid FROM intake_files WHERE draft_id = $1`, to.ID))
	if err != nil {
		return err
	}
	return s.batches.EndTx(ctx, tx, from.InstitutionID, staged, to.ExpiresAt.Add(fileGrace))
}

// RetryFailed has the certificates of a draft that failed processed again, and no
// other. It gives what is under way.
func (s *Service) RetryFailed(ctx context.Context, inst *account.Institution, d *Draft, then func(ctx context.Context, tx *db.Tx) error) ([]*cert.Deed, error) {
	parts, err := s.parts(ctx, d)
	if err != nil {
		return nil, err
	}
	var deeds []*cert.Deed
	for _, part := range parts {
		if part.batchUUID == "" {
			continue
		}
		deed, err := s.certs.Begin(ctx, inst.ID, cert.NewDeed{Kind: cert.RetryMany, Choice: cert.Choice{Filter: cert.Filter{BatchID: part.batchUUID}}, Then: then})
		if err != nil {
			return nil, err
		}
		deeds = append(deeds, deed)
	}
	return deeds, nil
}
