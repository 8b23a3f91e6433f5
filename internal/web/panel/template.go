package panel

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/certvault/certvault/internal/sheet"
)

// templateWorkbook sends the template of a list for a bulk upload as an Excel workbook.
func (*Panel) templateWorkbook(w http.ResponseWriter, _ *http.Request, _ *Visit) error {
	var b bytes.Buffer
	if err := sheet.WriteTemplateWorkbook(&b); err != nil {
		return err
	}
	return sendTemplate(w, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "certificates.xlsx", b.Bytes())
}

// templateCSV sends the template of a list for a bulk upload as a CSV file.
func (*Panel) templateCSV(w http.ResponseWriter, _ *http.Request, _ *Visit) error {
	var b bytes.Buffer
	if err := sheet.WriteTemplate(&b); err != nil {
		return err
	}
	return sendTemplate(w, "text/csv; charset=utf-8; header=present", "certificates.csv", b.Bytes())
}

func sendTemplate(w http.ResponseWriter, mediaType, name string, content []byte) error {
	if err := download(w, mediaType, name); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("sending a template: %w", err)
	}
	return nil
}
