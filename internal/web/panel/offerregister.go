package panel

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/web/body"
)

// registerLimits bounds the form with the list of a register.
var registerLimits = &body.Limits{
	Size: sheet.MaxFile + 1<<20, Time: 10 * time.Minute, Parts: 20, TooLarge: errUploadTooLarge, Broken: errUpload,
}

// registerForm has the names of the columns that a person entered for the list of a register. If a name is
// empty, the vault looks for a common name of the column.
type registerForm struct{ Number, Name, Birth string }

// registerHeaders are common names of the columns for the number and the birth date, in the languages of
// the vault.
var registerHeaders = map[string][]string{
	"number": {
		"number", "no", "nr", "id", "student number", "student id", "student no", "registration number", "register number", "membership number", "matriculation number",
		"matrikelnummer", "matrikel-nr", "nummer", "mitgliedsnummer", "numéro", "numéro d’étudiant", "matricule", "número", "número de estudiante", "matrícula",
		"número de matrícula", "número de aluno", "رقم", "الرقم", "رقم الطالب", "الرقم الجامعي", "क्रमांक", "छात्र संख्या", "नामांकन संख्या", "学号", "编号", "号码",
	},
	"birth": {
		"birth date", "birthdate", "date of birth", "dob", "born", "birthday", "geburtsdatum", "geburtstag", "geboren", "date de naissance", "né le", "fecha de nacimiento",
		"data de nascimento", "nascimento", "تاريخ الميلاد", "जन्म तिथि", "जन्मतिथि", "出生日期", "生日",
	},
}

// columnsOf returns the indexes of the columns for the number, the name and the birth date in a list, or -1
// for a column that the list does not have.
func (f *registerForm) columnsOf(header []string) (number, name, birth int) {
	find := func(wanted string, known []string) int {
		if wanted != "" {
			known = []string{wanted}
		}
		return slices.IndexFunc(header, func(h string) bool {
			return slices.ContainsFunc(known, func(k string) bool { return sheet.Key(k) == sheet.Key(h) && sheet.Key(h) != "" })
		})
	}
	number, birth = find(f.Number, registerHeaders["number"]), find(f.Birth, registerHeaders["birth"])
	if f.Name != "" {
		return number, find(f.Name, nil), birth
	}
	if at, ok := sheet.DetectColumns(header)[sheet.Name]; ok {
		return number, at, birth
	}
	return number, -1, birth
}

// uploadRegister replaces the register of an offer with the rows of an uploaded list.
func (p *Panel) uploadRegister(w http.ResponseWriter, r *http.Request, v *Visit) error {
	o, err := p.offerOf(r, v)
	if err != nil {
		return err
	}
	register := registerForm{}
	rows, err := p.readRegister(r, &register)
	if err == nil {
		err = p.Applications.SetRegister(r.Context(), v.Institution().ID, o.UUID, rows)
	}
	if err != nil {
		d, e := p.offerForm(r, v, o)
		if e != nil {
			return e
		}
		d.Register = register
		return p.showAgain(w, r, "offer.html", d, renameFields(p.texts(r).offerError(err, d), map[string]string{"register": "list", "rows": "list"}))
	}
	if len(rows) == 1 {
		return p.redirect(w, r, v, "offers/"+o.UUID+"#register", "register_one")
	}
	return p.redirect(w, r, v, "offers/"+o.UUID+"#register", "register_many", len(rows))
}

// readRegister reads the form and the rows of its list. The names of the columns must come before the list.
func (p *Panel) readRegister(r *http.Request, register *registerForm) ([]application.RegisterRow, error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return nil, err
	}
	typed := url.Values{}
	for form.Next() {
		part := form.Part()
		if part.FormName() != "list" {
			typed.Set(part.FormName(), strings.TrimSpace(string(part.Value(maxFormText, io.Discard))))
			continue
		}
		if part.FileName() == "" {
			continue
		}
		*register = registerForm{typed.Get("column_number"), typed.Get("column_name"), typed.Get("column_birth")}
		table, err := sheet.ReadUpTo(r.Context(), part, application.MaxRegister)
		if refusal, ok := errors.AsType[*sheet.Refusal](err); ok && form.Err() == nil {
			return nil, fault.OfField("list", refusal.Message)
		}
		if err != nil {
			return nil, cmp.Or(form.Err(), err)
		}
		return p.registerRows(r, register, table)
	}
	if err := form.Err(); err != nil {
		return nil, err
	}
	return nil, fault.OfField("list", "offers.register_choose")
}

// maxHeaders is the maximum number of characters of all names of columns in a message.
const maxHeaders = 500

// registerRows returns the rows of a list that have a number or a name.
func (p *Panel) registerRows(r *http.Request, register *registerForm, table *sheet.Table) ([]application.RegisterRow, error) {
	number, name, birth := register.columnsOf(table.Header)
	t := p.texts(r)
	var bad fault.Fields
	for _, c := range []struct {
		control, typed string
		at             int
	}{{"column_number", register.Number, number}, {"column_name", register.Name, name}, {"column_birth", register.Birth, birth}} {
		if c.at < 0 && c.typed != "" {
			bad.Add(c.control, t.of("offers.register_no_column", "column", sample(c.typed), "columns", sheet.Excerpt(strings.Join(table.Header, ", "), maxHeaders)))
		}
	}
	if bad.Len() == 0 && number < 0 && name < 0 {
		bad.Add("column_number", t.of("offers.register_unknown", "columns", sheet.Excerpt(strings.Join(table.Header, ", "), maxHeaders)))
	}
	if bad.Len() > 0 {
		return nil, bad.Err()
	}
	order := sheet.DetectOrder(func(yield func(string) bool) {
		for _, row := range table.Rows {
			if !yield(row.Cell(birth)) {
				return
			}
		}
	})
	rows := make([]application.RegisterRow, 0, len(table.Rows))
	for _, row := range table.Rows {
		one := application.RegisterRow{Number: row.Cell(number), Name: row.Cell(name)}
		if one.Number == "" && one.Name == "" {
			continue
		}
		if text := row.Cell(birth); text != "" {
			if one.Birth, _ = sheet.Date(text, order); one.Birth == "" {
				return nil, fault.OfField("list", t.of("offers.register_date", "row", t.language.Number(row.Number), "text", sample(text)))
			}
		}
		rows = append(rows, one)
	}
	if len(rows) == 0 {
		return nil, fault.OfField("list", "offers.register_empty")
	}
	return rows, nil
}

// deleteRegister deletes the register of an offer. Open applications lose the result of their comparison
// with the register.
func (p *Panel) deleteRegister(w http.ResponseWriter, r *http.Request, v *Visit) error {
	o, err := p.offerOf(r, v)
	if err != nil {
		return err
	}
	if err := p.Applications.SetRegister(r.Context(), v.Institution().ID, o.UUID, nil); err != nil {
		return err
	}
	return p.redirect(w, r, v, "offers/"+o.UUID+"#register", "register_deleted")
}
