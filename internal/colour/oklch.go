package colour

import "math"

// OKLCH is a colour in the cylindrical form of the Oklab colour space (CSS Color Module Level 4, 9.4).
// Colours at equal distances in this space look equally different.
type OKLCH struct {
	Lightness float64 // from 0, black, to 1, white
	Chroma    float64 // 0 is grey; sRGB has colours up to about 0.32
	Hue       float64 // in degrees
}

// OKLCH returns the colour in the Oklab colour space.
func (c Colour) OKLCH() OKLCH {
	r, g, b := linear(c.R), linear(c.G), linear(c.B)
	l := math.Cbrt(0.4122214708*r + 0.5363325363*g + 0.0514459929*b)
	m := math.Cbrt(0.2119034982*r + 0.6806995451*g + 0.1073969566*b)
	s := math.Cbrt(0.0883024619*r + 0.2817188376*g + 0.6299787005*b)
	x := 1.9779984951*l - 2.4285922050*m + 0.4505937099*s
	y := 0.0259040371*l + 0.7827717662*m - 0.8086757660*s
	return OKLCH{
		Lightness: 0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		Chroma:    math.Hypot(x, y),
		Hue:       math.Mod(math.Atan2(y, x)*180/math.Pi+360, 360),
	}
}

// Colour returns o as an sRGB colour. If o is outside sRGB, Colour reduces the chroma, and keeps the lightness
// and the hue.
func (o OKLCH) Colour() Colour {
	if c, ok := o.srgb(); ok {
		return c
	}
	low, high := 0.0, o.Chroma
	for range 16 {
		o.Chroma = (low + high) / 2
		if _, ok := o.srgb(); ok {
			low = o.Chroma
		} else {
			high = o.Chroma
		}
	}
	o.Chroma = low
	c, _ := o.srgb()
	return c
}

// srgb returns the colour, clipped to sRGB, and reports whether it is in sRGB without clipping.
func (o OKLCH) srgb() (Colour, bool) {
	sin, cos := math.Sincos(o.Hue * math.Pi / 180)
	x, y := o.Chroma*cos, o.Chroma*sin
	l := cube(o.Lightness + 0.3963377774*x + 0.2158037573*y)
	m := cube(o.Lightness - 0.1055613458*x - 0.0638541728*y)
	s := cube(o.Lightness - 0.0894841775*x - 1.2914855480*y)
	r, inR := encode(4.0767416621*l - 3.3077115913*m + 0.2309699292*s)
	g, inG := encode(-1.2684380046*l + 2.6097574011*m - 0.3413193965*s)
	b, inB := encode(-0.0041960863*l - 0.7034186147*m + 1.7076147010*s)
	return Colour{r, g, b}, inR && inG && inB
}

func cube(v float64) float64 { return v * v * v }

// linear returns the linear-light value, from 0 to 1, of a component of an sRGB colour.
func linear(v uint8) float64 {
	s := float64(v) / 255
	if s <= 0.04045 {
		return s / 12.92
	}
	return math.Pow((s+0.055)/1.055, 2.4)
}

// encode returns the component of an sRGB colour for a linear-light value. It clips a value that is not
// between 0 and 1, and reports whether the value is between 0 and 1, with a small tolerance.
func encode(v float64) (uint8, bool) {
	const tolerance = 1e-4
	ok := v >= -tolerance && v <= 1+tolerance
	v = min(max(v, 0), 1)
	if v <= 0.0031308 {
		return uint8(math.Round(v * 12.92 * 255)), ok
	}
	return uint8(math.Round((1.055*math.Pow(v, 1/2.4) - 0.055) * 255)), ok
}

// On returns c if it has at least the given contrast to the background ground. Otherwise it returns the
// nearest shade with that contrast: a darker shade on a light background, a lighter shade on a dark one.
func (c Colour) On(ground Colour, contrast float64) Colour {
	end := White
	if Contrast(Black, ground) >= Contrast(White, ground) {
		end = Black
	}
	return c.toward(end, ground, contrast)
}
