package pdfium

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// cacheDir is the folder for compiled code that the tests of all packages share. Compiling takes a
// minute under the race detector.
var cacheDir string

func TestMain(m *testing.M) {
	cache, err := os.UserCacheDir()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cacheDir = filepath.Join(cache, "certvault-test", "pdfium")
	os.Exit(m.Run())
}

// skip skips the test, or fails it in CI.
func skip(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

// newRenderer returns a renderer that is closed after the test.
func newRenderer(tb testing.TB, opts Options) *Renderer {
	tb.Helper()
	if opts.CacheDir == "" {
		opts.CacheDir = cacheDir
	}
	r, err := New(tb.Context(), opts)
	if errors.Is(err, ErrUnavailable) {
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

// sharedRenderer returns a renderer for tests that do not change its state. It
// is never closed.
var sharedRenderer = sync.OnceValues(func() (*Renderer, error) {
	return New(context.Background(), Options{CacheDir: cacheDir})
})

// shared returns the shared renderer. Without PDFium, it skips the test, or fails it
// in CI.
func shared(tb testing.TB) *Renderer {
	tb.Helper()
	r, err := sharedRenderer()
	if errors.Is(err, ErrUnavailable) {
		skip(tb, err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func source(pdf []byte) Source {
	return Source{Head: bytes.NewReader(pdf), HeadSize: int64(len(pdf))}
}

// onePage returns a document of one page. page is added to the page dictionary,
// and further contains objects that are numbered from 5.
func onePage(page, content string, further ...string) []byte {
	return pdftest.File("", append([]string{
		"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[6 0 R]>>>>",
		"<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R" + page + ">>",
		pdftest.Stream("", content),
	}, further...)...)
}

// quarters returns a page of 200 by 100 units with a red, a green, a blue and a
// white quarter, row by row from the top left.
func quarters(page string) []byte {
	return onePage("/MediaBox[0 0 200 100]"+page,
		"1 0 0 rg 0 50 100 50 re f 0 1 0 rg 100 50 100 50 re f 0 0 1 rg 0 0 100 50 re f")
}

// lattice returns a page covered with slanted lines, so that a shift by a
// fraction of a pixel is visible.
func lattice() []byte {
	var b strings.Builder
	for k := range 40 {
		fmt.Fprintf(&b, "%.2f 0 0.%d RG 0 %d m 595.28 %d.5 l S %d 0 m %d.25 841.89 l S\n",
			float64(k)/40, k%10, k*23, 841-k*19, k*17, 590-k*13)
	}
	return onePage("/MediaBox[0 0 595.28 841.89]", b.String())
}

// endless returns a page whose rendering takes longer than the deadlines of the
// tests: each of its forms, except the last, draws the next form ten times.
func endless() []byte {
	const depth = 12
	var forms []string
	for k := range depth {
		forms = append(forms, pdftest.Stream(fmt.Sprintf(
			"/Type/XObject/Subtype/Form/BBox[0 0 200 100]/Resources<</XObject<</F %d 0 R>>>>", 6+k),
			strings.Repeat("q 1 0 0 1 0.01 0 cm /F Do Q ", 10)))
	}
	forms = append(forms, pdftest.Stream("/Type/XObject/Subtype/Form/BBox[0 0 200 100]", "0 0 1 rg 10 10 80 80 re f"))
	return onePage("/MediaBox[0 0 200 100]/Resources<</XObject<</F 5 0 R>>>>", "/F Do", forms...)
}

// bomb returns a page whose content decodes to size bytes.
func bomb(tb testing.TB, size int64) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := io.CopyN(w, spaces{}, size); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R/MediaBox[0 0 200 100]>>",
		pdftest.Stream("/Filter/FlateDecode", b.String()))
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for k := range p {
		p[k] = ' '
	}
	return len(p), nil
}

var (
	red   = color.NRGBA{255, 0, 0, 255}
	green = color.NRGBA{0, 255, 0, 255}
	blue  = color.NRGBA{0, 0, 255, 255}
	blank = color.NRGBA{255, 255, 255, 255}
)

// wantColor fails the test if the pixel at x, y does not have the colour. x and y are fractions of
// the size of the image.
func wantColor(t *testing.T, img image.Image, x, y float64, want color.Color) {
	t.Helper()
	b := img.Bounds()
	at := image.Pt(int(x*float64(b.Dx())), int(y*float64(b.Dy())))
	got := color.NRGBAModel.Convert(img.At(at.X, at.Y))
	if want = color.NRGBAModel.Convert(want); got != want {
		t.Errorf("color at %v of %v = %v, want %v", at, b.Max, got, want)
	}
}

// sample is a file of the corpus.
type sample struct {
	name   string
	accept bool
	data   []byte
}

// corpus returns the PDF files of the corpus, which is in a folder next to the repository. With -short,
// it returns only some of the files.
func corpus(tb testing.TB) []sample {
	tb.Helper()
	root := filepath.Join("..", "..", "..", "shared", "corpus")
	f, err := os.Open(filepath.Join(root, "MANIFEST.tsv"))
	if errors.Is(err, fs.ErrNotExist) {
		skip(tb, "the corpus is missing")
	}
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	table := csv.NewReader(f)
	table.Comma, table.LazyQuotes = '\t', true
	rows, err := table.ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	var samples []sample
	for i, row := range rows {
		if !strings.HasPrefix(row[0], "pdf/") || testing.Short() && i%10 != 0 {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(row[0])))
		if err != nil {
			tb.Fatal(err)
		}
		samples = append(samples, sample{row[0], row[1] == "accept", data})
	}
	return samples
}
