package colour

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"#0b5d4b": "#0b5d4b", " #0B5D4B ": "#0b5d4b", "#000000": "#000000", "#ffffff": "#ffffff"} {
		if c, err := Parse(text); err != nil || c.String() != want {
			t.Errorf("Parse(%q) = %v (error %v), want %s", text, c, err, want)
		}
	}
	for _, text := range []string{"", "#", "#fff", "0b5d4b", "#0b5d4", "#0b5d4bf", "#0b5d4g", "#0b5d4b;x", "red", "#0b5d4b\n#0b5d4b", "＃0b5d4b"} {
		if c, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, c)
		}
	}
}

// The expected values come from the examples of WCAG 2.2 and from other tools.
func TestContrast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"#000000", "#ffffff", "21:1"}, {"#ffffff", "#ffffff", "1:1"}, {"#777777", "#ffffff", "4.4:1"}, {"#767676", "#ffffff", "4.5:1"},
		{"#949494", "#ffffff", "3:1"}, {"#959595", "#ffffff", "2.9:1"}, {"#ff0000", "#ffffff", "3.9:1"}, {"#ffcc00", "#ffffff", "1.5:1"},
	} {
		a, _ := Parse(c.a)
		b, _ := Parse(c.b)
		if got := Ratio(Contrast(a, b)); got != c.want || Ratio(Contrast(b, a)) != c.want {
			t.Errorf("contrast of %s and %s = %s, want %s in both orders", c.a, c.b, got, c.want)
		}
	}
}

func TestContrastOfSampledColours(t *testing.T) {
	t.Parallel()
	step := 5
	if testing.Short() {
		step = 17
	}
	for r := 0; r < 256; r += step {
		for g := 0; g < 256; g += step {
			for b := 0; b < 256; b += step {
				c := Colour{uint8(r), uint8(g), uint8(b)}
				if got := Contrast(c, c.TextColour()); got < Text {
					t.Fatalf("the contrast of text on %v = %v, want at least %v", c, got, Text)
				}
				d := c.Darker()
				if got := Contrast(d, White); got < Graphic {
					t.Fatalf("%v.Darker() = %v with the contrast %v, want at least %v", c, d, got, Graphic)
				}
				if Contrast(c, White) >= Graphic && d != c {
					t.Fatalf("%v.Darker() = %v, want the same colour, because its contrast is sufficient", c, d)
				}
				brand := d.Brand()
				if brand.Day != d || Contrast(brand.Night, DarkBackground) < Graphic || Contrast(brand.TextOnDay, brand.Day) < Text || Contrast(brand.TextOnNight, brand.Night) < Text {
					t.Fatalf("%v.Brand() = %v, want an unchanged Day, and enough contrast of Night and of both text colours", d, brand)
				}
			}
		}
	}
}
