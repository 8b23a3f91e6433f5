package sheet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxFile is the maximum size of a list in bytes.
	MaxFile = 32 << 20
	// MaxRows is the maximum number of rows that Read accepts, without the header and empty rows.
	MaxRows = 10_000
	// MaxColumns is the maximum number of columns.
	MaxColumns = 100
	// MaxCell is the maximum number of characters of a cell. No field of a certificate is longer than
	// 1,000 characters.
	MaxCell = 10_000
	// maxText is the maximum size of all cells together in bytes.
	maxText = 32 << 20
	// maxNumber is the highest row number of Excel.
	maxNumber = 1 << 20
	// maxNotices is the maximum number of notices about a list.
	maxNotices = 20
)

// Refusal is the error for a list that cannot be read. Its message is for the user.
type Refusal struct{ Message string }

// Error returns the message.
func (e *Refusal) Error() string { return e.Message }

func refusal(message string) error { return &Refusal{Message: message} }

// Table is the content of a list: the header and the rows that are not empty.
type Table struct {
	Header []string
	Rows   []Row
	// Notices are remarks about the list for the user.
	Notices []string

	size, maxRows int
}

// Row is a row of a table. Cells after the last non-empty cell are omitted.
type Row struct {
	// Number is the row number as a spreadsheet displays it: it counts from 1 and includes the
	// header.
	Number int
	Cells  []string
}

// Cell returns the text in a column, or "" if the row has no such cell. Columns count from 0.
func (r Row) Cell(column int) string {
	if column < 0 || column >= len(r.Cells) {
		return ""
	}
	return r.Cells[column]
}

// IsListName reports whether the extension of a file name is that of a list, and not of the file of
// a certificate.
func IsListName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".xlsx", ".xlsm", ".xls", ".ods", ".csv", ".tsv", ".txt":
		return true
	}
	return false
}

// Read reads a list from an Excel workbook or from CSV. Read detects the format from the content.
// The error wraps a *Refusal if the list is not valid. Any other error means that r failed or that ctx
// ended.
func Read(ctx context.Context, r io.Reader) (*Table, error) { return ReadUpTo(ctx, r, MaxRows) }

// ReadUpTo is Read with another maximum number of rows.
func ReadUpTo(ctx context.Context, r io.Reader, maxRows int) (*Table, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading a list: %w", err)
	}
	t := &Table{maxRows: maxRows}
	switch {
	case len(raw) > MaxFile:
		return nil, refusal(fmt.Sprintf("The list is larger than %d MB. Split it.", MaxFile>>20))
	case bytes.HasPrefix(raw, []byte("PK\x03\x04")):
		err = t.readWorkbook(ctx, raw)
	case bytes.HasPrefix(raw, []byte{0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1}):
		// A file with this signature is a workbook of Excel 97, or an encrypted workbook.
		err = refusal("The list is an old Excel workbook (.xls), or one with a password. Save it as .xlsx without a password and choose it again.")
	default:
		err = t.readText(raw)
	}
	switch {
	case err != nil:
		return nil, err
	case t.Header == nil:
		return nil, refusal("The list is empty.")
	case len(t.Rows) == 0:
		return nil, refusal("The list has a header but no rows below it. Add a row for each certificate.")
	}
	return t, nil
}

func (t *Table) note(text string) {
	if len(t.Notices) < maxNotices {
		t.Notices = append(t.Notices, text)
	}
}

// checkCell returns a *Refusal if a cell is too long. column counts from 0.
func (t *Table) checkCell(number, column int, text string) error {
	n := utf8.RuneCountInString(text)
	if n <= MaxCell {
		return nil
	}
	name := ""
	if column < len(t.Header) && t.Header[column] != "" {
		name = fmt.Sprintf(" (“%s”)", Excerpt(t.Header[column], SampleLength))
	}
	return refusal(fmt.Sprintf("The cell in row %d, column %d%s has %d characters. A cell can have at most %d. Shorten it.", number, column+1, name, n, MaxCell))
}

// SampleLength is the maximum number of characters of a text from a list in a message or a sample.
const SampleLength = 100

// Excerpt shortens a text to at most the given number of characters. An ellipsis replaces the rest.
func Excerpt(text string, characters int) string {
	if utf8.RuneCountInString(text) <= characters {
		return text
	}
	return string([]rune(text)[:characters-1]) + "…"
}

// add adds a row: the first row that is not empty becomes the header, and empty rows are skipped.
// The error is a *Refusal if the row or the table exceeds a limit.
func (t *Table) add(number int, cells []string) error {
	cells = slices.Clone(cells)
	last := -1
	for i, cell := range cells {
		cells[i] = strings.Clone(strings.TrimSpace(cell))
		if cells[i] != "" {
			last = i
		}
		if err := t.checkCell(number, i, cells[i]); err != nil {
			return err
		}
		t.size += len(cells[i])
	}
	cells = cells[:last+1]
	switch {
	case last < 0:
		return nil
	case last >= MaxColumns:
		return refusal(fmt.Sprintf("Row %d has more than %d columns.", number, MaxColumns))
	case t.size > maxText:
		return refusal(fmt.Sprintf("The texts of the list are larger than %d MB. Split it, or leave out the columns that no certificate needs.", maxText>>20))
	case number > maxNumber:
		return refusal("The list is too long. Split it.")
	case t.Header == nil:
		t.Header = cells
		return nil
	case len(t.Rows) == t.maxRows:
		return refusal(fmt.Sprintf("The list has more than %d rows. Split it.", t.maxRows))
	}
	t.Rows = append(t.Rows, Row{Number: number, Cells: cells})
	return nil
}
