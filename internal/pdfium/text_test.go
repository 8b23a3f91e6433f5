package pdfium

import (
	"errors"
	"math"
	"testing"

	"github.com/certvault/certvault/internal/pdf/pdftest"
)

func openText(t *testing.T, content string) *Document {
	t.Helper()
	d, err := shared(t).Open(t.Context(), source(onePage("/MediaBox[0 0 595 842]/Resources<</Font<</F1 5 0 R>>>>", content,
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// TestText checks the lines, characters outside ASCII, and the sizes of text that is rotated, or
// scaled by the font size, by the text matrix or by the transformation matrix of the page.
func TestText(t *testing.T) {
	d := openText(t, "BT /F1 24 Tf 72 700 Td (Andr\\351 \\223Smith\\224) Tj ET BT /F1 1 Tf 12 0 0 12 72 600 Tm (matrix) Tj ET "+
		"q 2 0 0 2 0 0 cm BT /F1 9 Tf 36 250 Td (page) Tj ET Q BT /F1 1 Tf 0 30 -30 0 400 200 Tm (rotated) Tj ET")
	got, err := d.Text(t.Context(), 0, 1000, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{"André “Smith”", 24}, {"matrix", 12}, {"page", 18}, {"rotated", 30}}
	if len(got.Lines) != len(want) || !got.Complete {
		t.Fatalf("text = %+v, want %+v and complete", got, want)
	}
	for i, l := range got.Lines {
		if l.Text != want[i].Text || math.Abs(l.Size-want[i].Size) > 0.1 {
			t.Errorf("line %d = %+v, want %+v", i, l, want[i])
		}
	}
	// The page can be rendered after its text was read.
	if _, err := d.Render(t.Context(), Request{MaxSide: 100, Annotations: true}); err != nil {
		t.Error(err)
	}
	if again, err := d.Text(t.Context(), 0, 1000, false); err != nil || len(again.Lines) != len(want) || again.Lines[0].Size != 0 {
		t.Errorf("text after rendering = %+v, %v, want the same lines without sizes", again, err)
	}
}

func TestTextIsLimited(t *testing.T) {
	d := openText(t, "BT /F1 24 Tf 72 700 Td (Grace Hopper) Tj ET")
	got, err := d.Text(t.Context(), 0, 5, false)
	if err != nil || len(got.Lines) != 1 || got.Lines[0].Text != "Grace" || got.Complete {
		t.Errorf("text = %+v, %v, want Grace and not complete", got, err)
	}
	if got, err := d.Text(t.Context(), 0, 0, false); err != nil || len(got.Lines) != 0 || got.Complete {
		t.Errorf("text with a limit of 0 = %+v, %v, want no lines and not complete", got, err)
	}
	if _, err := d.Text(t.Context(), 1, 5, false); !errors.Is(err, ErrLoad) {
		t.Errorf("Text of a missing page returned %v, want ErrLoad", err)
	}
}

// TestTextOfUnknownCharacters checks that a text with a glyph whose character is unknown is not
// complete.
func TestTextOfUnknownCharacters(t *testing.T) {
	d, err := shared(t).Open(t.Context(), source(onePage("/MediaBox[0 0 595 842]/Resources<</Font<</F1 5 0 R>>>>", "BT /F1 24 Tf 72 700 Td <000100020003> Tj ET",
		"<</Type/Font/Subtype/Type0/BaseFont/T/Encoding/Identity-H/DescendantFonts[6 0 R]/ToUnicode 7 0 R>>",
		"<</Type/Font/Subtype/CIDFontType2/BaseFont/T/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>",
		pdftest.Stream("", "begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange 2 beginbfchar <0001> <0041> <0002> <E001> endbfchar endcmap"))))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := d.Text(t.Context(), 0, 100, false)
	if err != nil || got.Complete {
		t.Errorf("text = %+v, %v, want not complete", got, err)
	}
}

// TestTextOfEmptyPage checks that the text of a page without text is complete.
func TestTextOfEmptyPage(t *testing.T) {
	d := openText(t, "0 0 m 100 100 l S")
	for _, limit := range []int{100, 0} {
		if got, err := d.Text(t.Context(), 0, limit, true); err != nil || len(got.Lines) != 0 || !got.Complete {
			t.Errorf("text with a limit of %d = %+v, %v, want no lines and complete", limit, got, err)
		}
	}
}

// TestUnreadableText checks that the text of a page is not complete if PDFium cannot read it.
func TestUnreadableText(t *testing.T) {
	d := openText(t, "BT /F1 24 Tf 72 700 Td (Grace Hopper) Tj ET")
	d.page = 0 // no page
	if got, err := d.text(t.Context(), 100, false); err != nil || len(got.Lines) != 0 || got.Complete {
		t.Errorf("text = %+v, %v, want no lines and not complete", got, err)
	}
}
