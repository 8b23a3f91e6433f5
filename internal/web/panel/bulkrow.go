package panel

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// rowsPerPage is the number of rows per page.
const rowsPerPage = 100

// rowsView is one page of the list of a bulk upload's rows. Found is the number of rows that Show
// and Search select. On this page, ShowProblems selects the rows in ToCorrect.
type rowsView struct {
	*draftPage

	Show     bulkimport.Show
	Search   string
	Page     int
	PageRows []*bulkimport.Row
	Found    int
	// form has the submitted corrections if one of them was refused.
	form url.Values
	// suggested are the files that probably belong to rows without a file.
	suggested map[*bulkimport.Row]*bulkimport.File
}

// Prev returns the address of the previous page, or "" on the first page.
func (l *rowsView) Prev() string {
	if l.Page <= 1 {
		return ""
	}
	return l.at(l.Page - 1)
}

// Next returns the address of the next page, or "" on the last page.
func (l *rowsView) Next() string {
	if l.Page*rowsPerPage >= l.Found {
		return ""
	}
	return l.at(l.Page + 1)
}

func (l *rowsView) at(page int) string {
	q := url.Values{}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	if l.Show != "" {
		q.Set("show", string(l.Show))
	}
	if l.Search != "" {
		q.Set("q", l.Search)
	}
	return strings.TrimSuffix(l.Path("rows")+"?"+q.Encode(), "?")
}

// Inline reports whether the page shows fields to correct the rows.
func (l *rowsView) Inline() bool {
	return l.Show == bulkimport.ShowProblems || l.ToCheckShown()
}

// ReloadsWithoutScript is like that of draftPage, but false for a page with fields, because a reload would
// discard what is typed.
func (l *rowsView) ReloadsWithoutScript() bool { return l.Reloads && !l.Inline() }

// Select returns the rows that show selects. ShowProblems selects only rows that a person can
// correct now.
func (d *draftPage) Select(show bulkimport.Show) []*bulkimport.Row {
	if show == bulkimport.ShowProblems {
		return d.ToCorrect
	}
	return d.Of(show)
}

// RowPath returns the address of the page of a row.
func (d *draftPage) RowPath(row *bulkimport.Row) string {
	return d.Path("rows/" + strconv.Itoa(row.Number))
}

// RowPath returns the address of the page of a row, with the selection Show.
func (l *rowsView) RowPath(row *bulkimport.Row) string { return rowPath(l.draftPage, row, l.Show) }

func rowPath(d *draftPage, row *bulkimport.Row, show bulkimport.Show) string {
	address := d.RowPath(row)
	if show != bulkimport.ShowProblems {
		address += "?show=" + string(show)
	}
	return address
}

// rowState is the state of a row: the messages of the problems that a person can correct now, and
// the label of the row's own placement.
type rowState struct {
	*bulkimport.Row

	Messages []string
	Place    string
}

// State returns the state of a row.
func (l *rowsView) State(row *bulkimport.Row) rowState {
	state := rowState{Row: row, Place: l.PlaceOf(row)}
	for _, problem := range l.Correctable(row) {
		state.Messages = append(state.Messages, l.texts.rowMessage(row, problem))
	}
	return state
}

// fixField is a field of a row that has a problem or must be checked. Control is its name in a form
// with several rows.
type fixField struct {
	Control, Label, Value, Problem string
	// List is the id of the list of proposed values, or "".
	List string
	// Suggestion is a probably correct value, or "".
	Suggestion string
	// Long reports whether the value is too long for a form with several rows.
	Long bool
	// CanAdd reports whether the file of the row can be added here.
	CanAdd bool
}

// maxInline is the maximum length in bytes of a value in a form with several rows.
const maxInline = 1500

// FixFields returns the fields of a row that have a problem or must be checked.
func (l *rowsView) FixFields(row *bulkimport.Row) (list []fixField) {
	problems := l.Correctable(row)
	for _, column := range l.RowFields() {
		var messages []string
		for _, p := range problems {
			if p.Column == column {
				messages = append(messages, l.texts.rowMessage(row, p))
			}
		}
		var doubtful bool
		switch column {
		case sheet.Email:
			doubtful = row.Has(bulkimport.DoubtAddress)
		case sheet.Name:
			doubtful = row.Has(bulkimport.DoubtName)
		case sheet.File:
			doubtful = row.Has(bulkimport.DoubtName) || row.Has(bulkimport.DoubtDuplicate) && row.Shared != nil
		default:
		}
		if len(messages) == 0 && !doubtful {
			continue
		}
		f := fixField{Control: rowControl(row.Number, column), Label: l.texts.columnLabel(column), Value: row.Value(column), Problem: strings.Join(messages, " ")}
		if column == sheet.File && len(l.Unused) > 0 {
			f.List = "unused"
		}
		switch file := l.suggested[row]; {
		case column == sheet.File && file != nil:
			f.Suggestion = file.Path
		case column == sheet.Email:
			f.Suggestion = row.SuggestedEmail()
		}
		f.CanAdd = column == sheet.File && l.CanAdd(row)
		if text, ok := l.form[f.Control]; ok {
			f.Value = text[0]
		}
		f.Long = len(f.Value) > maxInline
		list = append(list, f)
	}
	return list
}

// maxShown is the maximum number of characters of a field in a list of rows. The title, the name,
// the e-mail address and the issue date of a valid row are not longer.
const maxShown = 255

// shown returns the beginning of a field for a list of rows.
func shown(text string) string { return sheet.Excerpt(text, maxShown) }

// Folder reports whether the path of the row's file ends with the complete file name in the row. The page
// then does not show the path.
func (*rowsView) Folder(row *bulkimport.Row) bool {
	return row.File != nil && strings.HasSuffix("/"+row.File.Path, "/"+row.FileName)
}

// rows shows one page of the rows with their problems. If the meanings of the columns are not saved
// yet, rows redirects to the page of the columns.
func (p *Panel) rows(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "rows")
	if err != nil {
		return err
	}
	if !page.Mapped {
		return p.redirect(w, r, v, "bulk/"+page.UUID+"/columns", "")
	}
	if err := p.compare(r, page); err != nil {
		return err
	}
	page.reload()
	return p.draw(w, r, "bulk_rows.html", page.rowsView(r.URL.Query()))
}

// rowsView returns the view that a query selects.
func (d *draftPage) rowsView(query url.Values) *rowsView {
	l := &rowsView{draftPage: d, Show: bulkimport.Show(query.Get("show")), Search: strings.TrimSpace(query.Get("q")), Page: 1}
	if l.Inline() && !d.Waiting() {
		l.suggested = d.SuggestedFiles()
	}
	if n, err := strconv.Atoi(query.Get("page")); err == nil && n > 0 {
		l.Page = n
	}
	found := d.Select(l.Show)
	if search := strings.ToLower(l.Search); search != "" {
		found = slices.DeleteFunc(slices.Clone(found), func(row *bulkimport.Row) bool {
			return !strings.Contains(strings.ToLower(row.Text.FullName+"\n"+row.Text.Email+"\n"+row.FileName), search)
		})
	}
	l.Found = len(found)
	l.Page = max(1, min(l.Page, (l.Found+rowsPerPage-1)/rowsPerPage))
	first := min(len(found), (l.Page-1)*rowsPerPage)
	l.PageRows = found[first:min(len(found), first+rowsPerPage)]
	return l
}

// rowView is the data of the form of one row.
type rowView struct {
	*draftPage
	// placing is nil if the row has no file that can be shown.
	*placing

	Row *bulkimport.Row
	// Show selects rows. Prev is the selected row before Row, or nil. Next is the selected row after
	// Row, or nil. Selected is the number of selected rows. At is the position of Row among the
	// selected rows, beginning with 1, or 0 if Row is not selected.
	Show         bulkimport.Show
	Prev, Next   *bulkimport.Row
	At, Selected int
	// StillInvalid reports whether the row was saved but still has a problem.
	StillInvalid bool
	// FromSummary reports whether the page was opened from the summary.
	FromSummary bool
}

// PathOf returns the address of the page of another row, with the same selection.
func (l *rowView) PathOf(row *bulkimport.Row) string { return rowPath(l.draftPage, row, l.Show) }

// Back returns the address of the summary if the page was opened from the summary, or else the address
// of the list of the selected rows.
func (l *rowView) Back() string {
	if l.FromSummary {
		return l.Path("submit")
	}
	return l.Path("rows?show=" + string(l.Show))
}

// query returns the query of the page.
func (l *rowView) query() url.Values {
	q := url.Values{}
	if l.Show != bulkimport.ShowProblems {
		q.Set("show", string(l.Show))
	}
	if l.FromSummary {
		q.Set("from", fromSummary)
	}
	return q
}

// fromSummary is the value of the field "from" on the page of a row that was opened from the summary.
const fromSummary = "summary"

// find sets Prev, Next, At and Selected.
func (l *rowView) find() {
	l.Prev, l.Next, l.At = nil, nil, 0
	selected := l.Select(l.Show)
	l.Selected = len(selected)
	// For a selected row, numbers are not compared, because rows to check are sorted by their doubt.
	if at := slices.Index(selected, l.Row); at >= 0 {
		l.At = at + 1
		if at > 0 {
			l.Prev = selected[at-1]
		}
		if l.At < len(selected) {
			l.Next = selected[l.At]
		}
		return
	}
	for _, row := range selected {
		switch {
		case row.Number < l.Row.Number:
			l.Prev = row
		case l.Next == nil:
			l.Next = row
		}
	}
}

// ProblemOf returns the message of the first problem of a field that a person can correct now, or
// "".
func (l *rowView) ProblemOf(c sheet.Column) string {
	for _, problem := range l.Correctable(l.Row) {
		if problem.Column == c {
			return l.texts.rowMessage(l.Row, problem)
		}
	}
	return ""
}

// Fields returns the fields of a row.
func (l *rowView) Fields() []sheet.Column { return l.RowFields() }

// Label returns the label of a field.
func (l *rowView) Label(c sheet.Column) string { return l.texts.columnLabel(c) }

// Control returns the name of the control of a field.
func (*rowView) Control(c sheet.Column) string { return controlOfColumn(c) }

func (p *Panel) rowView(r *http.Request, v *Visit) (*rowView, error) {
	page, err := p.draftPage(r, v, "rows")
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(r.PathValue("row"))
	if err != nil {
		return nil, fault.New(fault.NotFound, "There is no such row.")
	}
	view := &rowView{draftPage: page, Show: bulkimport.ShowProblems}
	if view.Row, err = page.Row(number); err != nil {
		return nil, err
	}
	form := r.URL.Query()
	if r.Method == http.MethodPost && r.PostForm != nil {
		form = r.PostForm
	}
	if _, err := p.BulkImports.CompareNames(r.Context(), page.Review, []*bulkimport.Row{view.Row}, compareTime); err != nil {
		return nil, err
	}
	if form.Has("show") {
		view.Show = bulkimport.Show(form.Get("show"))
	}
	view.FromSummary = form.Get("from") == fromSummary
	view.find()
	return view, nil
}

// drawRow shows the form of one row. If problem is not nil, the form shows the problem.
func (p *Panel) drawRow(w http.ResponseWriter, r *http.Request, view *rowView, problem error) error {
	if err := p.placeRow(r, view); err != nil {
		return err
	}
	if problem != nil {
		return p.showAgain(w, r, "bulk_row.html", view, problem)
	}
	return p.draw(w, r, "bulk_row.html", view)
}

// placeRow adds the placement of the stamp on the row's file, if the file can be shown.
func (p *Panel) placeRow(r *http.Request, view *rowView) error {
	if view.Row.File == nil || view.Row.File.StagedUUID == "" {
		return nil
	}
	form := formOf(view.Row.Wanted)
	if r.Method == http.MethodPost && r.PostForm != nil {
		form = r.PostForm
	}
	l, err := p.placingOf(r.Context(), view.draftPage, view.Row.File, view.Wanted, form)
	if fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) {
		return nil // the problem is reported when the certificate is created
	}
	if err != nil {
		return err
	}
	l.Default, l.ForRow, l.Sample, l.Save = view.rowDefault(), true, view.Row.Text, "bulk_row.position"
	view.placing = l
	return nil
}

// Placed reports whether the form shows a page of the row's file.
func (l *rowView) Placed() bool { return l.placing != nil }

// row shows the form of one row.
func (p *Panel) row(w http.ResponseWriter, r *http.Request, v *Visit) error {
	view, err := p.rowView(r, v)
	if err != nil {
		return err
	}
	return p.drawRow(w, r, view, nil)
}

// place saves the placement of a row if the form contains a placement.
func (p *Panel) place(r *http.Request, view *rowView) error {
	if !r.PostForm.Has("placement") {
		return nil
	}
	wanted, err := wantedOf(r.PostForm)
	if err != nil {
		return err
	}
	return p.BulkImports.Place(r.Context(), view.Draft, view.Row.Number, wanted)
}

// fixRow corrects, accepts or skips a row, includes it again, or saves only its placement. If the row is
// not skipped and still has a problem, fixRow shows the form of the row again. Otherwise, or after saving
// only the placement, it calls afterRow.
func (p *Panel) fixRow(w http.ResponseWriter, r *http.Request, v *Visit) error {
	view, err := p.rowView(r, v)
	if err != nil {
		return err
	}
	number, action := view.Row.Number, r.PostForm.Get("do")
	switch action {
	case "skip":
		err = p.BulkImports.Skip(r.Context(), view.Draft, number, true)
	case "take":
		err = p.BulkImports.Skip(r.Context(), view.Draft, number, false)
	case "place":
		err = p.place(r, view)
	case "fine":
		err = p.BulkImports.Accept(r.Context(), view.Review, "", []*bulkimport.Row{view.Row})
	default:
		texts := map[sheet.Column]string{}
		for _, c := range view.RowFields() {
			if control := controlOfColumn(c); r.PostForm.Has(control) {
				texts[c] = cmp.Or(r.PostForm.Get("use-"+control), r.PostForm.Get(control))
			}
		}
		if err = p.place(r, view); err == nil {
			err = p.BulkImports.Fix(r.Context(), view.Draft, number, texts)
		}
	}
	if err != nil {
		return p.drawRow(w, r, view, err)
	}
	after, err := p.rowView(r, v)
	if err != nil {
		return err
	}
	if !after.Row.Skipped && action != "place" && len(after.Correctable(after.Row)) > 0 {
		after.StillInvalid = true
		return p.drawRow(w, r, after, nil)
	}
	if after.At == 0 && view.Next != nil {
		after.nextFrom(view)
	}
	return p.afterRow(w, r, v, after, action)
}

// afterRow redirects to the summary if the page was opened from the summary, or else to the next selected
// row, or to the list of the selected rows if there is no next row. For ShowProblems, the first row follows
// the last row.
func (p *Panel) afterRow(w http.ResponseWriter, r *http.Request, v *Visit, view *rowView, action string) error {
	number, next := view.Row.Number, view.Next
	if view.Show != bulkimport.ShowProblems || view.FromSummary {
		notice, ok := map[string]string{"place": "row_placed", "skip": "row_passed", "take": "row_included", "fine": "row_checked"}[action]
		if !ok {
			notice = "row_kept"
		}
		to := view.Back()
		if next != nil && !view.FromSummary {
			to = view.PathOf(next)
		}
		return p.redirect(w, r, v, strings.TrimPrefix(to, v.Path("")+"/"), notice, number)
	}
	notice := "row_saved"
	if view.Row.Skipped {
		notice = "row_skipped"
	}
	if next == nil && len(view.ToCorrect) > 0 {
		next = view.ToCorrect[0]
	}
	rows := "bulk/" + view.UUID + "/rows"
	if next == nil {
		return p.redirect(w, r, v, rows+"?show=problems", notice, number)
	}
	return p.redirect(w, r, v, rows+"/"+strconv.Itoa(next.Number), notice+"_next", number, next.Number, len(view.ToCorrect))
}

// errorsCSV sends the rows with problems as a CSV file.
func (p *Panel) errorsCSV(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "rows")
	if err != nil {
		return err
	}
	if err := download(w, "text/csv; charset=utf-8", "errors.csv"); err != nil {
		return err
	}
	return p.finishStream(r, page.WriteErrors(w, page.texts.rowMessage))
}
