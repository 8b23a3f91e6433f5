// Package sheet writes CSV (RFC 4180) that people open in spreadsheets: in
// UTF-8 that they recognise, and with no cell that they would run as a formula.
// It reads nothing.
package sheet

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Writer writes lines.
type Writer struct {
	w     *bufio.Writer
	begun bool
}

// NewWriter makes a writer; Flush must end it.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriter(w)} }

// mark is the byte order mark, by which Excel knows UTF-8.
const mark = "\ufeff"

// Write writes a line. Every cell is quoted, so that a spreadsheet which parts
// cells at semicolons or tabs does not find more of them.
func (w *Writer) Write(cells ...string) error {
	if !w.begun {
		w.begun = true
		_, _ = w.w.WriteString(mark)
	}
	for i, cell := range cells {
		if i > 0 {
			_ = w.w.WriteByte(',')
		}
		_ = w.w.WriteByte('"')
		_, _ = w.w.WriteString(strings.ReplaceAll(Safe(cell), `"`, `""`))
		_ = w.w.WriteByte('"')
	}
	// The first error stays with the buffer, and every later call gives it.
	if _, err := w.w.WriteString("\r\n"); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// Flush writes what is still held back.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// Safe gives a cell that no spreadsheet takes for a formula: one that begins
// like one, in ASCII or in the wide forms that are taken for it, gets an
// apostrophe in front. White space before it does not hide it, and a control
// character in front is taken as one.
func Safe(cell string) string {
	bare := strings.TrimLeftFunc(cell, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
	if bare != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(bare)[0]) || cell != "" && strings.ContainsRune("\t\r\n\x00", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
