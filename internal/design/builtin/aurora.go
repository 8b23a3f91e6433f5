package builtin

import (
	"math"
	"slices"

	"github.com/certvault/certvault/internal/design"
)

// The colours of Aurora.
const (
	aurPaper slot = iota
	aurNight
	aurDusk
	aurGlow
	aurDawn
	aurVeil
	aurVeilDark
	aurThread
	aurStrand
	aurBadge
	aurBadgeLight
	aurRule
	aurTile
	aurInk
	aurSoft
	aurLabel
	aurCount // the colours of the sky's bands follow
)

// aurSteps is the number of bands of the sky.
const aurSteps = 224

// aurora is a modern design in portrait format. It has a coloured area at the top, the sky, and white
// below. A hexagonal badge is on the edge between them.
func aurora() Builtin {
	return Builtin{
		Name: "aurora", Title: "Aurora",
		Description: "Fresh, in portrait format: translucent colors at the top, much white below, and a badge.",
		Accent:      rgb(0x5a2fa8),
		heading:     "achievement",
		colours: func(h hue) palette {
			p := make(palette, aurCount)
			// The sky changes to warmer hues. The hue increases, for example from blue to red, but
			// decreases if the accent is yellow or green.
			way := 1.0
			if h.accent.Hue > 40 && h.accent.Hue < 150 {
				way = -1
			}
			p[aurPaper] = rgb(0xffffff)
			p[aurNight], p[aurDusk] = h.shade(0.29, 0.14, -14*max(way, 0)), h.shade(0.42, 0.19, 0)
			p[aurGlow], p[aurDawn] = h.shade(0.53, 0.19, 34*way), h.shade(0.76, 0.15, 74*way)
			p[aurVeil], p[aurVeilDark] = h.shade(0.62, 0.15, -30*max(way, 0)), h.shade(0.26, 0.13, -8)
			p[aurThread] = h.shade(0.90, 0.05, 40*way)
			p[aurStrand] = h.shade(0.66, 0.15, 20*way)
			p[aurBadge], p[aurBadgeLight] = h.shade(0.38, 0.18, 0), h.shade(0.68, 0.17, 56*way)
			p[aurRule], p[aurTile] = h.shade(0.84, 0.03, 0), h.shade(0.91, 0.02, 0)
			p[aurInk], p[aurSoft] = h.shade(0.25, 0.085, 0), h.soft(p[aurPaper])
			p[aurLabel] = h.shade(0.50, 0.17, 34*way).On(p[aurPaper], readable)
			return slices.Concat(p, ramp(aurSteps, p[aurNight], p[aurDusk], p[aurGlow], p[aurDawn]))
		},
		draw:   drawAurora,
		fields: auroraFields,
	}
}

// auroraGrid contains the positions of the parts of Aurora, in points.
type auroraGrid struct {
	left, right float64
	sky         float64 // the lower end of the sky
	badge       point
	name        float64 // the top of the name's group
	foot        float64 // the y of the rules of the date and the signature
	tile        float64
	rule        float64
}

func newAuroraGrid(w, h float64) auroraGrid {
	g := auroraGrid{left: 0.103 * w, right: w - 0.103*w, sky: 0.375 * h, foot: h - 104, tile: 90}
	g.badge = point{g.left + 54, g.sky + 4}
	g.name = g.sky + 92
	g.rule = (g.right - g.left - g.tile - 2*26) / 2
	return g
}

func drawAurora(c *canvas) {
	g := newAuroraGrid(c.w, c.h)
	c.bands(0, 0, c.w, g.sky+40, false, aurCount, aurSteps)
	// The veils are translucent ribbons. Each has a wide end and a narrow end.
	c.save()
	c.opacity(0.17)
	for i, veil := range []struct{ left, right, wideLeft, wideRight, bend float64 }{
		{0.98, 0.56, 0.34, 0.20, 0.30}, {0.60, 0.86, 0.16, 0.44, -0.24}, {0.34, 0.40, 0.40, 0.26, 0.26},
	} {
		k := g.sky
		c.fill([]slot{aurVeil, aurVeilDark, aurVeil}[i])
		c.write("m", -1, veil.left*k)
		c.write("c", 0.34*c.w, (veil.left-veil.bend)*k, 0.64*c.w, (veil.right+veil.bend)*k, c.w+1, veil.right*k)
		c.write("l", c.w+1, (veil.right-veil.wideRight)*k)
		c.write("c", 0.60*c.w, (veil.right-veil.wideRight+veil.bend*1.1)*k, 0.30*c.w, (veil.left-veil.wideLeft-veil.bend*0.7)*k, -1, (veil.left-veil.wideLeft)*k)
		c.op("h")
		c.paint()
	}
	c.restore()
	// Thin lines follow the lower edge of the sky.
	c.stroke(aurStrand, 0.35)
	for i := range 11 {
		n := float64(i)
		thread := make([]point, 13)
		for k := range thread {
			t := float64(k) / 12
			thread[k] = point{-6 + t*(c.w+12), g.sky - 92 + n*4.6 + (32+n*1.5)*math.Sin(t*2*math.Pi*0.92+0.4+n*0.04)}
		}
		c.curve(false, thread...)
		c.line()
	}
	// White covers the sky below its curved edge. A rectangle covers the rest of the page, because
	// renderers draw it fast.
	c.fill(aurPaper)
	c.polyline(point{c.w + 1, g.sky + 45}, point{c.w + 1, g.sky - 58})
	c.write("c", 0.66*c.w, g.sky+88, 0.34*c.w, g.sky-82, -1, g.sky+40)
	c.write("l", -1, g.sky+45)
	c.op("h")
	c.paint()
	c.rect(0, g.sky+44, c.w, c.h-g.sky-44)
	c.paint()

	drawHexagon(c, g.badge)
	c.stroke(aurTile, 0.9)
	c.round(g.right-g.tile, g.foot+22-g.tile, g.tile, g.tile, 9)
	c.line()
	c.stroke(aurRule, 0.7)
	for _, x := range []float64{g.left, g.left + g.rule + 26} {
		c.polyline(point{x, g.foot}, point{x + g.rule, g.foot})
		c.line()
	}
	c.save()
	c.rect(g.left, c.h-38, g.right-g.left, 2.6)
	c.shade(point{g.left, 0}, point{g.right, 0}, aurNight, aurDusk, aurGlow, aurDawn)
	c.restore()
}

// drawHexagon draws the badge of Aurora: a hexagon with round corners and a tick.
func drawHexagon(c *canvas, p point) {
	hexagon := func(r float64) {
		for i := range 6 {
			corner := p.polar(float64(i)/6-0.25, r)
			before, after := p.polar(float64(i-1)/6-0.25, r), p.polar(float64(i+1)/6-0.25, r)
			a, b := corner.towards(before, 0.26), corner.towards(after, 0.26)
			if i == 0 {
				c.write("m", a.x, a.y)
			} else {
				c.write("l", a.x, a.y)
			}
			i, j := a.towards(corner, 0.62), b.towards(corner, 0.62)
			c.write("c", i.x, i.y, j.x, j.y, b.x, b.y)
		}
		c.op("h")
	}
	c.fill(aurPaper)
	hexagon(64)
	c.paint()
	c.save()
	hexagon(57)
	c.shade(point{p.x + 40, p.y - 48}, point{p.x - 36, p.y + 48}, aurBadgeLight, aurGlow, aurBadge)
	c.restore()
	c.stroke(aurThread, 0.6)
	hexagon(52.5)
	c.line()
	c.rosette(p, 28, 40, 20, 3, aurThread, 0.4)
	c.save()
	c.upright(p.x)
	c.stroke(aurPaper, 4.4)
	c.polyline(point{p.x - 12.5, p.y + 1}, point{p.x - 3.5, p.y + 10.5}, point{p.x + 13.5, p.y - 10})
	c.line()
	c.restore()
}

func auroraFields(w, h float64, p palette, t words) []design.Field {
	g := newAuroraGrid(w, h)
	wide := g.right - g.left
	white := p[aurPaper]
	label := style{font: inter, size: 9, min: 6.5, color: p[aurSoft]}
	return []design.Field{
		style{font: interSemi, size: 13.5, min: 9, color: white, lines: 2, leading: 1.25}.
			text("institution", design.Text, "{institution}", box(g.left, 48, 0.72*wide, 36)),
		style{font: playfair, size: 34, min: 20, lines: 2, leading: 1.15, color: white, valign: "top"}.
			text("heading", design.Text, t["achievement"], box(g.left, 0.122*h, 0.86*wide, 84)),
		logo(box(g.right-140, g.name-26, 140, 48), "right"),
		style{font: interSemi, size: 9.5, min: 7, color: p[aurLabel], tracking: 170, upper: true}.
			text("introduction", design.Text, t["awarded"], box(g.left, g.name, wide-160, 14)),
		style{font: playfair, size: 44, min: 20, lines: 2, leading: 1.1, color: p[aurInk], valign: "top"}.
			name(box(g.left, g.name+24, wide, 98)),
		style{font: inter, size: 12.5, min: 9, color: p[aurSoft]}.
			text("statement", design.Text, t["for"], box(g.left, g.name+128, wide, 18)),
		style{font: interSemi, size: 18, min: 11, lines: 2, leading: 1.25, color: p[aurInk], valign: "top"}.
			title(box(g.left, g.name+152, wide, 48)),
		style{font: inter, size: 11, min: 8, lines: 3, leading: 1.4, color: p[aurSoft], valign: "top"}.
			text("details", design.Details, "{details}", box(g.left, g.name+206, 2*g.rule+26, 48)),
		style{font: inter, size: 11.5, min: 8, color: p[aurInk], valign: "bottom"}.
			text("date", design.Date, "{date}", box(g.left, g.foot-24, g.rule, 18)),
		label.text("date-label", design.Text, t["issued"], box(g.left, g.foot+6, g.rule, 14)),
		label.text("signature-label", design.Text, t["signature"], box(g.left+g.rule+26, g.foot+6, g.rule, 14)),
		code(g.right-g.tile/2-38, g.foot+22-g.tile/2-38, 76),
		style{font: inter, size: 7, min: 5, color: p[aurSoft], align: "center"}.
			text("reference", design.Reference, "{reference}", centered(g.right-g.tile/2, g.foot+27, g.tile+8, 11)),
	}
}
