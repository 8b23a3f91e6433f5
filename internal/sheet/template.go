package sheet

import (
	"errors"
	"fmt"
	"io"

	"github.com/xuri/excelize/v2"
)

// blank is a column of a list that is to be filled in.
type blank struct {
	column Column
	// head is its name, by which Guess knows it again; says and example tell people
	// what belongs there.
	head, says, example string
	width               float64
}

// blanks are the columns of a template. The whole name has one column: where people
// have it in two, Guess takes those.
var blanks = []blank{
	{Title, "Title", "What is awarded, as the certificate says it. Needed.", "Bachelor of Science in Physics", 36},
	{Name, "Full name", "The person's name, as on the certificate. Needed.", "Ada Obi", 26},
	{Email, "E-mail", "The person's own address: the link to the certificate goes there. Needed.", "ada.obi@example.org", 30},
	{File, "File name", "The name of the file that you upload for this row: PDF, JPG or PNG. Needed.", "obi-ada.pdf", 26},
	{IssueDate, "Issue date", "The day on the certificate. Empty is the day of the upload.", "2026-06-30", 14},
	{Details, "Details", "What else is to be kept, for you and the person. May stay empty.", "With distinction", 36},
}

const (
	// listSheet is the sheet that is filled in: the first, which is the one that is
	// read.
	listSheet  = "Certificates"
	guideSheet = "How to fill it in"
)

// WriteTemplate writes a list without rows as CSV.
func WriteTemplate(w io.Writer) error {
	heads := make([]string, len(blanks))
	for i, b := range blanks {
		heads[i] = b.head
	}
	out := NewWriter(w)
	if err := out.Write(heads...); err != nil {
		return err
	}
	return out.Flush()
}

// WriteTemplateWorkbook writes a list without rows as an Excel workbook, and what
// belongs into it on a second sheet. An example on the first would be made a
// certificate by whoever forgets to take it out.
func WriteTemplateWorkbook(w io.Writer) (err error) {
	f := excelize.NewFile()
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := fillTemplate(f); err != nil {
		return fmt.Errorf("making a template: %w", err)
	}
	if err := f.Write(w); err != nil {
		return fmt.Errorf("writing a template: %w", err)
	}
	return nil
}

func fillTemplate(f *excelize.File) error {
	day := "yyyy-mm-dd"
	bold, err := f.NewStyle(&excelize.Style{Font: &excelize.Font{Bold: true}})
	if err != nil {
		return err
	}
	// A column of text keeps what is typed, such as a file that is called 007.
	text, err := f.NewStyle(&excelize.Style{NumFmt: 49})
	if err != nil {
		return err
	}
	date, err := f.NewStyle(&excelize.Style{CustomNumFmt: &day})
	if err != nil {
		return err
	}
	if err := errors.Join(
		f.SetDocProps(&excelize.DocProperties{Creator: "Certvault", Title: "List of certificates"}),
		f.SetSheetName(f.GetSheetName(0), listSheet),
	); err != nil {
		return err
	}
	if _, err := f.NewSheet(guideSheet); err != nil {
		return err
	}
	guide := [][]any{{"Column", "What belongs there", "Example"}}
	var heads []any
	for i, b := range blanks {
		heads = append(heads, b.head)
		guide = append(guide, []any{b.head, b.says, b.example})
		column, err := excelize.ColumnNumberToName(i + 1)
		if err != nil {
			return err
		}
		style := text
		if b.column == IssueDate {
			style = date
		}
		if err := errors.Join(f.SetColStyle(listSheet, column, style), f.SetColWidth(listSheet, column, column, b.width)); err != nil {
			return err
		}
	}
	for i, row := range guide {
		if err := f.SetSheetRow(guideSheet, fmt.Sprintf("A%d", i+1), &row); err != nil {
			return err
		}
	}
	return errors.Join(
		f.SetSheetRow(listSheet, "A1", &heads), f.SetRowStyle(listSheet, 1, 1, bold), f.SetRowStyle(guideSheet, 1, 1, bold),
		f.SetColWidth(guideSheet, "A", "A", 14), f.SetColWidth(guideSheet, "B", "B", 76), f.SetColWidth(guideSheet, "C", "C", 32),
		f.SetPanes(listSheet, &excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}),
	)
}
