package pdf

import "math"

// Rectangle is a rectangle (7.9.5) with X0 < X1 and Y0 < Y1, in units of the
// default user space.
type Rectangle struct{ X0, Y0, X1, Y1 float64 }

// Width returns the horizontal extent.
func (r Rectangle) Width() float64 { return r.X1 - r.X0 }

// Height returns the vertical extent.
func (r Rectangle) Height() float64 { return r.Y1 - r.Y0 }

// Array returns r as the array of a dictionary.
func (r Rectangle) Array() Array {
	return Array{Number(r.X0), Number(r.Y0), Number(r.X1), Number(r.Y1)}
}

// Intersect returns what r and s have in common. It is not ok when that has no
// area.
func (r Rectangle) Intersect(s Rectangle) (common Rectangle, ok bool) {
	common = Rectangle{max(r.X0, s.X0), max(r.Y0, s.Y0), min(r.X1, s.X1), min(r.Y1, s.Y1)}
	return common, common.X1 > common.X0 && common.Y1 > common.Y0
}

// letter is the page of viewers for a media box that is missing or void.
var letter = Rectangle{0, 0, 612, 792}

// maxExtent bounds coordinates and extents. Beyond it the arithmetic of viewers
// ends long since.
const maxExtent = 1e7

// Geometry is how a viewer shows a page.
type Geometry struct {
	// MediaBox is the media box, US Letter where it is missing or void.
	MediaBox Rectangle
	// Box is what is shown: the crop box within the media box.
	Box Rectangle
	// Rotate is 0, 90, 180 or 270, clockwise. Anything else counts as 0.
	Rotate int
	// UserUnit is the size of a unit in 1/72 inch, 1 where it is not valid.
	UserUnit float64
	// Defaulted tells that the media box was missing or void.
	Defaulted bool
}

// Geometry returns how the page is shown.
func (p *Page) Geometry() Geometry {
	g := Geometry{UserUnit: 1}
	var ok bool
	if g.MediaBox, ok = p.doc.Rectangle(p.Inherited("MediaBox")); !ok {
		g.MediaBox, g.Defaulted = letter, true
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

// Size returns width and height of the page as shown, turned and in points of
// 1/72 inch.
func (g Geometry) Size() (width, height float64) {
	width, height = g.Box.Width()*g.UserUnit, g.Box.Height()*g.UserUnit
	if g.Rotate == 90 || g.Rotate == 270 {
		return height, width
	}
	return width, height
}

// Matrix returns the matrix [a b c d e f] (8.3.3) that maps the page as shown,
// in points with the origin at its lower left, to the default user space.
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

// Rectangle reads a rectangle; the corners may be given in any order. It is
// not ok when it is not four finite numbers or has no area.
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
