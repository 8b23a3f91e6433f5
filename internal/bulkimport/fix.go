package bulkimport

import (
	"context"
	"crypto/sha256"
	"errors"
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
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/sheet"
)

var errNoRow = fault.New(fault.NotFound, "There is no such row.")

// maxFix is the maximum length of a correction in characters. It is larger than the limits of the
// fields: Fix stores a text that is too long for its field, and the review reports the problem.
const maxFix = 4096

// Fix replaces texts of a row. texts has the new texts by column. A text that the row would also have
// without corrections is not stored. If the row was skipped, it is included again.
func (s *Service) Fix(ctx context.Context, d *Draft, number int, texts map[sheet.Column]string) error {
	if err := d.checkFix(0, texts).Err(); err != nil {
		return err
	}
	return s.fix(ctx, d, map[int]map[sheet.Column]string{number: texts}, nil)
}

// FixAll replaces texts of rows, as Fix does, and excludes the rows in skip. It changes all of these
// rows or none. Each problem in the error has the number of its row.
func (s *Service) FixAll(ctx context.Context, d *Draft, texts map[int]map[sheet.Column]string, skip []int) error {
	var bad Problems
	for _, number := range slices.Sorted(maps.Keys(texts)) {
		bad = append(bad, d.checkFix(number, texts[number])...)
	}
	if err := bad.Err(); err != nil {
		return err
	}
	return s.fix(ctx, d, texts, skip)
}

// checkFix checks the new texts of a row.
func (d *Draft) checkFix(number int, texts map[sheet.Column]string) (bad Problems) {
	for _, column := range slices.Sorted(maps.Keys(texts)) {
		text, field := texts[column], fieldFor(column)
		switch {
		case !slices.Contains(d.RowFields(), column):
			bad = bad.with(column, cert.Problem{Code: CodeNoColumn})
		case !account.CleanText(text):
			bad = bad.with(column, cert.Problem{Field: field, Code: cert.CodeNotText})
		case utf8.RuneCountInString(text) > maxFix:
			bad = bad.with(column, cert.Problem{Field: field, Code: cert.CodeTooLong, Limit: maxFix})
		}
	}
	for i := range bad {
		bad[i].Row = number
	}
	return bad
}

func (s *Service) fix(ctx context.Context, d *Draft, texts map[int]map[sheet.Column]string, skip []int) error {
	free, err := acquire(ctx, s.reviews)
	if err != nil {
		return err
	}
	defer free()
	return s.update(ctx, d, "correcting rows", func(tx *db.Tx) error {
		review, err := s.review(ctx, tx, d)
		if err != nil {
			return err
		}
		for _, number := range slices.Sorted(maps.Keys(texts)) {
			row, err := review.Row(number)
			if err != nil {
				return err
			}
			if err := s.fixRowTx(ctx, tx, review, row, texts[number]); err != nil {
				return err
			}
		}
		return skipTx(ctx, tx, d, skip)
	})
}

func (s *Service) fixRowTx(ctx context.Context, tx *db.Tx, review *Review, row *Row, texts map[sheet.Column]string) error {
	plain := &Row{Number: row.Number, Cells: row.Cells}
	plain.read(review.Draft, review.Order)
	fixed := map[sheet.Column]string{}
	maps.Copy(fixed, row.Fixed)
	for column, text := range texts {
		if text = strings.TrimSpace(text); text == plain.Value(column) {
			delete(fixed, column)
		} else {
			fixed[column] = text
		}
	}
	encoded, err := encodeFixed(fixed)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE bulk_import_rows SET fixed = $1, skipped = false WHERE draft_id = $2 AND number = $3`, encoded, review.ID, row.Number)
	return err
}

// encodeFixed encodes the corrections of a row for the database. The result is nil if there are
// none.
func encodeFixed(fixed map[sheet.Column]string) (any, error) {
	if len(fixed) == 0 {
		return nil, nil //nolint:nilnil // nil is a valid value, which is NULL in the database
	}
	return encode(fixed)
}

// correct replaces rows of the list with the rows of table, a file from WriteErrors that a person has
// corrected. Each row of table has the number and the code of the row that it replaces. correct returns the
// number of replaced rows. It replaces no row if a row has changed since the file was written.
func (s *Service) correct(ctx context.Context, d *Draft, table *sheet.Table) (int, error) {
	err := s.update(ctx, d, "correcting rows", func(tx *db.Tx) error {
		review := &Review{Draft: d}
		var err error
		if review.Rows, err = s.rows(ctx, tx, d); err != nil {
			return err
		}
		for _, corrected := range table.Rows {
			number, err := strconv.Atoi(corrected.Cell(len(d.Header)))
			if err != nil {
				return fault.OfField("list", fmt.Sprintf("Row %d of the corrected file has no number in the column “%s”.", corrected.Number, errorColumns[0]))
			}
			row, err := review.Row(number)
			if err != nil {
				return fault.OfField("list", fmt.Sprintf("The list has no row %d.", number))
			}
			was, fixed := d.errorCells(row)
			code, err := d.errorCode(number, was, fixed)
			if err != nil {
				return err
			}
			if strings.TrimSpace(corrected.Cell(len(d.Header)+2)) != code {
				return fault.OfField("list", fmt.Sprintf("Row %d of the list has changed since this file was downloaded, or the file belongs to another list. "+
					"No row was changed. Download errors.csv again, and correct the new file.", number))
			}
			encoded, err := encodeFixed(fixed)
			if err != nil {
				return err
			}
			cells, err := encode(storable(corrected.Cells[:min(len(corrected.Cells), len(d.Header))]))
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `UPDATE bulk_import_rows SET cells = $1, fixed = $2, skipped = false WHERE draft_id = $3 AND number = $4`,
				cells, encoded, d.ID, number); err != nil {
				return err
			}
		}
		return nil
	})
	return len(table.Rows), err
}

// Skip excludes a row from the submission if skipped is true, and includes it otherwise.
func (s *Service) Skip(ctx context.Context, d *Draft, number int, skipped bool) error {
	return s.update(ctx, d, "skipping a row", func(tx *db.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE bulk_import_rows SET skipped = $1 WHERE draft_id = $2 AND number = $3`, skipped, d.ID, number)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return errNoRow
	})
}

// SkipAll excludes all rows with problems, or all duplicates of earlier rows. It returns the number
// of these rows. The error is fault.BadRequest if show is not ShowProblems or ShowDuplicate.
func (s *Service) SkipAll(ctx context.Context, d *Draft, show Show) (n int, err error) {
	free, err := acquire(ctx, s.reviews)
	if err != nil {
		return 0, err
	}
	defer free()
	var numbers []int
	err = s.update(ctx, d, "skipping rows", func(tx *db.Tx) error {
		review, err := s.review(ctx, tx, d)
		if err != nil {
			return err
		}
		if show != ShowProblems && show != ShowDuplicate {
			return fault.New(fault.BadRequest, "Only all rows with problems, or all duplicates, can be skipped together.")
		}
		numbers = nil
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
		if _, err := tx.ExecContext(ctx, `UPDATE bulk_import_rows SET skipped = true WHERE draft_id = $1 AND number IN (`+db.Placeholders(2, len(some))+`)`, args...); err != nil {
			return err
		}
	}
	return nil
}

// errorColumns are the columns that WriteErrors adds to the columns of a list. Earlier releases added only the
// first two.
var errorColumns = []string{"Row in the list", "Errors", "Row code"}

// isCorrected reports whether a list has the columns of a file from WriteErrors. The error is fault.Invalid if only
// the column with the codes is missing, because correct could then replace rows of another list.
func (d *Draft) isCorrected(table *sheet.Table) (bool, error) {
	last := len(errorColumns) - 1
	switch header := slices.Concat(d.Header, errorColumns); {
	case len(d.Header) == 0:
		return false, nil
	case slices.Equal(table.Header, header[:len(d.Header)+last]):
		return false, fault.OfField("list", fmt.Sprintf("This file has no column “%s”, so it is not known whether it belongs to this list. "+
			"Download errors.csv again, and correct the new file.", errorColumns[last]))
	default:
		return slices.Equal(table.Header, header), nil
	}
}

// errorCells returns the cells of a row as WriteErrors writes them, with the corrections, and the corrections of
// texts for which the list has no column.
func (d *Draft) errorCells(row *Row) (cells []string, other map[sheet.Column]string) {
	cells, other = make([]string, len(d.Header)), map[sheet.Column]string{}
	copy(cells, row.Cells)
	for _, column := range slices.Sorted(maps.Keys(row.Fixed)) {
		if at := d.Mapping.column(column); at >= 0 {
			cells[at] = row.Fixed[column]
		} else {
			other[column] = row.Fixed[column]
		}
	}
	return cells, other
}

// codeLetters are the letters of a code. A code has no digits, and no vowels that could form a word, so that a
// spreadsheet does not read it as a number, a date or a truth value.
const codeLetters = "bcdfghjklmnpqrst"

// errorCode returns the code of a row, which is a digest of the draft and of the results of errorCells.
func (d *Draft) errorCode(number int, cells []string, other map[sheet.Column]string) (string, error) {
	text, err := encode([]any{d.UUID, number, cells, other})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	var code strings.Builder
	for _, b := range sum[:6] {
		code.WriteByte(codeLetters[b>>4])
		code.WriteByte(codeLetters[b&15])
	}
	return code.String(), nil
}

// WriteErrors writes the rows with problems as CSV: the columns of the list with the corrections,
// the number of each row, its problems as formatted by format, and its code. Import accepts the
// corrected file until one of the rows changes.
func (v *Review) WriteErrors(out io.Writer, format func(*Row, Problem) string) error {
	w := sheet.NewWriter(out)
	if err := w.Write(append(slices.Clone(v.Header), errorColumns...)...); err != nil {
		return err
	}
	for _, row := range v.Of(ShowProblems) {
		var wrong []string
		for _, p := range row.Problems {
			wrong = append(wrong, format(row, p))
		}
		cells, other := v.errorCells(row)
		code, err := v.errorCode(row.Number, cells, other)
		if err != nil {
			return err
		}
		if err := w.Write(slices.Concat(cells, []string{strconv.Itoa(row.Number), strings.Join(wrong, " "), code})...); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Duplicate is a row that would be rejected, because its certificate already exists.
type Duplicate struct {
	*Row

	// ExistingUUID is the UUID of the existing certificate.
	ExistingUUID string
}

// DryRun is the result that the submission of a draft would have now.
type DryRun struct {
	*Review

	// Certificates is the number of certificates, and Batches the number of batches.
	Certificates, Batches int
	// Existing are the valid rows whose certificate already exists. Duplicates are the valid rows that
	// are duplicates of earlier rows.
	Existing   []Duplicate
	Duplicates []*Row
	// Misspelt are the valid rows whose e-mail address probably has a misspelt domain.
	Misspelt []*Row
	// Limit is the message about the limit of the institution that the submission would exceed, or "".
	Limit string
}

// DryRun returns the result that the submission of a draft would have now.
func (s *Service) DryRun(ctx context.Context, d *Draft) (*DryRun, error) {
	review, err := s.Review(ctx, d)
	if err != nil {
		return nil, err
	}
	run := &DryRun{Review: review, Duplicates: review.Of(ShowDuplicate)}
	rows := review.Of(ShowValid)
	today := cert.Today(s.now())
	keys := make([]search.Key, len(rows))
	for i, row := range rows {
		keys[i] = row.key(today)
	}
	existing, err := s.search.Existing(ctx, d.InstitutionID, keys)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if id, ok := existing[keys[i]]; ok {
			run.Existing = append(run.Existing, Duplicate{Row: row, ExistingUUID: id})
		} else if row.DuplicateOf == 0 {
			run.Certificates++
		}
		if row.SuggestedDomain != "" {
			run.Misspelt = append(run.Misspelt, row)
		}
	}
	run.Batches = (len(rows) + s.partSize - 1) / s.partSize
	inst, err := account.InstitutionByID(ctx, s.db, d.InstitutionID)
	if err != nil {
		return nil, err
	}
	err = quota.Check(ctx, s.db, inst, s.now(), len(rows), 0)
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Kind == fault.Forbidden {
		run.Limit, err = refusal.Message, nil
	}
	return run, err
}

// SkipExisting excludes all valid rows whose certificate already exists. It returns the number of these
// rows.
func (s *Service) SkipExisting(ctx context.Context, d *Draft) (int, error) {
	run, err := s.DryRun(ctx, d)
	if err != nil {
		return 0, err
	}
	numbers := make([]int, len(run.Existing))
	for i, row := range run.Existing {
		numbers[i] = row.Number
	}
	if err := s.update(ctx, d, "skipping rows", func(tx *db.Tx) error { return skipTx(ctx, tx, d, numbers) }); err != nil {
		return 0, fmt.Errorf("skipping duplicates: %w", err)
	}
	return len(numbers), nil
}
