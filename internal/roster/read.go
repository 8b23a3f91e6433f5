package roster

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// maxList bounds a list in bytes.
const maxList = 64 << 20

// List is a list, read.
type List struct {
	Rows []*Row
	// Unused are the columns that mean nothing to us.
	Unused []string
}

// columns are the names under which people keep what a row needs, folded.
var columns = map[string]string{
	"title": "title", "certificatetitle": "title", "certificate": "title", "award": "title", "qualification": "title",
	"fullname": "full_name", "name": "full_name", "recipient": "full_name", "recipientname": "full_name", "student": "full_name", "studentname": "full_name", "holder": "full_name",
	"email": "email", "applicantemail": "email", "emailaddress": "email", "mail": "email", "recipientemail": "email",
	"file": "file", "filename": "file", "certificatefile": "file", "path": "file", "pdf": "file", "document": "file",
	"issuedate": "issue_date", "date": "issue_date", "issued": "issue_date", "issuedon": "issue_date", "dateofissue": "issue_date",
	"details": "details", "description": "details",
}

// required are the columns without which there is no list.
var required = []string{"title", "full_name", "email", "file"}

// Read reads a list: CSV with commas, semicolons or tabs, as Excel, LibreOffice
// and others save it, in UTF-8 or UTF-16. What is wrong with the whole is an
// error; what is wrong with a row is its Problem.
func Read(r io.Reader) (*List, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxList+1))
	if err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	if len(raw) > maxList {
		return nil, fmt.Errorf("the list is larger than %d MiB; split it", maxList>>20)
	}
	text, err := decode(raw)
	if err != nil {
		return nil, err
	}
	comma, text := separator(text)
	in := csv.NewReader(bytes.NewReader(text))
	in.Comma, in.FieldsPerRecord = comma, -1
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the list is empty")
	}
	if err != nil {
		return nil, malformed(err)
	}
	list := &List{}
	places, err := list.header(header)
	if err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for number := 2; ; number++ {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, malformed(err)
		}
		if number > maxNumber {
			return nil, fmt.Errorf("the list has more than %d rows; split it", maxNumber-1)
		}
		if row := readRow(number, record, places, len(header)); row != nil {
			if first, twice := seen[row.hash()]; twice && row.Problem == "" {
				row.Problem = fmt.Sprintf("The row is the same as row %d.", first)
			} else {
				seen[row.hash()] = number
			}
			list.Rows = append(list.Rows, row)
		}
	}
	if len(list.Rows) == 0 {
		return nil, errors.New("the list has a header and no rows")
	}
	return list, nil
}

func malformed(err error) error {
	return fmt.Errorf("the list is no CSV, is a quotation mark missing? %w", err)
}

// decode gives the text in UTF-8, with line feeds at the ends of lines. The mark
// at the beginning tells the encoding (Unicode 16, 23.8).
func decode(raw []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(raw, []byte{0xEF, 0xBB, 0xBF}):
		raw = raw[3:]
	case bytes.HasPrefix(raw, []byte{0xFF, 0xFE}), bytes.HasPrefix(raw, []byte{0xFE, 0xFF}):
		decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(raw)
		if err != nil {
			return nil, fmt.Errorf("the list is damaged UTF-16: %w", err)
		}
		raw = decoded
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return nil, errors.New("the list is no CSV text: save it as “CSV UTF-8”")
	}
	if !utf8.Valid(raw) {
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
		return nil, fmt.Errorf("line %d of the list is not in UTF-8: save it as “CSV UTF-8”, so that no name is damaged", line)
	}
	if bytes.IndexByte(raw, '\n') < 0 {
		raw = bytes.ReplaceAll(raw, []byte{'\r'}, []byte{'\n'})
	}
	return raw, nil
}

// separator tells what stands between fields: what Excel says in a first line
// "sep=;", else what the header has most of, outside quotation marks.
func separator(text []byte) (comma rune, rest []byte) {
	first, rest, _ := bytes.Cut(text, []byte{'\n'})
	if said, ok := strings.CutPrefix(strings.ToLower(strings.TrimRight(string(first), "\r")), "sep="); ok {
		switch said {
		case ",", ";", "\t", "|":
			return rune(said[0]), rest
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

// header finds the columns.
func (l *List) header(header []string) (places map[string]int, err error) {
	places = map[string]int{}
	for i, name := range header {
		column, ok := columns[folded(name)]
		if !ok {
			if strings.TrimSpace(name) != "" {
				l.Unused = append(l.Unused, strings.TrimSpace(name))
			}
			continue
		}
		if other, twice := places[column]; twice {
			return nil, fmt.Errorf("the columns %q and %q both mean %s: remove one", header[other], name, column)
		}
		places[column] = i
	}
	var missing []string
	for _, column := range required {
		if _, ok := places[column]; !ok {
			missing = append(missing, column)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the list has no column %s; its first line must name the columns title, full_name, email, file and, if you like, issue_date and details",
			strings.Join(missing, ", "))
	}
	return places, nil
}

// folded takes out of a column's name what people write differently.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' || r == '-' || r == '.' || r == '\u00a0' || r == '*' || r == ':' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// readRow gives the row of a record; none for one without content.
func readRow(number int, record []string, places map[string]int, width int) *Row {
	isEmpty := true
	for _, field := range record {
		if strings.TrimSpace(field) != "" {
			isEmpty = false
		}
	}
	if isEmpty {
		return nil
	}
	at := func(column string) string {
		if i, ok := places[column]; ok && i < len(record) {
			return strings.TrimSpace(record[i])
		}
		return ""
	}
	row := &Row{
		Number: number, Title: at("title"), Name: at("full_name"), Email: at("email"), File: at("file"), IssueDate: at("issue_date"), Details: at("details"),
	}
	for i := width; i < len(record); i++ {
		if strings.TrimSpace(record[i]) != "" {
			row.Problem = fmt.Sprintf("The row has %d fields and the header %d: is a quotation mark missing?", len(record), width)
			return row
		}
	}
	row.Problem = row.check()
	return row
}
