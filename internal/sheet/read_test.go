package sheet

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

func mustRead(t *testing.T, raw []byte) *Table {
	t.Helper()
	table, err := Read(t.Context(), bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func encodeUTF16(t *testing.T, utf16 unicode.Endianness, text string) []byte {
	t.Helper()
	out, err := unicode.UTF16(utf16, unicode.UseBOM).NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(out)
}

const sample = "Name,File\nZoë Müller,z.pdf\n\"Ada, Countess\",a.pdf\n"

// TestReadListsOfDifferentPrograms reads one list in the forms in which different programs save it.
func TestReadListsOfDifferentPrograms(t *testing.T) {
	t.Parallel()
	semicolons := "Name;File\r\nZoë Müller;z.pdf\r\nAda, Countess;a.pdf\r\n"
	windows, err := charmap.Windows1252.NewEncoder().String(semicolons)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"UTF-8":                              []byte(sample),
		"UTF-8 with a byte order mark":       []byte("\uFEFF" + sample),
		"CRLF":                               []byte(strings.ReplaceAll(sample, "\n", "\r\n")),
		"CR only":                            []byte(strings.ReplaceAll(sample, "\n", "\r")),
		"semicolons":                         []byte(semicolons),
		"declared separator":                 []byte("sep=;\r\n" + semicolons),
		"Windows-1252":                       []byte(windows),
		"tabs in UTF-16":                     encodeUTF16(t, unicode.LittleEndian, strings.ReplaceAll(semicolons, ";", "\t")),
		"big-endian UTF-16":                  encodeUTF16(t, unicode.BigEndian, sample),
		"white space, empty rows":            []byte("\n ,\nName , File\n\u00a0Zoë Müller,z.pdf \n,\n\"Ada, Countess\",a.pdf,,,\n"),
		"workbook":                           workbook(t, func(f *excelize.File) { fillSheet(t, f, "Sheet1") }),
		"workbook with a second sheet":       workbook(t, func(f *excelize.File) { fillSheet(t, f, newSheet(t, f, "People")) }),
		"workbook with a hidden first sheet": workbook(t, func(f *excelize.File) { fillSecondSheet(t, f) }),
	} {
		table := mustRead(t, raw)
		if fmt.Sprint(table.Header) != "[Name File]" || len(table.Rows) != 2 ||
			fmt.Sprintf("%q", table.Rows[0].Cells) != `["Zoë Müller" "z.pdf"]` || fmt.Sprintf("%q", table.Rows[1].Cells) != `["Ada, Countess" "a.pdf"]` {
			t.Errorf("%s: table = %+v, want the header Name, File and the 2 rows of the sample", name, table)
		}
	}
	if table := mustRead(t, []byte(windows)); len(table.Notices) != 1 || !strings.Contains(table.Notices[0], "Windows-1252") {
		t.Errorf("notices = %q, want one about Windows-1252", table.Notices)
	}
}

// TestCellLongerThanTheLimitIsRefused checks that a list with a cell of more than 10,000 characters is
// refused, and that the message names the cell.
func TestCellLongerThanTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("ä", MaxCell)
	if table := mustRead(t, []byte("Name,File\n"+longest+",a.pdf\n")); table.Rows[0].Cells[0] != longest {
		t.Errorf("a cell of %d characters was changed, want it unchanged", MaxCell)
	}
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"a cell":     {[]byte("Name,File\nAda,a.pdf\nZoë," + longest + "x\n"), "row 3, column 2 (“File”) has 10001 characters"},
		"the header": {[]byte("Name," + longest + "x\nAda,a.pdf\n"), "row 1, column 2 has 10001 characters"},
		"31 MB":      {[]byte("Name,File\n" + strings.Repeat("x", 31<<20) + ",a.pdf\n"), "at most 10000"},
		"a workbook": {workbook(t, func(f *excelize.File) {
			fillSheet(t, f, "Sheet1")
			if err := f.SetCellStr("Sheet1", "A2", strings.Repeat("x", MaxCell+1)); err != nil {
				t.Fatal(err)
			}
		}), "column 1"},
	} {
		_, err := Read(t.Context(), bytes.NewReader(tc.raw))
		if e, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(e.Message, tc.want) {
			t.Errorf("%s: error = %v, want a *Refusal with %q", name, err, tc.want)
		}
	}
}

// TestHiddenRowsAreReported checks that hidden rows are read, and that a notice reports their
// number.
func TestHiddenRowsAreReported(t *testing.T) {
	t.Parallel()
	for want, hidden := range map[string][]int{
		"1 row that is hidden in the workbook was read too.": {2}, "2 rows that are hidden in the workbook were read too.": {2, 5},
	} {
		table := mustRead(t, workbook(t, func(f *excelize.File) {
			fillSheet(t, f, "Sheet1")
			for _, row := range hidden {
				if err := f.SetRowVisible("Sheet1", row, false); err != nil {
					t.Fatal(err)
				}
			}
		}))
		if len(table.Rows) != 2 || !slices.Contains(table.Notices, want) {
			t.Errorf("got %d rows with notices %q, want 2 rows and notice %q", len(table.Rows), table.Notices, want)
		}
	}
}

func workbook(t *testing.T, change func(f *excelize.File)) []byte {
	t.Helper()
	f := excelize.NewFile()
	change(f)
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func setCell(t *testing.T, f *excelize.File, sheet, cell string, value any) {
	t.Helper()
	if err := f.SetCellValue(sheet, cell, value); err != nil {
		t.Fatal(err)
	}
}

func fillSheet(t *testing.T, f *excelize.File, sheet string) {
	t.Helper()
	for cell, value := range map[string]string{"A1": "Name", "B1": "File", "A2": "Zoë Müller", "B2": "z.pdf", "A5": "Ada, Countess", "B5": "a.pdf"} {
		setCell(t, f, sheet, cell, value)
	}
}

func newSheet(t *testing.T, f *excelize.File, name string) string {
	t.Helper()
	if _, err := f.NewSheet(name); err != nil {
		t.Fatal(err)
	}
	return name
}

func fillSecondSheet(t *testing.T, f *excelize.File) {
	t.Helper()
	fillSheet(t, f, newSheet(t, f, "People"))
	f.SetActiveSheet(1)
	setCell(t, f, "Sheet1", "A1", "secret")
	if err := f.SetSheetVisible("Sheet1", false); err != nil {
		t.Fatal(err)
	}
}

// TestReadWorkbookDates reads dates in different number formats of Excel.
func TestReadWorkbookDates(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 6, 5, 0, 0, 0, 0, time.UTC)
	formats := []string{"dd/mm/yyyy", "m/d/yy", "d. mmmm yyyy", "yyyy-mm-dd", "dd.mm.yy", "[$-409]mmmm d, yyyy;@", "yyyy/mm/dd hh:mm"}
	raw := workbook(t, func(f *excelize.File) {
		setCell(t, f, "Sheet1", "A1", "Date")
		for i, format := range formats {
			cell := fmt.Sprintf("A%d", i+2)
			setCell(t, f, "Sheet1", cell, at)
			style, err := f.NewStyle(&excelize.Style{CustomNumFmt: &format})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.SetCellStyle("Sheet1", cell, cell, style); err != nil {
				t.Fatal(err)
			}
		}
		// Number format 14 depends on the locale of the user.
		cell := fmt.Sprintf("A%d", len(formats)+2)
		setCell(t, f, "Sheet1", cell, at)
		style, err := f.NewStyle(&excelize.Style{NumFmt: 14})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.SetCellStyle("Sheet1", cell, cell, style); err != nil {
			t.Fatal(err)
		}
	})
	table := mustRead(t, raw)
	for i, row := range table.Rows {
		if row.Cell(0) != "2026-06-05" {
			t.Errorf("row %d = %q, want 2026-06-05", i, row.Cell(0))
		}
	}
	if len(table.Rows) != len(formats)+1 {
		t.Errorf("got %d rows, want %d", len(table.Rows), len(formats)+1)
	}
}

// TestNumbersKeepTheirFormat checks that numbers that are not dates are read as the workbook
// displays them.
func TestNumbersKeepTheirFormat(t *testing.T) {
	t.Parallel()
	raw := workbook(t, func(f *excelize.File) {
		setCell(t, f, "Sheet1", "A1", "Number")
		for i, format := range []string{"00000", "0.00", "#,##0.00", "0%"} {
			cell := fmt.Sprintf("A%d", i+2)
			setCell(t, f, "Sheet1", cell, 1234)
			style, err := f.NewStyle(&excelize.Style{CustomNumFmt: &format})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.SetCellStyle("Sheet1", cell, cell, style); err != nil {
				t.Fatal(err)
			}
		}
	})
	table := mustRead(t, raw)
	for i, want := range []string{"01234", "1234.00", "1,234.00", "123400%"} {
		if got := table.Rows[i].Cell(0); got != want {
			t.Errorf("cell = %q, want %q", got, want)
		}
	}
}

func zipOf(t *testing.T, files map[string]int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, size := range files {
		part, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Write(bytes.Repeat([]byte{' '}, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadRefusesInvalidLists(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("a,b\n", MaxRows+2)
	wide := strings.Repeat(",", MaxColumns) + "a\n"
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"empty":                  {nil, "empty"},
		"header only":            {[]byte("Name,File\n"), "no rows"},
		"too many rows":          {[]byte(many), "more than 10000 rows"},
		"too many columns":       {[]byte(wide), "more than 100 columns"},
		"text below the limit":   {[]byte("a\n" + strings.Repeat(strings.Repeat("x", 1<<13)+"\n", 8*511)), ""},
		"too large":              {bytes.Repeat([]byte("a,b\n"), MaxFile/4+1), "larger than"},
		"missing quotation mark": {[]byte("a,b\nc,\"d\n"), "from line 2 onward"},
		"picture":                {[]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"), "neither a spreadsheet"},
		"old workbook":           {[]byte{0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1, 0, 0}, ".xls"},
		"ZIP without a workbook": {zipOf(t, map[string]int{"a.txt": 3}), "workbook"},
		"truncated workbook":     {workbook(t, func(f *excelize.File) { fillSheet(t, f, "Sheet1") })[:2000], "damaged"},
		"decompression bomb":     {zipOf(t, map[string]int{"xl/worksheets/sheet1.xml": 20 << 20}), "too large for a list"},
		"too many shared strings": {zipOf(t, map[string]int{
			"xl/sharedStrings.xml": maxShared + 1,
		}), "too large for a list"},
	} {
		table, err := Read(t.Context(), bytes.NewReader(tc.raw))
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: error = %v, want a table", name, err)
			}
			continue
		}
		if r, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(r.Message, tc.want) {
			t.Errorf("%s: table = %v, error = %v; want a *Refusal with %q", name, table, err, tc.want)
		}
	}
	if _, err := ReadUpTo(t.Context(), strings.NewReader(many), MaxRows+1); err != nil {
		t.Errorf("ReadUpTo with at most %d rows: error = %v, want a table", MaxRows+1, err)
	}
}

func TestDates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text  string
		order Order
		want  string
	}{
		{"2026-06-30", "", "2026-06-30"},
		{"2026/6/3", "", "2026-06-03"},
		{"2026-06-30 00:00:00", "", "2026-06-30"},
		{"2026-06-30T00:00:00Z", "", "2026-06-30"},
		{"30.06.2026", "", "2026-06-30"},
		{"3.6.2026", MonthFirst, "2026-06-03"},
		{"30/06/2026", "", "2026-06-30"},
		{"06/30/2026", "", "2026-06-30"},
		{"06/06/2026", "", "2026-06-06"},
		{"03/06/2026", "", "?"},
		{"03/06/2026", DayFirst, "2026-06-03"},
		{"03/06/2026", MonthFirst, "2026-03-06"},
		{"3/6/26", DayFirst, "2026-06-03"},
		{"3/6/98", DayFirst, "1998-06-03"},
		{"30 June 2026", "", "2026-06-30"},
		{"30-Jun-2026", "", "2026-06-30"},
		{"June 30, 2026", "", "2026-06-30"},
		{"30. Jun. 2026", "", "2026-06-30"},
		{"20260630", "", "2026-06-30"},
		{"46203", "", "2026-06-30"},
		{"46203.5", "", "2026-06-30"},
		{"2026", "", ""},
		{"31/02/2026", DayFirst, ""},
		{"30/06/2026", MonthFirst, ""},
		{"2026-02-29", "", ""},
		{"soon", "", ""},
		{"", "", ""},
		{"1e5", "", ""},
		{"99999999999999999999/1/2026", "", ""},
	} {
		got, ambiguous := Date(tc.text, tc.order)
		if ambiguous {
			got += "?"
		}
		if got != tc.want {
			t.Errorf("Date(%q, %q) = %q, want %q", tc.text, tc.order, got, tc.want)
		}
	}
}

func TestDetectOrder(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Order{
		"03/06/2026 13/06/2026": DayFirst, "03/06/2026 06/13/2026": MonthFirst, "03/06/2026": Unknown,
		"13/06/2026 06/13/2026": Unknown, "2026-06-13 30.06.2026": Unknown, "": Unknown,
	} {
		if got := DetectOrder(strings.FieldsSeq(text)); got != want {
			t.Errorf("DetectOrder(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestDetectColumns(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"Certificate Title|Full Name|E-Mail|File Name|Issue-Date|Details": "map[details:5 email:2 file:3 full_name:1 issue_date:4 title:0]",
		"No.|First name|Surname|mail|pdf":                                 "map[email:3 family_name:2 file:4 given_name:1]",
		"Name|First name|Email|Email address":                             "map[email:2 full_name:0]",
		"Vorname|Nachname|E-Mail|Degree|Datei|Datum":                      "map[email:2 family_name:1 file:4 given_name:0 issue_date:5 title:3]",
		"x|y": "map[]",
	} {
		if got := fmt.Sprint(DetectColumns(strings.Split(header, "|"))); got != want {
			t.Errorf("DetectColumns(%q) = %s, want %s", header, got, want)
		}
	}
}

// The rows of a CSV text have the numbers that a spreadsheet displays. An empty line is a row too.
func TestRowNumbers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"name,note\nAda,x\n\nBo,\"two\nlines\"\n\n\nCy,x\n",
		"name,note\r\nAda,x\r\n\r\nBo,\"two\r\nlines\"\r\n\r\n\r\nCy,x\r\n",
		"sep=,\nname,note\nAda,x\n\nBo,\"two\nlines\"\n\n\nCy,x\n",
	} {
		table, err := Read(t.Context(), strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		var numbers []int
		for _, row := range table.Rows {
			numbers = append(numbers, row.Number)
		}
		if !slices.Equal(numbers, []int{2, 4, 7}) {
			t.Errorf("%q: row numbers = %v, want [2 4 7]", text, numbers)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("\xff\xfea\x00,\x00"))
	f.Add([]byte("sep=;\nname\n\";;\"\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		table, err := Read(t.Context(), bytes.NewReader(raw))
		if (table == nil) == (err == nil) {
			t.Fatalf("Read = %v, error %v; want either a table or an error", table, err)
		}
		if err != nil {
			if _, ok := errors.AsType[*Refusal](err); !ok {
				t.Fatalf("error = %v, want a *Refusal", err)
			}
			return
		}
		for _, row := range table.Rows {
			if row.Number < 1 || len(row.Cells) == 0 || len(row.Cells) > MaxColumns {
				t.Fatalf("row = %+v, want a positive number and 1 to 100 cells", row)
			}
		}
	})
}
