package panel

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// rowsPerPage is the number of rows per page.
const rowsPerPage = 100

// rowsView is one page of the list of a bulk upload's rows. Found is the number of rows that
// Show selects. On this page, ShowProblems selects the rows in ToCorrect.
type rowsView struct {
	*draftPage

	Show     bulkimport.Show
	Page     int
	PageRows []*bulkimport.Row
	Found    int
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
	q := url.Values{"page": {strconv.Itoa(page)}}
	if l.Show != "" {
		q.Set("show", string(l.Show))
	}
	return l.Path("rows") + "?" + q.Encode()
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
		state.Messages = append(state.Messages, rowMessage(row, problem))
	}
	return state
}

// maxShown is the maximum number of characters of a field in a list of rows. The title, the name,
// the e-mail address and the issue date of a valid row are not longer.
const maxShown = 255

// shown returns the beginning of a field for a list of rows.
func shown(text string) string { return sheet.Excerpt(text, maxShown) }

// breaks splits an e-mail address or a path at the positions where a line may break: after each @,
// / and _.
func breaks(text string) (parts []string) {
	for {
		at := strings.IndexAny(text, "@/_") + 1
		if at == 0 || at == len(text) {
			return append(parts, text)
		}
		parts, text = append(parts, text[:at]), text[at:]
	}
}

// Folder reports whether the path of the row's file is the file name in the row, or is that name in
// a folder. The page does not show such a path.
func (*rowsView) Folder(row *bulkimport.Row) bool {
	return row.File != nil && strings.HasSuffix("/"+row.File.Path, "/"+row.FileName)
}

// rows shows one page of the rows with their problems. If the meanings of the columns are not saved
// yet, rows redirects to their form.
func (p *Panel) rows(w http.ResponseWriter, r *http.Request, v *Visit) error {
	page, err := p.draftPage(r, v, "rows")
	if err != nil {
		return err
	}
	if !page.Mapped {
		return p.redirect(w, r, v, "bulk/"+page.UUID+"/columns", "")
	}
	if page.Unpacking() {
		w.Header().Set("Refresh", "3")
	}
	l := &rowsView{draftPage: page, Show: bulkimport.Show(r.URL.Query().Get("show")), Page: 1}
	if n, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil && n > 0 {
		l.Page = n
	}
	found := page.Of(l.Show)
	if l.Show == bulkimport.ShowProblems {
		found = page.ToCorrect
	}
	l.Found = len(found)
	first := min(len(found), (l.Page-1)*rowsPerPage)
	l.PageRows = found[first:min(len(found), first+rowsPerPage)]
	return p.draw(w, r, "bulk_rows.html", l)
}

// rowView is the data of the form of one row.
type rowView struct {
	*draftPage
	// placing is nil if the row has no file that can be shown.
	*placing

	Row *bulkimport.Row
	// Next is the number of the next row that a person can correct now, or 0 if there is none.
	Next int
	// StillInvalid reports whether the row was saved but still has a problem.
	StillInvalid bool
}

// ProblemOf returns the message of the first problem of a field that a person can correct now, or
// "".
func (l *rowView) ProblemOf(c sheet.Column) string {
	for _, problem := range l.Correctable(l.Row) {
		if problem.Column == c {
			return rowMessage(l.Row, problem)
		}
	}
	return ""
}

// Fields returns the fields of a row.
func (*rowView) Fields() []sheet.Column { return bulkimport.Fields }

// Label returns the label of a field.
func (*rowView) Label(c sheet.Column) string { return fieldLabels[c] }

func (p *Panel) rowView(r *http.Request, v *Visit) (*rowView, error) {
	page, err := p.draftPage(r, v, "rows")
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(r.PathValue("row"))
	if err != nil {
		return nil, fault.New(fault.NotFound, "There is no such row.")
	}
	view := &rowView{draftPage: page}
	if view.Row, err = page.Row(number); err != nil {
		return nil, err
	}
	for _, row := range page.ToCorrect {
		if row.Number > number && view.Next == 0 {
			view.Next = row.Number
		}
	}
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
	if r.Method == http.MethodPost {
		form = r.PostForm
	}
	l, err := p.placingOf(r.Context(), view.draftPage, view.Row.File, view.Wanted, form)
	if fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) {
		return nil // the creation of the certificate reports the problem of the file
	}
	if err != nil {
		return err
	}
	l.Default, l.ForRow = view.rowDefault(), true
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

// fixRow corrects a row, skips it or includes it again. If the row still has a problem, fixRow
// shows the form of the row again. Otherwise fixRow redirects to the next row with a problem, or to
// the list of rows with problems if no such row follows.
func (p *Panel) fixRow(w http.ResponseWriter, r *http.Request, v *Visit) error {
	view, err := p.rowView(r, v)
	if err != nil {
		return err
	}
	number := view.Row.Number
	switch r.PostForm.Get("do") {
	case "skip":
		err = p.BulkImports.Skip(r.Context(), view.Draft, number, true)
	case "take":
		err = p.BulkImports.Skip(r.Context(), view.Draft, number, false)
	default:
		texts := map[sheet.Column]string{}
		for _, c := range bulkimport.Fields {
			if r.PostForm.Has(string(c)) {
				texts[c] = r.PostForm.Get(string(c))
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
	if !after.Row.Skipped && len(after.Correctable(after.Row)) > 0 {
		after.StillInvalid = true
		return p.drawRow(w, r, after, nil)
	}
	notice := "row_saved"
	if after.Row.Skipped {
		notice = "row_skipped"
	}
	rows, remaining := "bulk/"+view.UUID+"/rows", len(after.ToCorrect)
	switch {
	case after.Next != 0:
		return p.redirect(w, r, v, rows+"/"+strconv.Itoa(after.Next), notice+"_next", number, after.Next, remaining)
	case remaining > 0:
		return p.redirect(w, r, v, rows+"?show=problems", notice+"_left", number, remaining)
	}
	return p.redirect(w, r, v, rows+"?show=problems", notice, number)
}

// skipRows skips all rows with problems, all duplicates of other rows, or all rows whose
// certificate already exists.
func (p *Panel) skipRows(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	to := "bulk/" + d.UUID + "/submit"
	if r.PostForm.Get("skip") == "existing" {
		_, err = p.BulkImports.SkipExisting(r.Context(), d)
	} else {
		_, err = p.BulkImports.SkipAll(r.Context(), d, bulkimport.Show(r.PostForm.Get("skip")))
	}
	if err != nil {
		return err
	}
	return p.redirect(w, r, v, to, "rows_skipped")
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
	return p.finishStream(r, page.WriteErrors(w, rowMessage))
}
