package seal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pdfcpu/pdfcpu/pkg/api"
	"rsc.io/qr"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

// benchFiles returns three files: one page with 70 kB, one page with 20 MB, and 500 pages.
func benchFiles() map[string][]byte {
	noise := func(n int) string {
		b := make([]byte, n)
		r := rand.NewChaCha8([32]byte{})
		r.Read(b) //nolint:errcheck // never fails
		return string(b)
	}
	image := func(n int) string {
		return fmt.Sprintf("<</Type/XObject/Subtype/Image/Width %d/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray/Length %d>>\nstream\n%s\nendstream", n, n, noise(n))
	}
	one := func(n int) []byte {
		return pagePDF{
			content:   strings.Repeat("0 0 m 100 100 l S\n", 200) + "q 100 0 0 100 0 700 cm /I Do Q",
			resources: "/XObject<</I 5 0 R>>",
			bodies:    []string{image(n)},
		}.bytes()
	}
	objects := []string{"<</Type/Catalog/Pages 2 0 R>>", ""}
	var kids strings.Builder
	for i := range 500 {
		fmt.Fprintf(&kids, "%d 0 R ", 3+2*i)
		content := strings.Repeat("0 0 m 100 100 l S\n", 50)
		objects = append(objects,
			fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<<>>/Contents %d 0 R>>", 4+2*i),
			fmt.Sprintf("<</Length %d>>\nstream\n%s\nendstream", len(content), content))
	}
	objects[1] = "<</Type/Pages/Count 500/Kids[" + kids.String() + "]>>"
	return map[string][]byte{"70kB": one(66 << 10), "500pages": pdftest.File("", objects...), "20MB": one(20<<20 - 8<<10)}
}

// BenchmarkCheckAndStamp measures the work without the renderer: Check, an update with a stamp in the
// bottom right corner, and the digest of the verified PDF.
func BenchmarkCheckAndStamp(b *testing.B) {
	for name, data := range benchFiles() {
		o := original(b, "a.pdf", data)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Check(context.Background(), o); err != nil {
					b.Fatal(err)
				}
				j := benchJob(b, o)
				p, err := j.place(attempt{mode: BottomRight, page: j.page, frame: j.frame, spot: j.frame.corner(j.figures[0], BottomRight)}, documentMetadata)
				if err != nil {
					b.Fatal(err)
				}
				v := &Verified{Body: io.NewSectionReader(bytes.NewReader(p.tail), 0, int64(len(p.tail)))}
				if err := continueDigest(v, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchJob(b *testing.B, o Original) *job {
	b.Helper()
	s, err := newSymbol(testURL)
	if err != nil {
		b.Fatal(err)
	}
	fig, err := newPlainFigure(s, testID, idBeside)
	if err != nil {
		b.Fatal(err)
	}
	j := &job{stamp: testStamp(), r: o.R, size: o.Size, figures: []*figure{fig}}
	if err := j.open(); err != nil {
		b.Fatal(err)
	}
	return j
}

// BenchmarkPdfcpuStamp measures pdfcpu for comparison: it adds a QR code with the same text to page one,
// as an image.
func BenchmarkPdfcpuStamp(b *testing.B) {
	api.DisableConfigDir()
	code, err := qr.Encode(testURL, qr.M)
	if err != nil {
		b.Fatal(err)
	}
	path := file(b, "qr.png", code.PNG())
	for name, data := range benchFiles() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := stampWithPdfcpu(data, path, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCopyAndDigest measures a copy of a file and its digest, the minimum cost of an operation that
// reads and writes the whole file.
func BenchmarkCopyAndDigest(b *testing.B) {
	data := benchFiles()["20MB"]
	for b.Loop() {
		h := sha256.New()
		if _, err := io.Copy(io.MultiWriter(h, new(bytes.Buffer)), bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
		if _, err := h.(encoding.BinaryMarshaler).MarshalBinary(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSeal measures the sealing of the certificates of the corpus on all processors, including the
// check of the rendered stamp. The part "auto" searches for the place of the stamp. The part
// "remembered" uses the place that an earlier call of Seal found.
func BenchmarkSeal(b *testing.B) {
	s := sealer(b)
	var originals []Original
	for _, pattern := range []string{"pdf/cert/*.pdf", "pdf/producer/*.pdf"} {
		paths, err := filepath.Glob(filepath.Join(corpusFolder, pattern))
		if err != nil {
			b.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			originals = append(originals, original(b, filepath.Base(path), data))
		}
	}
	if len(originals) == 0 {
		skipOrFail(b, "the corpus does not exist")
	}
	known := make([]Placement, len(originals))
	for i, o := range originals {
		v, err := s.Seal(context.Background(), o, testStamp())
		if err != nil {
			b.Fatal(err)
		}
		known[i].EarlierLayouts = []Layout{v.Layout}
	}
	for _, c := range []struct {
		name   string
		places []Placement
	}{{"auto", make([]Placement, len(originals))}, {"remembered", known}} {
		b.Run(c.name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.IntN(len(originals)); pb.Next(); i = (i + 1) % len(originals) {
					stamp := testStamp()
					stamp.Placement = c.places[i]
					if _, err := s.Seal(context.Background(), originals[i], stamp); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "certs/s")
		})
	}
}
