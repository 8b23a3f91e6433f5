package builtin

import (
	"math"

	"github.com/certvault/certvault/internal/design"
)

// The colours of Heritage.
const (
	herIvory slot = iota
	herCream
	herWatermark
	herFrame
	herNet
	herNetGold
	herGold
	herGoldLight
	herGoldDark
	herRibbon
	herRibbonLight
	herRibbonDark
	herRule
	herWhite
	herInk
	herSoft
	herHeading
	herCount
)

// heritage is a classic design on ivory, with an engraved border, a guilloche behind the text and a
// medal.
func heritage() Builtin {
	return Builtin{
		Name: "heritage", Title: "Heritage", Landscape: true,
		Description: "Classic: an engraved border on ivory, and a medal with ribbons.",
		Accent:      rgb(0x1f4a3d),
		heading:     "diploma",
		colours: func(h hue) palette {
			p := make(palette, herCount)
			p[herIvory], p[herCream] = rgb(0xfefaf0), rgb(0xfdf7e8)
			p[herWatermark] = rgb(0xeee5cc)
			p[herFrame] = h.shade(0.34, 0.085, 0)
			p[herNet], p[herNetGold] = h.shade(0.60, 0.07, 0), rgb(0xdcc382)
			p[herGold], p[herGoldLight], p[herGoldDark] = rgb(0xb08a3c), rgb(0xf5e2a8), rgb(0x7d5c18)
			p[herRibbon], p[herRibbonLight], p[herRibbonDark] = h.shade(0.40, 0.11, 0), h.shade(0.50, 0.12, 0), h.shade(0.27, 0.08, 0)
			p[herRule] = h.shade(0.60, 0.02, 0)
			p[herWhite] = rgb(0xffffff)
			p[herInk] = h.shade(0.30, 0.07, 0)
			p[herSoft] = rgb(0x5b5342).On(p[herWatermark], readable)
			p[herHeading] = rgb(0x80601c).On(p[herWatermark], readable)
			return p
		},
		draw:   drawHeritage,
		fields: heritageFields,
	}
}

// heritageGrid contains the positions of the parts of Heritage, in points.
type heritageGrid struct {
	axis          float64
	inset, band   float64 // of the border
	ornament      float64 // the ornament below the heading
	foot          float64 // the y of the rules of the date and the signature
	medal         point
	code          point // the middle of the QR code
	rule          float64
	first, second float64 // the middle of the rules
}

func newHeritageGrid(w, h float64) heritageGrid {
	g := heritageGrid{axis: w / 2, inset: 27, band: 25, ornament: 0.318 * h, foot: h - 110, rule: 0.205 * w}
	g.medal = point{0.165 * w, h - 152}
	g.code = point{w - 0.165*w, h - 145}
	gap := (w - 2*(g.medal.x+58) - 2*g.rule) / 3
	g.first = g.axis - gap/2 - g.rule/2
	g.second = g.axis + gap/2 + g.rule/2
	return g
}

func drawHeritage(c *canvas) {
	g := newHeritageGrid(c.w, c.h)
	c.fill(herIvory)
	c.rect(0, 0, c.w, c.h)
	c.paint()
	drawWatermark(c, point{g.axis, 0.485 * c.h}, 0.27*c.h)
	drawBorder(c, g)

	// The ornament below the heading has two tapering lines, two dots and a lozenge.
	c.fill(herGold)
	for _, side := range []float64{-1, 1} {
		c.write("m", g.axis+side*14, g.ornament)
		c.write("c", g.axis+side*40, g.ornament-5, g.axis+side*70, g.ornament+2.5, g.axis+side*118, g.ornament)
		c.write("c", g.axis+side*70, g.ornament+3.9, g.axis+side*40, g.ornament-2.6, g.axis+side*14, g.ornament)
		c.paint()
		c.circle(point{g.axis + side*122, g.ornament}, 1.1)
		c.paint()
	}
	c.star(point{g.axis, g.ornament}, 4, 6)
	c.paint()
	c.fill(herCream)
	c.star(point{g.axis, g.ornament}, 4, 2.6)
	c.paint()

	drawMedal(c, g.medal)
	c.stroke(herRule, 0.6)
	for _, x := range []float64{g.first, g.second} {
		c.polyline(point{x - g.rule/2, g.foot}, point{x + g.rule/2, g.foot})
		c.line()
	}
	// The frame of the QR code has a thick line and a thin line.
	for _, f := range []struct{ size, width float64 }{{94, 1.1}, {100, 0.4}} {
		c.fill(herWhite)
		c.stroke(herGold, f.width)
		c.rect(g.code.x-f.size/2, g.code.y-f.size/2, f.size, f.size)
		if f.size == 94 {
			c.op("B")
		} else {
			c.line()
		}
	}
}

// drawWatermark draws the guilloche behind the text.
func drawWatermark(c *canvas, p point, r float64) {
	c.rosette(p, 0.76*r, r, 32, 2, herWatermark, 0.4)
}

// drawBorder draws the engraved border: a solid frame, a net of waves on the frame, and medallions at
// the corners. The net consists of equal tiles.
func drawBorder(c *canvas, g heritageGrid) {
	c.fill(herFrame)
	c.frame(g.inset, g.band)
	middle := g.inset + g.band/2
	across := func(f *canvas, length float64, turned bool) {
		for _, net := range []struct {
			height float64
			copies int
			slot   slot
			width  float64
		}{{g.band - 4, 4, herNet, 0.35}, {g.band - 10, 6, herNetGold, 0.35}} {
			f.stroke(net.slot, net.width)
			for k := range net.copies {
				f.trace(-1./12, 13./12, 14, func(t float64) point { // a little longer than the tile
					swell := net.height / 2 * (0.60 + 0.40*math.Cos(2*math.Pi*t))
					p := point{length * t, g.band/2 + swell*math.Sin(2*math.Pi*(3*t+float64(k)/float64(net.copies)))}
					if turned {
						p.x, p.y = p.y, p.x
					}
					return p
				})
			}
			f.line()
		}
	}
	// A whole number of tiles fits each side, so that the net is widest at the corners.
	const period = 72
	step := (c.w - 2*middle) / math.Round((c.w-2*middle)/period)
	for _, y := range []float64{g.inset, c.h - g.inset - g.band} {
		c.rect(middle, y, c.w-2*middle, g.band)
		c.fillTiles(point{middle, y}, step, g.band, func(f *canvas) { across(f, step, false) })
	}
	step = (c.h - 2*middle) / math.Round((c.h-2*middle)/period)
	for _, x := range []float64{g.inset, c.w - g.inset - g.band} {
		c.rect(x, middle, g.band, c.h-2*middle)
		c.fillTiles(point{x, middle}, g.band, step, func(f *canvas) { across(f, step, true) })
	}

	lines := func(inset, width float64) {
		c.stroke(herGold, width)
		c.rect(inset, inset, c.w-2*inset, c.h-2*inset)
		c.line()
	}
	lines(g.inset-3.2, 1.4)
	lines(g.inset-6.4, 0.4)
	lines(g.inset+g.band+3.2, 1.4)
	lines(g.inset+g.band+6.4, 0.4)

	corner := c.form(func(f *canvas) {
		f.fill(herCream)
		f.stroke(herGold, 1.1)
		f.circle(point{}, 24.5)
		f.op("B")
		f.fill(herFrame)
		f.circle(point{}, 22)
		f.paint()
		f.rosette(point{}, 8, 20.5, 12, 2, herNetGold, 0.45)
		f.rosette(point{}, 2.5, 8, 6, 2, herGoldLight, 0.4)
	})
	for _, x := range []float64{middle, c.w - middle} {
		for _, y := range []float64{middle, c.h - middle} {
			c.place(corner, point{x, y}, 0, 1, 1)
		}
	}
}

// drawMedal draws a medal with two ribbons.
func drawMedal(c *canvas, p point) {
	for _, side := range []float64{-1, 1} {
		at := func(x, y float64) point { return point{p.x + side*x, p.y + y} }
		c.save()
		c.polygon(at(2, 14), at(27, 18), at(35, 78), at(22, 68), at(11, 80))
		c.shade(at(0, 20), at(36, 76), herRibbonDark, herRibbonLight, herRibbon)
		c.restore()
		c.stroke(herGoldLight, 0.5)
		c.polyline(at(23, 30), at(30.5, 70))
		c.line()
		c.polyline(at(6.5, 36), at(14.5, 72.5))
		c.line()
	}
	c.save()
	scallops := make([]point, 80)
	for i := range scallops {
		scallops[i] = p.polar(float64(i)/80, []float64{41, 38}[i%2])
	}
	c.curve(true, scallops...)
	c.shade(point{p.x - 34, p.y - 34}, point{p.x + 34, p.y + 34}, herGoldLight, herGold, herGoldLight, herGold)
	c.restore()
	c.save()
	c.circle(p, 32)
	c.shade(point{p.x + 26, p.y - 26}, point{p.x - 26, p.y + 26}, herGoldLight, herNetGold, herGold)
	c.restore()
	c.stroke(herGoldDark, 0.5)
	c.circle(p, 32)
	c.line()
	c.circle(p, 29.8)
	c.line()
	c.rosette(p, 16.5, 28.4, 28, 2, herGoldDark, 0.35)
	c.circle(p, 15)
	c.line()
	for i := range 5 {
		turn := float64(i)/5 - 0.25
		for j, s := range []slot{herGoldDark, herGold} {
			c.fill(s)
			c.polygon(p, p.polar(turn, 12.5), p.polar(turn+[]float64{0.1, -0.1}[j], 4.9))
			c.paint()
		}
	}
}

func heritageFields(w, h float64, p palette, t words) []design.Field {
	g := newHeritageGrid(w, h)
	wide := 0.70 * w
	italic := style{font: garamondItalic, size: 16.5, min: 11, color: p[herSoft], align: "center"}
	label := style{font: garamondItalic, size: 11, min: 8, color: p[herSoft], align: "center"}
	y := g.ornament
	return []design.Field{
		logo(box(g.inset+g.band+26, g.inset+g.band+24, 110, 42), "left"),
		style{font: cinzel, size: 13, min: 8, color: p[herHeading], tracking: 140, align: "center", upper: true, lines: 2, leading: 1.25}.
			text("institution", design.Text, "{institution}", centered(g.axis, y-106, 0.5*w, 34)),
		style{font: cinzel, size: 42, min: 22, color: p[herInk], tracking: 60, align: "center", upper: true}.
			text("heading", design.Text, t["diploma"], centered(g.axis, y-68, wide, 56)),
		italic.text("introduction", design.Text, t["known"], centered(g.axis, y+18, wide, 24)),
		style{font: greatVibes, size: 50, min: 24, lines: 2, leading: 1, color: p[herInk], align: "center"}.
			name(centered(g.axis, y+44, wide, 74)),
		italic.text("statement", design.Text, t["fulfilled"], centered(g.axis, y+122, wide, 24)),
		style{font: cinzel, size: 20, min: 12, lines: 2, leading: 1.2, color: p[herInk], align: "center"}.
			title(centered(g.axis, y+150, wide, 50)),
		style{font: garamond, size: 12, min: 8, lines: 2, leading: 1.25, color: p[herSoft], align: "center", valign: "top"}.
			text("details", design.Details, "{details}", centered(g.axis, y+204, 0.48*w, 34)),
		style{font: garamond, size: 14, min: 10, color: p[herInk], align: "center", valign: "bottom"}.
			text("date", design.Date, "{date}", centered(g.first, g.foot-25, g.rule, 20)),
		label.text("date-label", design.Text, t["issued"], centered(g.first, g.foot+5, g.rule, 16)),
		label.text("signature-label", design.Text, t["signature"], centered(g.second, g.foot+5, g.rule, 16)),
		code(g.code.x-41, g.code.y-41, 82),
		style{font: garamond, size: 8, min: 5.5, color: p[herSoft], tracking: 40, align: "center"}.
			text("reference", design.Reference, "{reference}", centered(g.code.x, g.code.y+55, 126, 13)),
	}
}
