package design

import (
	"iter"
	"regexp"
	"strconv"
	"strings"
)

// placeholder matches a placeholder such as {name}, {column:Grade} or {signatory:1}.
var placeholder = regexp.MustCompile(`\{(name|title|date|expiry|reference|details|institution|column:[^{}]{1,100}|signatory:[1-8]|designation:[1-8])\}`)

// Placeholder is a part of a text that a value replaces.
type Placeholder struct {
	// Name is "name", "title", "date", "expiry", "reference", "details", "institution", "column",
	// "signatory" or "designation".
	Name string
	// Column is the name of the column, or "". Signatory is the index of the signatory, from 1, or 0.
	Column    string
	Signatory int
}

// Placeholders returns the placeholders of the field in the order of its text.
func (f *Field) Placeholders() iter.Seq[Placeholder] {
	return func(yield func(Placeholder) bool) {
		for _, match := range placeholder.FindAllStringSubmatch(f.Text, -1) {
			if !yield(parsePlaceholder(match[1])) {
				return
			}
		}
	}
}

func parsePlaceholder(s string) Placeholder {
	name, rest, _ := strings.Cut(s, ":")
	p := Placeholder{Name: name}
	switch name {
	case "column":
		p.Column = strings.TrimSpace(rest)
	case "signatory", "designation":
		p.Signatory, _ = strconv.Atoi(rest) // the regular expression allows only digits
	}
	return p
}

// signatureForm matches the text of a field of kind Signature.
var signatureForm = regexp.MustCompile(`^\{signatory:([1-8])\}$`)

// signatory returns the index of the signatory of a field of kind Signature, from 1, or 0 if its text is not valid.
func (f *Field) signatory() int {
	if m := signatureForm.FindStringSubmatch(f.Text); m != nil {
		return int(m[1][0] - '0')
	}
	return 0
}

// CheckSignatories returns a problem for each field of the layout that refers to a signatory with an
// index greater than n, the number of signatories.
func (l *Layout) CheckSignatories(n int) (out Problems) {
	for i := range l.Fields {
		for p := range l.Fields[i].Placeholders() {
			if p.Signatory > n {
				out = append(out, Problem{Field: l.Fields[i].ID, Code: CodeSignatoryMissing, Detail: strconv.Itoa(p.Signatory)})
				break
			}
		}
	}
	return out
}

// Columns returns the columns that the fields of the layout use, each once, in the order of the
// fields. Required reports whether at least one field that uses the column is required.
func (l *Layout) Columns() (list []ColumnUse) {
	index := map[string]int{}
	for i := range l.Fields {
		f := &l.Fields[i]
		for p := range f.Placeholders() {
			if p.Name != "column" {
				continue
			}
			at, ok := index[p.Column]
			if !ok {
				at = len(list)
				index[p.Column] = at
				list = append(list, ColumnUse{Name: p.Column})
			}
			list[at].Required = list[at].Required || f.Required
		}
	}
	return list
}

// ColumnUse is a column that a layout uses.
type ColumnUse struct {
	Name     string
	Required bool
}

// Uses reports whether a field of the layout has a placeholder with the name.
func (l *Layout) Uses(name string) bool {
	for i := range l.Fields {
		for p := range l.Fields[i].Placeholders() {
			if p.Name == name {
				return true
			}
		}
	}
	return false
}
