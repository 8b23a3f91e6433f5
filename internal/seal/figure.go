package seal

import (
	"bytes"
	"math"

	"github.com/certvault/certvault/internal/colour"
)

// figure is the drawing of a stamp: the QR code on white, with optional text and an optional frame. The
// unit is one module of the QR code; the origin is the lower left corner.
type figure struct {
	symbol        *symbol
	width, height float64
	codeX, codeY  float64 // lower left corner of the QR code with its quiet zone
	border        float64 // width of the frame's line, or 0
	colour        colour.Colour
	labels        []label
	text          idText // the text of a plain stamp

	// content sets backing and operators when it is first called, because most figures are never drawn.
	// newPlainFigure sets them at once.
	backing, operators []byte
}

// content returns the content stream operators that paint the white background, and those that paint
// the figure on it. Both change the graphics state.
func (f *figure) content() (backing, operators []byte) {
	if f.operators == nil {
		f.draw()
	}
	return f.backing, f.operators
}

// drawCode sets backing, and writes the operators that draw the QR code.
func (f *figure) drawCode(b *bytes.Buffer) {
	var backing bytes.Buffer
	backing.WriteString("1 g 0 0 ")
	writeNumber(&backing, f.width)
	backing.WriteByte(' ')
	writeNumber(&backing, f.height)
	backing.WriteString(" re f\n")
	f.backing = backing.Bytes()
	b.WriteString("0 g\n")
	if f.codeX == 0 && f.codeY == 0 {
		f.symbol.operators(b)
		b.WriteString("f\n")
		return
	}
	b.WriteString("q 1 0 0 1 ")
	writeNumber(b, f.codeX)
	b.WriteByte(' ')
	writeNumber(b, f.codeY)
	b.WriteString(" cm\n")
	f.symbol.operators(b)
	b.WriteString("f Q\n")
}

// decimal rounds to two decimal places.
func decimal(v float64) float64 { return math.Round(v*100) / 100 }
