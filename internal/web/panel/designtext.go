package panel

import (
	"cmp"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/template"
)

// problemView is a problem of a template with its message.
type problemView struct {
	Field  string `json:"field,omitempty"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
	Text   string `json:"text"`
	// Title is the name of the field, or "".
	Title string `json:"-"`
}

// sampleView is a sample in a list of choices. Person is the name in the sample.
type sampleView struct {
	Name     string `json:"name"`
	Label    string `json:"label"`
	Person   string `json:"person"`
	Language string `json:"language,omitempty"`
}

// missingSample is the name of a sample that shows a problem: missingName has a character that no font
// contains.
const (
	missingSample = "missing"
	missingName   = "Zoë 𓀀 Smith"
)

// samples returns the samples with their labels.
func (t texts) samples() []sampleView {
	var list []sampleView
	for _, s := range design.Samples() {
		list = append(list, sampleView{s.Name, t.of("template_sample." + s.Name), s.Values.Name, s.Values.Language})
	}
	return append(list, sampleView{missingSample, t.of("template_sample." + missingSample), missingName, "en"})
}

// ownValues replace the values of a sample with a name, or with the values of a row of a list.
type ownValues struct {
	Name string     `json:"name"`
	Row  *listedRow `json:"row"`
}

// listedRow contains the values of a row of a list. Columns maps the names of the template's columns to the
// values.
type listedRow struct {
	Name      string            `json:"name"`
	Title     string            `json:"title"`
	IssueDate string            `json:"issue_date"`
	Details   string            `json:"details"`
	Columns   map[string]string `json:"columns"`
	ExpiresOn string            `json:"expires_on"`
}

// sampleValues returns the values of the sample called name, for an institution and a layout. If name is "",
// it uses the sample in the language of the layout. The typical sample uses the language and the title of the
// layout. own may be nil.
func (p *Panel) sampleValues(name string, inst *account.Institution, l *design.Layout, own *ownValues) design.Values {
	sample := design.SampleIn(l.Language)
	all := design.Samples()
	if i := slices.IndexFunc(all, func(s design.Sample) bool { return s.Name == name }); i >= 0 {
		sample = all[i]
	} else if name != "" {
		sample = all[0]
	}
	values := sample.Values
	if sample.Name == all[0].Name {
		values.Language = ""
		values.Title = cmp.Or(l.Title, values.Title)
	}
	if name == missingSample {
		values.Name = missingName
	}
	switch {
	case own != nil && own.Row != nil:
		r := own.Row
		values.Name, values.Title, values.Details, values.Columns = r.Name, r.Title, r.Details, r.Columns
		values.IssueDate, values.Language = cmp.Or(r.IssueDate, cert.Today(p.Now())), ""
		values.ExpiresOn = r.ExpiresOn
	case own != nil && own.Name != "":
		values.Name = own.Name
	}
	values.Institution = inst.Name
	if _, rest, ok := strings.Cut(values.Reference, "-"); ok {
		values.Reference = inst.Prefix + "-" + rest
	}
	return values
}

// fieldTitle returns the name by which the panel shows a field: its label, or else its column, its text or
// its kind.
func (t texts) fieldTitle(f *design.Field) string {
	if f.Label != "" {
		return f.Label
	}
	for use := range f.Placeholders() {
		if f.Kind == design.Column && use.Name == "column" {
			return use.Column
		}
	}
	if f.Kind == design.Text && f.Text != "" && !strings.HasPrefix(f.Text, "{") {
		return sample(f.Text)
	}
	return t.of("designer.kind_" + string(f.Kind))
}

// fieldProperties are the properties whose problems have their own messages.
var fieldProperties = []string{"page", "box", "rotate", "image", "text", "font", "size", "min_size", "lines", "leading", "color", "tracking", "language", "fields", "title"}

// problemText returns the text of a problem of a template.
func (t texts) problemText(p design.Problem, l *design.Layout) string {
	const section = "template_problem."
	switch p.Code {
	case design.CodeFieldInvalid:
		if slices.Contains(fieldProperties, p.Detail) {
			return t.of(section + "invalid_" + p.Detail)
		}
		return t.of(section + "invalid")
	case design.CodeQRCovered, design.CodeFieldsOverlap:
		if i := slices.IndexFunc(l.Fields, func(f design.Field) bool { return f.ID == p.Detail }); i >= 0 {
			return t.of(section+p.Code, "field", t.fieldTitle(&l.Fields[i]))
		}
		return t.of(section + "qr_covered_other")
	case design.CodeMissingCharacters:
		return t.missingCharacters(p.Detail)
	case design.CodeSignatoryMissing, template.CodeSignatoryLeft:
		return t.of(section+p.Code, "n", p.Detail)
	case design.CodePlaceholder, design.CodeValueMissing, design.CodeValueUnknown:
		return t.of(section+p.Code, "name", p.Detail)
	case design.CodeNoRoom, design.CodeQRMissing, design.CodeQRTooSmall, design.CodeNameMissing, template.CodeQRNotReadable:
		return t.of(section + p.Code)
	default:
		return t.of(section + "invalid")
	}
}

// missingCharacters is design.MissingCharacters in the language of the page.
func (t texts) missingCharacters(characters string) string {
	return t.domain(design.MissingCharacters(characters))
}

// TemplateProblems returns the messages of the problems of a layout. A message contains the name of the
// field, if the problem has a field.
func TemplateProblems(language *locale.Language, problems design.Problems, l *design.Layout) []string {
	t := texts{language}
	list := make([]string, len(problems))
	for i, p := range t.problemViews(problems, l) {
		if list[i] = p.Text; p.Title != "" {
			list[i] = t.of("designer.problem_of", "field", p.Title, "problem", p.Text)
		}
	}
	return list
}

func (t texts) problemViews(problems design.Problems, l *design.Layout) []problemView {
	list := make([]problemView, 0, len(problems))
	for _, p := range problems {
		one := problemView{Field: p.Field, Code: p.Code, Detail: p.Detail, Text: t.problemText(p, l)}
		if i := slices.IndexFunc(l.Fields, func(f design.Field) bool { return f.ID == p.Field }); i >= 0 {
			one.Title = t.fieldTitle(&l.Fields[i])
		}
		list = append(list, one)
	}
	return list
}
