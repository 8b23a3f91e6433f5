package pdf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

func TestPageTree(t *testing.T) {
	t.Parallel()
	leaf := func(n int) string { return fmt.Sprintf("<</Type/Page/N %d>>", n) }
	catalog := "<</Type/Catalog/Pages 2 0 R>>"
	tests := []struct {
		name   string
		bodies []string
		want   []int // /N of the pages
		count  int
	}{
		{"flat", []string{catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>", leaf(1), leaf(2)}, []int{1, 2}, 2},
		{"nested", []string{
			catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 3>>", "<</Type/Pages/Count 2/Kids[5 0 R 6 0 R]>>", leaf(3), leaf(1), leaf(2),
		}, []int{1, 2, 3}, 3},
		{"a node with a wrong count", []string{
			catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 3>>", "<</Type/Pages/Count 9/Kids[5 0 R 6 0 R]>>", leaf(3), leaf(1), leaf(2),
		}, []int{1, 2, 3}, 3},
		{"no /Type", []string{catalog, "<</Kids[3 0 R]>>", "<</N 1>>"}, []int{1}, 1},
		{"/Type of a page with /Kids", []string{catalog, "<</Kids[3 0 R]>>", "<</Type/Page/Kids[2 0 R]/N 1>>"}, []int{1}, 1},
		{"the root is a page", []string{catalog, leaf(1)}, []int{1}, 1},
		{"loops", []string{catalog, "<</Type/Pages/Kids[2 0 R 3 0 R]/Count 1>>", "<</Type/Pages/Kids[2 0 R 3 0 R 4 0 R]>>", leaf(1)}, []int{1}, 1},
		{"kids that are not pages", []string{catalog, "<</Type/Pages/Kids[null 99 0 R (x) 3 0 R <</N 7>>]/Count 1>>", leaf(1)}, []int{1}, 1},
		{"an empty node first", []string{catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 1>>", "<</Type/Pages/Kids[]/Count 0>>", leaf(1)}, []int{1}, 1},
		{"no count", []string{catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]>>", leaf(1), leaf(2)}, []int{1, 2}, 2},
		{"a count that is too large", []string{catalog, "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 10000000000>>", leaf(1), leaf(2)}, []int{1, 2}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := pdftest.File("", test.bodies...)
			d := open(t, file)
			for i, want := range test.want {
				page, err := d.Page(i)
				if err != nil {
					t.Fatal(err)
				}
				if got, _ := d.Int(page.Dict.Get("N")); got != want || page.Index != i {
					t.Errorf("/N of page %d = %d (index %d), want %d", i, got, page.Index, want)
				}
			}
			for _, index := range []int{-1, len(test.want), 1 << 30} {
				if _, err := d.Page(index); !errors.Is(err, ErrNoPages) {
					t.Errorf("Page(%d) returned %v, want ErrNoPages", index, err)
				}
			}
			if got := d.PageCount(); got != test.count {
				t.Errorf("PageCount() = %d, want %d", got, test.count)
			}
			if d.Repaired() {
				t.Error("Repaired() = true, want false")
			}
			checkRepairedTree(t, file, test.want)
		})
	}
}

// checkRepairedTree checks that the page tree of file is faulty, and that an update
// corrects the tree and keeps the pages.
func checkRepairedTree(t *testing.T, file []byte, want []int) {
	t.Helper()
	d := open(t, file)
	if !d.FaultyPageTree() {
		t.Error("FaultyPageTree() = false before the update, want true")
	}
	tail, err := d.Update().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	d = open(t, append(file, tail...))
	if d.FaultyPageTree() || d.PageCount() != len(want) {
		t.Errorf("after an update: FaultyPageTree() = %v, PageCount() = %d, want false and %d", d.FaultyPageTree(), d.PageCount(), len(want))
	}
	for i, want := range want {
		page, err := d.Page(i)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := d.Int(page.Dict.Get("N")); got != want {
			t.Errorf("after an update: /N of page %d = %d, want %d", i, got, want)
		}
	}
}

// An update does not change a valid page tree.
func TestUpdateKeepsValidPageTree(t *testing.T) {
	t.Parallel()
	for name, file := range map[string][]byte{
		"one page": onePageFile(), "compressed": compressed(t), "hybrid": hybrid(t),
		"nested": pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R 4 0 R]/Count 6 0 R>>",
			"<</Type/Pages/Parent 2 0 R/Kids 5 0 R/Count 1>>", "<</Type/Page/Parent 2 0 R>>", "[7 0 R]", "2", "<</Type/Page/Parent 3 0 R>>"),
		"a page twice": pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R 3 0 R]/Count 2>>", "<</Type/Page/Parent 2 0 R>>"),
	} {
		d := open(t, file)
		if u := d.Update(); d.FaultyPageTree() || len(u.order) > 0 {
			t.Errorf("%s: FaultyPageTree() = %v, objects of the update = %v, want false and none", name, d.FaultyPageTree(), u.order)
		}
	}
}

// Counting more than maxTreeNodes pages causes ErrLimit.
func TestTooManyPages(t *testing.T) {
	t.Parallel()
	kids := strings.Repeat("3 0 R ", maxTreeNodes+1)
	d := open(t, pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids["+kids+"]/Count 65537>>", "<</Type/Page/Parent 2 0 R>>"))
	if d.PageCount(); !errors.Is(d.Err(), ErrLimit) {
		t.Errorf("Err() = %v, want ErrLimit", d.Err())
	}
}

// In a tree of ten levels, every node contains the same kid ten times. A traversal
// that visits nodes again would find 10^10 pages.
func TestPageTreeOfSharedKids(t *testing.T) {
	t.Parallel()
	bodies := []string{"<</Type/Catalog/Pages 2 0 R>>"}
	for level := range 10 {
		bodies = append(bodies, "<</Type/Pages/Kids["+strings.Repeat(fmt.Sprintf("%d 0 R ", level+3), 10)+"]>>")
	}
	d := open(t, pdftest.File("", append(bodies, "<</Type/Page>>")...))
	if got := d.PageCount(); got != 1 {
		t.Errorf("PageCount() = %d, want 1", got)
	}
	if d.src.work > 1<<20 {
		t.Errorf("work = %d bytes, want at most %d", d.src.work, 1<<20)
	}
}

func TestInherited(t *testing.T) {
	t.Parallel()
	d := open(t, pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>",
		"<</Type/Pages/Kids[3 0 R]/MediaBox[0 0 1 1]/Rotate 90/Resources<</A 1>>/CropBox 99 0 R>>",
		"<</Type/Pages/Kids[4 0 R]/MediaBox 5 0 R/Rotate null>>",
		"<</Type/Page/Resources null/Contents 99 0 R/Annots 6 0 R>>", "[0 0 2 2]", "[1 0 R 2 0 R]"))
	page := firstPage(t, d)
	if box, ok := d.Rectangle(page.Inherited("MediaBox")); !ok || box.X1 != 2 {
		t.Errorf("media box = %v, want a width of 2", box)
	}
	if rotate, _ := d.Int(page.Inherited("Rotate")); rotate != 90 {
		t.Errorf("rotate = %d, want 90", rotate)
	}
	if page.Resources().Get("A") != Integer(1) || page.Inherited("CropBox") != nil || page.Contents() != nil {
		t.Errorf("resources = %v, crop box = %v, contents = %v, want inherited resources and nothing else", page.Resources(), page.Inherited("CropBox"), page.Contents())
	}
	if annots, ref := page.Annotations(); len(annots) != 2 || ref != (Ref{Number: 6}) {
		t.Errorf("annotations = %v of array %v, want two of array 6 0 R", annots, ref)
	}
}

func TestGeometry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		page          string
		box           Rectangle
		rotate        int
		width, height float64
		defaulted     bool
	}{
		{"/MediaBox[0 0 200 100]", Rectangle{0, 0, 200, 100}, 0, 200, 100, false},
		{"/MediaBox[200 100 0 0]", Rectangle{0, 0, 200, 100}, 0, 200, 100, false},
		{"/MediaBox[-10 -20 190 80]/Rotate 90", Rectangle{-10, -20, 190, 80}, 90, 100, 200, false},
		{"/MediaBox[0 0 200 100]/Rotate -90", Rectangle{0, 0, 200, 100}, 270, 100, 200, false},
		{"/MediaBox[0 0 200 100]/Rotate 540.0", Rectangle{0, 0, 200, 100}, 180, 200, 100, false},
		{"/MediaBox[0 0 200 100]/Rotate 45", Rectangle{0, 0, 200, 100}, 0, 200, 100, false},
		{"/MediaBox[0 0 200 100]/Rotate 1e99", Rectangle{0, 0, 200, 100}, 0, 200, 100, false},
		{"/MediaBox[0 0 200 100]/CropBox[50 50 999 60]", Rectangle{50, 50, 200, 60}, 0, 150, 10, false},
		{"/MediaBox[0 0 200 100]/CropBox[300 300 400 400]", Rectangle{0, 0, 200, 100}, 0, 200, 100, false},
		{"/MediaBox[0 0 200 100]/CropBox[0 0 0 0]", Rectangle{0, 0, 200, 100}, 0, 200, 100, false},
		{"/MediaBox[0 0 200 100]/UserUnit 2.5", Rectangle{0, 0, 200, 100}, 0, 500, 250, false},
		{"/MediaBox[0 0 200 100]/UserUnit -1", Rectangle{0, 0, 200, 100}, 0, 200, 100, false},
		{"/MediaBox[0 0 0 100]", letter, 0, 612, 792, true},
		{"/MediaBox[0 0 nan 100]", letter, 0, 612, 792, true},
		{"/MediaBox[0 0 200]", letter, 0, 612, 792, true},
		{"/MediaBox[0 0 (a) 9]", letter, 0, 612, 792, true},
		{"", letter, 0, 612, 792, true},
		{"/MediaBox[0 0 99999999999999999999 100]", Rectangle{0, 0, maxExtent, 100}, 0, maxExtent, 100, false},
	}
	for _, test := range tests {
		d := open(t, pdftest.File("", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>", "<</Type/Page"+test.page+">>"))
		g := firstPage(t, d).Geometry()
		width, height := g.Size()
		if g.Box != test.box || g.Rotate != test.rotate || width != test.width || height != test.height || g.IsDefault != test.defaulted {
			t.Errorf("%s: geometry = %+v, size = %v x %v, want %+v", test.page, g, width, height, test)
		}
		// The matrix must map two opposite corners of the page as shown to
		// corners of the box.
		m := g.Matrix()
		for _, corner := range [][2]float64{{0, 0}, {width, height}} {
			x, y := m[0]*corner[0]+m[2]*corner[1]+m[4], m[1]*corner[0]+m[3]*corner[1]+m[5]
			if x != g.Box.X0 && x != g.Box.X1 || y != g.Box.Y0 && y != g.Box.Y1 {
				t.Errorf("%s: corner %v is mapped to %v, %v, want a corner of %v", test.page, corner, x, y, g.Box)
			}
		}
	}
}
