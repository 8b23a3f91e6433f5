package sheet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// MaxFile is the largest list in bytes.
	MaxFile = 32 << 20
	// MaxRows is how many rows a list can have beside its header.
	MaxRows = 10_000
	// MaxColumns is how many columns.
	MaxColumns = 100
	// maxText bounds all cells together in bytes.
	maxText = 32 << 20
	// maxNumber is the highest number of a row: Excel's last.
	maxNumber = 1 << 20
	// maxNotices bounds what is said of a list.
	maxNotices = 20
)

// Refusal is a list that cannot be taken, with a sentence for the one who made
// it.
type Refusal struct{ Message string }

// Error gives the sentence.
func (e *Refusal) Error() string { return e.Message }

func refusal(message string) error { return &Refusal{Message: message} }

// Table is a list as it was read: a header and the rows that have content.
type Table struct {
	Header []string
	Rows   []Row
	// Notices are what the reading found worth saying.
	Notices []string

	size int
}

// Row is a row of a table. Cells past its last are empty.
type Row struct {
	// Number counts from 1 as a spreadsheet does; the header has one too.
	Number int
	Cells  []string
}

// Cell gives the text in a column, counted from 0.
func (r Row) Cell(column int) string {
	if column < 0 || column >= len(r.Cells) {
		return ""
	}
	return r.Cells[column]
}

// Read reads a list from an Excel workbook or from CSV, which its content tells
// apart. A *Refusal says what is wrong with it.
func Read(ctx context.Context, r io.Reader) (*Table, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading a list: %w", err)
	}
	t := &Table{}
	switch {
	case len(raw) > MaxFile:
		return nil, refusal(fmt.Sprintf("The list is larger than %d MB. Split it.", MaxFile>>20))
	case bytes.HasPrefix(raw, []byte("PK\x03\x04")):
		err = t.readWorkbook(ctx, raw)
	case bytes.HasPrefix(raw, []byte{0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1}):
		// A compound file: a workbook of Excel 97, or one with a password around it.
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
		return nil, refusal("The list has a header and no rows below it.")
	}
	return t, nil
}

func (t *Table) note(text string) {
	if len(t.Notices) < maxNotices {
		t.Notices = append(t.Notices, text)
	}
}

// add takes the next row; one without content is passed over.
func (t *Table) add(number int, cells []string) error {
	cells = slices.Clone(cells)
	last := -1
	for i, cell := range cells {
		cells[i] = strings.Clone(strings.TrimSpace(cell))
		if cells[i] != "" {
			last = i
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
		return refusal(fmt.Sprintf("The texts of the list are more than %d MB. Split it, or leave out the columns that no certificate needs.", maxText>>20))
	case number > maxNumber:
		return refusal("The list is too long. Split it.")
	case t.Header == nil:
		t.Header = cells
		return nil
	case len(t.Rows) == MaxRows:
		return refusal(fmt.Sprintf("The list has more than %d rows. Split it.", MaxRows))
	}
	t.Rows = append(t.Rows, Row{Number: number, Cells: cells})
	return nil
}
