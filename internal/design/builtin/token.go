package builtin

import (
	"math"

	"github.com/certvault/certvault/internal/design"
)

// The colours of Token.
const (
	tokPaper slot = iota
	tokDeep
	tokMid
	tokAccent
	tokLight
	tokPale
	tokSpark
	tokRule
	tokTile
	tokInk
	tokSoft
	tokLabel
	tokCount
)

// token is a design in portrait format with a square badge, which is a mosaic of quarter circles around
// the title.
func token() Builtin {
	return Builtin{
		Name: "token", Title: "Token",
		Description: "A square badge on a page in portrait format: a mosaic around the title, for short courses and skills.",
		Accent:      rgb(0x0b6e72),
		heading:     "credential",
		colours: func(h hue) palette {
			p := make(palette, tokCount)
			p[tokPaper] = rgb(0xffffff)
			p[tokDeep], p[tokMid] = h.shade(0.31, 0.09, 0), h.shade(0.44, 0.12, 0)
			p[tokAccent] = h.between(0.52, 0.86)
			p[tokLight], p[tokPale] = h.shade(0.80, 0.085, 0), h.shade(0.93, 0.03, 0)
			p[tokSpark] = rgb(0xf2b84b)
			p[tokRule], p[tokTile] = h.shade(0.84, 0.03, 0), h.shade(0.91, 0.02, 0)
			p[tokInk], p[tokSoft] = h.ink(), h.soft(p[tokPaper])
			p[tokLabel] = h.strong()
			return p
		},
		draw:   drawToken,
		fields: tokenFields,
	}
}

// tokenGrid contains the positions of the parts of Token, in points.
type tokenGrid struct {
	axis, left, right float64
	side, top         float64 // of the badge
	disc              point
	radius            float64
	name              float64 // the top of the name's group
	foot              float64 // the y of the rules of the date and the signature
	rule, tile        float64
}

func newTokenGrid(w, h float64) tokenGrid {
	g := tokenGrid{axis: w / 2, left: 0.115 * w, side: 0.442 * h, tile: 90, foot: h - 96}
	g.right = w - g.left
	g.top = 0.104 * h
	g.disc = point{g.axis, g.top + g.side/2}
	g.radius = 0.335 * g.side
	g.name = g.top + g.side + 0.043*h
	g.rule = (g.right - g.left - g.tile - 2*26) / 2
	return g
}

// mosaic is a quarter of the badge: the kind of each tile, its rotation in quarter turns, and its
// colours. The other quarters are its mirror images.
var mosaic = [4][4]struct {
	kind, turn  int
	ground, ink slot
}{
	{{1, 0, tokDeep, tokAccent}, {3, 2, tokMid, tokLight}, {1, 1, tokAccent, tokDeep}, {2, 0, tokDeep, tokLight}},
	{{3, 0, tokAccent, tokPale}, {2, 1, tokDeep, tokAccent}, {1, 3, tokLight, tokMid}, {1, 2, tokMid, tokAccent}},
	{{1, 3, tokMid, tokDeep}, {1, 1, tokLight, tokMid}, {3, 2, tokDeep, tokAccent}, {1, 0, tokAccent, tokDeep}},
	{{2, 1, tokDeep, tokLight}, {1, 0, tokMid, tokAccent}, {1, 2, tokAccent, tokDeep}, {1, 0, tokDeep, tokMid}},
}

func drawToken(c *canvas) {
	g := newTokenGrid(c.w, c.h)
	c.fill(tokPaper)
	c.rect(0, 0, c.w, c.h)
	c.paint()

	c.save()
	c.round(g.axis-g.side/2, g.top, g.side, g.side, 0.055*g.side)
	c.clip()
	cell := g.side / 8
	quarter := c.form(func(f *canvas) {
		for y, row := range &mosaic {
			for x, tile := range row {
				f.fill(tile.ground)
				f.rect(float64(x)*cell-0.2, float64(y)*cell-0.2, cell+0.4, cell+0.4)
				f.paint()
			}
		}
		for y, row := range &mosaic {
			for x, tile := range row {
				drawTile(f, tile.kind, tile.turn, tile.ground, tile.ink, point{float64(x) * cell, float64(y) * cell}, cell)
			}
		}
	})
	for _, sx := range []float64{1, -1} {
		for _, sy := range []float64{1, -1} {
			c.place(quarter, point{g.disc.x - sx*g.side/2, g.disc.y - sy*g.side/2}, 0, sx, sy)
		}
	}
	c.restore()

	c.fill(tokPaper)
	c.circle(g.disc, g.radius)
	c.paint()
	c.rosette(g.disc, g.radius-12.5, g.radius-5, 56, 3, tokAccent, 0.4)
	c.stroke(tokRule, 0.6)
	c.circle(g.disc, g.radius-15.5)
	c.line()
	// Three stars are at the bottom of the disc.
	for i := range 3 {
		c.fill(tokSpark)
		size := []float64{4, 6.4, 4}[i]
		c.star(point{g.disc.x + 16*float64(i-1), g.disc.y + g.radius - 34}, 10, size, size*0.45)
		c.paint()
	}

	c.stroke(tokTile, 0.9)
	c.round(g.right-g.tile, g.foot+20-g.tile, g.tile, g.tile, 0.055*g.tile*2)
	c.line()
	c.stroke(tokRule, 0.7)
	for _, x := range []float64{g.left, g.left + g.rule + 26} {
		c.polyline(point{x, g.foot}, point{x + g.rule, g.foot})
		c.line()
	}
}

// drawTile draws a tile of the mosaic in a cell. The kind 1 is a quarter circle, 2 is a set of arcs, and
// 3 is a leaf.
func drawTile(c *canvas, kind, turn int, ground, ink slot, at point, cell float64) {
	corners := []point{at, {at.x + cell, at.y}, {at.x + cell, at.y + cell}, {at.x, at.y + cell}}
	corner, next, last := corners[turn%4], corners[(turn+1)%4], corners[(turn+3)%4]
	// arc appends a quarter of a circle around p, from a to b.
	arc := func(p, a, b point) {
		i := point{a.x + kappa*(b.x-p.x), a.y + kappa*(b.y-p.y)}
		j := point{b.x + kappa*(a.x-p.x), b.y + kappa*(a.y-p.y)}
		c.write("c", i.x, i.y, j.x, j.y, b.x, b.y)
	}
	pie := func(r float64) {
		a, b := corner.towards(next, r), corner.towards(last, r)
		c.polyline(corner, a)
		arc(corner, a, b)
		c.op("h")
		c.paint()
	}
	c.fill(ink)
	switch kind {
	case 1:
		pie(1)
	case 2:
		for i, r := range []float64{1, 0.75, 0.5, 0.25} {
			c.fill([]slot{ink, ground}[i%2])
			pie(r)
		}
	case 3:
		c.write("m", next.x, next.y)
		arc(corner, next, last)
		arc(corners[(turn+2)%4], last, next)
		c.paint()
	}
}

func tokenFields(w, h float64, p palette, t words) []design.Field {
	g := newTokenGrid(w, h)
	wide := g.right - g.left
	inside := math.Sqrt2 * (g.radius - 18) // the side of the square within the disc
	label := style{font: jost, size: 9, min: 6.5, color: p[tokSoft], tracking: 20}
	y := g.name
	return []design.Field{
		logo(centered(g.axis, 0.104*h-52, 150, 38), "center"),
		style{font: jostSemi, size: 8.5, min: 6, color: p[tokLabel], tracking: 160, align: "center", upper: true}.
			text("heading", design.Text, t["credential"], centered(g.axis, g.disc.y-g.radius+34, 0.8*inside, 14)),
		style{font: jostSemi, size: 20, min: 10, lines: 4, leading: 1.14, color: p[tokInk], align: "center"}.
			title(centered(g.axis, g.disc.y-0.36*inside, inside, 0.62*inside)),
		style{font: jost, size: 9.5, min: 6, lines: 2, leading: 1.25, color: p[tokSoft], align: "center"}.
			text("institution", design.Text, "{institution}", centered(g.axis, g.disc.y+0.29*inside, 0.86*inside, 26)),
		style{font: jostSemi, size: 9, min: 7, color: p[tokLabel], tracking: 170, align: "center", upper: true}.
			text("introduction", design.Text, t["awarded"], centered(g.axis, y, wide, 14)),
		style{font: jostSemi, size: 36, min: 17, lines: 2, leading: 1.1, color: p[tokInk], align: "center"}.
			name(centered(g.axis, y+20, wide, 80)),
		style{font: jost, size: 12, min: 8, lines: 3, leading: 1.35, color: p[tokSoft], align: "center", valign: "top"}.
			text("details", design.Details, "{details}", centered(g.axis, y+108, 0.86*wide, 50)),
		style{font: jost, size: 12, min: 8, color: p[tokInk], valign: "bottom"}.
			text("date", design.Date, "{date}", box(g.left, g.foot-24, g.rule, 18)),
		label.text("date-label", design.Text, t["issued"], box(g.left, g.foot+6, g.rule, 14)),
		label.text("signature-label", design.Text, t["signature"], box(g.left+g.rule+26, g.foot+6, g.rule, 14)),
		code(g.right-g.tile/2-38, g.foot+20-g.tile/2-38, 76),
		style{font: jost, size: 7.5, min: 5, color: p[tokSoft], tracking: 20, align: "center"}.
			text("reference", design.Reference, "{reference}", centered(g.right-g.tile/2, g.foot+25, g.tile+10, 11)),
	}
}
