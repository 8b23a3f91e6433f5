package builtin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/design/builtin"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/typeset"
)

// skip skips the test, or fails it in CI.
func skip(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

var sharedFonts = sync.OnceValues(func() (*typeset.Fonts, error) { return typeset.New(os.DirFS("/usr/share/fonts")) })

func fonts(tb testing.TB) *typeset.Fonts {
	tb.Helper()
	f, err := sharedFonts()
	if errors.Is(err, typeset.ErrUnavailable) {
		skip(tb, "the binary was built without fonts: run `make build`")
	}
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func renderer(tb testing.TB) *pdfium.Renderer {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	r, err := pdfium.New(tb.Context(), pdfium.Options{CacheDir: filepath.Join(cache, "certvault-test", "pdfium")})
	if errors.Is(err, pdfium.ErrUnavailable) {
		skip(tb, err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return r
}

func render(tb testing.TB, r *pdfium.Renderer, file []byte, side int) *pdfium.Page {
	tb.Helper()
	page, err := r.Render(tb.Context(), pdfium.Source{Head: bytes.NewReader(file), HeadSize: int64(len(file))}, pdfium.Request{MaxSide: side})
	if err != nil {
		tb.Fatal(err)
	}
	return page
}

// each runs a test for each design and paper, in the accent of the design.
func each(t *testing.T, test func(t *testing.T, b *builtin.Builtin, f builtin.Format, file []byte, l *design.Layout)) {
	t.Helper()
	for _, b := range builtin.All() {
		for _, f := range b.Formats {
			t.Run(b.Name+"-"+f.Paper, func(t *testing.T) {
				t.Parallel()
				file, l, err := b.With(b.Accent, f.Paper, "en")
				if err != nil {
					t.Fatal(err)
				}
				test(t, &b, f, file, &l)
			})
		}
	}
}

// accents returns colours of institutions: vivid colours of all hues, and dark, light and grey colours.
func accents() []colour.Colour {
	list := []colour.Colour{colour.White, colour.Black, {R: 128, G: 128, B: 128}, {R: 0xf7, G: 0xd4, B: 0x17}, {R: 0x7a, G: 0x12, B: 0x30}, {R: 0x10, G: 0x29, B: 0x4b}}
	for i := range 12 {
		list = append(list, colour.OKLCH{Lightness: []float64{0.35, 0.6, 0.85}[i%3], Chroma: 0.3, Hue: float64(i) * 30}.Colour())
	}
	return list
}

// TestGenerated checks that the stored files are those that the code draws.
func TestGenerated(t *testing.T) {
	t.Parallel()
	files, err := builtin.Generate()
	if err != nil {
		t.Fatal(err)
	}
	again, err := builtin.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if want := 2*len(builtin.All()) + 1; len(files) != want {
		t.Errorf("%d files, want %d", len(files), want)
	}
	for name, data := range files {
		if !bytes.Equal(data, again[name]) {
			t.Errorf("two calls of Generate return different bytes of %s", name)
		}
		stored, err := os.ReadFile(filepath.Join("pdf", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, stored) {
			t.Errorf("%s is not up to date: run `go generate ./internal/design/builtin`", name)
		}
		if len(data) > 60_000 {
			t.Errorf("%s has %d bytes, want at most 60,000", name, len(data))
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	qpdf, err := exec.LookPath("qpdf")
	if err != nil {
		skip(t, "qpdf is missing")
	}
	each(t, func(t *testing.T, b *builtin.Builtin, f builtin.Format, own []byte, _ *design.Layout) {
		other, _, err := b.With(colour.Colour{R: 0xf7, G: 0xd4, B: 0x17}, f.Paper, "en")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(own, other) || len(own) != len(other) {
			t.Error("another accent does not change the file, or changes its size")
		}
		for _, file := range [][]byte{own, other} {
			path := filepath.Join(t.TempDir(), "design.pdf")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), qpdf, "--check", path).CombinedOutput(); err != nil {
				t.Errorf("qpdf: %v\n%s", err, out)
			}
		}
	})
}

func TestPaper(t *testing.T) {
	t.Parallel()
	b, ok := builtin.Find("meridian")
	if !ok {
		t.Fatal("meridian is missing")
	}
	if _, _, err := b.With(b.Accent, "a3", "en"); !errors.Is(err, builtin.ErrPaper) {
		t.Error(err)
	}
	if _, _, err := b.With(b.Accent, builtin.A4, "xx"); !errors.Is(err, builtin.ErrLanguage) {
		t.Error(err)
	}
	if _, ok := builtin.Find("unknown"); ok {
		t.Error("Find found the design unknown, which does not exist")
	}
}

// TestLayout checks that the fields are on the page, away from its edges, and overlap no other field.
func TestLayout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *builtin.Builtin, f builtin.Format, file []byte, l *design.Layout) {
		d, err := design.Prepare(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Pages) != 1 || len(d.Warnings) > 0 || d.Pages[0] != (design.Page{Width: f.Width, Height: f.Height}) {
			t.Errorf("pages = %v, warnings = %v, want one page of the format and no warnings", d.Pages, d.Warnings)
		}
		if problems := l.Check(d.Pages); len(problems) > 0 {
			t.Error(problems)
		}
		if b.Landscape != (f.Width > f.Height) {
			t.Errorf("the format %v is not in the orientation of the design", f)
		}
		const margin = 5 * 72 / 25.4 // printers do not print nearer to the edge
		kinds := map[design.Kind]int{}
		for i, a := range l.Fields {
			kinds[a.Kind]++
			x, y, w, h := a.Box[0], a.Box[1], a.Box[2], a.Box[3]
			if x < margin || y < margin || x+w > f.Width-margin || y+h > f.Height-margin {
				t.Errorf("%s is at the edge: %v", a.ID, a.Box)
			}
			for _, o := range l.Fields[i+1:] {
				if x < o.Box[0]+o.Box[2] && o.Box[0] < x+w && y < o.Box[1]+o.Box[3] && o.Box[1] < y+h {
					t.Errorf("%s %v overlaps %s %v", a.ID, a.Box, o.ID, o.Box)
				}
			}
			if a.Label == "" || a.Kind == design.Text && a.Text == "" {
				t.Errorf("%s has no label or no text", a.ID)
			}
		}
		for _, k := range []design.Kind{design.Name, design.Title, design.Date, design.Reference, design.Details, design.Image, design.QR} {
			if kinds[k] != 1 {
				t.Errorf("%d fields of kind %s, want 1", kinds[k], k)
			}
		}
		if l.Title == "" || l.Alt == "" {
			t.Error("no title or no alternative text")
		}
	})
}

// TestLanguages checks that the texts of all languages fit, and that a design is mirrored only for
// Arabic.
func TestLanguages(t *testing.T) {
	t.Parallel()
	catalog, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, b *builtin.Builtin, f builtin.Format, file []byte, english *design.Layout) {
		for _, l := range catalog.Languages() {
			own, layout, err := b.With(b.Accent, f.Paper, l.Tag)
			if err != nil {
				t.Fatal(err)
			}
			if mirrored := !bytes.Equal(own, file); mirrored != (l.Direction == "rtl") || len(own) != len(file) {
				t.Errorf("%s: mirrored = %t, want only for Arabic, and no change of the size of the file", l.Tag, mirrored)
			}
			pages := []design.Page{{Width: f.Width, Height: f.Height}}
			if problems := layout.Check(pages); len(problems) > 0 {
				t.Errorf("%s: %v", l.Tag, problems)
			}
			values := design.Samples()[0].Values
			values.Title = layout.Title
			for i := range layout.Fields {
				field := &layout.Fields[i]
				if l.Tag != "en" && field.Kind == design.Text && field.ID != "institution" && field.Text == english.Fields[i].Text && field.Text != "Diploma" {
					t.Errorf("%s: the text of %s is in English", l.Tag, field.ID)
				}
				if field.Label == "" || layout.Alt == "" {
					t.Errorf("%s: %s has no label, or the design has no alternative text", l.Tag, field.ID)
				}
				shaped := design.Shape(field, &layout, &values, fonts(t))
				if shaped.Problem != nil && shaped.Problem.Code != design.CodeMissingCharacters {
					t.Errorf("%s: %s: %v", l.Tag, field.ID, shaped.Problem)
				}
				if field.Kind == design.Text && field.ID != "institution" && shaped.Size > 0 && shaped.Size < 0.75*field.Size {
					t.Errorf("%s: %s shrinks from %v to %v, want at least 75 %% of the size", l.Tag, field.ID, field.Size, shaped.Size)
				}
				if at := english.Fields[i].Box; l.Direction == "rtl" && math.Abs(at[0]+at[2]+field.Box[0]-f.Width) > 0.02 {
					t.Errorf("%s: %s is at %v, want it mirrored from %v", l.Tag, field.ID, field.Box, at)
				}
			}
		}
	})
}

// TestFonts checks that all fonts of the designs exist in the weights that the designs use.
func TestFonts(t *testing.T) {
	t.Parallel()
	known := map[design.Font]bool{}
	for _, family := range fonts(t).Families() {
		for _, s := range family.Faces {
			known[design.Font{Family: family.Name, Weight: s.Weight, Italic: s.Italic}] = true
		}
	}
	each(t, func(t *testing.T, _ *builtin.Builtin, _ builtin.Format, _ []byte, l *design.Layout) {
		for _, f := range l.Fields {
			font := f.Font
			if font.Weight == 0 {
				font.Weight = 400
			}
			if f.Size > 0 && !known[font] {
				t.Errorf("%s: the font %v does not exist", f.ID, f.Font)
			}
		}
	})
}

// TestTexts checks that the texts of the samples in all scripts, and a long name, fit.
func TestTexts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ *builtin.Builtin, _ builtin.Format, file []byte, l *design.Layout) {
		d, err := design.Prepare(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		base, err := design.Publish(d, l, fonts(t), func(string) ([]byte, error) { return nil, design.ErrNoPicture })
		if err != nil {
			t.Fatal(err)
		}
		template, err := design.Open(base.PDF, base.Plan, l, fonts(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range design.Samples() {
			if problems := template.Check(l.Fill(s.Values)); missing(problems) {
				t.Logf("%s: %v", s.Name, problems) // the fonts for Chinese are not on every machine
			} else if len(problems) > 0 {
				t.Errorf("%s: %v", s.Name, problems)
			}
		}
		v := design.Samples()[0].Values
		v.Name = "Wilhelmina Montgomery-Hammersmith von Wolkenstein-Trostburg"
		v.Institution = "Hochschule für Wirtschaft, Technik und Gestaltung Mecklenburg"
		if problems := template.Check(&v); len(problems) > 0 {
			t.Error("a long name has problems:", problems)
		}
	})
}

func missing(problems design.Problems) bool {
	for _, p := range problems {
		if p.Code == design.CodeMissingCharacters {
			return true
		}
	}
	return false
}

// TestContrast checks that all texts have enough contrast to the drawing behind them, with all accents,
// and that the QR code is on white.
func TestContrast(t *testing.T) {
	t.Parallel()
	r := renderer(t)
	list := accents()
	if testing.Short() {
		list = list[:2]
	}
	for i, accent := range list {
		for j, b := range builtin.All() {
			format := b.Formats[(i+j)%2]
			// In Arabic, the drawing is mirrored.
			file, l, err := b.With(accent, format.Paper, []string{"en", "ar"}[i%2])
			if err != nil {
				t.Fatal(err)
			}
			page := render(t, r, file, 560)
			for _, f := range l.Fields {
				if f.Kind == design.QR && readable(page, f.Box, colour.Black, 20) < 1 {
					t.Errorf("%s in %v: the QR code is not on white", b.Name, accent)
				}
				if f.Size == 0 {
					continue // not a text
				}
				text, err := colour.Parse(f.Color)
				if err != nil {
					t.Fatal(err)
				}
				// Thin lines and the edge of an emblem may be behind a part of a text.
				if share := readable(page, f.Box, text, colour.Text); share < 0.985 {
					t.Errorf("%s in %v: %s has enough contrast on %.1f %% of its box, want at least 98.5 %%", b.Name, accent, f.ID, 100*share)
				}
			}
		}
	}
}

// readable returns the share of the pixels of a box to which a colour has at least the given contrast.
func readable(page *pdfium.Page, box design.Box, text colour.Colour, contrast float64) float64 {
	scale := float64(page.Raster.X) / page.Width
	area := image.Rect(int(box[0]*scale)+1, int(box[1]*scale)+1, int((box[0]+box[2])*scale), int((box[1]+box[3])*scale))
	good, all := 0, 0
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			r, g, b, _ := page.Image.At(x, y).RGBA()
			all++
			if colour.Contrast(text, colour.Colour{R: uint8(r >> 8), G: uint8(g >> 8), B: uint8(b >> 8)}) >= contrast {
				good++
			}
		}
	}
	return float64(good) / float64(max(all, 1))
}

func BenchmarkRender(b *testing.B) {
	r := renderer(b)
	for _, d := range builtin.All() {
		for _, paper := range []string{builtin.A4, builtin.Letter} {
			file, _, err := d.With(d.Accent, paper, "en")
			if err != nil {
				b.Fatal(err)
			}
			b.Run(d.Name+"/"+paper, func(b *testing.B) {
				for b.Loop() {
					render(b, r, file, 1600)
				}
			})
		}
	}
}

func ExampleBuiltin_With() {
	b, _ := builtin.Find("heritage")
	_, layout, err := b.With(colour.Colour{R: 0x7a, G: 0x12, B: 0x30}, builtin.Letter, "en")
	if err != nil {
		fmt.Println(err)
		return
	}
	var ids []string
	for _, f := range layout.Fields {
		ids = append(ids, f.ID)
	}
	fmt.Println(layout.Title)
	fmt.Println(strings.Join(ids, " "))
	// Output:
	// Diploma
	// logo institution heading introduction name statement title details date date-label signature-label qr reference
}
