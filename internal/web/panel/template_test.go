package panel

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/sheet"
)

// The first page of a bulk upload links to the template of a list, as an Excel workbook and as a CSV
// file. An auditor may not download the template.
func TestTemplateOfAList(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	start := o.get("issuer", o.pathOf("bulk"))
	for text, mediaType := range map[string]string{"Excel": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "CSV": "text/csv"} {
		w := o.get("issuer", o.linkTo(start, text))
		h := w.Header()
		if w.Code != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), mediaType) || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: status = %d, want 200 and an attachment of the type %s; header %v", text, w.Code, mediaType, h)
		}
		content := w.Body.Bytes()
		if text == "CSV" {
			content = append(content, "BSc,Ada Obi,ada@example.org,obi.pdf\r\n"...)
			table, err := sheet.Read(t.Context(), bytes.NewReader(content))
			if err != nil || len(table.Rows) != 1 || len(sheet.DetectColumns(table.Header)) != len(table.Header) {
				t.Errorf("CSV template with a row = %+v, error %v, want one row and a meaning for each column", table, err)
			}
		}
		if w := o.get("auditor", o.pathOf("bulk/template.xlsx")); w.Code != http.StatusForbidden {
			t.Errorf("the template for an auditor: status = %d, want 403", w.Code)
		}
	}
}
