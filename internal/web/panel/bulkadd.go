package panel

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/web/body"
)

// CanAdd reports whether a file can be added for a row: the row has no file, and its file name does not
// match several files.
func (*draftPage) CanAdd(row *bulkimport.Row) bool {
	return row.File == nil && !slices.ContainsFunc(row.Problems, func(p bulkimport.Problem) bool { return p.Code == bulkimport.CodeManyFiles })
}

// AddTo returns the address to which the file of a row is sent. The response redirects to this page of
// rows.
func (l *rowsView) AddTo(row *bulkimport.Row) string {
	_, query, _ := strings.Cut(l.at(l.Page), "?")
	return l.draftPage.RowPath(row) + "/file?list=1&" + query
}

// AddTo returns the address to which the file of the row is sent. The response redirects to the page of
// the row.
func (l *rowView) AddTo() string { return l.RowPath(l.Row) + "/file?" + l.query().Encode() }

// Suggestion returns the value that the person probably meant to enter in a field, or "".
func (l *rowView) Suggestion(c sheet.Column) string {
	switch c {
	case sheet.Email:
		if l.Row.Has(bulkimport.DoubtAddress) {
			return l.Row.SuggestedEmail()
		}
	case sheet.File:
		if l.Row.File == nil && !l.Waiting() {
			if file := l.SuggestedFiles()[l.Row]; file != nil {
				return file.Path
			}
		}
	default:
	}
	return ""
}

// addRowFile adds the file of a row, and redirects to the page that contained the form.
func (p *Panel) addRowFile(w http.ResponseWriter, r *http.Request, v *Visit) error {
	view, err := p.rowView(r, v)
	if err != nil {
		return err
	}
	if err := p.readRowFile(r, view); err != nil {
		return p.drawRow(w, r, view, err)
	}
	to := view.RowPath(view.Row) + "?" + view.query().Encode()
	if query := r.URL.Query(); query.Get("list") != "" {
		page, err := p.draftPage(r, v, "rows")
		if err != nil {
			return err
		}
		l := page.rowsView(query)
		to = l.at(l.Page)
	}
	return p.redirect(w, r, v, strings.TrimSuffix(strings.TrimPrefix(to, v.Path("")+"/"), "?"), "row_file_added", view.Row.Number)
}

// readRowFile reads the form with the file of a row, and stores the file. If the row has no file name,
// readRowFile sets it to the name of the file.
func (p *Panel) readRowFile(r *http.Request, view *rowView) error {
	form, err := body.OpenForm(r)
	if err != nil {
		return err
	}
	for form.Next() {
		part := form.Part()
		if part.FormName() != "upload" || part.FileName() == "" {
			continue
		}
		f, err := p.BulkImports.AddFile(r.Context(), view.Visit.Institution(), view.Draft, wantedName(view.Row.FileName, part.FileName()), part)
		if err != nil || view.Row.FileName != "" {
			return err
		}
		return p.BulkImports.Fix(r.Context(), view.Draft, view.Row.Number, map[sheet.Column]string{sheet.File: f.Path})
	}
	if err := form.Err(); err != nil {
		return err
	}
	return fault.OfField("upload", "bulk_add.choose")
}

// fileEndings are the extensions of files that can become certificates.
var fileEndings = []string{".pdf", ".jpg", ".jpeg", ".png"}

// wantedName returns the name under which the uploaded file of a row is stored, so that the row refers to
// the file: the file name in the row with the extension of the uploaded file. If the row has no file
// name, wantedName returns the name of the uploaded file.
func wantedName(wanted, uploaded string) string {
	if wanted == "" {
		return uploaded
	}
	if ending := filepath.Ext(wanted); slices.Contains(fileEndings, strings.ToLower(ending)) {
		if strings.EqualFold(ending, filepath.Ext(uploaded)) {
			return wanted
		}
		wanted = strings.TrimSuffix(wanted, ending)
	}
	return wanted + filepath.Ext(uploaded)
}
