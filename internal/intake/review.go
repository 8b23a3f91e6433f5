package intake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/sheet"
)

// fieldOf maps a column to the field of the certificate that it fills.
var fieldOf = map[sheet.Column]cert.Field{
	sheet.Title: cert.FieldTitle, sheet.Name: cert.FieldName, sheet.Email: cert.FieldEmail, sheet.IssueDate: cert.FieldIssueDate,
	sheet.Details: cert.FieldDetails, sheet.File: cert.FieldFile,
}

// Fields are the columns that a row is made of in the end, in the order in which
// they are shown: the name in one.
var Fields = []sheet.Column{sheet.Title, sheet.Name, sheet.Email, sheet.IssueDate, sheet.Details, sheet.File}

// Review is a draft looked through: what each row would become, and what is wrong.
// It is worked out anew each time from what was uploaded and decided, so nothing
// can leave it out of date.
type Review struct {
	*Draft

	Rows  []*Row
	Files []*File
	// Order is how dates are read; it was found out when the mapping does not say.
	Order sheet.Order
	// Valid, Invalid and Skipped rows are all there are.
	Valid, Invalid, Skipped int
	// Unused are the files that no row means, Missing the rows whose file is not
	// there, Refused the files that can never be made a certificate.
	Unused, Refused []*File
	Missing         []*Row
	// Shared are the files that several rows would use, in the order of the list.
	Shared []*Shared
}

// Shared is a file that several rows would use, and which: one of them may be about
// to get what is another person's.
type Shared struct {
	*File

	Rows []*Row
}

// First gives the first of its rows, at most n, and More how many there are beside.
func (f *Shared) First(n int) []*Row { return f.Rows[:min(n, len(f.Rows))] }

// More is for the end of a list of the first.
func (f *Shared) More(n int) int { return max(0, len(f.Rows)-n) }

// Row is one row of a list and what it would become.
type Row struct {
	// Number counts as a spreadsheet does.
	Number int
	Cells  []string
	// Fixed are the texts that were put in the place of the list's.
	Fixed   map[sheet.Column]string
	Skipped bool
	// Wanted is where its stamp is wanted, nil to have it where all are.
	Wanted *cert.Wanted

	Text     cert.Text
	FileName string
	File     *File
	Problems Problems
	// Twin is the number of the row before it that would become the same certificate,
	// 0 for none; the first becomes one.
	Twin int
	// Shared is the file with all rows that would use it, nil where this one does
	// alone.
	Shared *Shared
	// Meant is the domain that the e-mail address seems to have been meant with, ""
	// where nothing speaks against the one that it has.
	Meant string

	email account.Email
}

// Doubtful says that a row is in order by every rule and may be wrong all the same,
// which a person has to look at.
func (r *Row) Doubtful() bool {
	return !r.Skipped && len(r.Problems) == 0 && (r.Shared != nil || r.Meant != "")
}

// Sharers gives the other rows that would use the same file, at most n, and
// MoreSharers how many there are beside.
func (r *Row) Sharers(n int) (list []*Row) {
	if r.Shared == nil {
		return nil
	}
	for _, other := range r.Shared.Rows {
		if other != r && len(list) < n {
			list = append(list, other)
		}
	}
	return list
}

// MoreSharers is for the end of a list of sharers.
func (r *Row) MoreSharers(n int) int {
	if r.Shared == nil {
		return 0
	}
	return r.Shared.More(n + 1)
}

// Value gives a field's text as it is shown and can be changed.
func (r *Row) Value(column sheet.Column) string {
	if column == sheet.File {
		return r.FileName
	}
	if text := fieldOf[column].Of(&r.Text); text != nil {
		return *text
	}
	return ""
}

// Review looks through a draft.
func (s *Service) Review(ctx context.Context, d *Draft) (*Review, error) {
	free, err := take(ctx, s.reviews)
	if err != nil {
		return nil, err
	}
	defer free()
	return s.review(ctx, s.db, d)
}

func (s *Service) review(ctx context.Context, q db.Queryer, d *Draft) (*Review, error) {
	v := &Review{Draft: d, Order: d.Mapping.Dates}
	var err error
	if v.Rows, err = s.rows(ctx, q, d); err != nil {
		return nil, err
	}
	if v.Files, err = s.files(ctx, q, d); err != nil {
		return nil, err
	}
	if v.Order == sheet.Unknown {
		v.Order = sheet.GuessOrder(v.dates)
	}
	v.look(cert.Today(s.now()))
	return v, nil
}

// dates gives what the list has in its column of dates.
func (v *Review) dates(yield func(string) bool) {
	at := v.Mapping.column(sheet.IssueDate)
	for _, row := range v.Rows {
		if !yield(row.cell(at)) {
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

func (v *Review) look(today string) {
	shelf := newShelf(v.Files)
	named := map[*File]bool{}
	uses := map[*File]*Shared{}
	first := map[cert.Key]int{}
	for _, row := range v.Rows {
		row.read(&v.Mapping, v.Order)
		var problem *Problem
		if row.File, problem = shelf.find(row.FileName); row.File != nil {
			named[row.File] = true
			if reason := row.File.Problem; reason != "" {
				problem = fileProblem(cert.Problem{Code: cert.CodeRefusedFile, Detail: reason})
			}
		} else if !row.Skipped {
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
		if row.Twin = first[key]; row.Twin == 0 {
			first[key] = row.Number
		}
	}
	v.share(uses)
	for _, f := range v.Files {
		if !named[f] {
			v.Unused = append(v.Unused, f)
		}
		if f.Problem != "" {
			v.Refused = append(v.Refused, f)
		}
	}
}

// share notes which files several rows would use.
func (v *Review) share(uses map[*File]*Shared) {
	for _, row := range v.Rows {
		used := uses[row.File]
		if row.Skipped || used == nil || len(used.Rows) < 2 {
			continue
		}
		row.Shared = used
		if used.Rows[0] == row {
			v.Shared = append(v.Shared, used)
		}
	}
}

// key is the same for rows that would become the same certificate.
func (r *Row) key(today string) cert.Key {
	k := cert.Key{EmailFolded: r.email.Folded, Title: r.Text.Title, IssueDate: r.Text.IssueDate}
	if k.IssueDate == "" {
		k.IssueDate = today
	}
	return k
}

// read finds out what a row says, by the rules of the interface.
func (r *Row) read(m *Mapping, order sheet.Order) {
	text := func(column sheet.Column) string {
		if fixed, ok := r.Fixed[column]; ok {
			return fixed
		}
		if value := r.cell(m.column(column)); value != "" {
			return value
		}
		return m.Defaults[column]
	}
	r.FileName = strings.TrimSpace(text(sheet.File))
	for _, column := range Fields {
		if column == sheet.File {
			continue
		}
		value := text(column)
		if _, fixed := r.Fixed[column]; column == sheet.Name && value == "" && !fixed {
			value = strings.TrimSpace(r.cell(m.column(sheet.GivenName)) + " " + r.cell(m.column(sheet.FamilyName)))
		}
		f := fieldOf[column]
		if column == sheet.IssueDate && value != "" {
			date, ambiguous := sheet.Date(value, order)
			if ambiguous {
				*f.Of(&r.Text) = value
				r.Problems.add(column, cert.Problem{Field: f, Code: CodeAmbiguousDate, Detail: value})
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
			r.Problems.add(column, *problem)
		}
		*f.Of(&r.Text) = valid
	}
	if email, err := account.ParseEmail(r.Text.Email); err == nil {
		r.email = email
		r.Meant = account.MeantDomain(email)
	}
}

// rows gives all rows of a draft as they are kept.
func (s *Service) rows(ctx context.Context, q db.Queryer, d *Draft) (list []*Row, err error) {
	rows, err := q.QueryContext(ctx, `SELECT number, cells, fixed, skipped, wanted FROM intake_rows WHERE draft_id = $1 ORDER BY number`, d.ID)
	if err != nil {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	list = make([]*Row, 0, d.Total)
	for rows.Next() {
		r := &Row{}
		var cells string
		var fixed, wanted sql.NullString
		if err := rows.Scan(&r.Number, &cells, &fixed, &r.Skipped, &wanted); err != nil {
			return nil, fmt.Errorf("reading rows: %w", err)
		}
		if err := readInto(cells, &r.Cells); err != nil {
			return nil, err
		}
		if err := readPlace(wanted, &r.Wanted); err != nil {
			return nil, err
		}
		if fixed.Valid {
			if err := readInto(fixed.String, &r.Fixed); err != nil {
				return nil, err
			}
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// Show is which rows of a review are asked for.
type Show string

// The rows that can be asked for.
const (
	ShowAll       Show = ""
	ShowProblems  Show = "problems"
	ShowValid     Show = "valid"
	ShowSkipped   Show = "skipped"
	ShowDuplicate Show = "duplicates"
	ShowDoubtful  Show = "doubtful"
)

// Of gives the rows that are asked for.
func (v *Review) Of(show Show) []*Row {
	return slices.DeleteFunc(slices.Clone(v.Rows), func(r *Row) bool {
		switch show {
		case ShowProblems:
			return r.Skipped || len(r.Problems) == 0
		case ShowValid:
			return r.Skipped || len(r.Problems) > 0
		case ShowSkipped:
			return !r.Skipped
		case ShowDuplicate:
			return r.Twin == 0
		case ShowDoubtful:
			return !r.Doubtful()
		case ShowAll:
			return false
		default:
			return false
		}
	})
}

// Row gives a row by its number.
func (v *Review) Row(number int) (*Row, error) {
	at, ok := slices.BinarySearchFunc(v.Rows, number, func(r *Row, n int) int { return r.Number - n })
	if !ok {
		return nil, errNoRow
	}
	return v.Rows[at], nil
}
