package bulkimport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/template"
)

// Template is the version of a template from which the certificates of a draft are made. A newer version
// does not change the draft, so that the certificates look as a person saw them in the draft.
type Template struct {
	VersionID  int64
	UUID, Name string
	// Number is the number of the version.
	Number int
	// Title is the default title of the rows. It may be "".
	Title string
	// Columns are the columns that the template draws.
	Columns []design.ColumnUse
	Pages   []design.Page
	// Archived reports whether the template is archived. Outdated reports whether it has a newer
	// version.
	Archived, Outdated bool

	inst *account.Institution
}

// valuePrefix is the prefix of the meanings of the columns of a template. It equals the prefix of their
// fields in problems, so that fieldFor can convert a meaning to a field.
var valuePrefix = string(template.ValueField(""))

// ValueColumn returns the meaning of the column of a template with the given name.
func ValueColumn(name string) sheet.Column { return sheet.Column(valuePrefix + name) }

// ValueName is the inverse of ValueColumn. It returns the name of the column of a template, and reports
// whether c is the meaning of a column of a template.
func ValueName(c sheet.Column) (name string, ok bool) {
	return strings.CutPrefix(string(c), valuePrefix)
}

// fieldFor returns the field of the certificate that a column sets.
func fieldFor(c sheet.Column) cert.Field {
	if _, ok := ValueName(c); ok {
		return cert.Field(c)
	}
	return fieldOf[c]
}

// columnFor is the inverse of fieldFor.
func columnFor(f cert.Field) sheet.Column {
	for column, field := range fieldOf {
		if field == f {
			return column
		}
	}
	return sheet.Column(f)
}

// templateFields are the columns of a row in a draft for a template, before the columns of the template.
var templateFields = []sheet.Column{sheet.Name, sheet.Email, sheet.Title, sheet.IssueDate, sheet.Details, sheet.ExpiresOn}

// RowFields returns the columns of a row in the order in which they are shown.
func (d *Draft) RowFields() []sheet.Column {
	if d.Template == nil {
		return Fields
	}
	list := slices.Clone(templateFields)
	for _, c := range d.Template.Columns {
		list = append(list, ValueColumn(c.Name))
	}
	return list
}

// meanings returns the meanings that columns of the list can have.
func (d *Draft) meanings() []sheet.Column {
	if d.Template == nil {
		return sheet.Columns
	}
	return append(d.RowFields(), sheet.GivenName, sheet.FamilyName)
}

// CreateForTemplate creates a draft whose certificates are made from the published version of a
// template. The error is fault.NotFound if there is no such template, and fault.BadRequest if it is
// archived or not published.
func (s *Service) CreateForTemplate(ctx context.Context, inst *account.Institution, creator cert.Actor, templateUUID string) (*Draft, error) {
	t, err := s.templates.ByUUID(ctx, inst.ID, templateUUID)
	switch {
	case err != nil:
		return nil, err
	case t.ArchivedAt != nil:
		return nil, errArchived
	case t.Published == nil:
		return nil, fault.New(fault.BadRequest, "The template is not published. Publish it first.")
	}
	d, err := s.create(ctx, inst, creator, t.Published.ID)
	if err != nil {
		return nil, err
	}
	return d, s.loadTemplate(ctx, d)
}

var errNoTemplate = fault.New(fault.BadRequest, "The certificates of this bulk upload are not made from a template.")

var errArchived = fault.New(fault.BadRequest, "The template is archived, so no more certificates are issued from it. Restore it first.")

// UsePublished binds an open draft to the published version of its template.
func (s *Service) UsePublished(ctx context.Context, d *Draft) error {
	if d.Template == nil {
		return errNoTemplate
	}
	t, err := s.templates.ByUUID(ctx, d.InstitutionID, d.Template.UUID)
	if err != nil {
		return err
	}
	if t.Published == nil {
		return errNotFound
	}
	return s.update(ctx, d, "changing the version of a template", func(tx *db.Tx) error {
		// The new version may require columns that are not in the mapping.
		_, err := tx.ExecContext(ctx, `UPDATE bulk_import_drafts SET template_version_id = $1, mapped = false WHERE id = $2`, t.Published.ID, d.ID)
		return err
	})
}

// loadTemplate sets Template of a draft.
func (s *Service) loadTemplate(ctx context.Context, d *Draft) error {
	if d.versionID == 0 {
		return nil
	}
	t, v, err := s.templates.ByVersion(ctx, d.InstitutionID, d.versionID)
	if err != nil {
		return fmt.Errorf("reading the template of a bulk upload: %w", err)
	}
	d.Template = &Template{
		VersionID: v.ID, UUID: t.UUID, Name: t.Name, Number: v.Number, Title: strings.TrimSpace(v.Layout.Title), Columns: v.Layout.Columns(), Pages: v.Pages,
		Archived: t.ArchivedAt != nil, Outdated: t.Published != nil && t.Published.ID != v.ID,
	}
	d.Template.inst, err = account.InstitutionByID(ctx, s.db, d.InstitutionID)
	return err
}

// nameTemplates sets the templates of drafts, with only their ids, names and version numbers.
func (s *Service) nameTemplates(ctx context.Context, institutionID int64, list []*Draft) error {
	var ids []int64
	for _, d := range list {
		if d.versionID != 0 {
			ids = append(ids, d.versionID)
		}
	}
	slices.Sort(ids)
	names, err := s.templates.Names(ctx, institutionID, slices.Compact(ids))
	if err != nil {
		return err
	}
	for _, d := range list {
		if name, ok := names[d.versionID]; ok {
			d.Template = &Template{VersionID: d.versionID, UUID: name.ID, Name: name.Name, Number: name.Version}
		}
	}
	return nil
}

// detectColumns returns the meanings that the names and the contents of the columns of a list suggest. A
// column with the name of a column of the template has the meaning of that column, even if the name is
// also common for a title or for details.
func detectColumns(d *Draft, header []string, rows []sheet.Row, isFile func(string) bool, now time.Time) map[sheet.Column]int {
	if d.Template == nil {
		return sheet.Detect(header, rows, nil, isFile, now)
	}
	own := map[sheet.Column]int{}
	d.Template.addColumns(own, header)
	columns := sheet.Detect(header, rows, slices.Collect(maps.Values(own)), nil, now)
	delete(columns, sheet.File)
	d.Template.addColumns(columns, header)
	d.Template.addByContent(columns, header, rows)
	return columns
}

// addByContent finds columns of the template by the values in the columns of the list. It ignores columns
// that are already in columns. For each of the forms e-mail address, date and person, it adds a column if
// exactly one column of the template has a name of this form, and exactly one column of the list has values
// of this form.
func (t *Template) addByContent(columns map[sheet.Column]int, header []string, rows []sheet.Row) {
	wanted := map[sheet.Form][]sheet.Column{}
	for _, use := range t.Columns {
		if _, found := columns[ValueColumn(use.Name)]; !found {
			form := sheet.FormOfName(use.Name)
			wanted[form] = append(wanted[form], ValueColumn(use.Name))
		}
	}
	used := slices.Collect(maps.Values(columns))
	found := map[sheet.Form][]int{}
	for i, form := range sheet.Forms(header, rows) {
		if !slices.Contains(used, i) {
			found[form] = append(found[form], i)
		}
	}
	for _, form := range []sheet.Form{sheet.Emails, sheet.Dates, sheet.People} {
		if len(wanted[form]) == 1 && len(found[form]) == 1 {
			columns[wanted[form][0]] = found[form][0]
		}
	}
}

// addColumns adds the columns of the template whose names are in a header. It then adds each remaining
// column of the template that is similar to exactly one unused column of the list. Two columns are similar
// if the name of one contains the name of the other.
func (t *Template) addColumns(columns map[sheet.Column]int, header []string) {
	keys := make([]string, len(header))
	for i, name := range header {
		keys[i] = sheet.Key(name)
	}
	for _, use := range t.Columns {
		column, key := ValueColumn(use.Name), sheet.Key(use.Name)
		if _, found := columns[column]; found || key == "" {
			continue
		}
		if at := slices.Index(keys, key); at >= 0 {
			columns[column] = at
			for _, other := range []sheet.Column{sheet.Title, sheet.Details} {
				if was, ok := columns[other]; ok && was == at {
					delete(columns, other)
				}
			}
		}
	}
	used := map[int]bool{}
	for _, at := range columns {
		used[at] = true
	}
	for _, use := range t.Columns {
		column, key := ValueColumn(use.Name), sheet.Key(use.Name)
		if _, found := columns[column]; found || key == "" {
			continue
		}
		var similar []int
		for i, name := range keys {
			if !used[i] && name != "" && (strings.Contains(name, key) || strings.Contains(key, name)) {
				similar = append(similar, i)
			}
		}
		if len(similar) == 1 {
			columns[column], used[similar[0]] = similar[0], true
		}
	}
}

// entry returns the row as an entry of a list for the template.
func (r *Row) entry() template.Entry {
	return template.Entry{
		FullName: r.Text.FullName, Email: r.Text.Email, Title: r.Text.Title, IssueDate: r.Text.IssueDate, Details: r.Text.Details, ExpiresOn: r.Text.ExpiresOn, Values: r.Values,
	}
}

// Digest returns a digest of the texts of the row, in hexadecimal.
func (r *Row) Digest() string {
	text, err := json.Marshal([]any{r.entry()})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// fit adds the problems of texts that do not fit the template. It adds no problem for a column that already
// has a problem.
func (s *Service) fit(ctx context.Context, v *Review) error {
	if v.Template == nil {
		return nil
	}
	today := cert.Today(v.now)
	known, next := s.fits.get(v.ID), make(map[fitKey]fitted, len(v.Rows))
	keys := make([]fitKey, len(v.Rows))
	var entries []template.Entry
	var unknown []int
	for i, row := range v.Rows {
		e := row.entry()
		var err error
		if keys[i], err = keyOfFit(v.Template, today, &e); err != nil {
			return err
		}
		if problems, ok := known[keys[i]]; ok {
			next[keys[i]] = problems
			continue
		}
		next[keys[i]] = nil
		entries, unknown = append(entries, e), append(unknown, i)
	}
	problems, err := s.templates.Fit(ctx, v.Template.inst, v.Template.VersionID, entries)
	if err != nil {
		return err
	}
	// If several rows have the same texts, Fit returns the problems of each of them. Only those of the first
	// row are stored.
	first := map[fitKey]int{}
	for _, p := range problems {
		key := keys[unknown[p.Entry]]
		if at, ok := first[key]; ok && at != p.Entry {
			continue
		}
		first[key] = p.Entry
		next[key] = append(next[key], p.Problem)
	}
	s.fits.set(v.ID, next)
	for i, row := range v.Rows {
		for _, p := range next[keys[i]] {
			column := columnFor(p.Field)
			if !slices.ContainsFunc(row.Problems, func(have Problem) bool { return have.Column == column }) {
				row.Problems = row.Problems.with(column, p)
			}
		}
	}
	return nil
}

// fitKey is a digest of the texts of a row, the version of the template, the name of the institution and the
// current date. fitted are the problems of the texts.
type (
	fitKey [sha256.Size]byte
	fitted []cert.Problem
)

func keyOfFit(t *Template, today string, e *template.Entry) (fitKey, error) {
	text, err := json.Marshal([]any{t.VersionID, t.inst.Name, today, e})
	if err != nil {
		return fitKey{}, fmt.Errorf("encoding a row: %w", err)
	}
	return sha256.Sum256(text), nil
}

// fits is a cache of the problems of rows, for the drafts that were reviewed last. Checking a row takes
// 0.1 ms or more, and each page of a draft reviews all rows.
type fits struct {
	mu      sync.Mutex
	byDraft map[int64]map[fitKey]fitted
	// order are the ids of the drafts. The draft that was reviewed last is at the end.
	order []int64
}

// maxFits is the maximum number of drafts whose results are stored.
const maxFits = 16

// get returns the results of a draft. The caller must not change them.
func (f *fits) get(draftID int64) map[fitKey]fitted {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byDraft[draftID]
}

func (f *fits) set(draftID int64, results map[fitKey]fitted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byDraft == nil {
		f.byDraft = map[int64]map[fitKey]fitted{}
	}
	f.byDraft[draftID] = results
	f.order = append(slices.DeleteFunc(f.order, func(id int64) bool { return id == draftID }), draftID)
	for len(f.order) > maxFits {
		delete(f.byDraft, f.order[0])
		f.order = f.order[1:]
	}
}

// Picture returns a page of the certificate that a row would become, as PNG. The error is fault.Invalid
// if a text of the row does not fit, fault.BadRequest if the draft has no template, and fault.NotFound
// if there is no such page.
func (s *Service) Picture(ctx context.Context, v *Review, row *Row, page, side int) ([]byte, error) {
	if v.Template == nil {
		return nil, errNoTemplate
	}
	return s.templates.EntryPicture(ctx, v.Template.inst, v.Template.VersionID, row.entry(), page, side)
}

// issuePart creates a batch of rows from the template of a draft.
func (s *Service) issuePart(ctx context.Context, inst *account.Institution, d *Draft, name string, rows []*Row, then batchFunc) error {
	i := template.Issue{Institution: inst, Creator: d.Creator, Name: name, VersionID: d.Template.VersionID, AllowDuplicates: true, Notify: s.notifyOf(d), Then: then}
	for _, row := range rows {
		i.Entries, i.Indexes = append(i.Entries, row.entry()), append(i.Indexes, row.Number)
	}
	_, err := s.templates.Issue(ctx, d.Template.UUID, i)
	return err
}

// refusalOf returns the problem of a refused batch, or nil if err is not a refusal.
func refusalOf(err error) *cert.Problem {
	refusal, ok := errors.AsType[*fault.Error](err)
	if ok && refusal.Kind == fault.Forbidden {
		return &cert.Problem{Code: CodeLimit, Detail: refusal.Message}
	}
	if !ok || refusal.Kind != fault.Invalid {
		return nil
	}
	if unusable, ok := errors.AsType[*template.Unusable](err); ok {
		return &cert.Problem{Code: unusable.Code}
	}
	if problems, ok := errors.AsType[batch.Problems](err); ok && len(problems) > 0 {
		return &problems[0].Problem
	}
	return nil
}
