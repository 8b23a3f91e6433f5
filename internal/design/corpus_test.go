package design

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf"
)

// corpus is a folder next to the repository, with real and malicious files.
const corpus = "../../../shared/corpus"

// corpusFiles returns the PDF files of the corpus that readers can open, or a tenth of them with -short.
func corpusFiles(tb testing.TB) (out []string) {
	tb.Helper()
	for _, folder := range []string{"producer", "geometry", "structure", "text", "enc-empty-user", "form", "active", "embedded", "broken-openable", "malicious", "signed", "polyglot", "long"} {
		paths, err := filepath.Glob(filepath.Join(corpus, "pdf", folder, "*.pdf"))
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, paths...)
	}
	if len(out) == 0 {
		skip(tb, "the corpus is missing")
	}
	if testing.Short() {
		for i := range len(out) / 10 {
			out[i] = out[i*10]
		}
		out = out[:len(out)/10]
	}
	return out
}

// On every design, the name is upright and in its place, and pdftotext finds it. qpdf reports no problem
// in the certificate, unless it reports one in the design.
func TestCorpus(t *testing.T) {
	t.Parallel()
	testFonts(t)
	for _, path := range corpusFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			d, err := Prepare(t.Context(), file)
			if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
				t.Logf("refused: %s %s", refusal.Code, refusal.Reason)
				return
			} else if err != nil {
				t.Fatal(err)
			}
			checkDesign(t, file, d)
		})
	}
}

// inPlace returns a layout with a red name and a QR code on the first page.
func inPlace(size Page) *Layout {
	w, h := size.Width, size.Height
	side := max(minQR, min(w, h)*0.15)
	return &Layout{Title: "Certificate", Language: "en", Alt: "A design", Fields: []Field{
		{ID: "name", Kind: Name, Page: 1, Box: Box{w * .1, h * .35, w * .8, h * .1}, Text: "{name}", Font: Font{Family: "Inter"}, Size: h * .08, MinSize: 1, Align: "center", Color: "#ff0000"},
		{ID: "code", Kind: QR, Page: 1, Box: Box{w*.5 - side/2, h*.95 - side, side, side}},
	}}
}

func checkDesign(t *testing.T, file []byte, d *Design) {
	t.Helper()
	for i, p := range d.Pages {
		d.Pages[i].Width, d.Pages[i].Height = min(p.Width, maxSize*10), min(p.Height, maxSize*10)
	}
	l := inPlace(d.Pages[0])
	l.Fields[0].Size = min(l.Fields[0].Size, maxSize)
	base, template := publishDesign(t, d, l, noPictures)
	const name = "Élodie ΔΩ Lefèvre"
	certificate := draw(t, base, template, &Values{Name: name})
	again := draw(t, base, template, &Values{Name: name})
	if !bytes.Equal(certificate, again) {
		t.Error("two certificates with the same values differ")
	}
	if got := text(t, certificate); !strings.Contains(got, name) {
		t.Errorf("pdftotext does not find the name in\n%.2000s", got)
	}
	before, _ := tool(t, file, "qpdf", "--check", "FILE")
	after, err := tool(t, certificate, "qpdf", "--check", "FILE") // the error is not nil if qpdf reports warnings
	if !strings.Contains(before, "WARNING") && (err != nil || strings.Contains(after, "WARNING")) {
		t.Errorf("qpdf: %v\n%s", err, after)
	}
	red := reds(t, certificate)
	plain := reds(t, base.PDF)
	var box image.Rectangle
	for p := range red {
		if !plain[p] {
			box = box.Union(image.Rectangle{p, p.Add(image.Pt(1, 1))})
		}
	}
	size := d.Pages[0]
	k := rendered / max(size.Width, size.Height)
	f := l.Fields[0].Box
	want := image.Rect(int((f[0])*k)-2, int(f[1]*k)-2, int(math.Ceil((f[0]+f[2])*k))+2, int(math.Ceil((f[1]+f[3])*k))+2)
	if box.Empty() || !box.In(want) || box.Dx() < 3*box.Dy() {
		t.Errorf("the name is at %v, want upright within %v", box, want)
	}
}

// rendered is the longer side of a picture of a page in pixels.
const rendered = 400

// reds returns the red pixels of the first page.
func reds(t *testing.T, file []byte) map[image.Point]bool {
	t.Helper()
	folder := t.TempDir()
	if out, err := tool(t, file, "pdftoppm", "-cropbox", "-scale-to", fmt.Sprint(rendered), "-singlefile", "-png", "FILE", filepath.Join(folder, "page")); err != nil {
		t.Fatal(err, out)
	}
	data, err := os.ReadFile(filepath.Join(folder, "page.png"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := map[image.Point]bool{}
	r := img.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if red, green, blue, _ := img.At(x, y).RGBA(); red > 0xC000 && green < 0x9000 && blue < 0x9000 {
				out[image.Pt(x, y)] = true
			}
		}
	}
	return out
}

// A certificate keeps the PDF/A identification and the structure elements of its design.
func TestClaimsSurvive(t *testing.T) {
	for _, name := range []string{"structure/pdfa2b-pass.pdf", "structure/pdf-ua-and-a-minimal.pdf", "structure/pdfua2-pass.pdf", "producer/word-m365.pdf"} {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile(filepath.Join(corpus, "pdf", name))
			if err != nil {
				skip(t, "the corpus is missing")
			}
			d, err := Prepare(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			base, template := publishDesign(t, d, inPlace(d.Pages[0]), noPictures)
			certificate := draw(t, base, template, &Values{Name: "Zoë Hart"})
			was, is := open(t, file), open(t, certificate)
			catalog, _ := is.Catalog()
			old, _ := was.Catalog()
			if claim := pdfaPart.FindString(readMetadata(was, old)); pdfaPart.FindString(readMetadata(is, catalog)) != claim {
				t.Errorf("the PDF/A part of the certificate differs from %q, that of the design", claim)
			}
			if before, after := elements(was, old), elements(is, catalog); old.Has("StructTreeRoot") && after != before+1 {
				t.Errorf("the structure has %d elements, want %d and one for the name", after, before)
			}
			out, err := tool(t, certificate, "pdfinfo", "-struct-text", "FILE")
			if err != nil || !strings.Contains(out, "Zoë Hart") {
				t.Errorf("the structure does not have the name: %v\n%s", err, out)
			}
		})
	}
}

func open(tb testing.TB, file []byte) *pdf.Document {
	tb.Helper()
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// elements counts the elements of the structure.
func elements(doc *pdf.Document, catalog *pdf.Dict) (n int) {
	queue := pdf.Array{doc.Dict(catalog.Get("StructTreeRoot")).Get("K")}
	seen := map[pdf.Object]bool{}
	for len(queue) > 0 {
		obj := queue[0]
		queue = queue[1:]
		if ref, ok := obj.(pdf.Ref); ok {
			if seen[ref] {
				continue
			}
			seen[ref] = true
		}
		switch v := doc.Resolve(obj).(type) {
		case pdf.Array:
			queue = append(queue, v...)
		case *pdf.Dict:
			if v.Has("S") {
				n++
			}
			queue = append(queue, v.Get("K"))
		}
	}
	return n
}
