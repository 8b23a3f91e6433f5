package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/typeset"
)

const (
	testID  = "NWU-7K3M9QXRABCDEFGH"
	testURL = "https://certs.university.example/verify/NWU-7K3M9QXRABCDEFGH"
)

func testStamp() Stamp {
	return Stamp{ReferenceID: testID, VerifyURL: testURL, Institution: "Northwind University"}
}

var testRenderer = sync.OnceValues(func() (*pdfium.Renderer, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return pdfium.New(context.Background(), pdfium.Options{CacheDir: filepath.Join(cache, "certvault-test", "pdfium")})
})

// sealer returns a Sealer with a renderer that all tests share.
func sealer(t testing.TB) *Sealer {
	t.Helper()
	r, err := testRenderer()
	if err != nil {
		skipOrFail(t, err.Error())
	}
	f, err := testFonts()
	if err != nil {
		skipOrFail(t, err.Error())
	}
	return New(r, f)
}

var testFonts = sync.OnceValues(func() (*typeset.Fonts, error) { return typeset.New() })

// tool runs an independent program that checks or draws files, and returns its standard output. If the
// command fails, the result also contains its standard error.
func tool(t testing.TB, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		skipOrFail(t, name+" is not installed")
	}
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if exitErr := (*exec.ExitError)(nil); errors.As(err, &exitErr) {
		return string(out) + string(exitErr.Stderr), err
	}
	return string(out), err
}

// file writes data to a temporary file and returns its path.
func file(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wholeFile returns the bytes of the verified PDF.
func wholeFile(t testing.TB, o Original, v *Verified) []byte {
	t.Helper()
	var b bytes.Buffer
	if !v.Whole {
		if _, err := io.Copy(&b, io.NewSectionReader(o.R, 0, o.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(&b, io.NewSectionReader(v.Body, 0, v.Body.Size())); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pageSize returns the size in points of a page as displayed, according to poppler.
func pageSize(t testing.TB, path string, page int) (w, h float64) {
	t.Helper()
	n := strconv.Itoa(page)
	out, err := tool(t, "pdfinfo", "-f", n, "-l", n, path)
	if err != nil {
		t.Fatalf("pdfinfo: %v\n%s", err, out)
	}
	var rotation int
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) >= 6 && fields[0] == "Page" && fields[2] == "size:" {
			w, _ = strconv.ParseFloat(fields[3], 64)
			h, _ = strconv.ParseFloat(fields[5], 64)
		}
		if len(fields) == 4 && fields[0] == "Page" && fields[2] == "rot:" {
			rotation, _ = strconv.Atoi(fields[3])
		}
	}
	if rotation%90 == 0 && rotation%180 != 0 {
		w, h = h, w
	}
	return w, h
}

// draw renders a page, or the part in crop, with poppler.
func draw(t testing.TB, path string, page int, dpi float64, crop image.Rectangle) image.Image {
	t.Helper()
	n := strconv.Itoa(page)
	args := []string{"-cropbox", "-r", fmt.Sprint(dpi), "-f", n, "-l", n, "-png", "-singlefile"}
	if !crop.Empty() {
		args = append(args, "-x", strconv.Itoa(crop.Min.X), "-y", strconv.Itoa(crop.Min.Y), "-W", strconv.Itoa(crop.Dx()), "-H", strconv.Itoa(crop.Dy()))
	}
	target := filepath.Join(t.TempDir(), "page")
	if out, err := tool(t, "pdftoppm", append(args, path, target)...); err != nil {
		t.Fatalf("pdftoppm: %v\n%s", err, out)
	}
	f, err := os.Open(target + ".png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// checkQR checks that zbarimg reads the QR code in poppler's picture of the stamp.
func checkQR(t testing.TB, path string, v *Verified) {
	t.Helper()
	w, h := pageSize(t, path, v.Page)
	dpi := math.Ceil(72 * 240 / math.Min((v.Box[2]-v.Box[0])*w, (v.Box[3]-v.Box[1])*h))
	at := func(f, size float64) int { return int(math.Round(f * size * dpi / 72)) }
	crop := image.Rect(at(v.Box[0], w)-8, at(v.Box[1], h)-8, at(v.Box[2], w)+8, at(v.Box[3], h)+8)
	crop.Min.X, crop.Min.Y = max(0, crop.Min.X), max(0, crop.Min.Y)
	var b bytes.Buffer
	if err := png.Encode(&b, draw(t, path, v.Page, dpi, crop)); err != nil {
		t.Fatal(err)
	}
	out, err := tool(t, "zbarimg", "-q", "--raw", "-Sdisable", "-Sqrcode.enable", file(t, "crop.png", b.Bytes()))
	if err != nil || strings.TrimSpace(out) != testURL {
		t.Errorf("zbarimg reads %q (%v), want %q", out, err, testURL)
	}
}

// comparePixels compares poppler's pictures of a page before and after sealing: they must be equal
// outside the stamp.
func comparePixels(t testing.TB, before, after string, v *Verified) {
	t.Helper()
	w, h := pageSize(t, after, v.Page)
	dpi := 72 * min(2, 1000/max(w, h))
	old, current := draw(t, before, v.Page, dpi, image.Rectangle{}), draw(t, after, v.Page, dpi, image.Rectangle{})
	if v.Placement != Strip && old.Bounds() != current.Bounds() {
		t.Fatalf("page size after sealing = %v, want %v as before sealing", current.Bounds(), old.Bounds())
	}
	size := current.Bounds().Size()
	stamp := image.Rect(
		int(math.Floor(v.Box[0]*float64(size.X)))-1, int(math.Floor(v.Box[1]*float64(size.Y)))-1,
		int(math.Ceil(v.Box[2]*float64(size.X)))+1, int(math.Ceil(v.Box[3]*float64(size.Y)))+1)
	changed := 0
	for y := range old.Bounds().Dy() - 1 { // the last row and the last column may be partial pixels
		for x := range old.Bounds().Dx() - 1 {
			if !image.Pt(x, y).In(stamp) && old.At(x, y) != current.At(x, y) {
				changed++
			}
		}
	}
	if changed > 0 {
		t.Errorf("%d pixels outside the stamp changed, want 0", changed)
	}
}

// checkSignatures checks that pdfsig reports the same results for the signatures before and after
// sealing.
func checkSignatures(t testing.TB, before, after string) {
	t.Helper()
	results := func(path string) []string {
		out, _ := tool(t, "pdfsig", "-nocert", path) // its exit code also depends on certificates
		var found []string
		for line := range strings.Lines(out) {
			if strings.Contains(line, "Signature Validation:") {
				found = append(found, strings.TrimSpace(line))
			}
		}
		return found
	}
	old, current := results(before), results(after)
	if fmt.Sprint(old) != fmt.Sprint(current) {
		t.Errorf("pdfsig reports %v, want %v as before sealing", current, old)
	}
}

// checkSyntax checks a file with qpdf, if the file before sealing passes the same check.
func checkSyntax(t testing.TB, before, after string) {
	t.Helper()
	if out, err := tool(t, "qpdf", "--check", before); err != nil || strings.Contains(out, "WARNING") {
		return
	}
	if out, err := tool(t, "qpdf", "--check", after); err != nil || strings.Contains(out, "WARNING") {
		t.Errorf("qpdf --check reports an error or a warning: %v\n%s", err, out)
	}
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	s := sealer(t)
	for _, c := range corpus(t, "") {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			data := c.read(t)
			o := original(t, filepath.Base(c.path), data)
			report, err := Check(context.Background(), o)
			if c.expected == "reject" {
				mustRefuse(t, err)
				return
			}
			if err != nil {
				if r := mustRefuse(t, err); c.expected == "accept" {
					t.Fatalf("the file was refused with %v, want a verified PDF", r)
				}
				return
			}
			v, err := s.Seal(context.Background(), o, testStamp())
			if err != nil {
				if r := mustRefuse(t, err); c.expected == "accept" {
					t.Fatalf("the file was refused with %v, want a verified PDF", r)
				}
				return
			}
			checkSealed(t, c, o, report, v)
		})
	}
}

func checkSealed(t *testing.T, c corpusCase, o Original, report Report, v *Verified) {
	t.Helper()
	data := wholeFile(t, o, v)
	if int64(len(data)) != v.Size || v.SHA256 != sum(data) {
		t.Error("Size or SHA256 differs from that of the verified PDF, want the same")
	}
	if report.Pages < 1 {
		t.Errorf("report.Pages = %d, want at least 1", report.Pages)
	}
	after := file(t, "after.pdf", data)
	checkQR(t, after, v)
	if o.Type != PDF {
		checkSyntax(t, after, after)
		return
	}
	if v.Whole != (v.Placement == Cover) {
		t.Errorf("placement = %s, whole = %v; want whole only for a cover", v.Placement, v.Whole)
	}
	checkPageCounts(t, data, mustOpen(t, data).PageCount())
	before := file(t, "before.pdf", c.read(t))
	if v.Placement == Cover {
		return
	}
	if v.Body.Size() > maxTail+500 && c.expected == "accept" {
		t.Errorf("%d bytes were added, want at most %d", v.Body.Size(), maxTail+500)
	}
	if v.Placement != Appended && c.expected == "accept" {
		comparePixels(t, before, after, v)
	}
	checkSignatures(t, before, after)
	checkSyntax(t, before, after)
}
