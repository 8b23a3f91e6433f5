package intake

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

var errNoRow = fault.New(fault.NotFound, "No such row.")

// maxFix bounds a text in the place of the list's in code points, well above the
// longest that is valid, so that one that is too long is told as such.
const maxFix = 4096

// Fix puts texts in the place of those that the list has in a row, by field. A
// text that is the list's own again is not kept. The row is not skipped any more.
func (s *Service) Fix(ctx context.Context, d *Draft, number int, texts map[sheet.Column]string) error {
	var bad Problems
	for column, text := range texts {
		switch field := fieldOf[column]; {
		case !slices.Contains(Fields, column):
			bad.add(column, cert.Problem{Code: CodeNoColumn})
		case !account.CleanText(text):
			bad.add(column, cert.Problem{Field: field, Code: cert.CodeNotText})
		case utf8.RuneCountInString(text) > maxFix:
			bad.add(column, cert.Problem{Field: field, Code: cert.CodeTooLong, Limit: maxFix})
		}
	}
	if err := bad.Err(); err != nil {
		return err
	}
	return s.change(ctx, d, "correcting a row", func(tx *db.Tx) error {
		review, err := s.review(ctx, tx, d)
		if err != nil {
			return err
		}
		row, err := review.Row(number)
		if err != nil {
			return err
		}
		plain := &Row{Number: row.Number, Cells: row.Cells}
		plain.read(&d.Mapping, review.Order)
		fixed := map[sheet.Column]string{}
		maps.Copy(fixed, row.Fixed)
		for column, text := range texts {
			if text = strings.TrimSpace(text); text == plain.Value(column) {
				delete(fixed, column)
			} else {
				fixed[column] = text
			}
		}
		var kept any
		if len(fixed) > 0 {
			if kept, err = written(fixed); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `UPDATE intake_rows SET fixed = $1, skipped = false WHERE draft_id = $2 AND number = $3`, kept, d.ID, number)
		return err
	})
}

// Skip leaves a row out of what is submitted, or takes it in again.
func (s *Service) Skip(ctx context.Context, d *Draft, number int, skipped bool) error {
	return s.change(ctx, d, "skipping a row", func(tx *db.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE intake_rows SET skipped = $1 WHERE draft_id = $2 AND number = $3`, skipped, d.ID, number)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return errNoRow
	})
}

// SkipAll leaves out all rows that have problems, or that would double another, and
// tells how many.
func (s *Service) SkipAll(ctx context.Context, d *Draft, show Show) (n int, err error) {
	var numbers []int
	err = s.change(ctx, d, "skipping rows", func(tx *db.Tx) error {
		review, err := s.review(ctx, tx, d)
		if err != nil {
			return err
		}
		if show != ShowProblems && show != ShowDuplicate {
			return fault.New(fault.BadRequest, "Only rows with problems and duplicates are skipped together.")
		}
		for _, row := range review.Of(show) {
			numbers = append(numbers, row.Number)
		}
		return skipTx(ctx, tx, d, numbers)
	})
	return len(numbers), err
}

func skipTx(ctx context.Context, tx *db.Tx, d *Draft, numbers []int) error {
	for some := range slices.Chunk(numbers, rowsAtOnce) {
		args := []any{d.ID}
		for _, number := range some {
			args = append(args, number)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE intake_rows SET skipped = true WHERE draft_id = $1 AND number IN (`+db.Places(2, len(some))+`)`, args...); err != nil {
			return err
		}
	}
	return nil
}

// WriteErrors writes the rows with problems as CSV: the columns of the list, and
// the problems of each row in the words of say. The file can be corrected and uploaded
// again.
func (v *Review) WriteErrors(out io.Writer, say func(*Row, Problem) string) error {
	w := sheet.NewWriter(out)
	if err := w.Write(append(slices.Clone(v.Header), "Row in the list", "What is wrong")...); err != nil {
		return err
	}
	for _, row := range v.Of(ShowProblems) {
		var wrong []string
		for _, p := range row.Problems {
			wrong = append(wrong, say(row, p))
		}
		cells := make([]string, len(v.Header))
		copy(cells, row.Cells)
		if err := w.Write(slices.Concat(cells, []string{strconv.Itoa(row.Number), strings.Join(wrong, " ")})...); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Duplicate is a row that the duplicate rule would reject.
type Duplicate struct {
	*Row

	// ExistingUUID is the certificate that there is already.
	ExistingUUID string
}

// DryRun is what would come of a draft if it were submitted now.
type DryRun struct {
	*Review

	// Made is how many certificates there would be, in Batches batches.
	Made, Batches int
	// Existing are rows of which there is a certificate, Twins those that double
	// another row.
	Existing []Duplicate
	Twins    []*Row
	// Misspelt are rows whose e-mail address seems to have a misspelt domain.
	Misspelt []*Row
}

// DryRun finds out what would come of a draft.
func (s *Service) DryRun(ctx context.Context, d *Draft) (*DryRun, error) {
	review, err := s.Review(ctx, d)
	if err != nil {
		return nil, err
	}
	run := &DryRun{Review: review, Twins: review.Of(ShowDuplicate)}
	rows := review.Of(ShowValid)
	today := cert.Today(s.now())
	keys := make([]cert.Key, len(rows))
	for i, row := range rows {
		keys[i] = row.key(today)
	}
	existing, err := s.certs.Existing(ctx, d.InstitutionID, keys)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if id, ok := existing[keys[i]]; ok {
			run.Existing = append(run.Existing, Duplicate{Row: row, ExistingUUID: id})
		} else if row.Twin == 0 {
			run.Made++
		}
		if row.Meant != "" {
			run.Misspelt = append(run.Misspelt, row)
		}
	}
	run.Batches = (len(rows) + s.partSize - 1) / s.partSize
	return run, nil
}

// SkipExisting leaves out all rows of which there is a certificate, and tells how
// many.
func (s *Service) SkipExisting(ctx context.Context, d *Draft) (int, error) {
	run, err := s.DryRun(ctx, d)
	if err != nil {
		return 0, err
	}
	numbers := make([]int, len(run.Existing))
	for i, row := range run.Existing {
		numbers[i] = row.Number
	}
	if err := s.change(ctx, d, "skipping rows", func(tx *db.Tx) error { return skipTx(ctx, tx, d, numbers) }); err != nil {
		return 0, fmt.Errorf("skipping duplicates: %w", err)
	}
	return len(numbers), nil
}
