package bulkimport

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// Mapping assigns meanings to the columns of a list.
type Mapping struct {
	// Columns maps a meaning to the index of its column, which starts at 0.
	Columns map[sheet.Column]int `json:"columns,omitempty"`
	// Defaults are the values for rows whose own value is empty.
	Defaults map[sheet.Column]string `json:"defaults,omitempty"`
	// Dates is the order of day and month. If it is sheet.Unknown, the order is inferred from the
	// list.
	Dates sheet.Order `json:"dates,omitempty"`
	// Remembered reports whether the mapping is that of the last list with the same columns.
	Remembered bool `json:"remembered,omitempty"`
}

// column returns the index of the column with a meaning, or -1 if there is none.
func (m *Mapping) column(c sheet.Column) int {
	if at, ok := m.Columns[c]; ok {
		return at
	}
	return -1
}

// storedMapping is a mapping with the folded names of columns in place of their indexes, so that it
// does not depend on the order of the columns.
type storedMapping struct {
	Columns  map[sheet.Column]string `json:"columns"`
	Defaults map[sheet.Column]string `json:"defaults"`
	Dates    sheet.Order             `json:"dates"`
}

const (
	maxListName = 255
	// maxDefault is the maximum length of a default in characters, which is the limit of the longest
	// field.
	maxDefault = 1000
)

// SetList stores a list in a draft in place of an earlier list. The columns of the new list get the
// meanings that were confirmed for the last list with the same columns. If there is no such list,
// SetList detects the meanings. The error is fault.Invalid if the list cannot be read.
func (s *Service) SetList(ctx context.Context, d *Draft, name string, r io.Reader) error {
	_, err := s.setList(ctx, d, name, r, false)
	return err
}

// Import is like SetList, but also accepts a corrected file of errors: a list with the columns of the
// draft's list and those that WriteErrors adds. Such a file replaces only the rows that it contains,
// and includes them again if they were skipped. Import returns the number of these rows, or 0 for a
// new list. The error is also fault.Invalid if the file is of another list, or if one of its rows has
// changed since the file was written.
func (s *Service) Import(ctx context.Context, d *Draft, name string, r io.Reader) (corrected int, err error) {
	return s.setList(ctx, d, name, r, true)
}

func (s *Service) setList(ctx context.Context, d *Draft, name string, r io.Reader, correct bool) (corrected int, err error) {
	free, err := acquire(ctx, s.lists)
	if err != nil {
		return 0, err
	}
	defer free()
	table, err := readList(ctx, r)
	if err != nil {
		return 0, err
	}
	if correct {
		if correct, err = d.isCorrected(table); err != nil {
			return 0, err
		}
	}
	if correct {
		return s.correct(ctx, d, table)
	}
	return 0, s.replaceList(ctx, d, name, table)
}

// readList reads a list. If the list cannot be read, the error is fault.Invalid with the field list.
func readList(ctx context.Context, r io.Reader) (*sheet.Table, error) {
	table, err := sheet.Read(ctx, r)
	if refusal, ok := errors.AsType[*sheet.Refusal](err); ok {
		return nil, fault.OfField("list", refusal.Message)
	}
	return table, err
}

func (s *Service) replaceList(ctx context.Context, d *Draft, name string, table *sheet.Table) error {
	mapping, err := s.firstMapping(ctx, d, table)
	if err != nil {
		return err
	}
	return s.update(ctx, d, "storing a list", func(tx *db.Tx) error {
		header, err := encode(table.Header)
		if err != nil {
			return err
		}
		notices, err := encode(append([]string{}, table.Notices...))
		if err != nil {
			return err
		}
		encodedMapping, err := encode(mapping)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			UPDATE bulk_import_drafts SET list_name = $1, header = $2, notices = $3, mapping = $4, mapped = false, total = $5 WHERE id = $6`,
			listName(name), header, notices, encodedMapping, len(table.Rows), d.ID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM bulk_import_rows WHERE draft_id = $1`, d.ID); err != nil {
			return err
		}
		for some := range slices.Chunk(table.Rows, rowsAtOnce) {
			if err := insertRowsTx(ctx, tx, d.ID, some); err != nil {
				return err
			}
		}
		return nil
	})
}

// listName returns the file name of a list or an archive without its path. A name that is empty or
// cannot be stored becomes "list". If the name is too long, listName returns only the end of the
// name.
func listName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	if name = strings.TrimSpace(name); !account.CleanText(name) || name == "" {
		return "list"
	}
	runes := []rune(name)
	return string(runes[max(0, len(runes)-maxListName):])
}

func insertRowsTx(ctx context.Context, tx *db.Tx, draftID int64, rows []sheet.Row) error {
	const columns = 3
	var query strings.Builder
	query.WriteString(`INSERT INTO bulk_import_rows (draft_id, number, cells) VALUES `)
	args := make([]any, 0, columns*len(rows))
	for i, row := range rows {
		if i > 0 {
			query.WriteString(", ")
		}
		query.WriteString("(" + db.Placeholders(columns*i+1, columns) + ")")
		cells, err := encode(storable(row.Cells))
		if err != nil {
			return err
		}
		args = append(args, draftID, row.Number, cells)
	}
	_, err := tx.ExecContext(ctx, query.String(), args...)
	return err
}

// storable replaces invalid UTF-8 and NUL in texts by the replacement character, because PostgreSQL
// cannot store them. It changes and returns cells.
func storable(cells []string) []string {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(strings.ToValidUTF8(cell, string(utf8.RuneError)), "\x00", string(utf8.RuneError))
	}
	return cells
}

// SetMapping sets the meanings of the columns as confirmed by a person, and stores them for the
// next list with the same columns.
func (s *Service) SetMapping(ctx context.Context, d *Draft, m Mapping) error {
	if err := m.check(d); err != nil {
		return err
	}
	encodedMapping, err := encode(m)
	if err != nil {
		return err
	}
	stored := storedMapping{Columns: map[sheet.Column]string{}, Defaults: m.Defaults, Dates: m.Dates}
	for column, at := range m.Columns {
		stored.Columns[column] = sheet.Fold(d.Header[at])
	}
	storedText, err := encode(stored)
	if err != nil {
		return err
	}
	return s.update(ctx, d, "storing the meanings of columns", func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE bulk_import_drafts SET mapping = $1, mapped = true WHERE id = $2`, encodedMapping, d.ID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
			INSERT INTO bulk_import_mappings (institution_id, headers, mapping, used_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (institution_id, headers) DO UPDATE SET mapping = excluded.mapping, used_at = excluded.used_at`,
			d.InstitutionID, headersKey(d, d.Header), storedText, db.Micros(s.now()))
		return err
	})
}

// Suggest returns the mapping that the form for the columns proposes. If the mapping is neither confirmed
// nor remembered, Suggest detects the meanings again, because files may have been added after the list.
// Their names help to detect the column with the file names.
func (v *Review) Suggest() Mapping {
	m := v.Mapping
	if v.Mapped || m.Remembered {
		return m
	}
	m.Columns = v.detect()
	return m
}

// detect returns the meanings that the names and the content of the columns suggest.
func (v *Review) detect() map[sheet.Column]int {
	return detectColumns(v.Draft, v.Header, v.table(), newFileIndex(v.Files).has, v.now)
}

// table returns the rows as they are in the list.
func (v *Review) table() []sheet.Row {
	rows := make([]sheet.Row, len(v.Rows))
	for i, row := range v.Rows {
		rows[i] = sheet.Row{Number: row.Number, Cells: row.Cells}
	}
	return rows
}

// UnusedColumn is a column of the list without a meaning. Dates is true if the column contains dates
// and no column of the list is the date of issue.
type UnusedColumn struct {
	At    int
	Dates bool
}

// UnusedColumns returns the columns to which a mapping assigns no meaning, except empty columns.
func (v *Review) UnusedColumns(m Mapping) (list []UnusedColumn) {
	used := map[int]bool{}
	for _, at := range m.Columns {
		used[at] = true
	}
	var dates []int
	if _, ok := m.Columns[sheet.IssueDate]; !ok {
		dates = sheet.DateColumns(v.Header, v.table())
	}
	for i := range v.Header {
		if !used[i] && slices.ContainsFunc(v.Rows, func(r *Row) bool { return r.cell(i) != "" }) {
			list = append(list, UnusedColumn{i, slices.Contains(dates, i)})
		}
	}
	return list
}

func (m *Mapping) check(d *Draft) error {
	var bad Problems
	for _, column := range slices.Sorted(maps.Keys(m.Columns)) {
		if at := m.Columns[column]; !slices.Contains(d.meanings(), column) || at < 0 || at >= len(d.Header) {
			bad = bad.with(column, cert.Problem{Code: CodeNoColumn})
		}
	}
	missing := func(column sheet.Column) bool { return m.column(column) < 0 }
	if missing(sheet.Title) && strings.TrimSpace(m.Defaults[sheet.Title]) == "" && (d.Template == nil || d.Template.Title == "") {
		bad = bad.with(sheet.Title, cert.Problem{Code: cert.CodeRequired})
	}
	if missing(sheet.Name) && (missing(sheet.GivenName) || missing(sheet.FamilyName)) {
		bad = bad.with(sheet.Name, cert.Problem{Code: cert.CodeRequired})
	}
	for _, column := range d.required() {
		if missing(column) && strings.TrimSpace(m.Defaults[column]) == "" {
			bad = bad.with(column, cert.Problem{Code: cert.CodeRequired})
		}
	}
	for _, column := range slices.Sorted(maps.Keys(m.Defaults)) {
		value := strings.TrimSpace(m.Defaults[column])
		m.Defaults[column] = value
		if !d.canShare(column) || utf8.RuneCountInString(value) > maxDefault || !account.CleanText(value) {
			bad = bad.with(column, cert.Problem{Code: CodeNoDefault})
			continue
		}
		if problem := checkDefault(column, value, m.Dates); problem != nil {
			bad = bad.with(column, *problem)
		}
		if value == "" {
			delete(m.Defaults, column)
		}
	}
	if m.Dates != sheet.Unknown && !slices.Contains(sheet.Orders, m.Dates) {
		bad = bad.with("", cert.Problem{Code: CodeNoOrder})
	}
	return bad.Err()
}

// checkDefault checks the default of a column. It returns nil if the default is valid.
func checkDefault(column sheet.Column, value string, order sheet.Order) *cert.Problem {
	if value == "" {
		return nil
	}
	f := fieldFor(column)
	if _, ok := ValueName(column); ok {
		return nil // the default is checked with the rows
	}
	if isDate(column) {
		date, ambiguous := sheet.Date(value, order)
		switch {
		case ambiguous:
			return &cert.Problem{Field: f, Code: CodeAmbiguousDate, Detail: value}
		case date == "":
			return &cert.Problem{Field: f, Code: cert.CodeNotDate}
		}
		return nil
	}
	_, problem := f.Check(value)
	return problem
}

// required returns the meanings, except names and titles, for which a list must have a column. For a
// column of a template, a default for all rows is enough.
func (d *Draft) required() []sheet.Column {
	if d.Template == nil {
		return []sheet.Column{sheet.Email, sheet.File}
	}
	list := []sheet.Column{sheet.Email}
	for _, c := range d.Template.Columns {
		if c.Required {
			list = append(list, ValueColumn(c.Name))
		}
	}
	return list
}

// canShare reports whether all rows may have the same value in a column.
func (d *Draft) canShare(column sheet.Column) bool {
	switch column { //nolint:exhaustive // the others differ between rows
	case sheet.Title, sheet.IssueDate, sheet.Details, sheet.ExpiresOn:
		return true
	}
	_, ok := ValueName(column)
	return ok && slices.Contains(d.meanings(), column)
}

// headersKey returns a key that is equal for lists with the same columns in any order. The keys of lists
// for different templates, and of lists without a template, differ.
func headersKey(d *Draft, header []string) []byte {
	folded := make([]string, len(header))
	for i, name := range header {
		folded[i] = sheet.Fold(name)
	}
	slices.Sort(folded)
	key := strings.Join(slices.Compact(folded), "\x00")
	if d.Template != nil {
		key += "\x00\x00" + d.Template.UUID
	}
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// firstMapping returns the mapping of the last list with the columns of a table. If there is no such
// list, it returns a detected mapping.
func (s *Service) firstMapping(ctx context.Context, d *Draft, table *sheet.Table) (Mapping, error) {
	mapping, err := s.lastMapping(ctx, d, table.Header)
	if err != nil || mapping.Remembered {
		return mapping, err
	}
	files, err := s.files(ctx, s.db, d)
	if err != nil {
		return mapping, err
	}
	mapping.Columns = detectColumns(d, table.Header, table.Rows, newFileIndex(files).has, s.now())
	return mapping, nil
}

// lastMapping returns the mapping of the last list with these columns. If there is no such list, it
// returns an empty mapping.
func (s *Service) lastMapping(ctx context.Context, d *Draft, header []string) (Mapping, error) {
	detected := Mapping{Columns: map[sheet.Column]int{}, Defaults: map[sheet.Column]string{}}
	var text string
	err := s.db.QueryRowContext(ctx, `SELECT mapping FROM bulk_import_mappings WHERE institution_id = $1 AND headers = $2`, d.InstitutionID, headersKey(d, header)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return detected, nil
	}
	if err != nil {
		return detected, fmt.Errorf("reading the mapping of the last list: %w", err)
	}
	var stored storedMapping
	if err := decode(text, &stored); err != nil {
		return detected, err
	}
	m := Mapping{Columns: map[sheet.Column]int{}, Defaults: stored.Defaults, Dates: stored.Dates, Remembered: true}
	for column, name := range stored.Columns {
		if !slices.Contains(d.meanings(), column) {
			continue // an earlier version of the template had the column
		}
		if at := slices.IndexFunc(header, func(h string) bool { return sheet.Fold(h) == name }); at >= 0 {
			m.Columns[column] = at
		}
	}
	maps.DeleteFunc(m.Defaults, func(column sheet.Column, _ string) bool { return !d.canShare(column) })
	if d.Template != nil {
		d.Template.addColumns(m.Columns, header)
	}
	return m, nil
}
