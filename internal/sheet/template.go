package sheet

import (
	"errors"
	"fmt"
	"io"

	"github.com/xuri/excelize/v2"
)

// templateColumn is a column of the template.
type templateColumn struct {
	column Column
	// header is the text of the header. hint and example explain the column to the user.
	header, hint, example string
	width                 float64
}

// templateColumns are the columns of the template. DetectColumns recognizes their headers. The template has
// one column for the whole name; DetectColumns also recognizes separate columns for the parts of the name.
var templateColumns = []templateColumn{
	{Title, "Title", "The title of the award, as on the certificate. Required.", "Bachelor of Science in Physics", 36},
	{Name, "Full name", "The person's name, as on the certificate. Required.", "Ada Obi", 26},
	{Email, "E-mail", "The person's own address, to which the link to the certificate is sent. Required.", "ada.obi@example.org", 30},
	{File, "File name", "The name of the file that you upload for this row: PDF, JPG or PNG. Required.", "obi-ada.pdf", 26},
	{IssueDate, "Issue date", "The date on the certificate. If it is empty, the certificate gets the date on which the list is submitted.", "2026-06-30", 14},
	{Details, "Details", "Additional text that the recipient sees. Optional.", "With distinction", 36},
	{ExpiresOn, "Expires on", "The last day on which the certificate is valid. If it is empty, the certificate does not expire.", "2029-06-30", 14},
}

const (
	// listSheet is the name of the sheet for the user's rows. It is the first sheet, because Read reads the
	// first visible sheet that is not empty. guideSheet is the name of the sheet that explains the columns.
	listSheet  = "Certificates"
	guideSheet = "How to fill it in"
)

// Example is a column of a list for certificates from a template.
type Example struct {
	Header   string
	Required bool
	// hint and example explain the column. They are empty for the column of a placeholder of the template.
	hint, example string
	column        Column
}

// Examples returns the columns that every list for a template may have. If hasTitle is true, the template
// has a title for rows without one.
func Examples(hasTitle bool) []Example {
	var list []Example
	for _, column := range []Column{Name, Email, Title, IssueDate, Details, ExpiresOn} {
		for _, c := range templateColumns {
			if c.column != column {
				continue
			}
			e := Example{Header: c.header, Required: column == Name || column == Email || column == Title && !hasTitle, hint: c.hint, example: c.example, column: column}
			if column == Title && hasTitle {
				e.hint = "The title of the award, as on the certificate. If it is empty, the title of the template is used."
			}
			list = append(list, e)
		}
	}
	return list
}

// columnsOf returns the columns of a list for the examples. An example without a hint gets a general hint.
func columnsOf(examples []Example) []templateColumn {
	list := make([]templateColumn, len(examples))
	for i, e := range examples {
		list[i] = templateColumn{e.column, e.Header, e.hint, e.example, 26}
		if e.hint == "" {
			list[i].hint = "A text on the certificate. Optional."
			if e.Required {
				list[i].hint = "A text on the certificate. Required."
			}
		}
	}
	return list
}

// WriteExample writes an empty list with the columns of the examples as CSV.
func WriteExample(w io.Writer, examples []Example) error { return writeHeaders(w, columnsOf(examples)) }

// WriteExampleWorkbook writes an empty list with the columns of the examples as an Excel workbook, with a
// second sheet that explains them.
func WriteExampleWorkbook(w io.Writer, examples []Example) error {
	return writeWorkbook(w, columnsOf(examples))
}

// WriteTemplate writes the template as CSV.
func WriteTemplate(w io.Writer) error { return writeHeaders(w, templateColumns) }

func writeHeaders(w io.Writer, columns []templateColumn) error {
	headers := make([]string, len(columns))
	for i, c := range columns {
		headers[i] = c.header
	}
	out := NewWriter(w)
	if err := out.Write(headers...); err != nil {
		return err
	}
	return out.Flush()
}

// WriteTemplateWorkbook writes the template as an Excel workbook. The explanations are on a second
// sheet: an example row on the first sheet would become a certificate if the user forgets to delete
// it.
func WriteTemplateWorkbook(w io.Writer) error { return writeWorkbook(w, templateColumns) }

func writeWorkbook(w io.Writer, columns []templateColumn) (err error) {
	f := excelize.NewFile()
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := fillTemplate(f, columns); err != nil {
		return fmt.Errorf("creating a template: %w", err)
	}
	if err := f.Write(w); err != nil {
		return fmt.Errorf("writing a template: %w", err)
	}
	return nil
}

func fillTemplate(f *excelize.File, columns []templateColumn) error {
	day := "yyyy-mm-dd"
	bold, err := f.NewStyle(&excelize.Style{Font: &excelize.Font{Bold: true}})
	if err != nil {
		return err
	}
	// Excel does not change the user's input in cells with the number format for text. With other formats,
	// it would change the file name 007 to 7.
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
	var headers []any
	for i, c := range columns {
		headers = append(headers, c.header)
		guide = append(guide, []any{c.header, c.hint, c.example})
		column, err := excelize.ColumnNumberToName(i + 1)
		if err != nil {
			return err
		}
		style := text
		if c.column == IssueDate || c.column == ExpiresOn {
			style = date
		}
		if err := errors.Join(f.SetColStyle(listSheet, column, style), f.SetColWidth(listSheet, column, column, c.width)); err != nil {
			return err
		}
	}
	for i, row := range guide {
		if err := f.SetSheetRow(guideSheet, fmt.Sprintf("A%d", i+1), &row); err != nil {
			return err
		}
	}
	return errors.Join(
		f.SetSheetRow(listSheet, "A1", &headers), f.SetRowStyle(listSheet, 1, 1, bold), f.SetRowStyle(guideSheet, 1, 1, bold),
		f.SetColWidth(guideSheet, "A", "A", 14), f.SetColWidth(guideSheet, "B", "B", 76), f.SetColWidth(guideSheet, "C", "C", 32),
		f.SetPanes(listSheet, &excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}),
	)
}
