package sheet

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"
)

// The columns of a filled template are all recognised.
func TestTemplateColumnsAreRecognised(t *testing.T) {
	t.Parallel()
	var csv, workbook bytes.Buffer
	if err := WriteTemplate(&csv); err != nil {
		t.Fatal(err)
	}
	csv.WriteString("\"BSc\",\"Ada Obi\",\"ada@example.org\",\"007\",\"2026-06-30\",\"\"\r\n")
	if err := WriteTemplateWorkbook(&workbook); err != nil {
		t.Fatal(err)
	}
	f, err := excelize.OpenReader(&workbook)
	if err != nil {
		t.Fatal(err)
	}
	row := []any{"BSc", "Ada Obi", "ada@example.org", "007", time.Date(2026, 6, 30, 0, 0, 0, 0, time.UTC)}
	if err := f.SetSheetRow(f.GetSheetName(0), "A2", &row); err != nil {
		t.Fatal(err)
	}
	var filled bytes.Buffer
	if err := f.Write(&filled); err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]*bytes.Buffer{"CSV": &csv, "a workbook": &filled} {
		table, err := Read(t.Context(), list)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		places := DetectColumns(table.Header)
		if len(places) != len(table.Header) || len(places) != 6 {
			t.Errorf("%s: of the columns %q, %d are known", name, table.Header, len(places))
		}
		want := map[Column]string{Title: "BSc", Name: "Ada Obi", Email: "ada@example.org", File: "007", IssueDate: "2026-06-30", Details: ""}
		for column, text := range want {
			at, known := places[column]
			if cells := table.Rows[0].Cells; !known || at < len(cells) && cells[at] != text || at >= len(cells) && text != "" {
				t.Errorf("%s: %s is %q", name, column, cells)
			}
		}
		if len(table.Rows) != 1 {
			t.Errorf("%s: %d rows", name, len(table.Rows))
		}
	}
}

// The guide of a template contains no row that could become a certificate.
func TestTemplateHasNoRows(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteTemplateWorkbook(&b); err != nil {
		t.Fatal(err)
	}
	f, err := excelize.OpenReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := f.GetRows(f.GetSheetName(0))
	if err != nil || len(rows) != 1 {
		t.Errorf("%q, %v", rows, err)
	}
	guide, err := f.GetRows(f.GetSheetName(1))
	if err != nil || len(guide) != 7 {
		t.Fatalf("%q, %v", guide, err)
	}
	for i, head := range rows[0] {
		if !slices.Contains(guide[i+1], head) || len(guide[i+1]) != 3 {
			t.Errorf("%s is explained by %s", head, fmt.Sprint(guide[i+1]))
		}
	}
}
