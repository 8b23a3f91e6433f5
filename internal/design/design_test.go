package design

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/typeset"
)

// testFonts returns the embedded fonts and those of the machine. The tests share them, because reading
// fonts takes long.
func testFonts(tb testing.TB) *typeset.Fonts {
	tb.Helper()
	fonts, err := sharedFonts()
	if errors.Is(err, typeset.ErrUnavailable) {
		skip(tb, "the binary was built without fonts: run `make build`")
	}
	if err != nil {
		tb.Fatal(err)
	}
	return fonts
}

var sharedFonts = sync.OnceValues(func() (*typeset.Fonts, error) { return typeset.New(os.DirFS("/usr/share/fonts")) })

// skip skips the test, or fails it in CI.
func skip(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

// tool runs a program on a file. FILE in the arguments stands for the path of the file.
func tool(tb testing.TB, file []byte, name string, args ...string) (string, error) {
	tb.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		skip(tb, name+" is missing")
	}
	path := filepath.Join(tb.TempDir(), "file.pdf")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		tb.Fatal(err)
	}
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "FILE", path)
	}
	out, err := exec.CommandContext(tb.Context(), program, args...).CombinedOutput()
	return string(out), err
}

// blank returns a design of one A4 page in landscape, with a band of colour at the bottom.
func blank() []byte {
	return pdftest.File("",
		"<</Type/Catalog/Pages 2 0 R>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 842 595]/Contents 4 0 R/Resources<<>>>>",
		pdftest.Stream("", "0.9 0.9 1 rg 0 0 842 60 re f 2 0 0 2 10 10 cm q"),
	)
}

// certificate returns a layout with most kinds of text fields, and the QR code.
func certificate() *Layout {
	serif := Font{Family: "EB Garamond", Weight: 600}
	sans := Font{Family: "Inter"}
	return &Layout{
		Title: "Certificate of completion", Language: "en", Alt: "A page with a blue band",
		Fields: []Field{
			{ID: "head", Kind: Text, Page: 1, Box: Box{60, 50, 500, 40}, Text: "Certificate of Completion", Font: serif, Size: 30, Color: "#10294b"},
			{ID: "name", Kind: Name, Page: 1, Box: Box{60, 150, 600, 70}, Text: "{name}", Font: serif, Size: 44, MinSize: 14, Lines: 2, Required: true},
			{ID: "title", Kind: Title, Page: 1, Box: Box{60, 240, 600, 60}, Text: "has completed {title}", Font: sans, Size: 18, MinSize: 9, Lines: 2},
			{ID: "date", Kind: Date, Page: 1, Box: Box{60, 330, 220, 24}, Text: "{date}", Font: sans, Size: 12, MinSize: 8},
			{ID: "expiry", Kind: Date, Page: 1, Box: Box{300, 330, 220, 24}, Text: "Valid until {expiry}", Format: "month", Font: sans, Size: 12, MinSize: 8},
			{ID: "grade", Kind: Column, Page: 1, Box: Box{60, 370, 300, 24}, Text: "{column:Grade}", Font: sans, Size: 12, MinSize: 8, Required: true},
			{ID: "ref", Kind: Reference, Page: 1, Box: Box{60, 540, 300, 20}, Text: "{reference}", Font: sans, Size: 9, Align: "left"},
			{ID: "code", Kind: QR, Page: 1, Box: Box{700, 430, 90, 90}},
		},
	}
}

func values() *Values {
	return &Values{
		Name: "José García Márquez", Title: "Distributed Systems", IssueDate: "2026-03-12", Reference: "NWU-7QF2M9KX4TRB81ZD",
		Columns: map[string]string{"Grade": "First class · 94 %"},
	}
}

// noPictures finds no picture.
func noPictures(string) ([]byte, error) { return nil, ErrNoPicture }

// publish publishes a layout on a design and opens the template.
func publish(tb testing.TB, file []byte, l *Layout, pictures Pictures) (*Base, *Template) {
	tb.Helper()
	d, err := Prepare(tb.Context(), file)
	if err != nil {
		tb.Fatal(err)
	}
	return publishDesign(tb, d, l, pictures)
}

func publishDesign(tb testing.TB, d *Design, l *Layout, pictures Pictures) (*Base, *Template) {
	tb.Helper()
	fonts := testFonts(tb)
	base, err := Publish(d, l, fonts, pictures)
	if err != nil {
		tb.Fatal(err)
	}
	t, err := Open(base.PDF, base.Plan, l, fonts)
	if err != nil {
		tb.Fatal(err)
	}
	return base, t
}

// draw returns the original of a certificate.
func draw(tb testing.TB, base *Base, t *Template, v *Values) []byte {
	tb.Helper()
	tail, err := t.Draw(v)
	if err != nil {
		tb.Fatal(err)
	}
	return slices.Concat(base.PDF, tail)
}

// text returns the text that pdftotext finds, without the direction marks that pdftotext adds.
func text(tb testing.TB, file []byte) string {
	tb.Helper()
	out, err := tool(tb, file, "pdftotext", "-enc", "UTF-8", "FILE", "-")
	if err != nil {
		tb.Fatal(err, out)
	}
	return strings.Map(func(r rune) rune {
		if r >= '\u202A' && r <= '\u202E' || r >= '\u2066' && r <= '\u2069' || r == '\u200E' || r == '\u200F' {
			return -1
		}
		return r
	}, out)
}

func TestCertificate(t *testing.T) {
	base, template := publish(t, blank(), certificate(), noPictures)
	file := draw(t, base, template, values())
	if !bytes.HasPrefix(file, base.PDF) || !bytes.HasPrefix(base.PDF, blank()) {
		t.Error("the original does not begin with the base, or the base does not begin with the design")
	}
	got := text(t, file)
	for _, want := range []string{"Certificate of Completion", "José García Márquez", "has completed Distributed Systems", "12 March 2026", "First class · 94 %", "NWU-7QF2M9KX4TRB81ZD"} {
		if !strings.Contains(got, want) {
			t.Errorf("pdftotext does not find %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "Valid until") {
		t.Error("the field expiry, which has no value, is drawn")
	}
	if out, err := tool(t, file, "qpdf", "--check", "FILE"); err != nil || strings.Contains(out, "WARNING") {
		t.Errorf("qpdf: %v\n%s", err, out)
	}
	t.Logf("base %d bytes, plan %d, tail %d", len(base.PDF), len(base.Plan), len(file)-len(base.PDF))
}
