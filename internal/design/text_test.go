package design

import (
	"strings"
	"testing"
)

func TestDates(t *testing.T) {
	for _, test := range [][4]string{
		{"2026-03-12", "", "en", "12 March 2026"}, {"2026-03-12", "long", "en-GB", "12 March 2026"}, {"2026-03-01", "", "fr", "1er mars 2026"},
		{"2026-03-12", "month", "es", "marzo de 2026"}, {"2026-03-12", "year", "ja", "2026"}, {"2026-03-12", "", "ja", "2026-03-12"},
		{"2026-03-12", "month", "ja", "2026-03"}, {"2026-03-12", "iso", "de", "2026-03-12"}, {"2026-03-12", "", "pt-BR", "12 de março de 2026"},
		{"2026-03-12", "", "zh-Hant", "2026年3月12日"}, {"2026-03-12", "", "ar", "12 مارس 2026"}, {" 2026-03-12", "", "de", "12. März 2026"},
		{"Spring 2026", "", "en", "Spring 2026"}, {"", "", "en", ""},
	} {
		if got := formatDate(test[0], test[1], test[2]); got != test[3] {
			t.Errorf("formatDate(%q, %q, %q) = %q, want %q", test[0], test[1], test[2], got, test[3])
		}
	}
}

// A placeholder in a value is not replaced, and a value does not change the direction of the text around it.
func TestFill(t *testing.T) {
	v := &Values{
		Name: " {title} ", Title: "abc\u2069 de", IssueDate: "2026-03-12", Columns: map[string]string{"Grade": "ß"},
		Signatories: []Signatory{{Name: "Ada", Designation: "Dean"}}, Institution: "Northwind",
	}
	for _, test := range []struct {
		f           Field
		text, plain string
	}{
		{Field{Text: "{name}"}, "{title}", "{title}"},
		{Field{Text: "for {title}, {name}"}, "for \u2068abc de\u2069, \u2068{title}\u2069", "for abc de, {title}"},
		{Field{Text: "{column:Grade}", Case: "upper"}, "SS", "SS"},
		{Field{Text: "i {column: Grade }", Case: "upper", Language: "tr"}, "İ \u2068SS\u2069", "İ SS"},
		{Field{Text: "Valid until {expiry}"}, "", ""},
		{Field{Text: "{expiry}{date}", Format: "year"}, "\u20682026\u2069", "2026"},
		{Field{Text: "{signatory:1}, {designation:1}{signatory:2}"}, "\u2068Ada\u2069, \u2068Dean\u2069", "Ada, Dean"},
		{Field{Text: "Plain text"}, "Plain text", "Plain text"},
		{Field{Text: "{institution}{reference}{details}"}, "\u2068Northwind\u2069", "Northwind"},
	} {
		got, problems := fill(&test.f, parse(test.f.Text), &Layout{}, v)
		if got.text != test.text || got.plain != test.plain || len(problems) > 0 {
			t.Errorf("fill(%q) = %q, %q, problems %v, want %q, %q", test.f.Text, got.text, got.plain, problems, test.text, test.plain)
		}
	}
}

// Two Arabic values with a comma between them run from right to left.
func TestDirectionOfValues(t *testing.T) {
	fonts := testFonts(t)
	f := &Field{ID: "a", Kind: Text, Page: 1, Box: Box{0, 0, 400, 40}, Text: "{name}، {title}", Font: Font{Family: "Inter"}, Size: 20}
	text, _ := fill(f, parse(f.Text), &Layout{}, &Values{Name: "محمد", Title: "علم"})
	block, err := set(f, text, fonts)
	if err != nil || !block.RightToLeft {
		t.Errorf("the text is set from left to right or not set, error = %v, want right to left", err)
	}
	text, _ = fill(f, parse("For {name}"), &Layout{}, &Values{Name: "محمد"})
	if block, err = set(f, text, fonts); err != nil || block.RightToLeft {
		t.Errorf("the sentence with an Arabic name is set from right to left or not set, error = %v, want left to right", err)
	}
}

func TestShape(t *testing.T) {
	fonts, l, v := testFonts(t), certificate(), values()
	shaped := Shape(&l.Fields[1], l, v, fonts)
	if shaped.Problem != nil || shaped.Lines != 1 || shaped.Size != 44 || shaped.Text != v.Name || !strings.HasPrefix(shaped.Path, "M") {
		t.Errorf("Shape() = %+v, want the name in one line of size 44", shaped)
	}
	v.Name = strings.Repeat("Ann ", 60)
	if shaped = Shape(&l.Fields[1], l, v, fonts); shaped.Problem == nil || shaped.Problem.Code != CodeNoRoom || shaped.Path == "" || shaped.Size != 14 {
		t.Errorf("a text that does not fit: problem %v, size %v, path of %d bytes, want no_room, 14 and a path", shaped.Problem, shaped.Size, len(shaped.Path))
	}
	v.Name = "𓀀"
	if shaped = Shape(&l.Fields[1], l, v, fonts); shaped.Problem == nil || shaped.Problem.Code != CodeMissingCharacters || shaped.Path != "" {
		t.Errorf("Shape() = %+v, want missing characters", shaped)
	}
	if shaped = Shape(&l.Fields[7], l, v, fonts); shaped != (Shaped{}) {
		t.Errorf("Shape() of the QR code = %+v, want an empty Shaped", shaped)
	}
	l.Fields[1].Size = -1
	if shaped = Shape(&l.Fields[1], l, v, fonts); shaped.Problem == nil || shaped.Problem.Detail != "size" {
		t.Errorf("Shape() = %+v, want an invalid size", shaped)
	}
}

// All samples for whose letters the machine has fonts, and the results of Worst, can be drawn.
func TestSamples(t *testing.T) {
	_, template := publish(t, blank(), certificate(), noPictures)
	seen := map[string]bool{}
	for _, s := range Samples() {
		if seen[s.Name] {
			t.Errorf("two samples have the name %s", s.Name)
		}
		seen[s.Name] = true
		problems := template.Check(template.layout.Fill(s.Values))
		for _, p := range problems {
			// Some machines have no fonts for Chinese, Japanese and Korean.
			if p.Code != CodeMissingCharacters || !strings.Contains(MissingCharacters(p.Detail), " fonts-noto-cjk ") {
				t.Errorf("sample %s: problem %v, want none", s.Name, p)
			}
		}
	}
	worst := template.Worst()
	if len(worst) != 3 {
		t.Fatalf("Worst returns %d values, want 3", len(worst))
	}
	for _, v := range worst {
		if problems := template.Check(v); len(problems) > 0 || v.Name == "" {
			t.Errorf("Worst returns %v with the problems %v, want a name and no problems", v, problems)
		}
	}
	if len(worst[0].Name) < 50 {
		t.Errorf("the first name of Worst is %q, want at least 50 bytes", worst[0].Name)
	}
}
