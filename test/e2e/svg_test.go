//go:build e2e

package e2e

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unit is the width in pixels of one unit of an SVG image.
const unit = 6

// bar matches a filled rectangle in the data of a path: a move to a corner and lines along three sides.
var bar = regexp.MustCompile(`M(\d+) (\d+)h(\d+)v(\d+)h-\d+z`)

// rasterise draws the filled rectangles of an SVG image and returns the path of a PNG file, which
// barcode scanners can read. QR codes and barcodes consist only of such rectangles.
func rasterise(t *testing.T, svg []byte) string {
	t.Helper()
	var img *image.Gray
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the SVG is not well-formed: %v", err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attr := map[string]string{}
		for _, a := range element.Attr {
			attr[a.Name.Local] = a.Value
		}
		switch element.Name.Local {
		case "svg":
			box := strings.Fields(attr["viewBox"])
			if element.Name.Space != "http://www.w3.org/2000/svg" || len(box) != 4 {
				t.Fatalf("the file is not an SVG image with a view box: %.200s", svg)
			}
			img = image.NewGray(image.Rect(0, 0, number(t, box[2])*unit, number(t, box[3])*unit))
			draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
		case "path":
			for _, m := range bar.FindAllStringSubmatch(attr["d"], -1) {
				x, y := number(t, m[1])*unit, number(t, m[2])*unit
				area := image.Rect(x, y, x+number(t, m[3])*unit, y+number(t, m[4])*unit)
				draw.Draw(img, area, image.NewUniform(color.Black), image.Point{}, draw.Src)
			}
		default:
		}
	}
	if img == nil {
		t.Fatalf("the file is not an SVG image: %.200s", svg)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return writeTemp(t, "symbol.png", b.Bytes())
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
