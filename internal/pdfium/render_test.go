package pdfium

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

func TestRender(t *testing.T) {
	t.Parallel()
	r := shared(t)
	const field = "/Type/Annot/Subtype/Widget/FT/Sig/T(s)/F 4/AP<</N 7 0 R>>"
	appearance := pdftest.Stream("/Type/XObject/Subtype/Form/BBox[0 0 50 50]", "1 0 0 rg 0 0 50 50 re f")
	annotated := onePage("/MediaBox[0 0 200 100]/Annots[5 0 R 6 0 R]", "",
		"<</Type/Annot/Subtype/Stamp/F 4/Rect[0 50 50 100]/AP<</N 7 0 R>>>>",
		"<<"+field+"/Rect[150 0 200 50]>>", appearance)

	type point struct {
		x, y float64
		want color.Color
	}
	upright := []point{{.25, .25, red}, {.75, .25, green}, {.25, .75, blue}, {.75, .75, blank}}
	for _, tc := range []struct {
		name          string
		pdf           []byte
		req           Request
		width, height float64
		pixels        image.Point
		points        []point
	}{
		{"max side", quarters(""), Request{MaxSide: 400}, 200, 100, image.Pt(400, 200), upright},
		{"scale", quarters(""), Request{Scale: .5}, 200, 100, image.Pt(100, 50), upright},
		{"scale within max side", quarters(""), Request{Scale: .5, MaxSide: 40}, 200, 100, image.Pt(40, 20), upright},
		{"max side not reached by scale", quarters(""), Request{Scale: .5, MaxSide: 400}, 200, 100, image.Pt(100, 50), upright},
		{
			"gray", quarters(""), Request{MaxSide: 400, Gray: true}, 200, 100, image.Pt(400, 200),
			[]point{{.25, .25, color.Gray{76}}, {.75, .25, color.Gray{150}}, {.25, .75, color.Gray{29}}, {.75, .75, blank}},
		},
		{
			"rotated", quarters("/Rotate 90"), Request{MaxSide: 400}, 100, 200, image.Pt(200, 400),
			[]point{{.25, .25, blue}, {.75, .25, red}, {.25, .75, blank}, {.75, .75, green}},
		},
		{
			"cropped", quarters("/CropBox[50 0 150 50]"), Request{MaxSide: 100}, 100, 50, image.Pt(100, 50),
			[]point{{.25, .5, blue}, {.75, .5, blank}},
		},
		{
			"clip", quarters(""), Request{MaxSide: 400, Clip: [4]float64{.5, 0, 1, .5}}, 200, 100, image.Pt(200, 100),
			[]point{{.01, .01, green}, {.99, .99, green}},
		},
		{
			"clip of rotated", quarters("/Rotate 90"), Request{MaxSide: 400, Clip: [4]float64{.5, 0, 1, .5}}, 100, 200, image.Pt(100, 200),
			[]point{{.01, .01, red}, {.99, .99, red}},
		},
		{
			"without annotations", annotated, Request{MaxSide: 400}, 200, 100, image.Pt(400, 200),
			[]point{{.1, .2, blank}, {.9, .8, blank}},
		},
		{
			"with annotations", annotated, Request{MaxSide: 400, Annotations: true}, 200, 100, image.Pt(400, 200),
			[]point{{.1, .2, red}, {.9, .8, red}, {.5, .5, blank}},
		},
		{
			"clip of a form field", annotated, Request{MaxSide: 400, Annotations: true, Clip: [4]float64{.5, .5, 1, 1}},
			200, 100, image.Pt(200, 100),
			[]point{{.1, .8, blank}, {.8, .8, red}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := r.Render(t.Context(), source(tc.pdf), tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if p.Width != tc.width || p.Height != tc.height {
				t.Errorf("page size = %v by %v, want %v by %v", p.Width, p.Height, tc.width, tc.height)
			}
			if got := p.Image.Bounds(); got != (image.Rectangle{Max: tc.pixels}) || got.Size() != p.Box.Size() {
				t.Errorf("image bounds = %v, box = %v, want a size of %v", got, p.Box, tc.pixels)
			}
			if _, gray := p.Image.(*image.Gray); gray != tc.req.Gray {
				t.Errorf("image has the type %T, want *image.Gray: %v", p.Image, tc.req.Gray)
			}
			for _, pt := range tc.points {
				wantColor(t, p.Image, pt.x, pt.y, pt.want)
			}
		})
	}
}

// TestUserUnit checks that UserUnit, the size of a unit, does not change the
// rendering.
func TestUserUnit(t *testing.T) {
	t.Parallel()
	p, err := shared(t).Render(t.Context(), source(quarters("/UserUnit 2")), Request{MaxSide: 400})
	if err != nil {
		t.Fatal(err)
	}
	if p.Width != 200 || p.Height != 100 {
		t.Errorf("page size = %v by %v, want 200 by 100", p.Width, p.Height)
	}
	wantColor(t, p.Image, .25, .25, red)
}

func TestClipEqualsCrop(t *testing.T) {
	t.Parallel()
	pdf := lattice()
	for _, side := range []int{97, 400, 1300} {
		d, err := shared(t).Open(t.Context(), source(pdf))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := d.Render(t.Context(), Request{MaxSide: side})
		if err != nil {
			t.Fatal(err)
		}
		for _, clip := range [][4]float64{{0, 0, .3, .3}, {.61, .07, .98, .33}, {.5, .5, .500001, .500001}, {.123, .7, 1, 1}} {
			part, err := d.Render(t.Context(), Request{MaxSide: side, Clip: clip})
			if err != nil {
				t.Fatal(err)
			}
			crop := image.NewRGBA(part.Image.Bounds())
			draw.Draw(crop, crop.Bounds(), whole.Image, part.Box.Min, draw.Src)
			raster := whole.Image.Bounds().Max
			if diff := difference(crop, part.Image.(*image.RGBA)); diff > 4 || part.Raster != raster {
				t.Errorf("side %d: clip %v at %v: largest difference = %d, raster = %v; want at most 4, and the raster %v of the whole page",
					side, clip, part.Box, diff, part.Raster, raster)
			}
		}
		d.Close()
	}
}

// TestClipOfCorpus compares parts of real files with the whole page. At most one
// sample in 1,000 may differ by more than 4 levels.
func TestClipOfCorpus(t *testing.T) {
	t.Parallel()
	for _, s := range corpus(t) {
		if !s.accept {
			continue
		}
		d, err := shared(t).Open(t.Context(), source(s.data))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := d.Render(t.Context(), Request{MaxSide: 800, Annotations: true})
		if err != nil {
			t.Fatalf("rendering %s returned %v, want no error", s.name, err)
		}
		for _, clip := range [][4]float64{{.61, .07, .98, .33}, {.123, .7, 1, 1}, {.2, .2, .5, .5}} {
			part, err := d.Render(t.Context(), Request{MaxSide: 800, Annotations: true, Clip: clip})
			if err != nil {
				t.Fatalf("rendering %s returned %v, want no error", s.name, err)
			}
			crop := image.NewRGBA(part.Image.Bounds())
			draw.Draw(crop, crop.Bounds(), whole.Image, part.Box.Min, draw.Src)
			differ := 0
			for k, v := range part.Image.(*image.RGBA).Pix {
				if d := int(v) - int(crop.Pix[k]); d < -4 || d > 4 {
					differ++
				}
			}
			if differ*1000 > len(crop.Pix) {
				t.Errorf("%s: clip %v: %d of %d samples differ by more than 4, want at most one in 1000", s.name, clip, differ, len(crop.Pix))
			}
			if differ > 0 {
				t.Logf("%s: clip %v: %d of %d samples differ by up to %d", s.name, clip, differ, len(crop.Pix), difference(crop, part.Image.(*image.RGBA)))
			}
		}
		d.Close()
	}
}

// difference returns the largest difference of two samples at the same
// position.
func difference(a, b *image.RGBA) int {
	largest := 0
	for k := range a.Pix {
		d := int(a.Pix[k]) - int(b.Pix[k])
		largest = max(largest, d, -d)
	}
	return largest
}

func TestPages(t *testing.T) {
	t.Parallel()
	pdf := pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 10 20]>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 30 40]/Contents 5 0 R>>", pdftest.Stream("", "0 0 1 rg 0 0 30 40 re f"))
	d, err := shared(t).Open(t.Context(), source(pdf))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Pages() != 2 {
		t.Errorf("Pages() = %d, want 2", d.Pages())
	}
	w, h, err := d.PageSize(t.Context(), 1)
	if err != nil || w != 30 || h != 40 {
		t.Errorf("size of page 1 = %v by %v (error %v), want 30 by 40", w, h, err)
	}
	for _, want := range []struct {
		page int
		color.Color
	}{{0, blank}, {1, blue}, {0, blank}} {
		p, err := d.Render(t.Context(), Request{Page: want.page, MaxSide: 20, Annotations: want.page == 1})
		if err != nil {
			t.Fatal(err)
		}
		wantColor(t, p.Image, .5, .5, want.Color)
	}
	for _, page := range []int{-1, 2, math.MaxInt} {
		if _, err := d.Render(t.Context(), Request{Page: page, MaxSide: 20}); !errors.Is(err, ErrLoad) {
			t.Errorf("rendering page %d returned %v, want ErrLoad", page, err)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	d, err := shared(t).Open(t.Context(), source(quarters("")))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	nan := math.NaN()
	for _, tc := range []struct {
		req  Request
		want error
	}{
		{Request{}, ErrRequest},
		{Request{MaxSide: -1}, ErrRequest},
		{Request{MaxSide: maxSide + 1}, ErrRequest},
		{Request{Scale: nan}, ErrRequest},
		{Request{Scale: math.Inf(1)}, ErrRequest},
		{Request{MaxSide: 10, Clip: [4]float64{0, 0, 1, nan}}, ErrRequest},
		{Request{MaxSide: 10, Clip: [4]float64{.5, 0, .5, 1}}, ErrRequest},
		{Request{MaxSide: 10, Clip: [4]float64{0, 0, 1, 1.1}}, ErrRequest},
		{Request{MaxSide: 10_000}, ErrMemory},
		{Request{Scale: 1e9}, ErrMemory},
		{Request{MaxSide: 1, Clip: [4]float64{.999, .999, 1, 1}}, nil},
		{Request{MaxSide: maxSide, Clip: [4]float64{.999, .999, 1, 1}}, nil},
	} {
		if _, err := d.Render(t.Context(), tc.req); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("rendering with %+v returned %v, want %v", tc.req, err, tc.want)
		}
	}
}

// TestSource checks that the two parts of a source are read as one file.
func TestSource(t *testing.T) {
	t.Parallel()
	r := shared(t)
	// The file is more than three times as long as the read-ahead buffer.
	pdf := onePage("/MediaBox[0 0 200 100]", "1 0 0 rg 0 50 100 50 re f\n%"+string(bytes.Repeat([]byte("x"), 3*window))+"\n")
	for _, split := range []int{0, 1, 20, 200, window - 1, window, window + 1, 2*window + 77, len(pdf) - 30, len(pdf)} {
		src := Source{Head: bytes.NewReader(pdf[:split]), HeadSize: int64(split), Tail: pdf[split:]}
		if split == 0 {
			src.Head = nil
		}
		p, err := r.Render(t.Context(), src, Request{MaxSide: 100})
		if err != nil {
			t.Errorf("rendering with a split at %d returned %v, want no error", split, err)
			continue
		}
		wantColor(t, p.Image, .25, .25, red)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// TestSourceErrors checks that a read error is not reported as ErrLoad, and that
// a source with a HeadSize but no Head is refused.
func TestSourceErrors(t *testing.T) {
	t.Parallel()
	r := shared(t)
	readErr := errors.New("read failed")
	_, err := r.Open(t.Context(), Source{Head: failing{readErr}, HeadSize: 1000})
	if !errors.Is(err, readErr) || errors.Is(err, ErrLoad) {
		t.Errorf("Open returned %v, want the error of the reader", err)
	}
	pdf := quarters("")
	_, err = r.Open(t.Context(), Source{Head: bytes.NewReader(pdf), HeadSize: int64(len(pdf)) + 1})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("opening a file shorter than HeadSize returned %v, want ErrUnexpectedEOF", err)
	}
	if _, err = r.Open(t.Context(), Source{HeadSize: 1}); !errors.Is(err, ErrRequest) {
		t.Errorf("opening a source with HeadSize 1 and no Head returned %v, want ErrRequest", err)
	}
}

// TestInvalidAddress checks that the instance cannot be used after PDFium returned an address that is
// outside its memory.
func TestInvalidAddress(t *testing.T) {
	t.Parallel()
	d, err := shared(t).Open(t.Context(), source(quarters("")))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	err = d.run(t.Context(), func(context.Context) error {
		_, err := d.instance.floats(math.MaxUint32, 2)
		return err
	})
	if !errors.Is(err, ErrAborted) {
		t.Errorf("reading at an invalid address returned %v, want ErrAborted", err)
	}
	if _, _, err := d.PageSize(t.Context(), 0); !errors.Is(err, ErrAborted) {
		t.Errorf("PageSize after that returned %v, want ErrAborted", err)
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	r := shared(t)
	for _, tc := range []struct {
		name string
		pdf  []byte
	}{
		{"empty", nil},
		{"text", []byte("<html>Certificate</html>")},
		{"truncated", quarters("")[:100]},
		{"no pages", pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[]/Count 0>>")},
	} {
		_, err := r.Open(t.Context(), source(tc.pdf))
		if !errors.Is(err, ErrLoad) {
			t.Errorf("opening the file %q returned %v, want ErrLoad", tc.name, err)
		}
	}
}

func TestEncrypted(t *testing.T) {
	t.Parallel()
	r := shared(t)
	qpdf, err := exec.LookPath("qpdf")
	if err != nil {
		skip(t, "qpdf is not installed")
	}
	for _, bits := range []string{"40", "128", "256"} {
		for _, password := range []string{"", "secret"} {
			t.Run(fmt.Sprintf("%s bits with %q", bits, password), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				in, out := filepath.Join(dir, "in.pdf"), filepath.Join(dir, "out.pdf")
				if err := os.WriteFile(in, quarters(""), 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), qpdf, "--allow-weak-crypto", "--encrypt", password, "owner", bits, "--", in, out)
				if msg, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("encrypting with qpdf: %v: %s", err, msg)
				}
				pdf, err := os.ReadFile(out)
				if err != nil {
					t.Fatal(err)
				}
				p, err := r.Render(t.Context(), source(pdf), Request{MaxSide: 100})
				if password != "" {
					if !errors.Is(err, ErrPassword) || !errors.Is(err, ErrLoad) {
						t.Errorf("rendering returned %v, want ErrPassword, which wraps ErrLoad", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				wantColor(t, p.Image, .25, .25, red)
			})
		}
	}
}

// TestCorpus checks that the files that the vault accepts are rendered. Other
// files may also return an error.
func TestCorpus(t *testing.T) {
	t.Parallel()
	r := shared(t)
	for _, s := range corpus(t) {
		p, err := r.Render(t.Context(), source(s.data), Request{MaxSide: 400, Annotations: true})
		switch {
		case s.accept && err != nil:
			t.Errorf("%s: rendering returned %v, want no error", s.name, err)
		case err == nil && max(p.Image.Bounds().Dx(), p.Image.Bounds().Dy()) != 400:
			t.Errorf("%s: image bounds = %v, want a longer side of 400", s.name, p.Image.Bounds())
		case err != nil && !errors.Is(err, ErrLoad) && !errors.Is(err, ErrMemory) && !errors.Is(err, ErrTimeout):
			t.Errorf("%s: rendering returned %v, want no error, ErrLoad, ErrMemory or ErrTimeout", s.name, err)
		}
	}
}
