package builtin

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/certvault/certvault/internal/pdf"
)

// slot is a colour of a design: its index in the palette. The drawing contains slots and not colours, so
// that another palette changes its colours.
type slot int

// point is a point of a page or a form, in points of 1/72 inch from the top left; y points
// downwards.
type point struct{ x, y float64 }

// polar returns the point at an angle and a distance from p. The angle is in turns, clockwise from
// the right.
func (p point) polar(turn, distance float64) point {
	sin, cos := math.Sincos(2 * math.Pi * turn)
	return point{p.x + distance*cos, p.y + distance*sin}
}

// towards returns the point at the fraction t of the way from p to q.
func (p point) towards(q point, t float64) point {
	return point{p.x + (q.x-p.x)*t, p.y + (q.y-p.y)*t}
}

// canvas is the content of a page, a form or a tile. A form is a drawing that a page can use several
// times.
type canvas struct {
	w, h     float64
	content  bytes.Buffer
	uprights []upright
	shared   *resources
}

// resources are the objects that the page, its forms and its tiles use.
type resources struct {
	gradients []gradient
	opacities []float64
	forms     []*canvas
	tiles     []tile
}

// tile is a drawing that is repeated in both directions. The field from is the top left of one copy.
type tile struct {
	content *canvas
	from    point
}

// gradient is a transition between colours at equal distances along a line.
type gradient struct {
	from, to point
	slots    []slot
}

func newCanvas(w, h float64) *canvas {
	c := &canvas{w: w, h: h, shared: &resources{}}
	c.start()
	return c
}

// start sets the initial graphics state: the colour space of slots, and round caps and joins.
func (c *canvas) start() { c.op("/P cs /P CS 1 J 1 j") }

func (c *canvas) op(text string) {
	c.content.WriteString(text)
	c.content.WriteByte('\n')
}

// write appends numbers and an operator. Numbers have two decimal places: 0.01 is a 7200th of an inch.
func (c *canvas) write(operator string, values ...float64) {
	for _, v := range values {
		c.content.Write(strconv.AppendFloat(c.content.AvailableBuffer(), math.Round(v*100)/100+0, 'f', -1, 64))
		c.content.WriteByte(' ')
	}
	c.op(operator)
}

func (c *canvas) save()    { c.op("q") }
func (c *canvas) restore() { c.op("Q") }

// fill sets the colour of areas, and stroke the colour and the width of lines.
func (c *canvas) fill(s slot) { c.write("sc", float64(s)) }

func (c *canvas) stroke(s slot, width float64) {
	c.write("SC", float64(s))
	c.write("w", width)
}

// opacity sets the opacity of areas and lines until restore.
func (c *canvas) opacity(v float64) {
	c.op(fmt.Sprintf("/G%d gs", len(c.shared.opacities)))
	c.shared.opacities = append(c.shared.opacities, v)
}

// paint fills the path, line draws it as a line, and clip makes it the clipping path.
func (c *canvas) paint() { c.op("f") }
func (c *canvas) line()  { c.op("S") }
func (c *canvas) clip()  { c.op("W n") }

// shade fills the path with a gradient. The path remains the clipping path until restore.
func (c *canvas) shade(from, to point, slots ...slot) {
	c.clip()
	c.op(fmt.Sprintf("/S%d sh", len(c.shared.gradients)))
	c.shared.gradients = append(c.shared.gradients, gradient{from, to, slots})
}

// bands fills a rectangle with bands from left to right, or from top to bottom if down is true. The
// bands have the colours of the slots from first on. Renderers draw bands ten times faster than a
// shading of a large area. Each band reaches under the next one, so that no gap is visible.
func (c *canvas) bands(x, y, w, h float64, down bool, first slot, steps int) {
	for i := range steps {
		c.fill(first + slot(i))
		t := float64(i) / float64(steps)
		step := min(1/float64(steps)+0.01, 1-t)
		if down {
			c.rect(x, y+t*h, w, step*h)
		} else {
			c.rect(x+t*w, y, step*w, h)
		}
		c.paint()
	}
}

// form adds a form to the file and returns its number for the method place.
func (c *canvas) form(draw func(f *canvas)) int {
	f := &canvas{w: c.w, h: c.h, shared: c.shared}
	f.start()
	draw(f)
	c.shared.forms = append(c.shared.forms, f)
	return len(c.shared.forms) - 1
}

// place draws a form that is scaled, rotated clockwise and moved to p. turn is a fraction of a full
// rotation.
func (c *canvas) place(form int, p point, turn, scaleX, scaleY float64) {
	sin, cos := math.Sincos(2 * math.Pi * turn)
	c.save()
	for _, v := range []float64{cos * scaleX, sin * scaleX, -sin * scaleY, cos * scaleY} {
		c.content.Write(strconv.AppendFloat(c.content.AvailableBuffer(), math.Round(v*1e5)/1e5+0, 'f', -1, 64))
		c.content.WriteByte(' ')
	}
	c.write("cm", p.x, p.y)
	c.op(fmt.Sprintf("/F%d Do Q", form))
}

// fillTiles fills the path with copies of a drawing of the size w, h. One copy is at p. Renderers are
// fast, because they draw a tile only once.
func (c *canvas) fillTiles(p point, w, h float64, draw func(f *canvas)) {
	f := &canvas{w: w, h: h, shared: c.shared}
	f.start()
	draw(f)
	c.op(fmt.Sprintf("/Pattern cs /T%d scn f /P cs", len(c.shared.tiles)))
	c.shared.tiles = append(c.shared.tiles, tile{f, p})
}

// The following methods, from rect to rosette, append to the path. frame, visible and rosette also draw it.

func (c *canvas) rect(x, y, w, h float64) { c.write("re", x, y, w, h) }

// frame fills a frame of the given width with four rectangles. Renderers fill them faster than one path with
// a hole.
func (c *canvas) frame(inset, width float64) {
	w, h := c.w-2*inset, c.h-2*inset
	for _, y := range []float64{inset, c.h - inset - width} {
		c.rect(inset, y, w, width)
		c.paint()
	}
	for _, x := range []float64{inset, c.w - inset - width} {
		c.rect(x, inset+width, width, h-2*width)
		c.paint()
	}
}

func (c *canvas) polygon(points ...point) {
	c.polyline(points...)
	c.op("h")
}

func (c *canvas) polyline(points ...point) {
	for i, p := range points {
		if i == 0 {
			c.write("m", p.x, p.y)
		} else {
			c.write("l", p.x, p.y)
		}
	}
}

// kappa is the length of the Bézier handles of a quarter of a circle, as a multiple of the radius.
const kappa = 0.5523

func (c *canvas) circle(p point, r float64) { c.ellipse(p, r, r) }

func (c *canvas) ellipse(p point, rx, ry float64) {
	x, y := kappa*rx, kappa*ry
	c.write("m", p.x+rx, p.y)
	c.write("c", p.x+rx, p.y+y, p.x+x, p.y+ry, p.x, p.y+ry)
	c.write("c", p.x-x, p.y+ry, p.x-rx, p.y+y, p.x-rx, p.y)
	c.write("c", p.x-rx, p.y-y, p.x-x, p.y-ry, p.x, p.y-ry)
	c.write("c", p.x+x, p.y-ry, p.x+rx, p.y-y, p.x+rx, p.y)
	c.op("h")
}

// round appends a rectangle with round corners.
func (c *canvas) round(x, y, w, h, r float64) {
	k := r * (1 - kappa)
	c.write("m", x+r, y)
	c.write("l", x+w-r, y)
	c.write("c", x+w-k, y, x+w, y+k, x+w, y+r)
	c.write("l", x+w, y+h-r)
	c.write("c", x+w, y+h-k, x+w-k, y+h, x+w-r, y+h)
	c.write("l", x+r, y+h)
	c.write("c", x+k, y+h, x, y+h-k, x, y+h-r)
	c.write("l", x, y+r)
	c.write("c", x, y+k, x+k, y, x+r, y)
	c.op("h")
}

// curve appends a smooth line through points (Catmull-Rom splines as Bézier curves).
func (c *canvas) curve(closed bool, points ...point) {
	n := len(points)
	at := func(i int) point {
		if closed {
			return points[(i+n)%n]
		}
		return points[max(0, min(n-1, i))]
	}
	c.write("m", points[0].x, points[0].y)
	last := n - 1
	if closed {
		last = n
	}
	for i := range last {
		a, b, d, e := at(i-1), at(i), at(i+1), at(i+2)
		c.write("c", b.x+(d.x-a.x)/6, b.y+(d.y-a.y)/6, d.x-(e.x-b.x)/6, d.y-(e.y-b.y)/6, d.x, d.y)
	}
	if closed {
		c.op("h")
	}
}

// visible draws the parts of a closed curve that are in the rectangle from the origin to (w, h).
func (c *canvas) visible(points []point, w, h float64) {
	n := len(points)
	shown := func(i int) bool {
		p := points[(i+n)%n]
		return p.x > 0 && p.x < w && p.y > 0 && p.y < h
	}
	var run []point
	flush := func() {
		if len(run) > 1 {
			c.curve(false, run...)
			c.line()
		}
		run = nil
	}
	start := 0 // a point outside, so that no visible part is divided
	for start < n && shown(start) {
		start++
	}
	for i := start; i <= start+n; i++ {
		if shown(i-1) || shown(i) || shown(i+1) {
			run = append(run, points[i%n])
		} else {
			flush()
		}
	}
	flush()
}

// star appends a polygon around p. The first corner is at the top, and the corners use the radii in
// turn.
func (c *canvas) star(p point, corners int, radii ...float64) {
	points := make([]point, corners)
	for i := range points {
		points[i] = p.polar(float64(i)/float64(corners)-0.25, radii[i%len(radii)])
	}
	c.polygon(points...)
}

// trace appends the line of the points at(t), for t between from and to. Each part of the line is a
// Bézier curve that has the direction of the line at its ends.
func (c *canvas) trace(from, to float64, parts int, at func(t float64) point) {
	const near = 1e-4
	step := (to - from) / float64(parts)
	handle := func(t, length float64) point { // the control point of a part that begins or ends at t
		a, b := at(t-near), at(t+near)
		k := length / 3 / (2 * near)
		p := at(t)
		return point{p.x + (b.x-a.x)*k, p.y + (b.y-a.y)*k}
	}
	start := at(from)
	c.write("m", start.x, start.y)
	for i := range parts {
		t := from + float64(i)*step
		out, in, end := handle(t, step), handle(t+step, -step), at(t+step)
		c.write("c", out.x, out.y, in.x, in.y, end.x, end.y)
	}
}

// rosette draws a guilloche, the engraved ornament of security printing: several copies of a closed line
// with lobes between two radii. Each copy is rotated by a fraction of a lobe. All copies are one path
// and not a form, because renderers read a form again each time it is placed. Each lobe has only two
// parts, because each part takes time.
func (c *canvas) rosette(p point, inner, outer float64, lobes, copies int, s slot, width float64) {
	c.stroke(s, width)
	for k := range copies {
		turned := float64(k) / float64(copies*lobes)
		c.trace(0, 1, 2*lobes, func(turn float64) point {
			return p.polar(turn+turned, (inner+outer)/2+(outer-inner)/2*math.Cos(2*math.Pi*float64(lobes)*turn))
		})
		c.op("h")
	}
	c.line()
}

// file is a PDF whose colours can be replaced.
type file struct {
	pdf    []byte
	places []place
}

// place is a position in a file. If Slots is not empty, the position contains the colours of Slots,
// three bytes each. Otherwise it contains a matrix that can mirror the following drawing at the vertical
// line x = Mirror/2.
type place struct {
	At     int     `json:"at"`
	Slots  []slot  `json:"slots,omitempty"`
	Mirror float64 `json:"mirror,omitempty"`
}

// matrix returns the operator that scales the x coordinates and then moves them by x. Its length is the
// same for all values.
func matrix(scale int, x float64) string { return fmt.Sprintf("%2d 0 0 1 %7.2f 0 cm\n", scale, x) }

// upright begins a part of the drawing that is not mirrored with the rest, such as a tick. The part
// ends when the saved graphics state is restored. Its middle is the vertical line at x.
func (c *canvas) upright(x float64) {
	c.uprights = append(c.uprights, upright{c.content.Len(), x})
}

// upright is the offset in the content at which a part that is not mirrored begins, and the x of the
// vertical line in the middle of this part.
type upright struct {
	from int
	x    float64
}

// file returns the drawing as a PDF with the colours.
func (c *canvas) file(colours palette) (*file, error) {
	var b bytes.Buffer
	out := &file{}
	w := pdf.NewWriter(&b)
	// add writes a stream that consists of colours and is not compressed.
	add := func(dict *pdf.Dict, slots []slot) pdf.Ref {
		ref := w.Add(pdf.NewRawStream(dict, colours.bytes(slots)))
		at := int(w.Written()) - len("\nendstream\nendobj\n") - 3*len(slots)
		out.places = append(out.places, place{At: at, Slots: slots})
		return ref
	}
	pages, page, catalog, all := w.Reserve(), w.Reserve(), w.Reserve(), w.Reserve()

	every := make([]slot, len(colours))
	for i := range every {
		every[i] = slot(i)
	}
	// The streams have no filter, so that their bytes are the colours (ISO 32000-2, 8.6.6.3 and 7.10.2).
	space := pdf.Array{pdf.Name("Indexed"), pdf.Name("DeviceRGB"), pdf.Integer(len(colours) - 1), add(nil, every)}
	shadings, states, forms, patterns := pdf.NewDict(), pdf.NewDict(), pdf.NewDict(), pdf.NewDict()
	for i, g := range c.shared.gradients {
		function := add(pdf.NewDict(
			pdf.Entry{Key: "FunctionType", Value: pdf.Integer(0)},
			pdf.Entry{Key: "Domain", Value: numbers(0, 1)},
			pdf.Entry{Key: "Range", Value: numbers(0, 1, 0, 1, 0, 1)},
			pdf.Entry{Key: "Size", Value: numbers(float64(len(g.slots)))},
			pdf.Entry{Key: "BitsPerSample", Value: pdf.Integer(8)},
		), g.slots)
		shadings.Set(pdf.Name("S"+strconv.Itoa(i)), w.Add(g.object(function)))
	}
	for i, v := range c.shared.opacities {
		states.Set(pdf.Name("G"+strconv.Itoa(i)), pdf.NewDict(pdf.Entry{Key: "ca", Value: pdf.Number(v)}, pdf.Entry{Key: "CA", Value: pdf.Number(v)}))
	}
	for i, f := range c.shared.forms {
		forms.Set(pdf.Name("F"+strconv.Itoa(i)), w.Add(pdf.NewStream(pdf.NewDict(
			pdf.Entry{Key: "Type", Value: pdf.Name("XObject")},
			pdf.Entry{Key: "Subtype", Value: pdf.Name("Form")},
			pdf.Entry{Key: "BBox", Value: numbers(-c.w, -c.h, c.w, c.h)},
			pdf.Entry{Key: "Resources", Value: all},
		), f.content.Bytes())))
	}
	for i, t := range c.shared.tiles {
		patterns.Set(pdf.Name("T"+strconv.Itoa(i)), w.Add(pdf.NewStream(pdf.NewDict(
			pdf.Entry{Key: "Type", Value: pdf.Name("Pattern")},
			pdf.Entry{Key: "PatternType", Value: pdf.Integer(1)},
			pdf.Entry{Key: "PaintType", Value: pdf.Integer(1)},
			pdf.Entry{Key: "TilingType", Value: pdf.Integer(1)},
			pdf.Entry{Key: "BBox", Value: numbers(0, 0, t.content.w, t.content.h)},
			pdf.Entry{Key: "XStep", Value: pdf.Number(t.content.w)},
			pdf.Entry{Key: "YStep", Value: pdf.Number(t.content.h)},
			pdf.Entry{Key: "Matrix", Value: numbers(1, 0, 0, -1, t.from.x, c.h-t.from.y)},
			pdf.Entry{Key: "Resources", Value: all},
		), t.content.content.Bytes())))
	}
	w.Set(all, pdf.NewDict(
		pdf.Entry{Key: "ColorSpace", Value: pdf.NewDict(pdf.Entry{Key: "P", Value: w.Add(space)})},
		pdf.Entry{Key: "Shading", Value: shadings},
		pdf.Entry{Key: "ExtGState", Value: states},
		pdf.Entry{Key: "XObject", Value: forms},
		pdf.Entry{Key: "Pattern", Value: patterns},
	))
	// The matrices have streams of their own without a filter, so that their bytes can be replaced.
	turn := func(x float64) pdf.Ref {
		identity := matrix(1, 0)
		ref := w.Add(pdf.NewRawStream(nil, []byte(identity)))
		out.places = append(out.places, place{At: int(w.Written()) - len("\nendstream\nendobj\n") - len(identity), Mirror: round(x)})
		return ref
	}
	parts := pdf.Array{turn(c.w)}
	content := fmt.Appendf(nil, "1 0 0 -1 0 %v cm\n", c.h) // y points downwards
	from := 0
	for _, u := range c.uprights {
		content = append(content, c.content.Bytes()[from:u.from]...)
		parts = append(parts, w.Add(pdf.NewStream(nil, content)), turn(2*u.x))
		content, from = nil, u.from
	}
	parts = append(parts, w.Add(pdf.NewStream(nil, append(content, c.content.Bytes()[from:]...))))
	w.Set(page, pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")},
		pdf.Entry{Key: "Parent", Value: pages},
		pdf.Entry{Key: "MediaBox", Value: numbers(0, 0, c.w, c.h)},
		pdf.Entry{Key: "Resources", Value: all},
		pdf.Entry{Key: "Contents", Value: parts},
	))
	w.Set(pages, pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Pages")},
		pdf.Entry{Key: "Kids", Value: pdf.Array{page}},
		pdf.Entry{Key: "Count", Value: pdf.Integer(1)},
	))
	w.Set(catalog, pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")}, pdf.Entry{Key: "Pages", Value: pages}))
	if err := w.Close(catalog, pdf.Ref{}); err != nil {
		return nil, fmt.Errorf("writing the PDF: %w", err)
	}
	out.pdf = b.Bytes()
	for _, p := range out.places {
		want := colours.bytes(p.Slots)
		if len(p.Slots) == 0 {
			want = []byte(matrix(1, 0))
		}
		if !bytes.Equal(out.pdf[p.At:p.At+len(want)], want) {
			return nil, fmt.Errorf("the bytes of %v are not at %d", p.Slots, p.At)
		}
	}
	return out, nil
}

// object returns the shading dictionary (ISO 32000-2, 8.7.4.5).
func (g *gradient) object(function pdf.Ref) *pdf.Dict {
	return pdf.NewDict(
		pdf.Entry{Key: "ShadingType", Value: pdf.Integer(2)},
		pdf.Entry{Key: "ColorSpace", Value: pdf.Name("DeviceRGB")},
		pdf.Entry{Key: "Coords", Value: numbers(g.from.x, g.from.y, g.to.x, g.to.y)},
		pdf.Entry{Key: "Function", Value: function},
		pdf.Entry{Key: "Extend", Value: pdf.Array{pdf.Boolean(true), pdf.Boolean(true)}},
	)
}

func numbers(values ...float64) pdf.Array {
	out := make(pdf.Array, len(values))
	for i, v := range values {
		out[i] = pdf.Number(math.Round(v*100) / 100)
	}
	return out
}
