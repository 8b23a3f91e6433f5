package design

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/pdf"
)

// FuzzLayout publishes a layout with any field, and draws a certificate with any values. The result must
// be a file that can be read, or the error must be Problems.
func FuzzLayout(f *testing.F) {
	fonts := testFonts(f)
	f.Add("{name}{column:x}", "\u2069ﬃ\u202e\n\u0000İ", "{name}", 0.0, 0.0, 300.0, 1e-9, 359.999, 1.0, 0.0, 20, 1000.0, "upper", "tr", "#000000", uint8(0))
	f.Add("محمد {name} (12) {date}", "Ann", "2026-02-30", 10.0, 10.0, 300.0, 40.0, 0.0, 30.0, 1.0, 1, 0.0, "", "ar", "#ABCDEF", uint8(7))
	f.Add("For {name}, {institution} {expiry} )\\", strings.Repeat("Zoë ", 90), "0001-01-01", 20.0, 20.0, 700.0, 300.0, -12.5, 22.0, 4.0, 9, -20.0, "lower", "xx-", "", uint8(14))
	f.Fuzz(func(t *testing.T, content, name, value string, x, y, w, h, rotate, size, low float64, lines int, tracking float64, form, language, color string, align uint8) {
		if len(content)+len(name)+len(value) > 4096 {
			return
		}
		l := Layout{Title: content, Alt: name, Language: language, Fields: []Field{
			{
				ID: "a", Kind: Text, Page: 1, Box: Box{x, y, w, h}, Rotate: rotate, Text: content, Font: Font{Family: "Inter"}, Size: size, MinSize: low, Lines: lines, Tracking: tracking,
				Case: form, Color: color, Align: []string{"", "left", "center", "right"}[align%4], VAlign: []string{"", "top", "middle", "bottom"}[align/4%4],
			},
			{ID: "n", Kind: Name, Page: 1, Box: Box{10, 500, 300, 60}, Text: "{name}", Font: Font{Family: "EB Garamond"}, Size: 20, MinSize: 5, Lines: 2, Language: language},
			{ID: "q", Kind: QR, Page: 1, Box: Box{770, 520, 60, 60}},
		}}
		v := Values{Name: name, Title: value, IssueDate: value, ExpiresOn: value, Institution: value, Language: language}
		for _, c := range l.Columns() {
			v.Columns = map[string]string{c.Name: value}
		}
		started := time.Now()
		design := blank()
		base, err := Publish(&Design{PDF: design, Pages: a4}, &l, fonts, noPictures)
		if problems := Problems(nil); errors.As(err, &problems) && len(problems) > 0 {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		template, err := Open(base.PDF, base.Plan, &l, fonts)
		if err != nil {
			t.Fatal(err)
		}
		tail, err := template.Draw(&v)
		problems := template.Check(&v)
		if drawn := Problems(nil); errors.As(err, &drawn) {
			if drawn.Error() != problems.Error() {
				t.Errorf("Draw = %v, Check = %v, want the same problems", drawn, problems)
			}
			return
		}
		if err != nil || len(problems) > 0 {
			t.Fatal(err, problems)
		}
		file := slices.Concat(base.PDF, tail)
		doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
		if err != nil || doc.Repaired() {
			t.Fatalf("the certificate cannot be read: %v", err)
		}
		page, err := doc.Page(0)
		if err != nil {
			t.Fatal(err)
		}
		if balance, err := doc.ContentBalance(page); err != nil || !balance.Clean || balance.Faulty {
			t.Errorf("ContentBalance: error = %v, balance = %+v, want clean content", err, balance)
		}
		if _, err := template.Sample(base.PDF, &v, "SAMPLE"); err != nil && !errors.As(err, &problems) {
			t.Error(err)
		}
		for i := range l.Fields {
			Shape(&l.Fields[i], &l, &v, fonts)
		}
		if d := time.Since(started); d > 20*time.Second {
			t.Errorf("the layout took %v, want at most 20 s", d)
		}
	})
}

// FuzzPrepare prepares any file as a design and publishes a layout on it.
func FuzzPrepare(f *testing.F) {
	fonts := testFonts(f)
	f.Add(blank())
	f.Add(three())
	f.Fuzz(func(t *testing.T, file []byte) {
		d, err := Prepare(t.Context(), file)
		if err != nil {
			if refusal := (*Refusal)(nil); !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			return
		}
		l := inPlace(d.Pages[0])
		base, err := Publish(d, l, fonts, noPictures)
		if err != nil {
			problems, refusal := Problems(nil), (*Refusal)(nil)
			if !errors.As(err, &problems) && !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			return
		}
		template, err := Open(base.PDF, base.Plan, l, fonts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := template.Draw(&Values{Name: "Ann"}); err != nil {
			if problems := Problems(nil); !errors.As(err, &problems) {
				t.Fatal(err)
			}
		}
	})
}
