package panel

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

func (v *Visit) actor() cert.Actor {
	return cert.Actor{Type: "user", ID: v.Person.ID, Name: v.Person.Name}
}

// bulk lists the newest bulk uploads: those of the person, and the submitted bulk uploads of all
// other members.
func (p *Panel) bulk(w http.ResponseWriter, r *http.Request, v *Visit) error {
	list, err := p.BulkImports.List(r.Context(), v.Institution().ID, v.Person.ID)
	if err != nil {
		return err
	}
	templates, err := p.hasTemplate(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "bulk.html", struct {
		Visit     *Visit
		List      []*bulkimport.Draft
		Templates bool
	}{v, list, templates})
}

// newBulk creates a bulk upload and redirects to its page.
func (p *Panel) newBulk(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.BulkImports.Create(r.Context(), v.Institution(), v.actor())
	if err != nil {
		return err
	}
	return p.redirect(w, r, v, "bulk/"+d.UUID, "")
}

// draftPage is a bulk upload as its pages show it.
type draftPage struct {
	*bulkimport.Review

	Visit    *Visit
	Archives []*bulkimport.Archive
	// Step is the name of the current step.
	Step string
	// ToCorrect are the rows with problems that a person can correct now. Awaited is the number of rows
	// whose only problem is a file that was not added yet.
	ToCorrect []*bulkimport.Row
	Awaited   int
	// Uncompared is the number of rows whose name was not compared with the text of the file yet.
	Uncompared int
	// Reloads reports whether the page is loaded again after a few seconds. A script does this only if the
	// person has changed nothing on the page.
	Reloads bool

	texts texts
}

// Path returns the path of a page of the bulk upload. If page is "", it returns the path of the page of
// the list.
func (d *draftPage) Path(page string) string {
	address := d.Visit.Path("bulk/" + d.UUID)
	if page != "" {
		address += "/" + page
	}
	return address
}

// Unpacking reports whether an archive is still being unpacked.
func (d *draftPage) Unpacking() bool {
	return slices.ContainsFunc(d.Archives, func(a *bulkimport.Archive) bool { return !a.Done })
}

// NoFiles reports whether the bulk upload has no file and no archive is being unpacked. It returns false
// for a bulk upload with a template, because its rows need no files.
func (d *draftPage) NoFiles() bool { return d.Template == nil && len(d.Files) == 0 && !d.Unpacking() }

// Waiting reports whether NoFiles or Unpacking returns true. In both cases, a missing file is not a
// problem yet.
func (d *draftPage) Waiting() bool { return d.NoFiles() || d.Unpacking() }

// Correctable returns the problems of a row that a person can correct now. If Waiting returns true, it
// omits the problem of a file that was not added yet.
func (d *draftPage) Correctable(row *bulkimport.Row) bulkimport.Problems {
	if !d.Waiting() || row.File != nil || row.FileName == "" {
		return row.Problems
	}
	return slices.DeleteFunc(slices.Clone(row.Problems), func(p bulkimport.Problem) bool { return p.Column == sheet.File })
}

// sort adds each row that a person can correct now to ToCorrect, and counts the other rows with
// problems in Awaited. Skipped rows are in neither.
func (d *draftPage) sort() {
	for _, row := range d.Rows {
		switch {
		case row.Skipped || len(row.Problems) == 0:
		case len(d.Correctable(row)) > 0:
			d.ToCorrect = append(d.ToCorrect, row)
		default:
			d.Awaited++
		}
	}
}

// draftOf returns the bulk upload in the path. The error is fault.NotFound if there is no such bulk
// upload, or the person may not see it.
func (p *Panel) draftOf(r *http.Request, v *Visit) (*bulkimport.Draft, error) {
	id, err := uuid.Parse(r.PathValue("draft"))
	if err != nil {
		return nil, fault.New(fault.NotFound, "There is no such bulk upload.")
	}
	return p.BulkImports.ByUUID(r.Context(), v.Institution().ID, v.Person.ID, id.String())
}

// compareTime is the time within which CompareNames may start to read files.
const compareTime = 1500 * time.Millisecond

// compare compares the names of all rows with their files, for about compareTime. It does nothing for
// a POST request.
func (p *Panel) compare(r *http.Request, d *draftPage) (err error) {
	if d.Uncompared > 0 && r.Method != http.MethodPost {
		d.Uncompared, err = p.BulkImports.CompareNames(r.Context(), d.Review, d.Rows, compareTime)
	}
	return err
}

// reload sets Reloads while an archive is unpacked, or while names are compared with files. It is only for
// the response to a GET request.
func (d *draftPage) reload() { d.Reloads = d.Unpacking() || d.Uncompared > 0 }

// ReloadsWithoutScript reports whether the page is also loaded again in a browser without JavaScript.
func (d *draftPage) ReloadsWithoutScript() bool { return d.Reloads }

func (p *Panel) draftPage(r *http.Request, v *Visit, step string) (*draftPage, error) {
	d, err := p.draftOf(r, v)
	if err != nil {
		return nil, err
	}
	// Read the archives before the files. If the unpacking of an archive ends between the two reads,
	// the page is refreshed once more. In the other order, the page could show files of a finished
	// archive as missing.
	archives, err := p.BulkImports.Archives(r.Context(), d)
	if err != nil {
		return nil, err
	}
	review, err := p.BulkImports.Review(r.Context(), d)
	if err != nil {
		return nil, err
	}
	page := &draftPage{Review: review, Visit: v, Archives: archives, Step: step, texts: p.texts(r)}
	if page.Mapped && page.Status == bulkimport.Open {
		if page.Uncompared, err = p.BulkImports.CompareNames(r.Context(), review, review.Rows, 0); err != nil {
			return nil, err
		}
	}
	page.sort()
	return page, nil
}

// draft shows the page of the list of a bulk upload. If the bulk upload was submitted, draft
// redirects to the progress.
func (p *Panel) draft(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "list")
	if err != nil {
		return err
	}
	if page.Status != bulkimport.Open {
		return p.redirect(w, r, v, "bulk/"+page.UUID+"/progress", "")
	}
	return p.draw(w, r, page.listPage(), page)
}

// columnField is the form field for one meaning, for which a person chooses a column of the list. Control
// is the name of the form field, and At is the index of the chosen column, or -1. Same reports whether
// all rows may share one value, which is Default. Hint may be "".
type columnField struct {
	Column               sheet.Column
	Control, Label, Hint string
	At                   int
	Default              string
	Same                 bool
}

// columnLabels are the meanings of columns, with the keys of their labels and hints. same reports whether
// all rows may share one value.
var columnLabels = []struct {
	column      sheet.Column
	label, hint string
	same        bool
}{
	{sheet.Title, "bulk_field.certificate_title", "bulk_columns.hint_title", true},
	{sheet.Name, "bulk_field.full_name", "", false},
	{sheet.GivenName, "bulk_field.given_name", "bulk_columns.hint_part", false},
	{sheet.FamilyName, "bulk_field.family_name", "bulk_columns.hint_part", false},
	{sheet.Email, "bulk_field.email", "", false},
	{sheet.File, "bulk_field.file", "bulk_columns.hint_file", false},
	{sheet.IssueDate, "bulk_field.issue_date", "bulk_columns.hint_issue_date", true},
	{sheet.Details, "bulk_field.details", "", true},
	{sheet.ExpiresOn, "bulk_field.expires_on", "bulk_columns.hint_expires_on", true},
}

// columnPage is the data of the form for the meanings of the columns.
type columnPage struct {
	*draftPage

	Meaning bulkimport.Mapping
}

// Fields returns the form fields with the current choices.
func (c *columnPage) Fields() []columnField {
	var list []columnField
	add := func(column sheet.Column, label, hint string, same bool) {
		f := columnField{Column: column, Control: controlOfColumn(column), Label: label, Hint: hint, At: -1, Default: c.Meaning.Defaults[column], Same: same}
		if at, ok := c.Meaning.Columns[column]; ok {
			f.At = at
		}
		list = append(list, f)
	}
	for _, label := range columnLabels {
		hint := label.hint
		switch {
		case c.Template == nil:
		case label.column == sheet.File:
			continue
		case label.column == sheet.Title && c.Template.Title != "":
			add(label.column, c.texts.of(label.label), c.texts.of("issue_list.hint_title", "title", c.Template.Title), label.same)
			continue
		}
		if hint != "" {
			hint = c.texts.of(hint)
		}
		add(label.column, c.texts.of(label.label), hint, label.same)
	}
	if c.Template == nil {
		return list
	}
	for _, use := range c.Template.Columns {
		hint := c.texts.of("issue_list.hint_optional")
		if use.Required {
			hint = c.texts.of("issue_list.hint_required")
		}
		add(bulkimport.ValueColumn(use.Name), use.Name, hint, true)
	}
	return list
}

// UnusedColumns returns the columns of the list that have content but no meaning.
func (c *columnPage) UnusedColumns() []bulkimport.UnusedColumn {
	return c.Review.UnusedColumns(c.Meaning)
}

// NoDate reports whether there is no column and no common value for the issue date.
func (c *columnPage) NoDate() bool {
	_, found := c.Meaning.Columns[sheet.IssueDate]
	return !found && c.Meaning.Defaults[sheet.IssueDate] == ""
}

// sample returns the beginning of a text from a list.
func sample(text string) string { return sheet.Excerpt(text, sheet.SampleLength) }

// maxSamples is the maximum number of values that Sample returns.
const maxSamples = 3

// Recognized returns the number of columns with a meaning.
func (c *columnPage) Recognized() int {
	used := map[int]bool{}
	for _, at := range c.Meaning.Columns {
		used[at] = true
	}
	return len(used)
}

// Used returns the number of columns with a meaning or with content.
func (c *columnPage) Used() int { return c.Recognized() + len(c.UnusedColumns()) }

// Sample returns the beginnings of the first different values of a column, separated by commas.
func (c *columnPage) Sample(at int) string {
	var list []string
	for _, row := range c.Rows[:min(100, len(c.Rows))] {
		if at >= len(row.Cells) || row.Cells[at] == "" || len(list) == maxSamples {
			continue
		}
		if text := sample(row.Cells[at]); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return sample(strings.Join(list, ", "))
}

// columns shows the form for the meanings of the columns. If there is no list, columns redirects to the
// page of the list.
func (p *Panel) columns(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "columns")
	if err != nil {
		return err
	}
	if len(page.Header) == 0 {
		return p.redirect(w, r, v, "bulk/"+page.UUID, "")
	}
	return p.draw(w, r, "bulk_columns.html", &columnPage{page, page.Suggest()})
}

// setColumns saves the meanings of the columns and redirects to the rows with problems.
func (p *Panel) setColumns(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "columns")
	if err != nil {
		return err
	}
	m := bulkimport.Mapping{Columns: map[sheet.Column]int{}, Defaults: map[sheet.Column]string{}, Dates: sheet.Order(r.PostForm.Get("dates"))}
	for _, f := range (&columnPage{draftPage: page}).Fields() {
		if at, err := strconv.Atoi(r.PostForm.Get(f.Control)); err == nil && at >= 0 {
			m.Columns[f.Column] = at
		}
		if text := strings.TrimSpace(r.PostForm.Get("same_" + f.Control)); text != "" && f.Same {
			m.Defaults[f.Column] = text
		}
	}
	if err := p.BulkImports.SetMapping(r.Context(), page.Draft, m); err != nil {
		return p.showAgain(w, r, "bulk_columns.html", &columnPage{page, m}, err)
	}
	return p.redirect(w, r, v, "bulk/"+page.UUID+"/rows?show=problems", "columns_saved")
}

// askDiscard asks for the confirmation to delete a bulk upload.
func (p *Panel) askDiscard(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "")
	if err != nil {
		return err
	}
	if page.Status != bulkimport.Open {
		return p.redirect(w, r, v, "bulk/"+page.UUID+"/progress", "")
	}
	return p.draw(w, r, "bulk_discard.html", page)
}

// discard deletes a bulk upload that was not submitted, with its files.
func (p *Panel) discard(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	if err := p.BulkImports.Discard(r.Context(), d); err != nil {
		return err
	}
	return p.redirect(w, r, v, "bulk", "draft_discarded")
}
