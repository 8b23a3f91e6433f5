package builtin

import (
	"math"

	"github.com/certvault/certvault/internal/colour"
)

// palette contains the colours of a design by slot.
type palette []colour.Colour

// bytes returns the red, green and blue of each slot.
func (p palette) bytes(slots []slot) []byte {
	out := make([]byte, 0, 3*len(slots))
	for _, s := range slots {
		out = append(out, p[s].R, p[s].G, p[s].B)
	}
	return out
}

// hue derives the colours of a design from the accent of an institution. If the accent is grey, all
// derived colours are grey.
type hue struct{ accent colour.OKLCH }

func hueOf(accent colour.Colour) hue { return hue{accent.OKLCH()} }

// shade returns the colour of the hue with a lightness and a maximum chroma. turn is added to the hue,
// in degrees. Dark shades of yellow are brown, because dark colours with the hue of yellow look green.
func (h hue) shade(lightness, chroma, turn float64) colour.Colour {
	const first, last, brown = 72, 128, 66
	angle := h.accent.Hue
	if angle > first && angle < last {
		dark := min(max((0.75-lightness)/0.4, 0), 1)
		full := min((last-angle)/20, 1) // green remains green
		angle += (brown - angle) * dark * full
	}
	return colour.OKLCH{Lightness: lightness, Chroma: min(chroma, h.accent.Chroma), Hue: angle + turn}.Colour()
}

// ink returns the colour of text on a light ground: a dark shade with a low chroma.
func (h hue) ink() colour.Colour { return h.shade(0.27, 0.075, 0) }

// soft returns the colour of secondary text on a light ground.
func (h hue) soft(ground colour.Colour) colour.Colour {
	return h.shade(0.46, 0.035, 0).On(ground, readable)
}

// strong returns the accent as the colour of text on white.
func (h hue) strong() colour.Colour { return h.between(0, 0.5).On(colour.White, readable) }

// between returns the accent with its lightness limited to the range from low to high.
func (h hue) between(low, high float64) colour.Colour {
	return h.shade(min(max(h.accent.Lightness, low), high), h.accent.Chroma, 0)
}

// ramp returns the colours of a gradient through stops at equal distances. It is smooth at the stops
// (Catmull-Rom splines), because the eye sees a change of slope as a line.
func ramp(steps int, stops ...colour.Colour) []colour.Colour {
	out := make([]colour.Colour, steps)
	for i := range out {
		at := float64(i) / float64(steps-1) * float64(len(stops)-1)
		n := min(int(at), len(stops)-2)
		channel := func(of func(colour.Colour) uint8) uint8 {
			stop := func(k int) float64 { return float64(of(stops[min(max(k, 0), len(stops)-1)])) }
			a, b, c, d, t := stop(n-1), stop(n), stop(n+1), stop(n+2), at-float64(n)
			v := b + t/2*(c-a+t*(2*a-5*b+4*c-d+t*(3*(b-c)+d-a)))
			return uint8(math.Round(min(max(v, 0), 255)))
		}
		out[i] = colour.Colour{
			R: channel(func(c colour.Colour) uint8 { return c.R }),
			G: channel(func(c colour.Colour) uint8 { return c.G }),
			B: channel(func(c colour.Colour) uint8 { return c.B }),
		}
	}
	return out
}

// readable is the contrast of text. It is higher than WCAG 2.2 requires, so that ornaments behind a text
// do not reduce the contrast below colour.Text.
const readable = 5.5

// rgb returns a fixed colour of a design, 0xrrggbb.
func rgb(v uint32) colour.Colour {
	return colour.Colour{R: uint8(v >> 16), G: uint8(v >> 8 & 0xff), B: uint8(v & 0xff)}
}
