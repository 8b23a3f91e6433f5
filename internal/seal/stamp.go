package seal

import (
	"bytes"
	"errors"
	"net/url"
	"strings"

	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/typeset"
)

// These are dimensions of a stamp, in modules of its QR code. At the usual size of 24 mm, a module
// is about half a millimetre.
const (
	borderWidth = 0.3
	borderGap   = 0.5                // between the frame and the quiet zone
	textSize    = 4.4                // maximum size of an em
	minTextSize = 3.2                // about 5 points on a stamp of the usual size
	lineHeight  = 1.5                // distance between two baselines in ems
	capHeight   = 0.73               // in ems
	textMargin  = 4                  // between the text and the frame
	wordSpace   = emUnits * 28 / 100 // in units of the outline
)

// texts are the texts of a stamp as outlines.
type texts struct {
	verifyAt, host line
	groups         []line // the reference id in groups of four characters
	issuer         line   // the institution; without glyphs if the fonts lack one of its characters
}

// semibold is the font of the host and of the institution.
var semibold = typeset.Font{Family: typeset.Inter, Weight: 600}

// newTexts converts the texts of a stamp to outlines.
func newTexts(w *lettering, s Stamp) (*texts, error) {
	t := &texts{}
	var err error
	if t.verifyAt, err = w.keep("Verify at", typeset.Font{}); err != nil {
		return nil, err
	}
	if t.host, err = w.keep(hostOf(s.VerifyURL), semibold); err != nil {
		return nil, err
	}
	for _, g := range idGroups(s.ReferenceID) {
		l, err := w.outline(g, typeset.Font{})
		if err != nil {
			return nil, err
		}
		t.groups = append(t.groups, l)
	}
	t.issuer, err = w.keep(s.Institution, semibold)
	if _, missing := errors.AsType[*typeset.MissingError](err); missing {
		return t, nil
	}
	return t, err
}

// hostOf returns the host of the verification page, with the port if the address contains a port.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return u.Host
}

// idGroups returns a reference id in groups of four characters. The first group also has the prefix.
func idGroups(id string) []string {
	prefix, code, ok := strings.Cut(id, "-")
	if !ok {
		prefix, code = "", id
	} else {
		prefix += "-"
	}
	var groups []string
	for len(code) > 4 {
		groups, code = append(groups, code[:4]), code[4:]
	}
	groups = append(groups, code)
	groups[0] = prefix + groups[0]
	return groups
}

// spaced joins words with spaces between them.
func spaced(groups []line) line {
	var parts []line
	for i, g := range groups {
		if i > 0 {
			parts = append(parts, line{width: wordSpace})
		}
		parts = append(parts, g)
	}
	return join(parts...)
}

// form is a shape of the stamp: lines of text beside the QR code or below it.
type form struct {
	lines []line
	below bool
	// widest is the maximum width of the text as a multiple of the width of the QR code with its quiet
	// zone.
	widest float64
}

// forms returns the shapes of a stamp, from the one with the most legible text to the most compact.
func (t *texts) forms() []form {
	half := (len(t.groups) + 1) / 2
	inTwo := []line{spaced(t.groups[:half]), spaced(t.groups[half:])}
	return []form{
		{lines: []line{spaced([]line{t.verifyAt, t.host}), spaced(t.groups)}, widest: 2.4},
		{lines: append([]line{t.verifyAt, t.host}, inTwo...), widest: 1.4},
		{lines: append([]line{t.verifyAt, t.host}, inTwo...), below: true, widest: 1},
		{lines: t.groups, widest: 0.8},
		{lines: inTwo, below: true, widest: 1},
	}
}

// stripForms returns the shapes of a stamp in a strip: a wide shape, with the institution if the fonts have
// its characters, and then the shapes that forms returns, for narrow pages.
func (t *texts) stripForms() []form {
	address, id := spaced([]line{t.verifyAt, t.host}), spaced(t.groups)
	wide := form{lines: []line{address, id}, widest: 6}
	if len(t.issuer.glyphs) > 0 {
		wide.lines = []line{t.issuer, address, id}
	}
	return append([]form{wide}, t.forms()...)
}

// newFigures returns the shapes of a stamp on a page and in a strip, best first. It leaves out the shapes
// whose text would not be legible.
func newFigures(w *lettering, s *symbol, stamp Stamp) (onPage, inStrip []*figure, err error) {
	if stamp.Plain {
		for _, shape := range []int{idBeside, idBelow} {
			f, err := newPlainFigure(s, stamp.ReferenceID, shape)
			if err != nil {
				return nil, nil, err
			}
			onPage = append(onPage, f)
		}
		return onPage, onPage[:1], nil
	}
	t, err := newTexts(w, stamp)
	if err != nil {
		return nil, nil, err
	}
	for _, form := range t.forms() {
		if f := newFigure(s, form, stamp.Colour, borderWidth); f != nil {
			onPage = append(onPage, f)
		}
	}
	for _, form := range t.stripForms() {
		if f := newFigure(s, form, stamp.Colour, 0); f != nil {
			inStrip = append(inStrip, f)
		}
	}
	return onPage, inStrip, nil
}

// newFigure returns the stamp in a shape, or nil if the text would not be legible.
func newFigure(s *symbol, shape form, frame colour.Colour, border float64) *figure {
	side := float64(s.full())
	widest := 0
	for _, l := range shape.lines {
		widest = max(widest, l.width)
	}
	room := shape.widest * side
	if shape.below {
		room -= 2 * quietZone
	}
	size := min(textSize, room*emUnits/float64(widest))
	high := func() float64 { return (float64(len(shape.lines)-1)*lineHeight + capHeight) * size }
	if !shape.below && high() > side-2*quietZone {
		size *= (side - 2*quietZone) / high()
	}
	if size = decimal(size); size < minTextSize {
		return nil
	}
	edge := 0.0
	if border > 0 {
		edge = border + borderGap
	}
	f := &figure{symbol: s, codeX: edge, codeY: edge, width: side + 2*edge, height: side + 2*edge, border: border, colour: frame}
	if shape.below {
		below := decimal(high() + 2) // 2 modules below the text; the quiet zone is above it
		f.height += below
		f.codeY += below
	} else {
		f.width = decimal(f.width + float64(widest)/emUnits*size + textMargin - borderGap)
	}
	y := f.codeY + (side+high())/2 - capHeight*size
	if shape.below {
		y = f.codeY - capHeight*size
	}
	for _, l := range shape.lines {
		x := edge + side
		if shape.below {
			x = edge + (side-l.wide(size))/2
		}
		f.labels = append(f.labels, label{l, decimal(x), decimal(y), size})
		y -= lineHeight * size
	}
	return f
}

// draw sets backing and operators.
func (f *figure) draw() {
	var b bytes.Buffer
	f.drawCode(&b)
	for i := range f.labels {
		f.labels[i].operators(&b)
	}
	if f.border > 0 {
		writeColour(&b, f.colour)
		b.WriteString("RG ")
		writeNumber(&b, f.border)
		b.WriteString(" w ")
		for _, v := range []float64{f.border / 2, f.border / 2, f.width - f.border, f.height - f.border} {
			writeNumber(&b, decimal(v))
			b.WriteByte(' ')
		}
		b.WriteString("re S\n")
	}
	f.operators = b.Bytes()
}

// newCodeFigure returns a figure of only the QR code with its quiet zone.
func newCodeFigure(s *symbol) *figure {
	return &figure{symbol: s, width: float64(s.full()), height: float64(s.full())}
}

// writeColour writes the components of a colour.
func writeColour(b *bytes.Buffer, c colour.Colour) {
	for _, v := range []uint8{c.R, c.G, c.B} {
		writeNumber(b, decimal(float64(v)/255))
		b.WriteByte(' ')
	}
}
