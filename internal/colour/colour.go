// Package colour implements the rules for an institution's colour: its notation,
// its contrast (WCAG 2.2), the shades for pages, and the colour of text on
// this colour.
package colour

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Colour is an sRGB colour.
type Colour struct{ R, G, B uint8 }

var (
	// White is the background of pages and mail in the light scheme.
	White = Colour{0xff, 0xff, 0xff}
	// Black is the text colour on colours that are too light for white text.
	Black = Colour{}
	// DarkBackground is the lightest background on which pages and mail show an
	// institution's colour in the dark scheme. A lighter colour with enough contrast
	// to DarkBackground also has enough contrast to the darker backgrounds.
	DarkBackground = Colour{0x1b, 0x1f, 0x24}
)

const (
	// Graphic is the minimum contrast of a graphical object (WCAG 2.2, 1.4.11).
	Graphic = 3.0
	// Text is the minimum contrast of text (WCAG 2.2, 1.4.3).
	Text = 4.5
)

var (
	form    = regexp.MustCompile(`^#[0-9a-f]{6}$`)
	errForm = errors.New("a colour is # and six digits of 0-9 and a-f")
)

// Parse parses "#rrggbb". Uppercase digits and surrounding white space are
// allowed.
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

// String returns the colour in the form that Parse reads.
func (c Colour) String() string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// luminance returns the relative luminance (WCAG 2.2).
func (c Colour) luminance() float64 {
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}

// Contrast returns the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).
func Contrast(a, b Colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Ratio formats a contrast. It truncates instead of rounding, so that a
// contrast below a minimum never reads as the minimum.
func Ratio(contrast float64) string {
	return strconv.FormatFloat(math.Floor(contrast*10)/10, 'f', -1, 64) + ":1"
}

// TextColour returns the colour of text on c: white if the contrast of white to c
// is at least Text, else black. On every colour, white or black has at least that
// contrast.
func (c Colour) TextColour() Colour {
	if Contrast(c, White) >= Text {
		return White
	}
	return Black
}

// mix returns the colour at step n of 255 from c to another colour.
func (c Colour) mix(to Colour, n int) Colour {
	step := func(a, b uint8) uint8 { return uint8((int(a)*(255-n) + int(b)*n) / 255) }
	return Colour{step(c.R, to.R), step(c.G, to.G), step(c.B, to.B)}
}

// toward returns the first of the colours from c to end that has at least the given
// contrast to ground, or end if none has it.
func (c Colour) toward(end, ground Colour, contrast float64) Colour {
	for n := range 256 {
		if shade := c.mix(end, n); Contrast(shade, ground) >= contrast {
			return shade
		}
	}
	return end
}

// Darker returns c if its contrast to white is at least Graphic, else the
// nearest darker shade with that contrast.
func (c Colour) Darker() Colour { return c.toward(Black, White, Graphic) }

// Brand has the colours of pages and mail. Day, for the light scheme, is the colour of
// the institution. Night, for the dark scheme, is a shade with enough contrast to a dark
// background. TextOnDay and TextOnNight are the colours of text on Day and Night.
type Brand struct{ Day, TextOnDay, Night, TextOnNight Colour }

// Brand returns the colours of pages and mail for an institution with the colour c.
func (c Colour) Brand() *Brand {
	night := c.toward(White, DarkBackground, Graphic)
	return &Brand{c, c.TextColour(), night, night.TextColour()}
}
