package seal

import (
	"math"

	"github.com/certvault/certvault/internal/pdf"
)

// These are lengths in points.
const (
	millimetre    = 72 / 25.4
	minSide       = 18.2 * millimetre // normal minimum side of the QR code with its quiet zone
	minSignedSide = 12 * millimetre   // minimum side on a signed page, which cannot be enlarged
	preferredSide = 24 * millimetre
	margin        = 6 * millimetre // distance from the edge of the page
)

// frame is a page as it is displayed: its size in points, and its mapping to default user space.
// The origin is the lower left corner.
type frame struct {
	width, height float64
	matrix        [6]float64
}

func newFrame(g pdf.Geometry) frame {
	w, h := g.Size()
	return frame{w, h, g.Matrix()}
}

// spot is a place for a figure on a page: the lower left corner of the figure and the size of a module,
// in points.
type spot struct {
	x, y, scale float64
	figure      *figure
	transparent bool // drawn on the existing background instead of a white background
}

// side returns the side of the QR code with its quiet zone in points, or 0 for the zero spot.
func (s spot) side() float64 {
	if s.figure == nil {
		return 0
	}
	return s.scale * float64(s.figure.symbol.full())
}

func (s spot) width() float64  { return s.figure.width * s.scale }
func (s spot) height() float64 { return s.figure.height * s.scale }

// box returns the place in fractions of the page from its top left corner.
func (s spot) box(f frame) Box {
	return Box{
		s.x / f.width, 1 - (s.y+s.height())/f.height,
		(s.x + s.width()) / f.width, 1 - s.y/f.height,
	}
}

// matrix returns the matrix that maps the figure to default user space of the page.
func (s spot) matrix(f frame) [6]float64 {
	m := f.matrix
	return [6]float64{
		s.scale * m[0], s.scale * m[1], s.scale * m[2], s.scale * m[3],
		s.x*m[0] + s.y*m[2] + m[4], s.x*m[1] + s.y*m[3] + m[5],
	}
}

// rectangle returns the place in default user space of the page.
func (s spot) rectangle(f frame) pdf.Rectangle {
	m := s.matrix(f)
	w, h := s.figure.width, s.figure.height
	x1, y1 := m[4], m[5]
	x2, y2 := m[0]*w+m[2]*h+m[4], m[1]*w+m[3]*h+m[5]
	return pdf.Rectangle{X0: min(x1, x2), Y0: min(y1, y2), X1: max(x1, x2), Y1: max(y1, y2)}
}

// sides returns the sizes of the QR code to try on a page, largest first. The code is larger on a large
// page, so that it is readable in a picture of the whole page.
func (f frame) sides() []float64 {
	side := max(minSide, 0.06*max(f.width, f.height))
	out := []float64{side, minSide}
	if preferredSide > side {
		out = []float64{preferredSide, minSide}
	}
	return out
}

// corner returns the place of a figure in a corner of the page. The QR code has the first size that
// sides returns, or a smaller size on a small page.
func (f frame) corner(fig *figure, mode Mode) spot {
	side := f.sides()[0]
	shorter := min(f.width, f.height)
	gap := min(margin, 0.05*shorter)
	scale := side / float64(fig.symbol.full())
	scale = min(scale, (f.width-2*gap)/fig.width, (f.height-2*gap)/fig.height)
	if limit := 0.3 * shorter / float64(fig.symbol.full()); scale > limit {
		// On a small page the stamp is smaller, but not smaller than the normal minimum if that fits.
		scale = max(limit, min(scale, minSide/float64(fig.symbol.full())))
	}
	s := spot{x: gap, y: gap, scale: scale, figure: fig}
	if mode == BottomRight || mode == TopRight {
		s.x = f.width - gap - s.width()
	}
	if mode == TopLeft || mode == TopRight {
		s.y = f.height - gap - s.height()
	}
	return s
}

// within returns the largest place of a figure centred in a box. It returns false if the box is
// empty or not completely on the page.
func (f frame) within(fig *figure, b Box) (spot, bool) {
	for _, v := range b {
		if math.IsNaN(v) || v < -1e-6 || v > 1+1e-6 {
			return spot{}, false
		}
	}
	w, h := (b[2]-b[0])*f.width, (b[3]-b[1])*f.height
	if w <= 0 || h <= 0 {
		return spot{}, false
	}
	s := spot{scale: min(w/fig.width, h/fig.height), figure: fig}
	s.x = b[0]*f.width + (w-s.width())/2
	s.y = (1-b[3])*f.height + (h-s.height())/2
	return s, true
}

// strip returns the page enlarged by a strip below it, and the place of a figure in the strip. The figure
// is the first one that fits the width of the page. If none fits, it is the narrowest one, and the page
// is widened on both sides. The figure is on the left of the strip.
func (f frame) strip(shapes []*figure) (larger pdf.Rectangle, s spot) {
	side := max(minSide, 0.06*max(f.width, f.height))
	gap := margin / 2
	if f.width > 6*side {
		side = max(side, min(preferredSide, f.width/6))
	}
	for _, fig := range shapes {
		next := spot{scale: side / float64(fig.symbol.full()), figure: fig}
		if s.figure == nil || next.width() < s.width() {
			s = next
		}
		if s.width()+2*gap <= f.width {
			break
		}
	}
	high := s.height() + 2*gap
	needed := s.width() + 2*gap
	larger = pdf.Rectangle{X0: 0, Y0: -high, X1: f.width, Y1: f.height}
	if needed > f.width {
		larger.X0, larger.X1 = (f.width-needed)/2, (f.width+needed)/2
	}
	s.x, s.y = larger.X0+gap, -high+gap
	return larger, s
}
