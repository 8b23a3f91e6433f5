package seal

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"

	"github.com/boombuler/barcode/code128"
)

// These are dimensions of the barcode in modules (ISO/IEC 15417), and the maximum length of its text in
// bytes.
const (
	barQuiet  = 10
	barHeight = 40
	maxID     = 64
)

// QRCodeSVG returns the QR code of url as a self-contained SVG image. One unit is one module. An error
// means that url is empty or too long.
func QRCodeSVG(url string) ([]byte, error) {
	s, err := newSymbol(url)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := openSVG(&b, s.full(), s.full(), 8, "QR code", "Link to "+url); err != nil {
		return nil, err
	}
	b.WriteString(`<path fill="#000" shape-rendering="crispEdges" d="`)
	for _, r := range s.rects() {
		fmt.Fprintf(&b, "M%d %dh%dv%dh-%dz", quietZone+r.x, quietZone+r.y, r.w, r.h, r.w)
	}
	b.WriteString("\"/></svg>\n")
	return b.Bytes(), nil
}

// BarcodeSVG returns referenceID as a Code 128 barcode (ISO/IEC 15417) with the id below it, as a
// self-contained SVG image. One unit is one module. An error means that referenceID is empty, is too
// long, or has a character that the built-in font does not have, such as a lower case letter.
func BarcodeSVG(referenceID string) ([]byte, error) {
	if referenceID == "" || len(referenceID) > maxID {
		return nil, fmt.Errorf("drawing the barcode: the id has %d bytes, want 1 to %d", len(referenceID), maxID)
	}
	lines, err := strokes(referenceID)
	if err != nil {
		return nil, fmt.Errorf("drawing the barcode: %w", err)
	}
	code, err := code128.Encode(referenceID)
	if err != nil {
		return nil, fmt.Errorf("drawing the barcode: %w", err)
	}
	const textSpace = 4 * glyphHeight / 2
	bars := code.Bounds().Dx()
	var b bytes.Buffer
	if err := openSVG(&b, bars+2*barQuiet, barHeight+textSpace+barQuiet, 2, "Barcode", "Code 128 barcode of "+referenceID); err != nil {
		return nil, err
	}
	b.WriteString(`<path fill="#000" shape-rendering="crispEdges" d="`)
	dark := func(x int) bool { return x < bars && code.At(x, 0) == color.Black }
	for x := 0; x < bars; x++ {
		w := 0
		for dark(x + w) {
			w++
		}
		if w > 0 {
			fmt.Fprintf(&b, "M%d %dh%dv%dh-%dz", barQuiet+x, barQuiet/2, w, barHeight, w)
			x += w
		}
	}
	left := barQuiet + (bars-textWidth(len(referenceID)))/2
	bottom := barQuiet/2 + barHeight + 3 + glyphHeight
	fmt.Fprintf(&b, `"/><path fill="none" stroke="#000" stroke-width="%v" stroke-linecap="round" stroke-linejoin="round" d="`, strokeWidth)
	for _, line := range lines {
		for i, p := range line {
			op := 'L'
			if i == 0 {
				op = 'M'
			}
			fmt.Fprintf(&b, "%c%d %d", op, left+p[0], bottom-p[1])
		}
	}
	b.WriteString("\"/></svg>\n")
	return b.Bytes(), nil
}

// openSVG writes the start of an SVG image of w x h units on white, with scale pixels per unit.
// title and desc describe the image for screen readers.
func openSVG(b *bytes.Buffer, w, h, scale int, title, desc string) error {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="t d"><title id="t">`, w*scale, h*scale, w, h)
	if err := xml.EscapeText(b, []byte(title)); err != nil {
		return fmt.Errorf("writing SVG: %w", err)
	}
	b.WriteString(`</title><desc id="d">`)
	if err := xml.EscapeText(b, []byte(desc)); err != nil {
		return fmt.Errorf("writing SVG: %w", err)
	}
	fmt.Fprintf(b, `</desc><rect width="%d" height="%d" fill="#fff"/>`, w, h)
	return nil
}
