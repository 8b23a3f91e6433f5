package panel

import (
	"net/http"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web/body"
)

// listForDesign reads a list and sends rows of it to the script of the designer, which shows the template
// with their values. The list is not stored.
func (p *Panel) listForDesign(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.templateOf(r, v)
	if err != nil {
		return p.sendError(w, r, err, nil)
	}
	columns := t.Latest().Layout.Columns()
	list, longest, err := p.readExamples(r, t)
	if err != nil {
		return p.sendError(w, r, p.texts(r).translated(err), nil)
	}
	rows := make([]listedRow, len(list))
	for i, e := range list {
		rows[i] = listedRow{e.FullName, e.Title, e.IssueDate, e.Details, map[string]string{}, e.ExpiresOn}
		for _, c := range columns {
			rows[i].Columns[c.Name] = e.Values[c.Name] // also without a value, because Fill sets a missing column to its name
		}
	}
	return sendJSON(w, http.StatusOK, struct {
		Rows    []listedRow `json:"rows"`
		Longest int         `json:"longest"`
	}{rows, longest})
}

// readExamples reads the list of a form. It returns rows of the list and the index of the row with the
// longest name, as bulkimport.Service.Examples does.
func (p *Panel) readExamples(r *http.Request, t *template.Template) ([]template.Entry, int, error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return nil, 0, err
	}
	for form.Next() {
		if part := form.Part(); part.FormName() == "list" {
			return p.BulkImports.Examples(r.Context(), &t.Latest().Layout, part)
		}
	}
	if err := form.Err(); err != nil {
		return nil, 0, err
	}
	return nil, 0, fault.OfField("list", "templates.no_file")
}
