package sheet

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// byteOrderMark is the UTF-8 byte order mark, by which Excel recognizes UTF-8.
const byteOrderMark = "\uFEFF"

// EscapeFormula returns a text as a CSV cell that no program evaluates as a formula. If the text
// begins like a formula, EscapeFormula adds an apostrophe as a prefix. Spreadsheets treat a cell
// with this prefix as text. The check skips leading white space and treats full-width characters
// like their normal forms. A text that begins with a tab or a line break gets the prefix too.
func EscapeFormula(text string) string {
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

// Writer writes CSV (RFC 4180) for spreadsheets: UTF-8 with a byte order mark, and no cell that is
// a formula. Call Flush after the last row.
type Writer struct {
	out    *bufio.Writer
	marked bool
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriter(w)} }

// Write writes a row. It quotes every cell: in a locale where a spreadsheet
// separates cells by semicolons, an unquoted "a;=1+1" would contain a formula.
func (w *Writer) Write(cells ...string) error {
	if err := w.begin(); err != nil {
		return err
	}
	var row strings.Builder
	for i, cell := range cells {
		if i > 0 {
			row.WriteByte(',')
		}
		row.WriteString(`"` + strings.ReplaceAll(EscapeFormula(cell), `"`, `""`) + `"`)
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
	if _, err := w.out.WriteString(byteOrderMark); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// Flush writes the buffered data, with the byte order mark if no row was written, and returns the
// first error of any Write.
func (w *Writer) Flush() error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}
