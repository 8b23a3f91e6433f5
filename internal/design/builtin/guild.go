package builtin

import (
	"github.com/certvault/certvault/internal/design"
)

// The colours of Guild.
const (
	guiPaper slot = iota
	guiWhite
	guiBar
	guiBarDeep
	guiWeave
	guiLaurel
	guiLaurelLight
	guiArms
	guiGold
	guiHair
	guiRule
	guiInk
	guiSoft
	guiOnBar
	guiOnBarSoft
	guiCount
)

// guild is a design for trades. It has a frame with cut corners, a bar at the top, and a coat of arms in
// a laurel wreath.
func guild() Builtin {
	return Builtin{
		Name: "guild", Title: "Guild", Landscape: true,
		Description: "For trades and skills: a plate with cut corners, a strong bar, a laurel wreath.",
		Accent:      rgb(0x7a1f2b),
		heading:     "competence",
		colours: func(h hue) palette {
			p := make(palette, guiCount)
			p[guiPaper], p[guiWhite] = rgb(0xfefdfa), rgb(0xffffff)
			p[guiBar], p[guiBarDeep] = h.shade(0.385, 0.12, 0), h.shade(0.30, 0.10, 0)
			p[guiWeave] = h.shade(0.425, 0.12, 0)
			p[guiLaurel], p[guiLaurelLight] = h.shade(0.40, 0.12, 0), h.shade(0.58, 0.11, 0)
			p[guiArms] = h.shade(0.36, 0.11, 0)
			p[guiGold] = rgb(0xc4a055)
			p[guiHair], p[guiRule] = h.shade(0.62, 0.07, 0), h.shade(0.70, 0.03, 0)
			p[guiInk], p[guiSoft] = h.shade(0.26, 0.05, 0), h.soft(p[guiPaper])
			p[guiOnBar] = rgb(0xffffff)
			p[guiOnBarSoft] = rgb(0xf1e3c2)
			return p
		},
		draw:   drawGuild,
		fields: guildFields,
	}
}

// guildGrid contains the positions of the parts of Guild, in points.
type guildGrid struct {
	inset, cut   float64 // of the frame
	bar          float64 // the lower edge of the bar
	emblem       point
	left, right  float64 // of the column of text
	name         float64 // the top of the name's group
	foot, second float64 // the y of the rules of the date and the signature; the left end of the second rule
	code         point
}

func newGuildGrid(w, h float64) guildGrid {
	g := guildGrid{inset: 26, cut: 24, bar: 0.272 * h, left: 0.312 * w, right: w - 0.088*w, foot: h - 100}
	g.emblem = point{0.178 * w, g.bar + 6}
	g.name = g.bar + 0.062*h
	g.second = g.left + 0.53*(g.right-g.left)
	g.code = point{g.emblem.x, h - 130}
	return g
}

// plate appends a rectangle with cut corners.
func plate(c *canvas, x, y, w, h, cut float64) {
	c.polygon(point{x + cut, y}, point{x + w - cut, y}, point{x + w, y + cut}, point{x + w, y + h - cut},
		point{x + w - cut, y + h}, point{x + cut, y + h}, point{x, y + h - cut}, point{x, y + cut})
}

func drawGuild(c *canvas) {
	g := newGuildGrid(c.w, c.h)
	c.fill(guiPaper)
	c.rect(0, 0, c.w, c.h)
	c.paint()

	// The bar fills the top of the frame.
	c.save()
	inner := g.inset + 9
	plate(c, inner, inner, c.w-2*inner, c.h-2*inner, g.cut-4)
	c.clip()
	c.fill(guiBar)
	c.rect(0, 0, c.w, g.bar)
	c.paint()
	c.fill(guiBarDeep)
	c.rect(0, g.bar-24, c.w, 24)
	c.paint()
	// A band of chevrons is at the lower edge of the bar.
	c.stroke(guiWeave, 1.1)
	for row := range 2 {
		var zigzag []point
		for i := range int(c.w/7) + 1 {
			zigzag = append(zigzag, point{float64(i) * 7, g.bar - 10.2 - float64(row)*5 - float64(i%2)*4})
		}
		c.polyline(zigzag...)
		c.line()
	}
	c.fill(guiGold)
	c.rect(0, g.bar-6, c.w, 1.1)
	c.paint()
	c.restore()

	// The frame has a thick line and a thin line.
	c.op("0 J 0 j")
	c.stroke(guiBar, 4.4)
	plate(c, g.inset, g.inset, c.w-2*g.inset, c.h-2*g.inset, g.cut)
	c.line()
	c.stroke(guiHair, 0.6)
	plate(c, inner, inner, c.w-2*inner, c.h-2*inner, g.cut-4)
	c.line()
	c.op("1 J 1 j")
	// Rivets are in the cut corners.
	for _, x := range []float64{g.inset + 3.2, c.w - g.inset - 3.2} {
		for _, y := range []float64{g.inset + 3.2, c.h - g.inset - 3.2} {
			c.fill(guiBar)
			c.circle(point{x, y}, 3)
			c.paint()
		}
	}

	drawLaurel(c, g.emblem)
	drawArms(c, point{g.emblem.x, g.emblem.y - 2}, 23)

	c.stroke(guiRule, 0.7)
	c.polyline(point{g.left, g.foot}, point{g.second - 28, g.foot})
	c.line()
	c.polyline(point{g.second, g.foot}, point{g.right, g.foot})
	c.line()
	// The QR code is on a small plate.
	c.fill(guiWhite)
	c.stroke(guiBar, 1.6)
	plate(c, g.code.x-46, g.code.y-46, 92, 92, 9)
	c.op("B")
}

// drawLaurel draws a medallion with a laurel wreath.
func drawLaurel(c *canvas, p point) {
	c.fill(guiPaper)
	c.circle(p, 74)
	c.paint()
	c.stroke(guiBar, 2.2)
	c.circle(p, 70)
	c.line()
	c.stroke(guiGold, 0.6)
	c.circle(p, 66.4)
	c.line()
	// A leaf has a dark half and a light half.
	leaf := c.form(func(f *canvas) {
		for _, side := range []float64{-1, 1} {
			f.fill(guiLaurel)
			if side > 0 {
				f.fill(guiLaurelLight)
			}
			f.write("m", 0, 0)
			f.write("c", 4, side*4.6, 11, side*4.4, 16, 0)
			f.write("c", 11, side*0.5, 5, side*0.5, 0, 0)
			f.paint()
		}
	})
	const radius = 47.0
	for _, side := range []float64{-1, 1} {
		at := func(turn, r float64) point { return p.polar(0.25-side*turn, r) }
		// The branch begins at the bottom and ends near the top.
		stem := make([]point, 12)
		for i := range stem {
			stem[i] = at(0.004+0.43*float64(i)/11, radius)
		}
		c.stroke(guiLaurel, 1)
		c.curve(false, stem...)
		c.line()
		const pairs = 9
		for i := range pairs {
			t := (float64(i) + 0.6) / pairs
			turn := 0.028 + 0.40*t
			size := 1.02 - 0.34*t
			direction := 0.25 - side*turn - side*0.25 // along the branch
			for _, lean := range []float64{-0.105, 0.105} {
				c.place(leaf, at(turn, radius), direction+lean, size, size)
			}
			if i%2 == 1 {
				c.fill(guiGold)
				c.circle(at(turn+0.012, radius+8.6*size), 1.5)
				c.paint()
			}
		}
		c.place(leaf, at(0.434, radius), 0.25-side*0.434-side*0.25, 0.72, 0.72)
	}
	// A lozenge covers the place where the branches meet.
	c.fill(guiGold)
	c.star(point{p.x, p.y + radius}, 4, 4.6)
	c.paint()
}

// drawArms draws a shield with a chevron between three lozenges.
func drawArms(c *canvas, p point, r float64) {
	shield := func(k float64) {
		c.write("m", p.x-0.82*k, p.y-k)
		c.write("l", p.x+0.82*k, p.y-k)
		c.write("l", p.x+0.82*k, p.y+0.02*k)
		c.write("c", p.x+0.82*k, p.y+0.60*k, p.x+0.42*k, p.y+0.94*k, p.x, p.y+1.18*k)
		c.write("c", p.x-0.42*k, p.y+0.94*k, p.x-0.82*k, p.y+0.60*k, p.x-0.82*k, p.y+0.02*k)
		c.op("h")
	}
	c.fill(guiArms)
	shield(r)
	c.paint()
	c.stroke(guiGold, 0.7)
	shield(r * 0.885)
	c.line()
	c.save()
	shield(r * 0.885)
	c.clip()
	c.fill(guiPaper)
	c.polygon(point{p.x, p.y - 0.16*r}, point{p.x + r, p.y + 0.62*r}, point{p.x + r, p.y + 0.96*r}, point{p.x, p.y + 0.18*r},
		point{p.x - r, p.y + 0.96*r}, point{p.x - r, p.y + 0.62*r})
	c.paint()
	c.restore()
	c.fill(guiGold)
	for _, at := range []point{{-0.42, -0.46}, {0.42, -0.46}, {0, 0.62}} {
		c.star(point{p.x + at.x*r, p.y + at.y*r}, 4, 0.19*r, 0.13*r)
		c.paint()
	}
}

func guildFields(w, h float64, p palette, t words) []design.Field {
	g := newGuildGrid(w, h)
	wide := g.right - g.left
	italic := style{font: garamondItalic, size: 17, min: 11, color: p[guiSoft]}
	label := style{font: jost, size: 9.5, min: 7, color: p[guiSoft], tracking: 20}
	y := g.name
	return []design.Field{
		style{font: jostSemi, size: 12, min: 8, color: p[guiOnBarSoft], tracking: 120, upper: true, lines: 2, leading: 1.25}.
			text("institution", design.Text, "{institution}", box(g.left, g.inset+26, wide, 36)),
		style{font: cinzel, size: 28, min: 15, color: p[guiOnBar], tracking: 50, upper: true}.
			text("heading", design.Text, t["competence"], box(g.left, g.inset+70, wide, 40)),
		logo(box(g.right-120, y-6, 120, 46), "right"),
		italic.text("introduction", design.Text, t["certify"], box(g.left, y+8, wide-140, 24)),
		style{font: garamondSemi, size: 42, min: 18, lines: 2, leading: 1.05, color: p[guiInk]}.name(box(g.left, y+40, wide, 76)),
		italic.text("statement", design.Text, t["examined"], box(g.left, y+124, wide, 24)),
		style{font: jostSemi, size: 21, min: 12, lines: 2, leading: 1.18, color: p[guiInk], valign: "top"}.title(box(g.left, y+154, wide, 52)),
		style{font: jost, size: 11.5, min: 8, lines: 2, leading: 1.35, color: p[guiSoft], valign: "top"}.
			text("details", design.Details, "{details}", box(g.left, y+210, wide, 34)),
		style{font: jost, size: 13, min: 9, color: p[guiInk], valign: "bottom"}.
			text("date", design.Date, "{date}", box(g.left, g.foot-26, g.second-28-g.left, 20)),
		label.text("date-label", design.Text, t["issued"], box(g.left, g.foot+6, g.second-28-g.left, 14)),
		label.text("signature-label", design.Text, t["signature"], box(g.second, g.foot+6, g.right-g.second, 14)),
		code(g.code.x-38, g.code.y-38, 76),
		style{font: jost, size: 7.5, min: 5, color: p[guiSoft], tracking: 60, align: "center"}.
			text("reference", design.Reference, "{reference}", centered(g.code.x, g.code.y+53, 140, 12)),
	}
}
