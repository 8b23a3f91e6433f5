package builtin

import (
	"math"
	"slices"

	"github.com/certvault/certvault/internal/design"
)

// The colours of Meridian.
const (
	merPaper slot = iota
	merContour
	merContourFaint
	merBand
	merBandDark
	merGold
	merGoldLight
	merGoldDark
	merRule
	merWhite
	merInk
	merSoft
	merHeading
	merPale
	merCount // the colours of the panel's bands follow
)

// merSteps is the number of bands of the panel.
const merSteps = 128

// meridian is a modern design: a dark panel with contour lines and a golden edge, and text on white.
func meridian() Builtin {
	return Builtin{
		Name: "meridian", Title: "Meridian", Landscape: true,
		Description: "Modern and calm: a deep panel with contour lines and a golden edge.",
		Accent:      rgb(0x1a3f73),
		heading:     "completion",
		colours: func(h hue) palette {
			p := make(palette, merCount)
			p[merPaper], p[merWhite] = rgb(0xfefefc), rgb(0xffffff)
			p[merContour], p[merContourFaint] = h.shade(0.43, 0.09, -12), h.shade(0.345, 0.08, -8)
			p[merBand] = h.between(0.44, 0.80)
			p[merBandDark] = h.shade(p[merBand].OKLCH().Lightness-0.07, 0.16, 0)
			p[merGold], p[merGoldLight], p[merGoldDark] = rgb(0xc9a24a), rgb(0xf0d891), rgb(0xa47e2c)
			p[merRule] = h.shade(0.83, 0.02, 0)
			p[merInk], p[merSoft] = h.ink(), h.soft(p[merPaper])
			p[merHeading] = rgb(0x8f6d1c).On(p[merPaper], 4.7)
			p[merPale] = h.shade(0.90, 0.025, 0)
			return slices.Concat(p, ramp(merSteps, h.shade(0.365, 0.10, -4), h.shade(0.275, 0.075, 0), h.shade(0.185, 0.045, 4)))
		},
		draw:   drawMeridian,
		fields: meridianFields,
	}
}

// meridianGrid contains the positions of the parts of Meridian, in points.
type meridianGrid struct {
	panel         float64 // the approximate width of the panel
	axis          float64 // the middle of the emblem and the QR code
	left, right   float64 // of the column of text
	top, rule     float64 // the top of the name's group; the rule below the name
	foot          float64 // the y of the rules of the date and the signature
	second        float64 // the left end of the second rule
	tile, tileTop float64
}

func newMeridianGrid(w, h float64) meridianGrid {
	g := meridianGrid{panel: 0.296 * w, left: 0.383 * w, right: w - 0.068*w, foot: h - 84, tile: 92}
	g.axis = 0.447 * g.panel
	g.top = 0.292 * h
	g.rule = g.top + 112
	g.second = g.left + 0.53*(g.right-g.left)
	g.tileTop = g.foot + 14 - g.tile
	return g
}

func drawMeridian(c *canvas) {
	g := newMeridianGrid(c.w, c.h)
	c.bands(0, 0, 1.16*g.panel, c.h, true, merCount, merSteps)
	// The contour lines are distorted circles. Every fourth line is thicker, as on a map.
	peak := point{g.axis * 0.36, c.h * 0.80}
	for i := range 26 {
		ring := make([]point, 40)
		r := 20 + float64(i)*18.6
		for k := range ring {
			t := 2 * math.Pi * float64(k) / float64(len(ring))
			d := r * (1 + 0.06*math.Sin(3*t+float64(i)*0.2) + 0.03*math.Cos(5*t-float64(i)*0.14))
			ring[k] = point{peak.x + d*math.Cos(t), peak.y + 0.92*d*math.Sin(t)}
		}
		c.stroke(merContourFaint, 0.5)
		if i%4 == 3 {
			c.stroke(merContour, 0.7)
		}
		c.visible(ring, 1.16*g.panel, c.h)
	}
	// The edge of the panel is a curve, which is farther to the right at the top than at the bottom. The
	// layers cover the drawing to the right of the edge.
	for _, layer := range []struct {
		from float64
		slot slot
	}{{5, merGold}, {6.2, merGoldLight}, {7.2, merGold}, {9, merBandDark}, {17, merBand}, {25, merPaper}} {
		k, d := g.panel/249, layer.from
		c.fill(layer.slot)
		c.polyline(point{262*k + d, -1})
		c.write("c", 302*k+d, 0.286*c.h, 196*k+d, 0.555*c.h, 238*k+d, c.h+1)
		if layer.slot == merPaper {
			c.write("l", c.w+1, c.h+1)
			c.write("l", c.w+1, -1)
		} else { // the next layers cover the end of this layer
			c.write("l", 238*k+26, c.h+1)
			c.write("c", 196*k+26, 0.555*c.h, 302*k+26, 0.286*c.h, 262*k+26, -1)
		}
		c.op("h")
		c.paint()
	}

	drawCompass(c, point{g.axis, 0.188 * c.h})

	c.fill(merWhite)
	c.round(g.axis-g.tile/2, g.tileTop, g.tile, g.tile, 6)
	c.paint()

	c.save()
	c.rect(g.left, g.rule, 0.62*(g.right-g.left), 1.1)
	c.shade(point{g.left, 0}, point{g.left + 0.62*(g.right-g.left), 0}, merGold, merGoldLight, merPaper)
	c.restore()
	c.stroke(merRule, 0.7)
	c.polyline(point{g.left, g.foot}, point{g.second - 28, g.foot})
	c.line()
	c.polyline(point{g.second, g.foot}, point{g.right, g.foot})
	c.line()
}

// drawCompass draws the emblem of Meridian, a compass rose.
func drawCompass(c *canvas, p point) {
	c.stroke(merGold, 1.1)
	c.circle(p, 42)
	c.line()
	c.stroke(merGold, 0.4)
	c.circle(p, 38.5)
	c.line()
	c.rosette(p, 27, 37, 20, 3, merGoldLight, 0.35)
	// Each point of the rose has a light and a dark half.
	for _, set := range []struct{ turn, tip, waist float64 }{{0.125, 15.5, 5.2}, {0, 25, 6.4}} {
		for i := range 4 {
			turn := set.turn + float64(i)/4
			tip := p.polar(turn, set.tip)
			c.fill(merGoldLight)
			c.polygon(p, p.polar(turn-0.125, set.waist), tip)
			c.paint()
			c.fill(merGoldDark)
			c.polygon(p, p.polar(turn+0.125, set.waist), tip)
			c.paint()
		}
	}
}

func meridianFields(w, h float64, p palette, t words) []design.Field {
	g := newMeridianGrid(w, h)
	wide := g.right - g.left
	italic := style{font: cormorantItalic, size: 18.5, min: 12, color: p[merSoft]}
	label := style{font: jost, size: 9.5, min: 7, color: p[merSoft], tracking: 20}
	return []design.Field{
		style{font: jostSemi, size: 13.5, min: 9, color: p[merInk], tracking: 10, lines: 2, leading: 1.15}.
			text("institution", design.Text, "{institution}", box(g.left, 0.094*h, wide-150, 36)),
		logo(box(g.right-132, 0.094*h-6, 132, 48), "right"),
		style{font: jostSemi, size: 16, min: 10, color: p[merHeading], tracking: 210, upper: true}.
			text("heading", design.Text, t["completion"], box(g.left, g.top-50, wide, 24)),
		italic.text("introduction", design.Text, t["certify"], box(g.left, g.top+2, wide, 24)),
		style{font: cormorant, size: 50, min: 20, lines: 2, leading: 1, color: p[merInk]}.name(box(g.left, g.top+30, wide, 74)),
		italic.text("statement", design.Text, t["completed"], box(g.left, g.rule+14, wide, 24)),
		style{font: jostSemi, size: 22, min: 12, lines: 2, leading: 1.15, color: p[merInk], valign: "top"}.title(box(g.left, g.rule+42, wide, 54)),
		style{font: jost, size: 12, min: 8, lines: 3, leading: 1.3, color: p[merSoft], valign: "top"}.
			text("details", design.Details, "{details}", box(g.left, g.rule+102, wide, 48)),
		style{font: jost, size: 13, min: 9, color: p[merInk], valign: "bottom"}.
			text("date", design.Date, "{date}", box(g.left, g.foot-26, g.second-28-g.left, 20)),
		label.text("date-label", design.Text, t["issued"], box(g.left, g.foot+6, g.second-28-g.left, 14)),
		label.text("signature-label", design.Text, t["signature"], box(g.second, g.foot+6, g.right-g.second, 14)),
		code(g.axis-38, g.tileTop+g.tile/2-38, 76),
		style{font: jost, size: 7.5, min: 5, color: p[merPale], tracking: 60, align: "center"}.
			text("reference", design.Reference, "{reference}", centered(g.axis, g.tileTop+g.tile+8, 2*g.axis-32, 12)),
	}
}
