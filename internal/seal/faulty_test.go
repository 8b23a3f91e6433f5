package seal

import "testing"

// A viewer that stops at a fault in the content never reaches a stamp behind
// it; an annotation is drawn all the same.
func TestFaultyContentGetsAnAnnotation(t *testing.T) {
	t.Parallel()
	v, data := seals(t, "faulty.pdf", pagePDF{content: "1 0 0 rg 10 10 50 50 re f\n12 Tf\n"}.bytes(), Placement{})
	if v.Placement != Annotation {
		t.Fatalf("placement %s, want an annotation", v.Placement)
	}
	judgeQR(t, file(t, "faulty.pdf", data), v)
}
