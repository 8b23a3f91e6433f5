package seal

import (
	"slices"
	"testing"
)

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

// A stamp that is an annotation at the requested position is not reported as placed elsewhere.
func TestAnnotationAtTheRequestedPosition(t *testing.T) {
	t.Parallel()
	for _, p := range []Placement{{Mode: Exact, Box: Box{0.4, 0.4, 0.6, 0.6}}, {Mode: TopLeft}} {
		v, _ := mustSeal(t, "faulty.pdf", pagePDF{content: "1 0 0 rg 10 10 50 50 re f\n12 Tf\n"}.bytes(), p)
		if v.Placement != Annotation || slices.ContainsFunc(v.Notices, func(n Notice) bool { return n.Code == "placed_elsewhere" }) {
			t.Errorf("%s: placement %s with notices %q, want an annotation that is not elsewhere", p.Mode, v.Placement, codes(v.Notices))
		}
	}
}
