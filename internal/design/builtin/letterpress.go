package builtin

import (
	"math"

	"github.com/certvault/certvault/internal/design"
)

// The colours of Letterpress: paper, white for the QR code, and one ink.
const (
	letPaper slot = iota
	letWhite
	letInk
	letCount
)

// letterpress is a typographic design: one ink on warm paper, and a border of printers' flowers, which
// are printed ornaments.
func letterpress() Builtin {
	return Builtin{
		Name: "letterpress", Title: "Letterpress",
		Description: "Typographic: one ink on warm paper, within a border of printers’ flowers.",
		Accent:      rgb(0x2b2a28),
		heading:     "certificate",
		colours: func(h hue) palette {
			p := make(palette, letCount)
			p[letPaper], p[letWhite] = rgb(0xfdfaf3), rgb(0xffffff)
			p[letInk] = h.between(0.20, 0.40).On(p[letPaper], 7)
			return p
		},
		draw:   drawLetterpress,
		fields: letterpressFields,
	}
}

// letterpressGrid contains the positions of the parts of Letterpress, in points.
type letterpressGrid struct {
	axis    float64
	border  float64 // the middle of the border's flowers
	unit    float64 // the approximate distance between the middles of two flowers
	heading float64 // the top of the heading
	dash    float64 // the dash below the name
	foot    float64 // the y of the rules of the date and the signature
	rule    float64
	side    float64 // the distance of the middle of a rule from the axis
	code    point
}

func newLetterpressGrid(w, h float64) letterpressGrid {
	g := letterpressGrid{axis: w / 2, border: 47, unit: 11.5, heading: 0.195 * h, foot: h - 130, rule: 0.238 * w}
	g.dash = g.heading + 112 + 0.172*h
	g.code = point{g.axis, h - 146}
	g.side = 0.5*w - 84 - g.rule/2
	return g
}

func drawLetterpress(c *canvas) {
	g := newLetterpressGrid(c.w, c.h)
	c.fill(letPaper)
	c.rect(0, 0, c.w, c.h)
	c.paint()
	drawFlowers(c, g)

	// The dashes are below the heading and below the name.
	drawDash(c, point{g.axis, g.heading + 92}, 74, 1.5)
	drawDash(c, point{g.axis, g.dash}, 108, 1)

	c.stroke(letInk, 0.6)
	for _, side := range []float64{-1, 1} {
		x := g.axis + side*g.side
		c.polyline(point{x - g.rule/2, g.foot}, point{x + g.rule/2, g.foot})
		c.line()
	}
	c.fill(letWhite)
	c.rect(g.code.x-43, g.code.y-43, 86, 86)
	c.paint()
	c.stroke(letInk, 1.8)
	c.rect(g.code.x-46, g.code.y-46, 92, 92)
	c.line()
	c.stroke(letInk, 0.4)
	c.rect(g.code.x-43, g.code.y-43, 86, 86)
	c.line()
}

// drawFlowers draws the border: two alternating kinds of flowers between two outer rules, a thick one
// and a thin one, and an inner rule.
func drawFlowers(c *canvas, g letterpressGrid) {
	c.stroke(letInk, 1.9)
	rule := func(inset float64) {
		c.rect(inset, inset, c.w-2*inset, c.h-2*inset)
		c.line()
	}
	rule(g.border - 14.4)
	c.stroke(letInk, 0.5)
	rule(g.border - 11.4)
	rule(g.border + 11.4)

	// leaf draws a flower with four narrow leaves on the diagonals and four dots on the axes.
	leaf := func(f *canvas, p point) {
		f.fill(letInk)
		for i := range 4 {
			turn := 0.125 + float64(i)/4
			start, tip := p.polar(turn, 1.7), p.polar(turn, 9.2)
			left, right := p.polar(turn-0.085, 6.6), p.polar(turn+0.085, 6.6)
			f.write("m", start.x, start.y)
			f.write("c", left.x, left.y, left.x, left.y, tip.x, tip.y)
			f.write("c", right.x, right.y, right.x, right.y, start.x, start.y)
			f.paint()
			f.circle(p.polar(float64(i)/4, 5.2), 0.8)
			f.paint()
		}
	}
	// pearl draws a lozenge between two dots.
	pearl := func(f *canvas, p point, turn float64) {
		f.fill(letInk)
		f.star(p, 4, 3, 3)
		f.paint()
		f.fill(letPaper)
		f.star(p, 4, 1.3)
		f.paint()
		f.fill(letInk)
		for _, s := range []float64{-0.25, 0.25} {
			f.circle(p.polar(turn+s, 6.4), 0.8)
			f.paint()
		}
	}
	corner := c.form(func(f *canvas) {
		f.stroke(letInk, 0.6)
		f.circle(point{}, 7)
		f.line()
		f.fill(letInk)
		f.star(point{}, 16, 5.6, 1.9)
		f.paint()
		f.fill(letPaper)
		f.circle(point{}, 1.1)
		f.paint()
	})
	// A tile contains a flower and a lozenge, and ends between its lozenge and the next flower. The
	// first ornament after each corner is a lozenge. half is half the width of the band of tiles. gap is
	// the distance from the middle of a lozenge to the end of its tile. reach is the distance from the
	// middle of a corner to the visible part of the tiles.
	const half, gap, reach = 10, 4, 7.8
	tiles := func(length float64) (step float64) {
		return length / (math.Round(length/g.unit/2) * 2)
	}
	length := c.w - 2*g.border
	step := tiles(length)
	for _, y := range []float64{g.border, c.h - g.border} {
		c.rect(g.border+reach, y-half, length-2*reach, 2*half)
		c.fillTiles(point{g.border - step + gap, y - half}, 2*step, 2*half, func(f *canvas) {
			leaf(f, point{step - gap, half})
			pearl(f, point{2*step - gap, half}, 0)
		})
	}
	length = c.h - 2*g.border
	step = tiles(length)
	for _, x := range []float64{g.border, c.w - g.border} {
		c.rect(x-half, g.border+reach, 2*half, length-2*reach)
		c.fillTiles(point{x - half, g.border - step + gap}, 2*half, 2*step, func(f *canvas) {
			leaf(f, point{half, step - gap})
			pearl(f, point{half, 2*step - gap}, 0.25)
		})
	}
	for _, x := range []float64{g.border, c.w - g.border} {
		for _, y := range []float64{g.border, c.h - g.border} {
			c.place(corner, point{x, y}, 0, 1, 1)
		}
	}
}

// drawDash draws a dash that is thick in the middle, and a lozenge on its middle.
func drawDash(c *canvas, p point, half, thick float64) {
	c.fill(letInk)
	for _, side := range []float64{-1, 1} {
		c.write("m", p.x+side*half, p.y-0.2)
		c.write("c", p.x+side*half*0.6, p.y-0.3, p.x+side*half*0.5, p.y-thick, p.x+side*9, p.y-thick)
		c.write("l", p.x+side*9, p.y+thick)
		c.write("c", p.x+side*half*0.5, p.y+thick, p.x+side*half*0.6, p.y+0.3, p.x+side*half, p.y+0.2)
		c.op("h")
		c.paint()
	}
	c.star(p, 4, 4.2+thick, 4.2+thick)
	c.paint()
	c.fill(letPaper)
	c.star(p, 4, 1.7+thick/2)
	c.paint()
}

func letterpressFields(w, h float64, p palette, t words) []design.Field {
	g := newLetterpressGrid(w, h)
	ink := p[letInk]
	wide := w - 2*84
	italic := style{font: garamondItalic, size: 17, min: 11, color: ink, align: "center"}
	label := style{font: garamondItalic, size: 10.5, min: 8, color: ink, align: "center"}
	y := g.heading
	return []design.Field{
		logo(centered(g.axis, y-82, 150, 36), "center"),
		style{font: garamondSemi, size: 12.5, min: 8, color: ink, tracking: 150, align: "center", upper: true, lines: 2, leading: 1.3}.
			text("institution", design.Text, "{institution}", centered(g.axis, y-42, wide, 36)),
		style{font: playfair, size: 58, min: 26, color: ink, align: "center"}.
			text("heading", design.Text, t["certificate"], centered(g.axis, y+4, wide, 74)),
		italic.text("introduction", design.Text, t["presented"], centered(g.axis, y+118, wide, 24)),
		style{font: garamond, size: 40, min: 18, lines: 2, leading: 1.08, color: ink, align: "center"}.
			name(centered(g.axis, g.dash-102, wide, 88)),
		italic.text("statement", design.Text, t["for"], centered(g.axis, g.dash+18, wide, 24)),
		style{font: garamondSemi, size: 21, min: 12, lines: 2, leading: 1.2, color: ink, align: "center", valign: "top"}.
			title(centered(g.axis, g.dash+50, wide, 52)),
		style{font: garamondItalic, size: 13, min: 9, lines: 2, leading: 1.3, color: ink, align: "center", valign: "top"}.
			text("details", design.Details, "{details}", centered(g.axis, g.dash+108, 0.62*w, 36)),
		style{font: garamond, size: 13, min: 9, color: ink, align: "center", valign: "bottom"}.
			text("date", design.Date, "{date}", centered(g.axis-g.side, g.foot-25, g.rule, 20)),
		label.text("date-label", design.Text, t["issued"], centered(g.axis-g.side, g.foot+5, g.rule, 15)),
		label.text("signature-label", design.Text, t["signature"], centered(g.axis+g.side, g.foot+5, g.rule, 15)),
		code(g.code.x-40, g.code.y-40, 80),
		style{font: garamond, size: 8.5, min: 6, color: ink, tracking: 50, align: "center"}.
			text("reference", design.Reference, "{reference}", centered(g.axis, g.code.y+51, 150, 13)),
	}
}
