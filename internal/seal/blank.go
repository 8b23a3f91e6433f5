package seal

import (
	"cmp"
	"image"
	"math"
	"slices"

	"github.com/certvault/certvault/internal/pdf"
)

// blankSearchSide is the longer side, in pixels, of the picture that is searched for blank places.
const blankSearchSide = 400

// These are the maximum differences of grey values between neighbouring pixels, and within a whole
// place, that count as one colour.
const (
	edgeTolerance  = 2
	placeTolerance = 6
)

// blankMap records which parts of a displayed page are blank, that is, of one colour.
type blankMap struct {
	img  *image.Gray
	busy []bool  // pixels that differ from a neighbour, are in a box, or contain ink in a close-up
	sums []int32 // summed-area table of busy
}

// newBlankMap builds the map from a picture of the page. The boxes count as not blank, even if
// the picture shows nothing there.
func newBlankMap(img *image.Gray, boxes []Box) *blankMap {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	busy := make([]bool, w*h)
	mark := func(i, j int) {
		if d := int(img.Pix[i]) - int(img.Pix[j]); d > edgeTolerance || d < -edgeTolerance {
			busy[i], busy[j] = true, true
		}
	}
	for y := range h {
		for x := range w {
			i := y*w + x // img is packed: its bounds start at 0, 0
			if x+1 < w {
				mark(i, i+1)
			}
			if y+1 < h {
				mark(i, i+w)
			}
		}
	}
	for _, b := range boxes {
		r := image.Rect(
			int(math.Floor(b[0]*float64(w)))-1, int(math.Floor(b[1]*float64(h)))-1,
			int(math.Ceil(b[2]*float64(w)))+1, int(math.Ceil(b[3]*float64(h)))+1,
		).Intersect(img.Rect)
		for y := r.Min.Y; y < r.Max.Y; y++ {
			for x := r.Min.X; x < r.Max.X; x++ {
				busy[y*w+x] = true
			}
		}
	}
	m := &blankMap{img: img, busy: busy, sums: make([]int32, (w+1)*(h+1))}
	m.sum()
	return m
}

// sum computes the summed-area table.
func (m *blankMap) sum() {
	w, h := m.img.Rect.Dx(), m.img.Rect.Dy()
	for y := range h {
		var row int32
		for x := range w {
			if m.busy[y*w+x] {
				row++
			}
			m.sums[(y+1)*(w+1)+x+1] = m.sums[y*(w+1)+x+1] + row
		}
	}
}

// blank reports whether r is not empty, is inside the page, and contains no edges, no pixels of the
// boxes and no ink from a close-up.
func (m *blankMap) blank(r image.Rectangle) bool {
	if !r.In(m.img.Rect) || r.Empty() {
		return false
	}
	w := m.img.Rect.Dx() + 1
	at := func(x, y int) int32 { return m.sums[y*w+x] }
	return at(r.Max.X, r.Max.Y)-at(r.Min.X, r.Max.Y)-at(r.Max.X, r.Min.Y)+at(r.Min.X, r.Min.Y) == 0
}

// flat reports whether r is of one colour. A gradual change of colour without edges is not flat.
func (m *blankMap) flat(r image.Rectangle) bool {
	low, high := byte(255), byte(0)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for _, v := range m.img.Pix[y*m.img.Stride+r.Min.X : y*m.img.Stride+r.Max.X] {
			low, high = min(low, v), max(high, v)
		}
	}
	return high <= low || high-low <= placeTolerance
}

// corners lists the corners in order of preference. cost is the penalty of a corner as a fraction of the
// page. The search adds it to the distance between a place and the corner, and prefers the place with
// the lowest sum.
var corners = []struct {
	mode Mode
	cost float64
}{{BottomRight, 0}, {BottomLeft, 0.03}, {TopRight, 0.06}, {TopLeft, 0.09}}

// search has the parameters of a search for blank places for a figure of one size.
type search struct {
	m            *blankMap
	spot         spot
	px, py       float64     // pixels per point
	figure       image.Point // size of the figure in pixels
	padX, padY   int         // margin around the figure that must be blank
	edgeX, edgeY int         // minimum distance from the edge of the page
}

// candidate is the best place found near a corner.
type candidate struct {
	corner Mode
	at     image.Point
	room   image.Rectangle // the figure and its blank margin
	cost   float64         // distance from the corner as a fraction of the page
}

// cost returns the distance of a place from a corner.
func (s *search) cost(x, y int, corner Mode) float64 {
	w, h := s.m.img.Rect.Dx(), s.m.img.Rect.Dy()
	dx, dy := x-s.edgeX, y-s.edgeY
	if corner == BottomRight || corner == TopRight {
		dx = w - s.edgeX - s.figure.X - x
	}
	if corner == BottomRight || corner == BottomLeft {
		dy = h - s.edgeY - s.figure.Y - y
	}
	return math.Hypot(float64(dx)/float64(w), float64(dy)/float64(h))
}

// nearest finds the place nearest to the corner of each candidate. A place without edges is almost
// always flat, and the check for flatness is slow. Therefore nearest first checks only the nearest
// places for flatness, and checks all places only if one of these is not flat.
func (s *search) nearest(best []candidate) {
	fresh := slices.Clone(best)
	s.scan(best, false)
	for _, c := range best {
		if !math.IsInf(c.cost, 1) && !s.m.flat(c.room) {
			copy(best, fresh)
			s.scan(best, true)
			return
		}
	}
}

// scan tries every place on the page and updates the candidates. If flat is true, scan uses only
// places that are flat.
func (s *search) scan(best []candidate, flat bool) {
	page := s.m.img.Rect
	for y := s.edgeY; y+s.figure.Y+s.edgeY <= page.Dy(); y++ {
		for x := s.edgeX; x+s.figure.X+s.edgeX <= page.Dx(); x++ {
			r := image.Rect(x-s.padX, y-s.padY, x+s.figure.X+s.padX, y+s.figure.Y+s.padY).Intersect(page)
			if !s.m.blank(r) {
				continue
			}
			for i := range best {
				if cost := s.cost(x, y, best[i].corner); cost < best[i].cost && (!flat || s.m.flat(r)) {
					best[i].at, best[i].room, best[i].cost = image.Pt(x, y), r, cost
				}
			}
		}
	}
}

// farFromCorner is the maximum distance between a place and the requested corner, as a fraction of
// the page.
const farFromCorner = 0.4

// find returns the blank place nearest to each corner, best first. If only is not Auto, find
// returns only a place near that corner. pad is the width of the blank margin around the figure,
// and edge the minimum distance from the edge of the page, both in points.
func (m *blankMap) find(f frame, fig *figure, side, pad, edge float64, only Mode) []spot {
	px, py := float64(m.img.Rect.Dx())/f.width, float64(m.img.Rect.Dy())/f.height
	up := func(v float64) int { return int(math.Ceil(v)) }
	s := &search{m: m, spot: spot{scale: side / float64(fig.symbol.full()), figure: fig}, px: px, py: py}
	// The figure may start between two pixels, so it needs one more pixel.
	s.figure = image.Pt(up(s.spot.width()*px)+1, up(s.spot.height()*py)+1)
	s.padX, s.padY, s.edgeX, s.edgeY = up(pad*px), up(pad*py), up(edge*px), up(edge*py)
	var best []candidate
	for _, c := range corners {
		if only == Auto || only == c.mode {
			best = append(best, candidate{corner: c.mode, cost: math.Inf(1)})
		}
	}
	s.nearest(best)
	if only == Auto {
		for i, c := range corners {
			best[i].cost += c.cost
		}
	}
	slices.SortStableFunc(best, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	var out []spot
	for _, b := range best {
		if math.IsInf(b.cost, 1) || only != Auto && b.cost > farFromCorner {
			continue
		}
		place := s.spot
		place.x = (float64(b.at.X) + 0.5) / px
		place.y = f.height - (float64(b.at.Y)+0.5)/py - place.height()
		if !slices.ContainsFunc(out, place.near) {
			out = append(out, place)
		}
	}
	return out
}

// near reports whether two places differ by less than a point in each direction.
func (s spot) near(o spot) bool { return math.Abs(o.x-s.x) < 1 && math.Abs(o.y-s.y) < 1 }

// places returns the blank places of the page for the largest QR code that fits anywhere. It tries
// the sizes of the QR code in turn, each with a wide and a narrow margin and in all shapes.
func (m *blankMap) places(f frame, figures []*figure, sides []float64, only Mode) []spot {
	for _, side := range sides {
		for _, room := range []struct{ pad, edge float64 }{{2 * millimetre, margin}, {0.8 * millimetre, margin / 2}} {
			for _, fig := range figures {
				if out := m.find(f, fig, side, room.pad, room.edge, only); len(out) > 0 {
					return out
				}
			}
		}
	}
	return nil
}

// annotationBoxes returns the boxes of the first 10,000 annotations on the page, including form fields,
// but without pop-ups.
func annotationBoxes(doc *pdf.Document, page *pdf.Page, f frame) []Box {
	const maxBoxes = 10000
	annotations, _ := page.Annotations()
	var out []Box
	for _, a := range annotations[:min(len(annotations), maxBoxes)] {
		dict := doc.Dict(a)
		r, ok := doc.Rectangle(dict.Get("Rect"))
		if !ok || doc.Name(dict.Get("Subtype")) == "Popup" {
			continue
		}
		out = append(out, f.shown(r))
	}
	return out
}

// shown returns a rectangle of the default user space as fractions of the page, or the whole page
// if the matrix of the page cannot be inverted.
func (f frame) shown(r pdf.Rectangle) Box {
	m := f.matrix
	det := m[0]*m[3] - m[1]*m[2]
	if det == 0 {
		return Box{0, 0, 1, 1}
	}
	back := func(x, y float64) (float64, float64) {
		x, y = x-m[4], y-m[5]
		return (m[3]*x - m[2]*y) / det, (m[0]*y - m[1]*x) / det
	}
	x1, y1 := back(r.X0, r.Y0)
	x2, y2 := back(r.X1, r.Y1)
	return Box{min(x1, x2) / f.width, 1 - max(y1, y2)/f.height, max(x1, x2) / f.width, 1 - min(y1, y2)/f.height}
}

// overlaps reports whether two boxes intersect.
func (b Box) overlaps(o Box) bool {
	return b[0] < o[2] && o[0] < b[2] && b[1] < o[3] && o[1] < b[3]
}

// pixels returns the pixels that are entirely inside a box.
func (m *blankMap) pixels(b Box) image.Rectangle {
	w, h := float64(m.img.Rect.Dx()), float64(m.img.Rect.Dy())
	return image.Rect(int(math.Ceil(b[0]*w)), int(math.Ceil(b[1]*h)), int(b[2]*w), int(b[3]*h))
}
