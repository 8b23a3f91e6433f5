package design

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// a4 is a page in landscape.
var a4 = []Page{{842, 595}}

// Each problem of a layout is reported with its field and code, and a good layout has none.
func TestLayoutCheck(t *testing.T) {
	if problems := certificate().Check(a4); len(problems) > 0 {
		t.Errorf("a good layout has problems: %v", problems)
	}
	const head, person, grade, code = 0, 1, 5, 7
	for _, test := range []struct {
		name   string
		change func(l *Layout)
		want   Problem
	}{
		{"two fields with one id", func(l *Layout) { l.Fields[head].ID = "name" }, Problem{"name", CodeFieldInvalid, "id"}},
		{"no id", func(l *Layout) { l.Fields[head].ID = "" }, Problem{"", CodeFieldInvalid, "id"}},
		{"a kind that does not exist", func(l *Layout) { l.Fields[head].Kind = "stamp" }, Problem{"head", CodeFieldInvalid, "kind"}},
		{"a page that does not exist", func(l *Layout) { l.Fields[head].Page = 2 }, Problem{"head", CodeFieldInvalid, "page"}},
		{"page 0", func(l *Layout) { l.Fields[head].Page = 0 }, Problem{"head", CodeFieldInvalid, "page"}},
		{"no width", func(l *Layout) { l.Fields[head].Box[2] = 0 }, Problem{"head", CodeFieldInvalid, "box"}},
		{"not a number", func(l *Layout) { l.Fields[head].Box[0] = math.NaN() }, Problem{"head", CodeFieldInvalid, "box"}},
		{"an infinite angle", func(l *Layout) { l.Fields[head].Rotate = math.Inf(1) }, Problem{"head", CodeFieldInvalid, "box"}},
		{"outside the page", func(l *Layout) { l.Fields[head].Box[0] = 400 }, Problem{"head", CodeFieldInvalid, "box"}},
		{"outside the page when turned", func(l *Layout) { l.Fields[head].Rotate = 60 }, Problem{"head", CodeFieldInvalid, "box"}},
		{"a long text", func(l *Layout) { l.Fields[head].Text = strings.Repeat("é", maxText+1) }, Problem{"head", CodeFieldInvalid, "text"}},
		{"a long title", func(l *Layout) { l.Title = strings.Repeat("é", maxText+1) }, Problem{"", CodeFieldInvalid, "title"}},
		{"a long description", func(l *Layout) { l.Alt = strings.Repeat("é", maxText+1) }, Problem{"", CodeFieldInvalid, "title"}},
		{"no text", func(l *Layout) { l.Fields[head].Text = " " }, Problem{"head", CodeFieldInvalid, "text"}},
		{"a placeholder that does not exist", func(l *Layout) { l.Fields[head].Text = "For {nome}" }, Problem{"head", CodePlaceholder, "{nome}"}},
		{"no font", func(l *Layout) { l.Fields[head].Font = Font{} }, Problem{"head", CodeFieldInvalid, "font"}},
		{"no size", func(l *Layout) { l.Fields[head].Size = 0 }, Problem{"head", CodeFieldInvalid, "size"}},
		{"smallest size above the size", func(l *Layout) { l.Fields[head].MinSize = 31 }, Problem{"head", CodeFieldInvalid, "min_size"}},
		{"too many lines", func(l *Layout) { l.Fields[head].Lines = 21 }, Problem{"head", CodeFieldInvalid, "lines"}},
		{"lines on each other", func(l *Layout) { l.Fields[head].Leading = 0.1 }, Problem{"head", CodeFieldInvalid, "leading"}},
		{"a color by name", func(l *Layout) { l.Fields[head].Color = "red" }, Problem{"head", CodeFieldInvalid, "color"}},
		{"alignment", func(l *Layout) { l.Fields[head].Align = "justify" }, Problem{"head", CodeFieldInvalid, "align"}},
		{"vertical alignment", func(l *Layout) { l.Fields[head].VAlign = "center" }, Problem{"head", CodeFieldInvalid, "valign"}},
		{"case", func(l *Layout) { l.Fields[head].Case = "title" }, Problem{"head", CodeFieldInvalid, "case"}},
		{"language of a field", func(l *Layout) { l.Fields[head].Language = "not a tag" }, Problem{"head", CodeFieldInvalid, "language"}},
		{"language of the layout", func(l *Layout) { l.Language = "!" }, Problem{"", CodeFieldInvalid, "language"}},
		{"format", func(l *Layout) { l.Fields[head].Format = "02.01.2006" }, Problem{"head", CodeFieldInvalid, "format"}},
		{"a picture without an id", func(l *Layout) { l.Fields[head].Kind = Image }, Problem{"head", CodeFieldInvalid, "image"}},
		{"no name", func(l *Layout) { l.Fields[person].Text = "{details}" }, Problem{Code: CodeNameMissing}},
		{"no QR code", func(l *Layout) { l.Fields = l.Fields[:code] }, Problem{Code: CodeQRMissing}},
		{"a small QR code", func(l *Layout) { l.Fields[code].Box[3] = 56.6 }, Problem{Field: "code", Code: CodeQRTooSmall}},
		{"a turned QR code", func(l *Layout) { l.Fields[code].Rotate = 90 }, Problem{"code", CodeFieldInvalid, "rotate"}},
		{"a covered QR code", func(l *Layout) { l.Fields[grade].Box = Box{600, 440, 110, 20} }, Problem{"code", CodeQRCovered, "grade"}},
		{"a QR code covered by a turned field", func(l *Layout) {
			l.Fields[grade].Box, l.Fields[grade].Rotate = Box{600, 340, 200, 20}, 90
		}, Problem{"code", CodeQRCovered, "grade"}},
	} {
		l := certificate()
		test.change(l)
		problems := l.Check(a4)
		if len(problems) != 1 || problems[0] != test.want {
			t.Errorf("%s: the problems are %v, want %v", test.name, problems, test.want)
		}
	}
	longest := strings.Repeat("é", maxText)
	for name, change := range map[string]func(l *Layout){
		"20 mm":                          func(l *Layout) { l.Fields[code].Box[2], l.Fields[code].Box[3] = 56.69, 56.69 },
		"a field beside the QR code":     func(l *Layout) { l.Fields[grade].Box = Box{590, 440, 110, 20} },
		"a turned field beside the code": func(l *Layout) { l.Fields[grade].Box, l.Fields[grade].Rotate = Box{600, 280, 200, 20}, 45 },
		"the longest texts":              func(l *Layout) { l.Fields[head].Text, l.Title, l.Alt = longest, longest, longest },
		"a picture beyond the page":      func(l *Layout) { l.Fields[head].Kind, l.Fields[head].Image, l.Fields[head].Box[0] = Image, "logo", -10 },
	} {
		l := certificate()
		change(l)
		if problems := l.Check(a4); len(problems) > 0 {
			t.Errorf("%s: the problems are %v, want none", name, problems)
		}
	}
}

// There is one warning for each field that overlaps earlier fields.
func TestOverlaps(t *testing.T) {
	l := certificate()
	if found := l.Overlaps(a4); len(found) > 0 {
		t.Errorf("the warnings are %v, want none", found)
	}
	first := l.Fields[0]
	for _, id := range []string{"second", "third"} {
		f := first
		f.ID = id
		l.Fields = append(l.Fields, f)
	}
	beside, off := first, first
	beside.ID, beside.Box[1] = "beside", first.Box[1]+first.Box[3]
	off.ID, off.Box[0] = "off", math.NaN()
	l.Fields = append(l.Fields, beside, off)
	got := l.Overlaps(a4)
	want := Problems{{"second", CodeFieldsOverlap, first.ID}, {"third", CodeFieldsOverlap, first.ID}}
	if !slices.Equal(got, want) {
		t.Errorf("the warnings are %v, want %v", got, want)
	}
}

// Check reports the problems of a row by field, and Draw reports the same problems.
func TestRowCheck(t *testing.T) {
	l := certificate()
	l.Fields[2].Required = true
	_, template := publish(t, blank(), l, noPictures)
	for _, test := range []struct {
		name   string
		change func(v *Values)
		want   Problem
	}{
		{"no name", func(v *Values) { v.Name = " \u2068" }, Problem{"name", CodeValueMissing, "{name}"}},
		{"no title", func(v *Values) { v.Title = "" }, Problem{"title", CodeValueMissing, "{title}"}},
		{"no grade", func(v *Values) { v.Columns = nil }, Problem{"grade", CodeValueMissing, "{column:Grade}"}},
		{"another column", func(v *Values) { v.Columns["Hobby"] = "Chess" }, Problem{"", CodeValueUnknown, "Hobby"}},
		{"a hieroglyph", func(v *Values) { v.Name = "𓀀 Anna" }, Problem{"name", CodeMissingCharacters, "𓀀 (U+13000)"}},
		{"a long name", func(v *Values) { v.Name = strings.Repeat("Anna ", 100) }, Problem{Field: "name", Code: CodeNoRoom}},
		{"a long word", func(v *Values) { v.Name = strings.Repeat("Anna", 30) }, Problem{Field: "name", Code: CodeNoRoom}},
	} {
		v := values()
		test.change(v)
		problems := template.Check(v)
		if len(problems) != 1 || problems[0] != test.want {
			t.Errorf("%s: the problems are %v, want %v", test.name, problems, test.want)
		}
		_, err := template.Draw(v)
		drawn := Problems(nil)
		if !errors.As(err, &drawn) || drawn.Error() != problems.Error() {
			t.Errorf("%s: drawing fails with %v, want %v", test.name, err, problems)
		}
	}
	if problems := template.Check(values()); len(problems) > 0 {
		t.Errorf("a good row has problems: %v", problems)
	}
}

// A layout with a static text that does not fit cannot be published.
func TestPublishChecksTexts(t *testing.T) {
	l := certificate()
	l.Fields[0].Text = strings.Repeat("Certificate ", 20)
	l.Fields[3].Text = "☃ {date}"
	d, err := Prepare(t.Context(), blank())
	if err != nil {
		t.Fatal(err)
	}
	problems := Problems(nil)
	if _, err := Publish(d, l, testFonts(t), noPictures); !errors.As(err, &problems) || problems.Error() != "field head: no_room" {
		t.Errorf("publishing fails with %v, want only no_room of the field head", err)
	}
}
