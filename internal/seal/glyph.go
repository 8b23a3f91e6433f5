package seal

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// The text of plain stamps, of barcodes, and of covers without a verification sheet is drawn with a
// built-in stroke font, so that no font has to be embedded. A glyph is drawn on a grid that is 4 units wide
// and 6 units high; y points upwards. A glyph consists of strokes separated by '|'. A stroke is a list of
// points, and each point is two digits, x and y.
const (
	glyphWidth   = 4
	glyphHeight  = 6
	glyphAdvance = 6
	strokeWidth  = 0.8
)

var glyphs = map[rune]string{
	' ':  "",
	'-':  "13 33",
	'.':  "20 21",
	',':  "21 10",
	':':  "21 22|24 25",
	'/':  "00 46",
	'(':  "36 25 21 30",
	')':  "16 25 21 10",
	'\'': "26 24",
	'&':  "40 04 05 16 25 24 02 01 10 20 42",
	'0':  "10 30 41 45 36 16 05 01 10|01 45",
	'1':  "15 26 20|10 30",
	'2':  "05 16 36 45 44 00 40",
	'3':  "05 16 36 45 44 33 42 41 30 10 01|33 13",
	'4':  "30 36 02 42",
	'5':  "46 06 04 34 43 41 30 10 01",
	'6':  "45 36 16 05 01 10 30 41 42 33 03",
	'7':  "06 46 10",
	'8':  "13 04 05 16 36 45 44 33 13 02 01 10 30 41 42 33",
	'9':  "01 10 30 41 45 36 16 05 04 13 43",
	'A':  "00 04 26 44 40|02 42",
	'B':  "33 03|33 44 45 36 06 00 30 41 42 33",
	'C':  "41 30 10 01 05 16 36 45",
	'D':  "00 06 26 44 42 20 00",
	'E':  "40 00 06 46|03 33",
	'F':  "00 06 46|03 33",
	'G':  "45 36 16 05 01 10 30 41 43 23",
	'H':  "00 06|40 46|03 43",
	'I':  "10 30|20 26|16 36",
	'J':  "01 10 30 41 46",
	'K':  "00 06|46 03 40",
	'L':  "06 00 40",
	'M':  "00 06 23 46 40",
	'N':  "00 06 40 46",
	'O':  "10 30 41 45 36 16 05 01 10",
	'P':  "00 06 36 45 44 33 03",
	'Q':  "10 30 41 45 36 16 05 01 10|22 40",
	'R':  "00 06 36 45 44 33 03|23 40",
	'S':  "01 10 30 41 42 33 13 04 05 16 36 45",
	'T':  "06 46|20 26",
	'U':  "06 01 10 30 41 46",
	'V':  "06 20 46",
	'W':  "06 10 24 30 46",
	'X':  "00 46|06 40",
	'Y':  "06 23 46|23 20",
	'Z':  "06 46 00 40",
}

// strokes returns the polylines that draw text. Each polyline is a list of points in grid units. The
// origin is the lower left corner of the first glyph.
func strokes(text string) ([][][2]int, error) {
	var lines [][][2]int
	for i, r := range text {
		glyph, ok := glyphs[r]
		if !ok {
			return nil, fmt.Errorf("drawing %q: the character %q has no glyph", text, r)
		}
		for stroke := range strings.SplitSeq(glyph, "|") {
			var line [][2]int
			for corner := range strings.FieldsSeq(stroke) {
				line = append(line, [2]int{i*glyphAdvance + int(corner[0]-'0'), int(corner[1] - '0')})
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// textWidth returns the width of n glyphs in grid units.
func textWidth(n int) int { return (n-1)*glyphAdvance + glyphWidth }

// textOperators writes text as PDF path construction operators (ISO 32000-2, 8.5.2) in grid units.
// The caller strokes the path.
func textOperators(b *bytes.Buffer, text string, x, y int) error {
	lines, err := strokes(text)
	if err != nil {
		return err
	}
	for _, line := range lines {
		for i, p := range line {
			b.WriteString(strconv.Itoa(x + p[0]))
			b.WriteByte(' ')
			b.WriteString(strconv.Itoa(y + p[1]))
			if i == 0 {
				b.WriteString(" m\n")
			} else {
				b.WriteString(" l\n")
			}
		}
	}
	return nil
}
