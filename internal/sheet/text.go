package sheet

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// EncodingError reports text that is not valid UTF-8.
type EncodingError struct {
	// Line is the number of the first invalid line, from 1.
	Line int
}

// Error returns a message with the line.
func (e *EncodingError) Error() string { return fmt.Sprintf("line %d is not in UTF-8", e.Line) }

// ErrNotText reports a file that is not text.
var ErrNotText = errors.New("not text")

// Text converts text to UTF-8. A byte order mark selects the encoding (Unicode 16, 23.8); without
// one, the text must be UTF-8. If the text has no line feed, Text replaces carriage returns with
// line feeds. The error is an *EncodingError if the text is not valid UTF-8, and ErrNotText if the text
// contains a NUL character. Invalid UTF-16 is replaced with U+FFFD.
func Text(raw []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(raw, []byte(byteOrderMark)):
		raw = raw[len(byteOrderMark):]
	case bytes.HasPrefix(raw, []byte{0xFF, 0xFE}), bytes.HasPrefix(raw, []byte{0xFE, 0xFF}):
		decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(raw)
		if err != nil {
			return nil, fmt.Errorf("reading UTF-16: %w", err)
		}
		raw = decoded
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return nil, ErrNotText
	}
	if line := firstInvalidLine(raw); line > 0 {
		return nil, &EncodingError{Line: line}
	}
	return lineFeeds(raw), nil
}

func lineFeeds(raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 {
		return bytes.ReplaceAll(raw, []byte{'\r'}, []byte{'\n'})
	}
	return raw
}

// firstInvalidLine returns the number of the first line that is not UTF-8, or 0.
func firstInvalidLine(raw []byte) int {
	if utf8.Valid(raw) {
		return 0
	}
	line := 1
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		i += size
	}
	return line
}

// Separator returns the field separator of a CSV text, and the text without the line in which Excel
// declares it ("sep=;"). Without such a line, the separator is the comma, semicolon, tab or
// vertical bar that occurs most often in the header outside quotation marks.
func Separator(text []byte) (comma rune, rest []byte) {
	first, rest, _ := bytes.Cut(text, []byte{'\n'})
	if declared, ok := strings.CutPrefix(strings.ToLower(strings.TrimRight(string(first), "\r")), "sep="); ok {
		switch declared {
		case ",", ";", "\t", "|":
			return rune(declared[0]), rest
		}
	}
	counts := map[rune]int{}
	isQuoted := false
	for _, c := range string(first) {
		if c == '"' {
			isQuoted = !isQuoted
		}
		if !isQuoted {
			counts[c]++
		}
	}
	comma = ','
	for _, c := range []rune{';', '\t', '|'} {
		if counts[c] > counts[comma] {
			comma = c
		}
	}
	return comma, text
}

// Records reads the rows of a CSV text.
type Records struct {
	in          *csv.Reader
	number, end int // the number of the row that was read last, and its last line
}

// NewRecords returns Records for a text with a field separator. Rows can have different numbers of cells.
func NewRecords(text []byte, comma rune) *Records {
	in := csv.NewReader(bytes.NewReader(text))
	in.Comma, in.FieldsPerRecord = comma, -1
	return &Records{in: in}
}

// Read returns the next row that is not an empty line, and its number as a spreadsheet displays it, from
// 1. The errors are those of csv.Reader.Read.
func (r *Records) Read() (number int, record []string, err error) {
	if record, err = r.in.Read(); err != nil {
		return 0, nil, err
	}
	first, _ := r.in.FieldPos(0)
	r.number += first - r.end // empty lines are rows too
	r.end = first + strings.Count(strings.Join(record, ""), "\n")
	return r.number, record, nil
}

// readText reads a table from CSV.
func (t *Table) readText(raw []byte) error {
	text, err := Text(raw)
	if _, ok := errors.AsType[*EncodingError](err); ok {
		// Windows-1252 is the encoding that Excel uses on most computers. All bytes are
		// accepted in this encoding, so other encodings cannot be detected.
		if text, err = charmap.Windows1252.NewDecoder().Bytes(raw); err != nil {
			return refusal("The list is in an encoding that is not known. Save it as “CSV UTF-8” and choose it again.")
		}
		text = lineFeeds(text)
		t.note("The list is not in UTF-8 and was read as Windows-1252. Check the letters with accents below; if they are wrong, save the list as “CSV UTF-8” and choose it again.")
	}
	if err != nil {
		return refusal("The file is neither a spreadsheet (.xlsx) nor CSV text. Save the list as one of the two and choose it again.")
	}
	comma, text := Separator(text)
	in := NewRecords(text, comma)
	for {
		number, record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if e, ok := errors.AsType[*csv.ParseError](err); ok {
			return refusal(fmt.Sprintf("The list cannot be read from line %d onward: a quotation mark is missing, or there is one too many.", e.StartLine))
		}
		if err != nil {
			return fmt.Errorf("reading CSV: %w", err)
		}
		if err := t.add(number, record); err != nil {
			return err
		}
	}
}
