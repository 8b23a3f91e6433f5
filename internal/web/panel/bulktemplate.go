package panel

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// valueControl is the prefix of the names of controls for columns of templates. The name of the column
// follows in hexadecimal, because the id of an HTML element must not contain spaces.
const valueControl = "values-"

// controlOfField returns the name of the control for a field of a certificate.
func controlOfField(f cert.Field) string {
	if name, ok := valueOfField(f); ok {
		return valueControl + hex.EncodeToString([]byte(name))
	}
	return controlOf[f]
}

// valueOfField returns the name of the column of a template that a field stands for, and reports
// whether the field stands for one.
func valueOfField(f cert.Field) (name string, ok bool) { return bulkimport.ValueName(sheet.Column(f)) }

// controlOfColumn returns the name of the control for a column of a list.
func controlOfColumn(c sheet.Column) string {
	if _, ok := bulkimport.ValueName(c); ok {
		return controlOfField(cert.Field(c))
	}
	return string(c)
}

// columnOfControl is the inverse of controlOfColumn.
func columnOfControl(control string) sheet.Column {
	text, ok := strings.CutPrefix(control, valueControl)
	if !ok {
		return sheet.Column(control)
	}
	name, err := hex.DecodeString(text)
	if err != nil || !utf8.Valid(name) {
		return sheet.Column(control)
	}
	return bulkimport.ValueColumn(string(name))
}

// columnLabel returns the label of a column of a list. The label of a column of a template is its name.
func (t texts) columnLabel(c sheet.Column) string {
	if name, ok := bulkimport.ValueName(c); ok {
		return name
	}
	return t.of("bulk_field." + string(c))
}

// fieldLabel returns the label of a field of a certificate.
func (t texts) fieldLabel(f cert.Field) string {
	if name, ok := valueOfField(f); ok {
		return name
	}
	if key := fieldKeys[f]; key != "" {
		return t.of("cert_field." + key)
	}
	return string(f)
}

// pictureOfRow is a row whose certificate the summary shows. Why are the reasons why the row was chosen.
type pictureOfRow struct {
	*bulkimport.Row

	Why []string
}

// maxPictures is the maximum number of pictures of certificates on the summary.
const maxPictures = 12

// Pictures returns at most maxPictures rows whose certificates the summary shows: the first row, the row
// with the longest name, the first row with each script, and the rows that a person must check.
func (d *draftPage) Pictures() []pictureOfRow {
	var list []pictureOfRow
	add := func(row *bulkimport.Row, why string) {
		for i := range list {
			if list[i].Row == row {
				list[i].Why = append(list[i].Why, why)
				return
			}
		}
		if len(list) < maxPictures {
			list = append(list, pictureOfRow{row, []string{why}})
		}
	}
	rows := d.Of(bulkimport.ShowValid)
	if d.Template == nil || len(rows) == 0 {
		return nil
	}
	add(rows[0], d.texts.of("issue_list.sample_first"))
	longest := rows[0]
	for _, row := range rows {
		if utf8.RuneCountInString(row.Text.FullName) > utf8.RuneCountInString(longest.Text.FullName) {
			longest = row
		}
	}
	add(longest, d.texts.of("issue_list.sample_longest"))
	seen := map[string]bool{}
	for _, row := range rows {
		for _, script := range scriptsOf(row.Text.FullName) {
			if !seen[script] {
				seen[script] = true
				add(row, d.texts.of("issue_list.sample_script", "script", d.texts.scriptName(script)))
			}
		}
	}
	for _, row := range rows {
		if row.Doubtful() {
			add(row, d.texts.of("issue_list.sample_check"))
		}
	}
	if len(seen) == 1 {
		// All names have the same script, so the script is not a reason to show a row.
		for i := range list {
			list[i].Why = withoutScript(list[i].Why, d.texts, seen)
		}
	}
	return list
}

func withoutScript(why []string, t texts, seen map[string]bool) (list []string) {
	for script := range seen {
		for _, text := range why {
			if text != t.of("issue_list.sample_script", "script", t.scriptName(script)) {
				list = append(list, text)
			}
		}
	}
	return list
}

// scripts are the scripts that scriptsOf recognizes. key is the last part of the key of a script's label.
var scripts = []struct {
	key   string
	table *unicode.RangeTable
}{
	{"latin", unicode.Latin}, {"greek", unicode.Greek}, {"cyrillic", unicode.Cyrillic}, {"arabic", unicode.Arabic}, {"hebrew", unicode.Hebrew},
	{"devanagari", unicode.Devanagari}, {"bengali", unicode.Bengali}, {"tamil", unicode.Tamil}, {"thai", unicode.Thai}, {"han", unicode.Han},
	{"hangul", unicode.Hangul}, {"kana", unicode.Hiragana}, {"kana", unicode.Katakana}, {"armenian", unicode.Armenian}, {"georgian", unicode.Georgian},
}

// scriptOther is the key for letters of scripts that are not in scripts.
const scriptOther = "other"

// scriptsOf returns the keys of the scripts of the letters of a text, each once.
func scriptsOf(text string) (list []string) {
	has := map[string]bool{}
	for _, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		key := scriptOther
		for _, s := range scripts {
			if unicode.Is(s.table, r) {
				key = s.key
				break
			}
		}
		if !has[key] {
			has[key] = true
			list = append(list, key)
		}
	}
	return list
}

func (t texts) scriptName(key string) string { return t.of("script." + key) }

// listPage returns the file name of the page with the form for the list.
func (d *draftPage) listPage() string {
	if d.Template != nil {
		return "issue_list.html"
	}
	return "bulk_list.html"
}

// PicturePath returns the address of the picture of the certificate of a row. The address changes with
// the texts of the row.
func (d *draftPage) PicturePath(row *bulkimport.Row) string {
	return d.Path("rows/"+strconv.Itoa(row.Number)+"/certificate.png") + "?v=" + row.Digest()
}

// PictureSize returns the width and the height of the picture of a certificate in pixels.
func (d *draftPage) PictureSize() [2]int { return sizeOfPages(d.Template.Pages, pictureSide) }

// Pictured reports whether the page of the row shows a picture of the certificate.
func (l *rowView) Pictured() bool { return l.Template != nil && len(l.Row.Problems) == 0 }

// rowPicture sends a picture of a page of the certificate that a row would become.
func (p *Panel) rowPicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.draftOf(r, v)
	if err != nil {
		return err
	}
	review, err := p.BulkImports.Review(r.Context(), d)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(r.PathValue("row"))
	if err != nil {
		return fault.New(fault.NotFound, "There is no such row.")
	}
	row, err := review.Row(number)
	if err != nil {
		return err
	}
	page := 1
	if n, err := strconv.Atoi(r.URL.Query().Get("page")); err == nil {
		page = n
	}
	picture, err := p.BulkImports.Picture(r.Context(), review, row, page, pictureSide)
	if err != nil {
		return err
	}
	return sendPicture(w, r, picture)
}

// exampleColumns returns the columns of a list for the template of a bulk upload.
func (p *Panel) exampleColumns(r *http.Request, v *Visit) ([]sheet.Example, error) {
	d, err := p.draftOf(r, v)
	if err != nil {
		return nil, err
	}
	if d.Template == nil {
		return nil, fault.New(fault.BadRequest, "The certificates of this bulk upload are not made from a template.")
	}
	list := sheet.Examples(d.Template.Title != "")
	for _, c := range d.Template.Columns {
		list = append(list, sheet.Example{Header: c.Name, Required: c.Required})
	}
	return list, nil
}

// exampleWorkbook sends a list with the columns of the template as an Excel workbook.
func (p *Panel) exampleWorkbook(w http.ResponseWriter, r *http.Request, v *Visit) error {
	columns, err := p.exampleColumns(r, v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := sheet.WriteExampleWorkbook(&b, columns); err != nil {
		return err
	}
	return sendTemplate(w, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "certificates.xlsx", b.Bytes())
}

// exampleCSV sends a list with the columns of the template as a CSV file.
func (p *Panel) exampleCSV(w http.ResponseWriter, r *http.Request, v *Visit) error {
	columns, err := p.exampleColumns(r, v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := sheet.WriteExample(&b, columns); err != nil {
		return err
	}
	return sendTemplate(w, "text/csv; charset=utf-8; header=present", "certificates.csv", b.Bytes())
}

// listColumn is a column that a list for a template may have.
type listColumn struct {
	Name     string
	Required bool
}

// ListColumns returns the columns that a list for the template may have.
func (d *draftPage) ListColumns() []listColumn {
	var list []listColumn
	for _, c := range d.RowFields() {
		list = append(list, listColumn{d.texts.columnLabel(c), c == sheet.Name || c == sheet.Email || c == sheet.Title && d.Template.Title == ""})
	}
	for i, use := range d.Template.Columns {
		list[len(list)-len(d.Template.Columns)+i].Required = use.Required
	}
	return list
}
