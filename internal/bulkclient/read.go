package bulkclient

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/certvault/certvault/internal/sheet"
)

// maxList is the maximum size of a list in bytes.
const maxList = 64 << 20

// List is a parsed list.
type List struct {
	Rows []*Row
	// Unused has the names of the columns that are not recognized.
	Unused []string
}

// required are the columns that a list must have.
var required = []sheet.Column{sheet.Title, sheet.Name, sheet.Email, sheet.File}

// Read parses a list: CSV with commas, semicolons, tabs or vertical bars, in UTF-8 or UTF-16, as Excel,
// LibreOffice and other programs save it. Read returns an error if the list is invalid. If only a row is
// invalid, Read sets Problem of the row.
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
	comma, text := sheet.Separator(text)
	in := sheet.NewRecords(text, comma)
	_, header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the list is empty")
	}
	if err != nil {
		return nil, malformed(err)
	}
	list := &List{}
	positions, err := list.header(header)
	if err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for {
		number, record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, malformed(err)
		}
		if number > maxNumber {
			return nil, fmt.Errorf("the list has more than %d rows; split it", maxNumber-1)
		}
		if row := readRow(number, record, positions, len(header)); row != nil {
			if first, duplicate := seen[row.hash()]; duplicate && row.Problem == "" {
				row.Problem = fmt.Sprintf("The row is the same as row %d.", first)
			} else {
				seen[row.hash()] = number
			}
			list.Rows = append(list.Rows, row)
		}
	}
	if len(list.Rows) == 0 {
		return nil, errors.New("the list has a header but no rows")
	}
	return list, nil
}

func malformed(err error) error {
	return fmt.Errorf("the list is not valid CSV; a quotation mark may be missing: %w", err)
}

// decode returns the text of a list in UTF-8.
func decode(raw []byte) ([]byte, error) {
	text, err := sheet.Text(raw)
	if e, ok := errors.AsType[*sheet.EncodingError](err); ok {
		return nil, fmt.Errorf("line %d of the list is not in UTF-8; save it as “CSV UTF-8”, so that all names are correct", e.Line)
	}
	if err != nil {
		return nil, fmt.Errorf("the list is not CSV text; save it as “CSV UTF-8”: %w", err)
	}
	return text, nil
}

// header returns the position of each column and records the unused columns. It returns an error if
// a required column is missing or two columns have the same meaning.
func (l *List) header(header []string) (positions map[sheet.Column]int, err error) {
	positions = map[sheet.Column]int{}
	for i, name := range header {
		column := sheet.ColumnOf(name)
		if column == "" {
			if strings.TrimSpace(name) != "" {
				l.Unused = append(l.Unused, strings.TrimSpace(name))
			}
			continue
		}
		if other, duplicate := positions[column]; duplicate {
			return nil, fmt.Errorf("the columns %q and %q both mean %s; remove one of them", header[other], name, column)
		}
		positions[column] = i
	}
	var missing []string
	for _, column := range required {
		if _, ok := positions[column]; !ok {
			missing = append(missing, string(column))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the list has no column %s; its first line must name the columns title, full_name, email, file and optionally issue_date, details and expires_on",
			strings.Join(missing, ", "))
	}
	return positions, nil
}

// readRow returns the row of a record with its problem, or nil if the record is empty.
func readRow(number int, record []string, positions map[sheet.Column]int, width int) *Row {
	isEmpty := true
	for _, field := range record {
		if strings.TrimSpace(field) != "" {
			isEmpty = false
		}
	}
	if isEmpty {
		return nil
	}
	at := func(column sheet.Column) string {
		if i, ok := positions[column]; ok && i < len(record) {
			return strings.TrimSpace(record[i])
		}
		return ""
	}
	row := &Row{
		Number: number, Title: at(sheet.Title), Name: at(sheet.Name), Email: at(sheet.Email), File: at(sheet.File),
		IssueDate: at(sheet.IssueDate), Details: at(sheet.Details), ExpiresOn: at(sheet.ExpiresOn),
	}
	for i := width; i < len(record); i++ {
		if strings.TrimSpace(record[i]) != "" {
			row.Problem = fmt.Sprintf("The row has %d fields, but the header has %d. A quotation mark may be missing.", len(record), width)
			return row
		}
	}
	row.Problem = row.check()
	return row
}
