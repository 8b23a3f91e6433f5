package seal

import "testing"

// TestFaultyContentUsesAnnotation checks that the stamp is an annotation if the content of the page has
// an error. Some viewers stop at the error, and would not draw a stamp after it.
func TestFaultyContentUsesAnnotation(t *testing.T) {
	t.Parallel()
	v, data := mustSeal(t, "faulty.pdf", pagePDF{content: "1 0 0 rg 10 10 50 50 re f\n12 Tf\n"}.bytes(), Placement{})
	if v.Placement != Annotation {
		t.Fatalf("placement = %s, want an annotation", v.Placement)
	}
	checkQR(t, file(t, "faulty.pdf", data), v)
}
