package sheet

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mark is the byte order mark of UTF-8, by which Excel knows that a file is in
// UTF-8 and not in the machine's older encoding.
const mark = "\uFEFF"

// Safe gives a text as a cell of a CSV file in which no program finds a formula:
// one that begins as formulas do has an apostrophe before it, by which
// spreadsheets know text. White space before it does not hide the beginning, and
// the full-width forms are read as the narrow ones.
func Safe(text string) string {
	if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "\r") || strings.HasPrefix(text, "\n") {
		return "'" + text
	}
	first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(text, unicode.IsSpace))
	switch first {
	case '=', '+', '-', '@', '＝', '＋', '－', '＠':
		return "'" + text
	}
	return text
}

// Writer writes CSV (RFC 4180) for spreadsheets: in UTF-8 with its mark, and with
// no cell that is a formula. Call Flush when all rows are written.
type Writer struct {
	out    *bufio.Writer
	marked bool
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriter(w)} }

// Write writes a row. Every cell is quoted: where a spreadsheet of another
// country parts cells at semicolons, "a;=1+1" would have a formula in it.
func (w *Writer) Write(cells ...string) error {
	if err := w.begin(); err != nil {
		return err
	}
	var row strings.Builder
	for i, cell := range cells {
		if i > 0 {
			row.WriteByte(',')
		}
		row.WriteString(`"` + strings.ReplaceAll(Safe(cell), `"`, `""`) + `"`)
	}
	row.WriteString("\r\n")
	if _, err := w.out.WriteString(row.String()); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

func (w *Writer) begin() error {
	if w.marked {
		return nil
	}
	w.marked = true
	if _, err := w.out.WriteString(mark); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// Flush sends on what is held back, and gives the error of any Write before it.
func (w *Writer) Flush() error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}
