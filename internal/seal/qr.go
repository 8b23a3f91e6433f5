package seal

import (
	"bytes"
	"fmt"
	"strconv"

	"rsc.io/qr"
)

// quietZone is the light margin on every side of a QR code, in modules (ISO/IEC 18004, 9.1).
const quietZone = 4

// maxURL is the maximum length of a URL in bytes. It limits the symbol to 57 modules (version 10),
// so that a module of an 18 mm stamp is larger than a quarter of a millimetre.
const maxURL = 200

// symbol is a QR code: side x side modules without the quiet zone.
type symbol struct {
	side int
	dark []bool // row by row from the top left corner
}

// newSymbol encodes url with error correction level M, or with a higher level if the symbol does
// not grow.
func newSymbol(url string) (*symbol, error) {
	if url == "" || len(url) > maxURL {
		return nil, fmt.Errorf("encoding the QR code: the address has %d bytes, want 1 to %d", len(url), maxURL)
	}
	code, err := qr.Encode(url, qr.M)
	if err != nil {
		return nil, fmt.Errorf("encoding the QR code: %w", err)
	}
	for _, level := range []qr.Level{qr.Q, qr.H} {
		better, err := qr.Encode(url, level)
		if err != nil || better.Size != code.Size {
			break
		}
		code = better
	}
	s := &symbol{side: code.Size, dark: make([]bool, code.Size*code.Size)}
	for y := range s.side {
		for x := range s.side {
			s.dark[y*s.side+x] = code.Black(x, y)
		}
	}
	return s, nil
}

// at reports whether a module is dark; modules outside the symbol are light.
func (s *symbol) at(x, y int) bool {
	return x >= 0 && y >= 0 && x < s.side && y < s.side && s.dark[y*s.side+x]
}

// full returns the side of the symbol with its quiet zone, in modules.
func (s *symbol) full() int { return s.side + 2*quietZone }

// rect is a rectangle of modules.
type rect struct{ x, y, w, h int }

// rects covers the dark modules with a small number of rectangles that do not overlap. Each
// rectangle is a run of uncovered dark modules in a row, extended downwards while the row below has an
// uncovered run that starts in the same column and is at least as long.
func (s *symbol) rects() []rect {
	var out []rect
	done := make([]bool, len(s.dark))
	open := func(x, y int) bool { return s.at(x, y) && !done[y*s.side+x] }
	run := func(x, y int) int {
		w := 0
		for open(x+w, y) {
			w++
		}
		return w
	}
	for y := range s.side {
		for x := range s.side {
			if !open(x, y) {
				continue
			}
			r := rect{x, y, run(x, y), 1}
			for run(x, y+r.h) >= r.w {
				r.h++
			}
			for v := y; v < y+r.h; v++ {
				for u := x; u < x+r.w; u++ {
					done[v*s.side+u] = true
				}
			}
			out = append(out, r)
		}
	}
	return out
}

// operators writes the symbol as PDF path construction operators (ISO 32000-2, 8.5.2). The unit is
// one module; the origin is the lower left corner of the quiet zone. The caller fills the path.
func (s *symbol) operators(b *bytes.Buffer) {
	for _, r := range s.rects() {
		b.WriteString(strconv.Itoa(quietZone + r.x))
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(s.full() - quietZone - r.y - r.h))
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(r.w))
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(r.h))
		b.WriteString(" re\n")
	}
}
