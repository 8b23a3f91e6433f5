package seal

import "testing"

// A viewer that stops at an error in the content does not draw a stamp after the error, but it
// draws an annotation.
func TestFaultyContentUsesAnnotation(t *testing.T) {
	t.Parallel()
	v, data := mustSeal(t, "faulty.pdf", pagePDF{content: "1 0 0 rg 10 10 50 50 re f\n12 Tf\n"}.bytes(), Placement{})
	if v.Placement != Annotation {
		t.Fatalf("placement = %s, want an annotation", v.Placement)
	}
	checkQR(t, file(t, "faulty.pdf", data), v)
}
