package bulkimport

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/sheet"
)

// fieldOf maps a column to the field of the certificate that the column sets.
var fieldOf = map[sheet.Column]cert.Field{
	sheet.Title: cert.FieldTitle, sheet.Name: cert.FieldName, sheet.Email: cert.FieldEmail, sheet.IssueDate: cert.FieldIssueDate,
	sheet.Details: cert.FieldDetails, sheet.File: cert.FieldFile, sheet.ExpiresOn: cert.FieldExpiresOn,
}

// Fields are the columns of a row in the order in which they are shown. The name is one column.
var Fields = []sheet.Column{sheet.Title, sheet.Name, sheet.Email, sheet.IssueDate, sheet.Details, sheet.File, sheet.ExpiresOn}

// Review is a checked draft: the certificate that each row would become, and the problems of each
// row. A review is not stored, but computed from the list, the files and the corrections.
type Review struct {
	*Draft

	Rows  []*Row
	Files []*File
	// Order is the order of day and month in dates. If the mapping does not set it, it is detected.
	Order sheet.Order
	// Valid, Invalid and Skipped are numbers of rows. Each row is counted in one of them.
	Valid, Invalid, Skipped int
	// Unused are the files that no row names. Missing are the rows without a file, except skipped rows.
	// Refused are the files that can never become certificates.
	Unused, Refused []*File
	Missing         []*Row
	// Shared are the files that rows of several certificates would use, in the order of the list.
	Shared []*Shared

	now time.Time
}

// Shared is a file that rows of several certificates would use, with these rows. If one of the rows
// names the file by mistake, the recipient of this row would receive another person's certificate.
type Shared struct {
	*File

	Rows []*Row
}

// First returns the first n rows that would use the file.
func (f *Shared) First(n int) []*Row { return f.Rows[:min(n, len(f.Rows))] }

// More returns the number of rows after the first n.
func (f *Shared) More(n int) int { return max(0, len(f.Rows)-n) }

// Row is one row of a list, with the data of its certificate.
type Row struct {
	// Number is the row number in the spreadsheet.
	Number int
	Cells  []string
	// Accepted maps each accepted doubt to the text that the method seen returned when a person accepted it.
	Accepted map[Doubt]string
	// Fixed are the texts that replace those of the list.
	Fixed   map[sheet.Column]string
	Skipped bool
	// Wanted is the placement for the row. nil means the placement for all rows.
	Wanted *cert.RequestedPlacement

	Text cert.Text
	// Values maps the names of the template's columns to the values.
	Values   map[string]string
	FileName string
	File     *File
	Problems Problems
	// DuplicateOf is the number of the first of the earlier valid rows that would become the same
	// certificate, or 0 if there is none.
	DuplicateOf int
	// Shared is the file with all rows that would use it. It is nil for a skipped row, and if no row of
	// another certificate would use the file.
	Shared *Shared
	// SuggestedDomain is the probable correct domain of the e-mail address. It is "" if the domain is
	// plausible or the address is not valid.
	SuggestedDomain string
	// NameAbsent reports whether the file has text that does not contain the name. Only CompareNames
	// sets it.
	NameAbsent bool

	email account.Email
}

// Person returns the name of the recipient. If the row has no name, Person returns another text by which
// a person can recognize the row: the address, the title or the name of the file.
func (r *Row) Person() string {
	return cmp.Or(strings.TrimSpace(r.Text.FullName), strings.TrimSpace(r.Text.Email), strings.TrimSpace(r.Text.Title), r.FileName)
}

// SuggestedEmail returns the e-mail address with the probable correct domain, or "".
func (r *Row) SuggestedEmail() string {
	at := strings.LastIndex(r.Text.Email, "@")
	if r.SuggestedDomain == "" || at < 0 {
		return ""
	}
	return r.Text.Email[:at+1] + r.SuggestedDomain
}

// first returns the number of the first row that would become the same certificate.
func (r *Row) first() int { return cmp.Or(r.DuplicateOf, r.Number) }

// sharers returns the rows of other certificates that would use the same file.
func (r *Row) sharers() (list []*Row) {
	if r.Shared == nil {
		return nil
	}
	for _, other := range r.Shared.Rows {
		if other.first() != r.first() {
			list = append(list, other)
		}
	}
	return list
}

// Sharers returns up to n rows of other certificates that would use the same file.
func (r *Row) Sharers(n int) []*Row {
	list := r.sharers()
	return list[:min(n, len(list))]
}

// MoreSharers returns the number of rows of other certificates that Sharers(n) does not return.
func (r *Row) MoreSharers(n int) int { return max(0, len(r.sharers())-n) }

// Value returns the text of the row in a column, after corrections and defaults.
func (r *Row) Value(column sheet.Column) string {
	if column == sheet.File {
		return r.FileName
	}
	if name, ok := ValueName(column); ok {
		return r.Values[name]
	}
	if text := fieldOf[column].Of(&r.Text); text != nil {
		return *text
	}
	return ""
}

// Review checks a draft.
func (s *Service) Review(ctx context.Context, d *Draft) (*Review, error) {
	free, err := acquire(ctx, s.reviews)
	if err != nil {
		return nil, err
	}
	defer free()
	return s.review(ctx, s.db, d)
}

func (s *Service) review(ctx context.Context, q db.Queryer, d *Draft) (*Review, error) {
	v := &Review{Draft: d, Order: d.Mapping.Dates, now: s.now()}
	var err error
	if v.Rows, err = s.rows(ctx, q, d); err != nil {
		return nil, err
	}
	if v.Files, err = s.files(ctx, q, d); err != nil {
		return nil, err
	}
	if v.Order == sheet.Unknown {
		v.Order = sheet.DetectOrder(v.dates)
	}
	for _, row := range v.Rows {
		row.read(d, v.Order)
		row.checkExpiry(cert.Today(v.now))
	}
	if err := s.fit(ctx, v); err != nil {
		return nil, err
	}
	v.evaluate(cert.Today(v.now))
	return v, nil
}

// dates iterates over the values of the columns with dates.
func (v *Review) dates(yield func(string) bool) {
	issued, expires := v.Mapping.column(sheet.IssueDate), v.Mapping.column(sheet.ExpiresOn)
	for _, row := range v.Rows {
		if !yield(row.cell(issued)) || !yield(row.cell(expires)) {
			return
		}
	}
}

func (r *Row) cell(at int) string {
	if at < 0 || at >= len(r.Cells) {
		return ""
	}
	return r.Cells[at]
}

func (v *Review) evaluate(today string) {
	index := newFileIndex(v.Files)
	named := map[*File]bool{}
	uses := map[*File]*Shared{}
	first := map[search.Key]int{}
	for _, row := range v.Rows {
		var problem *Problem
		if v.Template == nil {
			row.File, problem = index.find(row.FileName)
		}
		if row.File != nil {
			named[row.File] = true
			if reason := row.File.Problem; reason != "" {
				problem = fileProblem(cert.Problem{Code: cert.CodeRefusedFile, Detail: reason})
			}
		} else if v.Template == nil && !row.Skipped {
			v.Missing = append(v.Missing, row)
		}
		if problem != nil {
			row.Problems = append(row.Problems, *problem)
		}
		switch {
		case row.Skipped:
			v.Skipped++
			continue
		case row.File != nil:
			if uses[row.File] == nil {
				uses[row.File] = &Shared{File: row.File}
			}
			uses[row.File].Rows = append(uses[row.File].Rows, row)
		}
		if len(row.Problems) > 0 {
			v.Invalid++
			continue
		}
		v.Valid++
		key := row.key(today)
		if row.DuplicateOf = first[key]; row.DuplicateOf == 0 {
			first[key] = row.Number
		}
	}
	v.findShared(uses)
	for _, f := range v.Files {
		if !named[f] {
			v.Unused = append(v.Unused, f)
		}
		if f.Problem != "" {
			v.Refused = append(v.Refused, f)
		}
	}
}

// findShared finds files that rows of several certificates would use.
func (v *Review) findShared(uses map[*File]*Shared) {
	for _, row := range v.Rows {
		used := uses[row.File]
		if row.Skipped || used == nil || !slices.ContainsFunc(used.Rows, func(other *Row) bool { return other.first() != used.Rows[0].first() }) {
			continue
		}
		row.Shared = used
		if used.Rows[0] == row {
			v.Shared = append(v.Shared, used)
		}
	}
}

// DateOrigins are the numbers of valid rows by the origin of their date of issue.
type DateOrigins struct {
	// List is the number of rows with a date from the list. Corrected is the number of rows with a date
	// from a correction. Same is the number of rows with the default date of the mapping. Today is the
	// number of rows without a date. The date of issue of these rows is the day on which their batch is
	// created.
	List, Corrected, Same, Today int
	// First and Last are the earliest and the latest date of the valid rows, or "" if no row has a date.
	First, Last string
	// Now is the current date.
	Now string
}

// DateOrigins counts the valid rows by the origin of their date of issue.
func (v *Review) DateOrigins() DateOrigins {
	o := DateOrigins{Now: cert.Today(v.now)}
	for _, row := range v.Rows {
		if row.Skipped || len(row.Problems) > 0 {
			continue
		}
		_, fixed := row.Fixed[sheet.IssueDate]
		date := row.Text.IssueDate
		switch {
		case date == "":
			o.Today++
			continue
		case fixed:
			o.Corrected++
		case row.cell(v.Mapping.column(sheet.IssueDate)) != "":
			o.List++
		default:
			o.Same++
		}
		if o.First == "" || date < o.First {
			o.First = date
		}
		o.Last = max(o.Last, date)
	}
	return o
}

// key returns a key that is equal for rows that would become the same certificate.
func (r *Row) key(today string) search.Key {
	k := search.Key{EmailFolded: r.email.Folded, Title: r.Text.Title, IssueDate: r.Text.IssueDate}
	if k.IssueDate == "" {
		k.IssueDate = today
	}
	return k
}

// read sets the file name, the text, the values, the suggested domain and the problems of a row.
func (r *Row) read(d *Draft, order sheet.Order) {
	m := &d.Mapping
	text := func(column sheet.Column) string {
		if fixed, ok := r.Fixed[column]; ok {
			return fixed
		}
		if value := r.cell(m.column(column)); value != "" {
			return value
		}
		return m.Defaults[column]
	}
	if d.Template == nil {
		r.FileName = strings.TrimSpace(text(sheet.File))
	}
	for _, column := range d.RowFields() {
		if column == sheet.File {
			continue
		}
		value := text(column)
		if name, ok := ValueName(column); ok {
			r.setValue(column, name, value)
			continue
		}
		if column == sheet.Title && d.Template != nil && strings.TrimSpace(value) == "" {
			value = d.Template.Title
		}
		if _, fixed := r.Fixed[column]; column == sheet.Name && value == "" && !fixed {
			value = strings.TrimSpace(r.cell(m.column(sheet.GivenName)) + " " + r.cell(m.column(sheet.FamilyName)))
		}
		f := fieldOf[column]
		if isDate(column) && value != "" {
			date, ambiguous := sheet.Date(value, order)
			if ambiguous {
				*f.Of(&r.Text) = value
				r.Problems = r.Problems.with(column, cert.Problem{Field: f, Code: CodeAmbiguousDate, Detail: value})
				continue
			}
			if date != "" {
				value = date
			}
		}
		valid, problem := f.Check(value)
		if problem == nil && strings.ContainsRune(valid, '\uFFFD') {
			problem = &cert.Problem{Field: f, Code: CodeLostCharacter}
		}
		if problem != nil {
			valid = value
			r.Problems = r.Problems.with(column, *problem)
		}
		*f.Of(&r.Text) = valid
	}
	if email, err := account.ParseEmail(r.Text.Email); err == nil {
		r.email = email
		r.SuggestedDomain = account.SuggestedDomain(email)
	}
}

// setValue sets the value of a column of the template.
func (r *Row) setValue(column sheet.Column, name, value string) {
	if value = strings.TrimSpace(value); value == "" {
		return
	}
	if r.Values == nil {
		r.Values = map[string]string{}
	}
	r.Values[name] = value
	if strings.ContainsRune(value, '\uFFFD') {
		r.Problems = r.Problems.with(column, cert.Problem{Field: fieldFor(column), Code: CodeLostCharacter})
	}
}

// rows returns all rows of a draft as they are stored.
func (s *Service) rows(ctx context.Context, q db.Queryer, d *Draft) (list []*Row, err error) {
	rows, err := q.QueryContext(ctx, `SELECT number, cells, fixed, skipped, wanted, accepted FROM bulk_import_rows WHERE draft_id = $1 ORDER BY number`, d.ID)
	if err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	list = make([]*Row, 0, d.Total)
	for rows.Next() {
		r := &Row{}
		var cells string
		var fixed, wanted, accepted sql.NullString
		if err := rows.Scan(&r.Number, &cells, &fixed, &r.Skipped, &wanted, &accepted); err != nil {
			return nil, fmt.Errorf("reading rows: %w", err)
		}
		if err := decode(cells, &r.Cells); err != nil {
			return nil, err
		}
		if err := decodePlacement(wanted, &r.Wanted); err != nil {
			return nil, err
		}
		if fixed.Valid {
			if err := decode(fixed.String, &r.Fixed); err != nil {
				return nil, err
			}
		}
		if accepted.Valid {
			if err := decode(accepted.String, &r.Accepted); err != nil {
				return nil, err
			}
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// Show selects rows of a review.
type Show string

// These are the values of Show, besides those that ShowOf returns.
const (
	ShowAll       Show = ""
	ShowProblems  Show = "problems"
	ShowValid     Show = "valid"
	ShowSkipped   Show = "skipped"
	ShowDuplicate Show = "duplicates"
	// ShowDoubtful selects the valid rows that are doubtful. ShowReady selects the other valid rows.
	ShowDoubtful Show = "doubtful"
	ShowReady    Show = "ready"
)

// ShowOf returns the value that selects the rows with one kind of doubt.
func ShowOf(kind Doubt) Show { return ShowDoubtful + "-" + Show(kind) }

// Doubt reports whether s selects doubtful rows, and returns the kind of doubt, which is "" for
// ShowDoubtful.
func (s Show) Doubt() (kind Doubt, ok bool) {
	if s == ShowDoubtful {
		return "", true
	}
	i := slices.IndexFunc(Doubts, func(kind Doubt) bool { return s == ShowOf(kind) })
	if i < 0 {
		return "", false
	}
	return Doubts[i], true
}

// Of returns the rows that show selects. Doubtful rows are sorted by their first doubt.
func (v *Review) Of(show Show) []*Row {
	if kind, ok := show.Doubt(); ok {
		return v.doubtful(kind)
	}
	return slices.DeleteFunc(slices.Clone(v.Rows), func(r *Row) bool {
		switch show {
		case ShowProblems:
			return r.Skipped || len(r.Problems) == 0
		case ShowValid:
			return r.Skipped || len(r.Problems) > 0
		case ShowSkipped:
			return !r.Skipped
		case ShowDuplicate:
			return r.DuplicateOf == 0
		case ShowReady:
			return r.Skipped || len(r.Problems) > 0 || r.Doubtful()
		case ShowAll:
			return false
		default:
			return false
		}
	})
}

// Row returns the row with a number. The error is fault.NotFound if there is no such row.
func (v *Review) Row(number int) (*Row, error) {
	at, ok := slices.BinarySearchFunc(v.Rows, number, func(r *Row, n int) int { return r.Number - n })
	if !ok {
		return nil, errNoRow
	}
	return v.Rows[at], nil
}
