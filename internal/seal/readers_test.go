package seal

import (
	"bytes"
	"fmt"
	"image"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/pdfium"
)

// pageCounts returns the number of pages that each reader finds in a file. MuPDF is optional, because few
// machines have it.
func pageCounts(t *testing.T, data []byte) map[string]int {
	t.Helper()
	path := file(t, "count.pdf", data)
	counts := map[string]int{}
	for name, args := range map[string][]string{
		"pdfinfo": {path}, "qpdf": {"--show-npages", path}, "mutool": {"info", path},
	} {
		if _, err := exec.LookPath(name); err != nil && name == "mutool" {
			t.Log("mutool is not installed")
			continue
		}
		counts[name] = 0
		out, _ := tool(t, name, args...)
		for line := range strings.Lines(out) {
			if name == "qpdf" || strings.HasPrefix(line, "Pages:") {
				counts[name], _ = strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "Pages:")))
			}
		}
	}
	r, err := testRenderer()
	if err != nil {
		skipOrFail(t, err.Error())
	}
	doc, err := r.Open(t.Context(), pdfium.Source{Head: bytes.NewReader(data), HeadSize: int64(len(data))})
	if err != nil {
		t.Fatal(err)
	}
	defer doc.Close()
	counts["PDFium"] = doc.Pages()
	return counts
}

// checkPageCounts checks that all readers find the same number of pages.
func checkPageCounts(t *testing.T, data []byte, want int) {
	t.Helper()
	for reader, got := range pageCounts(t, data) {
		if got != want {
			t.Errorf("%s finds %d pages, want %d", reader, got, want)
		}
	}
}

// All readers find the same number of pages in a verified PDF, even if the page tree of the original is
// faulty.
func TestReadersAgreeOnNumberOfPages(t *testing.T) {
	t.Parallel()
	const catalog, box = "<</Type/Catalog/Pages 2 0 R>>", "/MediaBox[0 0 300 300]"
	leaf := func(parent int) string { return fmt.Sprintf("<</Type/Page/Parent %d 0 R%s>>", parent, box) }
	for name, test := range map[string]struct {
		bodies []string
		want   int
	}{
		"no count":               {[]string{catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]>>", leaf(2), leaf(2)}, 2},
		"negative count":         {[]string{catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]/Count -2>>", leaf(2), leaf(2)}, 2},
		"count that is too low":  {[]string{catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 1>>", leaf(2), leaf(2)}, 2},
		"count that is too high": {[]string{catalog, "<</Type/Pages/Kids[3 0 R]/Count 2>>", leaf(2)}, 1},
		"count that is a string": {[]string{catalog, "<</Type/Pages/Kids[3 0 R]/Count(1)>>", leaf(2)}, 1},
		"wrong count in a node": {[]string{
			catalog, "<</Type/Pages/Kids[3 0 R 5 0 R]/Count 2>>", "<</Type/Pages/Parent 2 0 R/Kids[4 0 R]/Count 7>>", leaf(3), leaf(2),
		}, 2},
		"a loop":             {[]string{catalog, "<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2>>", leaf(2)}, 1},
		"missing kids":       {[]string{catalog, "<</Type/Pages/Kids[null 9 0 R 3 0 R]/Count 3>>", leaf(2)}, 1},
		"a single kid":       {[]string{catalog, "<</Type/Pages/Kids 3 0 R/Count 1>>", leaf(2)}, 1},
		"direct pages":       {[]string{catalog, "<</Type/Pages/Kids[" + leaf(2) + leaf(2) + "]/Count 2>>"}, 2},
		"a direct tree":      {[]string{"<</Type/Catalog/Pages<</Type/Pages/Kids[2 0 R]/Count 1>>>>", "<</Type/Page" + box + ">>"}, 1},
		"no type":            {[]string{catalog, "<</Kids[3 0 R]" + box + "/Count 1>>", "<<" + box + ">>"}, 1},
		"the tree is a page": {[]string{catalog, "<</Type/Page" + box + ">>"}, 1},
		"no parent": {[]string{
			catalog, "<</Type/Pages/Kids[3 0 R]/Count 1>>", "<</Type/Pages" + box + "/Kids[4 0 R]/Count 1>>", "<</Type/Page>>",
		}, 1},
		"a root with a parent": {[]string{catalog, "<</Type/Pages/Parent 2 0 R/Kids[3 0 R]/Count 1>>", leaf(2)}, 1},
		"a page twice":         {[]string{catalog, "<</Type/Pages/Kids[3 0 R 3 0 R]/Count 2>>", leaf(2)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			original := pdftest.File("", test.bodies...)
			_, verified := mustSeal(t, "a.pdf", original, Placement{})
			checkPageCounts(t, verified, test.want)
			// pdfinfo may count the pages without reading all of them, so also draw the last page.
			draw(t, file(t, "verified.pdf", verified), test.want, 9, image.Rectangle{})
			if doc := mustOpen(t, verified); doc.FaultyPageTree() || doc.PageCount() != test.want {
				t.Errorf("verified PDF: FaultyPageTree = %v, pages = %d; want false and %d", doc.FaultyPageTree(), doc.PageCount(), test.want)
			}
			_, verified = mustSeal(t, "a.pdf", original, Placement{Mode: Appended})
			checkPageCounts(t, verified, test.want+1)
		})
	}
}

// A PDF is refused if its header is at an offset at which poppler does not find it.
func TestLateHeaderIsRefused(t *testing.T) {
	t.Parallel()
	for offset, want := range map[int]string{0: "", 1018: "", 1019: "leading_data", 1023: "leading_data", 8192: "type_mismatch"} {
		data := append(bytes.Repeat([]byte{'\n'}, offset), pagePDF{}.bytes()...)
		_, err := Check(t.Context(), original(t, "a.pdf", data))
		if want != "" {
			if r := mustRefuse(t, err); r.Code != want {
				t.Errorf("header at offset %d: code = %s, want %s", offset, r.Code, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_, verified := mustSeal(t, "a.pdf", data, Placement{})
		checkPageCounts(t, verified, 1)
	}
}
