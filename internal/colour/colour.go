// Package colour owns what an institution's own colour needs to be seen by
// everybody: how it is written, how it contrasts (WCAG 2.2), and which colour text
// has on it. It does not know where it is drawn.
package colour

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Colour is a colour of sRGB.
type Colour struct{ R, G, B uint8 }

var (
	// White is the paper of pages and mail by day.
	White = Colour{0xff, 0xff, 0xff}
	// Black is text on colours that are too light for white.
	Black = Colour{}
	// Night is the lightest ground that pages and mail have in the dark: what can be
	// told from it can be told from the others.
	Night = Colour{0x1b, 0x1f, 0x24}
)

const (
	// Graphic is the contrast that a shape needs to what is around it (WCAG 2.2,
	// 1.4.11).
	Graphic = 3.0
	// Text is the contrast that text needs to its ground (WCAG 2.2, 1.4.3).
	Text = 4.5
)

var (
	form    = regexp.MustCompile(`^#[0-9a-f]{6}$`)
	errForm = errors.New("a colour is # and six digits of 0-9 and a-f")
)

// Parse reads "#rrggbb", in capitals too.
func Parse(text string) (Colour, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	if !form.MatchString(text) {
		return Colour{}, errForm
	}
	n, err := strconv.ParseUint(text[1:], 16, 24)
	if err != nil {
		return Colour{}, errForm
	}
	return Colour{uint8(n >> 16), uint8(n >> 8 & 0xff), uint8(n & 0xff)}, nil
}

// String writes it as Parse reads it.
func (c Colour) String() string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// luminance is the relative luminance of WCAG 2.2.
func (c Colour) luminance() float64 {
	linear := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// Contrast is the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).
func Contrast(a, b Colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Ratio writes a contrast as people read it. It is cut, not rounded, so that what
// falls short never reads as enough.
func Ratio(contrast float64) string {
	return strconv.FormatFloat(math.Floor(contrast*10)/10, 'f', -1, 64) + ":1"
}

// OnIt is the colour of text on it: white where that can be read, else black. On
// every colour one of them reaches Text.
func (c Colour) OnIt() Colour {
	if Contrast(c, White) >= Text {
		return White
	}
	return Black
}

// mix goes n of 255 steps from a colour to another.
func (c Colour) mix(to Colour, n int) Colour {
	step := func(a, b uint8) uint8 { return uint8((int(a)*(255-n) + int(b)*n) / 255) }
	return Colour{step(c.R, to.R), step(c.G, to.G), step(c.B, to.B)}
}

// toward gives the nearest shade on the way to another colour that has a contrast to
// a ground.
func (c Colour) toward(end, ground Colour, contrast float64) Colour {
	for n := range 256 {
		if shade := c.mix(end, n); Contrast(shade, ground) >= contrast {
			return shade
		}
	}
	return end
}

// Darker gives the nearest shade that can be told from white paper: the colour
// itself, or a darker one.
func (c Colour) Darker() Colour { return c.toward(Black, White, Graphic) }

// Brand is a colour as it is drawn: as it is by day, and by night in a shade that
// can be told from a dark ground, each with the colour of text on it.
type Brand struct{ Day, OnDay, Night, OnNight Colour }

// Brand gives the colour as it is drawn.
func (c Colour) Brand() *Brand {
	night := c.toward(White, Night, Graphic)
	return &Brand{c, c.OnIt(), night, night.OnIt()}
}
