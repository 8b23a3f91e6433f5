package colour

import (
	"math"
	"testing"
)

func TestOKLCH(t *testing.T) {
	t.Parallel()
	// The expected values are those of CSS Color Module Level 4.
	for text, want := range map[string]OKLCH{
		"#ffffff": {1, 0, 0},
		"#000000": {0, 0, 0},
		"#ff0000": {0.62796, 0.25768, 29.234},
		"#008000": {0.51975, 0.17686, 142.495},
		"#0000ff": {0.45201, 0.31321, 264.052},
	} {
		c, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got := c.OKLCH()
		if math.Abs(got.Lightness-want.Lightness) > 1e-3 || math.Abs(got.Chroma-want.Chroma) > 1e-3 ||
			want.Chroma > 0 && math.Abs(got.Hue-want.Hue) > 0.1 {
			t.Errorf("OKLCH of %s = %v, want %v", text, got, want)
		}
	}
	for r := 0; r < 256; r += 15 {
		for g := 0; g < 256; g += 15 {
			for b := 0; b < 256; b += 15 {
				c := Colour{uint8(r), uint8(g), uint8(b)}
				if got := c.OKLCH().Colour(); got != c {
					t.Fatalf("%v.OKLCH().Colour() = %v, want the same colour", c, got)
				}
			}
		}
	}
}

func TestOKLCHOutsideSRGB(t *testing.T) {
	t.Parallel()
	for hue := range 360 {
		for _, lightness := range []float64{0.2, 0.5, 0.8} {
			got := OKLCH{lightness, 0.4, float64(hue)}.Colour().OKLCH()
			if math.Abs(got.Lightness-lightness) > 0.02 {
				t.Errorf("hue %d: lightness = %.3f, want %.1f", hue, got.Lightness, lightness)
			}
		}
	}
}

func TestOn(t *testing.T) {
	t.Parallel()
	for _, ground := range []Colour{White, Black, {0x10, 0x29, 0x4b}, {0xff, 0xe0, 0x10}, {0x80, 0x80, 0x80}} {
		for _, c := range []Colour{White, Black, {0xff, 0xe0, 0x10}, {0x7a, 0x12, 0x2c}} {
			got := c.On(ground, Text)
			if Contrast(got, ground) < Text {
				t.Errorf("%v.On(%v) = %v with the contrast %s, want at least %v", c, ground, got, Ratio(Contrast(got, ground)), Text)
			}
			if Contrast(c, ground) >= Text && got != c {
				t.Errorf("%v.On(%v) = %v, want the same colour, because its contrast is sufficient", c, ground, got)
			}
		}
	}
}
