package bulkimport

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/sheet"
)

// Result is the result of a row.
type Result struct {
	*Row

	// Status is one of the statuses below, or the status of the entry in the batch.
	Status            string
	UUID, ReferenceID string
	// Issued is the text of the certificate, including later corrections.
	Issued cert.Text
	// Reasons are the reasons why there is no certificate, or the problems of a skipped row. Error is
	// the reason as text. It is set if the certificate failed, or if an earlier release, which stored
	// the reason as text, rejected or refused the row.
	Reasons      Problems
	Error        string
	ExistingUUID string
	// Again reports whether the row can become a certificate after a correction.
	Again bool
}

// Succeeded reports whether the row became a certificate that did not fail. The certificate may be
// revoked.
func (r *Result) Succeeded() bool { return r.UUID != "" && r.Status != string(cert.Failed) }

// The statuses of rows that are in no batch.
const (
	StatusSkipped = "skipped"
	StatusWaiting = "waiting"
	StatusRefused = "refused"
)

// Results returns the result of each row of a submitted draft, in the order of the list.
func (s *Service) Results(ctx context.Context, d *Draft) ([]*Result, error) {
	review, err := s.Review(ctx, d)
	if err != nil {
		return nil, err
	}
	parts, err := s.parts(ctx, d)
	if err != nil {
		return nil, err
	}
	reasons, err := s.reasons(ctx, review)
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
			reasons.explain(results[i])
			continue
		}
		if n := at / s.partSize; n < len(parts) && parts[n].batchUUID == "" {
			results[i].Status, results[i].Again = StatusRefused, true
			results[i].refuse(parts[n].refusal.Problem, parts[n].refusal.Text)
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
				r.Status, r.UUID, r.ReferenceID, r.ExistingUUID = e.Status, e.UUID, e.ReferenceID, e.ExistingUUID
				r.refuse(e.Problem, e.Error)
				r.Issued, r.Again = e.Text, e.UUID == "" && e.Status == "rejected"
			}
		}
	}
	return results, nil
}

// refuse sets the reason why there is no certificate. p is nil if the reason is only a text.
func (r *Result) refuse(p *cert.Problem, text string) {
	if r.Error = text; p != nil {
		r.Reasons = Problems{{Problem: *p}}
	}
}

// reasons has the data that is needed to explain why rows were skipped.
type reasons struct {
	today    string
	first    map[search.Key]int
	existing map[search.Key]string
}

// reasons reads the data that explains the skipped rows of a review.
func (s *Service) reasons(ctx context.Context, v *Review) (*reasons, error) {
	r := &reasons{today: cert.Today(s.now()), first: map[search.Key]int{}}
	if v.SubmittedAt != nil {
		r.today = cert.Today(*v.SubmittedAt)
	}
	for _, row := range v.Of(ShowValid) {
		if key := row.key(r.today); r.first[key] == 0 {
			r.first[key] = row.Number
		}
	}
	var keys []search.Key
	for _, row := range v.Of(ShowSkipped) {
		if len(row.Problems) == 0 {
			keys = append(keys, row.key(r.today))
		}
	}
	var err error
	r.existing, err = s.search.Existing(ctx, v.InstitutionID, keys)
	return r, err
}

// explain sets the reason why a row was skipped. A row with problems can be corrected and submitted
// later. For a row without problems, the reason is that it is a duplicate of a submitted row or of an
// existing certificate, or only that a person skipped it.
func (r *reasons) explain(row *Result) {
	if len(row.Problems) > 0 {
		row.Reasons, row.Again = row.Problems, true
		return
	}
	row.ExistingUUID = r.existing[row.key(r.today)]
	switch n := r.first[row.key(r.today)]; {
	case n != 0:
		row.Reasons = row.Reasons.with("", cert.Problem{Code: CodeSameRow, Limit: n})
	case row.ExistingUUID != "":
		row.Reasons = row.Reasons.with("", cert.Problem{Code: cert.CodeDuplicate, Detail: row.ExistingUUID})
	default:
		row.Reasons = row.Reasons.with("", cert.Problem{Code: CodeSkipped})
	}
}

// NotIssued returns the results of rows that have no certificate or whose certificate failed.
func NotIssued(results []*Result) []*Result {
	return slices.DeleteFunc(slices.Clone(results), (*Result).Succeeded)
}

// issuedColumns are the names of the columns with the text of the certificates.
var issuedColumns = []string{"Issued title", "Issued name", "Issued e-mail", "Issued date", "Issued details", "Issued file", "Issued expiry"}

// WriteResults writes the result of each row as CSV: the columns of the list as uploaded, the
// result with its reason as formatted by format, and the text of the certificate.
func (s *Service) WriteResults(
	ctx context.Context, d *Draft, verifyURL func(referenceID string) string, format func(*Result) string, out io.Writer,
) error {
	results, err := s.Results(ctx, d)
	if err != nil {
		return err
	}
	w := sheet.NewWriter(out)
	if err := w.Write(slices.Concat(d.Header, []string{
		"Row in the list", "Result", "Reference id", "Verification address", "Certificate", "Error", "Existing certificate",
	}, issuedColumns)...); err != nil {
		return err
	}
	for _, r := range results {
		cells := make([]string, len(d.Header))
		copy(cells, r.Cells)
		address := ""
		if r.ReferenceID != "" {
			address = verifyURL(r.ReferenceID)
		}
		issued := make([]string, len(issuedColumns))
		if r.UUID != "" {
			issued = []string{r.Issued.Title, r.Issued.FullName, r.Issued.Email, r.Issued.IssueDate, r.Issued.Details, r.FileName, r.Issued.ExpiresOn}
			if r.File != nil {
				issued[len(issued)-2] = r.File.Path
			}
		}
		result := []string{strconv.Itoa(r.Number), r.Status, r.ReferenceID, address, r.UUID, format(r), r.ExistingUUID}
		if err := w.Write(slices.Concat(cells, result, issued)...); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Resubmit creates a draft with the rows that can become certificates after a correction, and with
// their files. These rows were rejected, belong to a refused batch, or were skipped and have a problem.
func (s *Service) Resubmit(ctx context.Context, d *Draft, creator cert.Actor) (*Draft, error) {
	if d.Status != Submitted {
		return nil, fault.New(fault.BadRequest, "This bulk upload is not completely submitted yet.")
	}
	results, err := s.Results(ctx, d)
	if err != nil {
		return nil, err
	}
	var numbers []int
	var files []int64
	for _, r := range results {
		if !r.Again {
			continue
		}
		numbers = append(numbers, r.Number)
		if r.File != nil {
			files = append(files, r.File.ID)
		}
	}
	if len(numbers) == 0 {
		return nil, fault.New(fault.BadRequest, "There are no rows to correct.")
	}
	var again *Draft
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if again, err = s.createTx(ctx, tx, d.InstitutionID, creator, d.versionID); err != nil {
			return err
		}
		return s.copyTx(ctx, tx, d, again, numbers, files)
	})
	if err != nil {
		return nil, fmt.Errorf("creating a bulk upload from rejected rows: %w", err)
	}
	return s.ByUUID(ctx, d.InstitutionID, creator.ID, again.UUID)
}

// copyTx copies the list and the given rows and files of a draft to another draft. It sets the expiry of
// the staged files to that of the other draft plus fileGrace.
func (s *Service) copyTx(ctx context.Context, tx *db.Tx, from, to *Draft, numbers []int, files []int64) error {
	if _, err := tx.ExecContext(ctx, `
		UPDATE bulk_import_drafts SET list_name = o.list_name, header = o.header, mapping = o.mapping, mapped = true, wanted = o.wanted, placed = o.placed, total = $1
		FROM (SELECT list_name, header, mapping, wanted, placed FROM bulk_import_drafts WHERE id = $2) AS o WHERE bulk_import_drafts.id = $3`,
		len(numbers), from.ID, to.ID); err != nil {
		return err
	}
	for some := range slices.Chunk(numbers, rowsAtOnce) {
		args := []any{to.ID, from.ID}
		for _, n := range some {
			args = append(args, n)
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO bulk_import_rows (draft_id, number, cells, fixed, skipped, wanted, accepted)
			SELECT $1, number, cells, fixed, false, wanted, accepted FROM bulk_import_rows
			WHERE draft_id = $2 AND number IN (`+db.Placeholders(3, len(some))+`)`, args...); err != nil {
			return err
		}
	}
	slices.Sort(files)
	for some := range slices.Chunk(slices.Compact(files), rowsAtOnce) {
		args := []any{to.ID, from.ID, from.InstitutionID}
		for _, id := range some {
			args = append(args, id)
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO bulk_import_files (draft_id, path, size, staged_uuid, problem, notices)
			SELECT $1, f.path, f.size, f.staged_uuid, f.problem, f.notices FROM bulk_import_files f WHERE f.draft_id = $2 AND f.id IN (`+db.Placeholders(4, len(some))+`)
				AND (f.problem <> '' OR EXISTS (SELECT 1 FROM staged_files s WHERE s.uuid = f.staged_uuid AND s.institution_id = $3))`, args...); err != nil {
			return err
		}
	}
	staged, err := db.Column[string](tx.QueryContext(ctx, `SELECT staged_uuid FROM bulk_import_files WHERE draft_id = $1 AND staged_uuid IS NOT NULL`, to.ID))
	if err != nil {
		return err
	}
	return s.batches.SetExpiryTx(ctx, tx, from.InstitutionID, staged, to.ExpiresAt.Add(fileGrace))
}
