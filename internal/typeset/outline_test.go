package typeset

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// The outlines are those of the SVG path, in ems and with y upwards.
func TestOutlines(t *testing.T) {
	f := testFonts(t)
	const size, x, y = 20.0, 30.0, 40.0
	for _, text := range []string{"Ängström fi", "مُحَمَّد (12)", "क्षितिज\nน้ำทิพย์"} {
		b := layout(t, f, text, Style{Size: size, Lines: 2, Align: Center}, 300)
		var out []byte
		for o := range b.Outlines() {
			for i, s := range o.Segments {
				if s.Op == 'M' && i > 0 {
					out = append(out, 'Z')
				}
				out = append(out, s.Op)
				for k := range map[byte]int{'M': 1, 'L': 1, 'Q': 2, 'C': 3}[s.Op] {
					if k > 0 {
						out = append(out, ' ')
					}
					out = appendDecimal(out, x+(o.X+s.Points[k][0])*size)
					out = append(out, ' ')
					out = appendDecimal(out, y-(o.Y+s.Points[k][1])*size)
				}
			}
			out = append(out, 'Z')
		}
		if got, want := numbersOf(t, string(out)), numbersOf(t, b.SVGPath(x, y)); !near(got, want) {
			t.Errorf("%s: the outlines have %d coordinates, want about the same %d coordinates as the path", text, len(got), len(want))
		}
	}
}

var coordinate = regexp.MustCompile(`-?\d+(\.\d+)?`)

// numbersOf returns the coordinates of a path.
func numbersOf(t *testing.T, path string) []float64 {
	t.Helper()
	var out []float64
	for _, text := range coordinate.FindAllString(path, -1) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// near reports whether the numbers of a and b differ by at most 0.01. Paths have two decimal places.
func near(a, b []float64) bool {
	if len(a) != len(b) || len(a) == 0 {
		return false
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > 0.0101 {
			return false
		}
	}
	return true
}
