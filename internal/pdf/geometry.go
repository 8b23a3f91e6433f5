package pdf

import "math"

// Rectangle is a rectangle (7.9.5) with X0 < X1 and Y0 < Y1, in units of the
// default user space.
type Rectangle struct{ X0, Y0, X1, Y1 float64 }

// Width returns the horizontal extent.
func (r Rectangle) Width() float64 { return r.X1 - r.X0 }

// Height returns the vertical extent.
func (r Rectangle) Height() float64 { return r.Y1 - r.Y0 }

// Array returns r as an array of four numbers (7.9.5).
func (r Rectangle) Array() Array {
	return Array{Number(r.X0), Number(r.Y0), Number(r.X1), Number(r.Y1)}
}

// Intersect returns the intersection of r and s. ok is false if the intersection
// has no area.
func (r Rectangle) Intersect(s Rectangle) (common Rectangle, ok bool) {
	common = Rectangle{max(r.X0, s.X0), max(r.Y0, s.Y0), min(r.X1, s.X1), min(r.Y1, s.Y1)}
	return common, common.X1 > common.X0 && common.Y1 > common.Y0
}

// letter is the page size that viewers use if the media box is missing or
// invalid.
var letter = Rectangle{0, 0, 612, 792}

// maxExtent is the maximum absolute value of a coordinate, and the maximum user
// unit.
const maxExtent = 1e7

// Geometry describes how a viewer shows a page.
type Geometry struct {
	// MediaBox is the media box, or US Letter if it is missing or invalid.
	MediaBox Rectangle
	// Box is the visible area: the intersection of the crop box and the media
	// box, or the media box if there is no intersection or no valid crop box.
	Box Rectangle
	// Rotate is the clockwise rotation in degrees: 0, 90, 180 or 270. Other
	// multiples of 90 are reduced to these values. All other values count as 0.
	Rotate int
	// UserUnit is the size of a unit in 1/72 inch, or 1 if it is missing or
	// invalid.
	UserUnit float64
	// IsDefault reports whether the media box was missing or invalid.
	IsDefault bool
}

// Geometry returns the geometry of the page.
func (p *Page) Geometry() Geometry {
	g := Geometry{UserUnit: 1}
	var ok bool
	if g.MediaBox, ok = p.doc.Rectangle(p.Inherited("MediaBox")); !ok {
		g.MediaBox, g.IsDefault = letter, true
	}
	g.Box = g.MediaBox
	if crop, ok := p.doc.Rectangle(p.Inherited("CropBox")); ok {
		if shown, ok := crop.Intersect(g.MediaBox); ok {
			g.Box = shown
		}
	}
	if v, ok := p.doc.Float(p.Inherited("Rotate")); ok && math.Mod(v, 90) == 0 {
		g.Rotate = (int(math.Mod(v, 360)) + 360) % 360
	}
	if v, ok := p.doc.Float(p.Dict.Get("UserUnit")); ok && v > 0 && v <= maxExtent {
		g.UserUnit = v
	}
	return g
}

// Size returns the width and height of the page as shown, after rotation, in
// points of 1/72 inch.
func (g Geometry) Size() (width, height float64) {
	width, height = g.Box.Width()*g.UserUnit, g.Box.Height()*g.UserUnit
	if g.Rotate == 90 || g.Rotate == 270 {
		return height, width
	}
	return width, height
}

// Matrix returns the matrix [a b c d e f] (8.3.3) that maps the page as shown,
// in points with the origin at its lower left corner, to default user space.
func (g Geometry) Matrix() [6]float64 {
	k := 1 / g.UserUnit
	switch g.Rotate {
	case 90:
		return [6]float64{0, k, -k, 0, g.Box.X1, g.Box.Y0}
	case 180:
		return [6]float64{-k, 0, 0, -k, g.Box.X1, g.Box.Y1}
	case 270:
		return [6]float64{0, -k, k, 0, g.Box.X0, g.Box.Y1}
	}
	return [6]float64{k, 0, 0, k, g.Box.X0, g.Box.Y0}
}

// Rectangle resolves obj and returns it as a rectangle. The corners may be in any
// order. ok is false unless obj is an array that begins with four finite numbers
// and the rectangle has an area. Coordinates are limited to maxExtent.
func (d *Document) Rectangle(obj Object) (r Rectangle, ok bool) {
	a := d.Array(obj)
	if len(a) < 4 {
		return Rectangle{}, false
	}
	var v [4]float64
	for i := range v {
		f, ok := d.Float(a[i])
		if !ok {
			return Rectangle{}, false
		}
		v[i] = min(max(f, -maxExtent), maxExtent)
	}
	r = Rectangle{min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3])}
	return r, r.Width() > 0 && r.Height() > 0
}
