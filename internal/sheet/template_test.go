package sheet

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"
)

// DetectColumns recognizes all columns of a filled template.
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
	for name, list := range map[string]*bytes.Buffer{"CSV": &csv, "workbook": &filled} {
		table, err := Read(t.Context(), list)
		if err != nil {
			t.Fatalf("%s: Read: error = %v, want none", name, err)
		}
		places := DetectColumns(table.Header)
		if len(places) != len(table.Header) || len(places) != 7 {
			t.Errorf("%s: %d of the columns %q are recognized, want 7 of 7", name, len(places), table.Header)
		}
		want := map[Column]string{Title: "BSc", Name: "Ada Obi", Email: "ada@example.org", File: "007", IssueDate: "2026-06-30", Details: "", ExpiresOn: ""}
		for column, text := range want {
			at, ok := places[column]
			if cells := table.Rows[0].Cells; !ok || at < len(cells) && cells[at] != text || at >= len(cells) && text != "" {
				t.Errorf("%s: cells = %q, want %q in the column %s", name, cells, text, column)
			}
		}
		if len(table.Rows) != 1 {
			t.Errorf("%s: got %d rows, want 1", name, len(table.Rows))
		}
	}
}

// The first sheet of a template contains only the header, and the second sheet explains each
// column.
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
		t.Errorf("rows of the first sheet = %q, error = %v; want only the header", rows, err)
	}
	guide, err := f.GetRows(f.GetSheetName(1))
	if err != nil || len(guide) != 8 {
		t.Fatalf("rows of the guide = %q, error = %v; want a header and 7 rows", guide, err)
	}
	for i, head := range rows[0] {
		if !slices.Contains(guide[i+1], head) || len(guide[i+1]) != 3 {
			t.Errorf("row %d of the guide = %s, want %s, a hint and an example", i+2, fmt.Sprint(guide[i+1]), head)
		}
	}
}
