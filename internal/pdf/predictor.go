package pdf

import (
	"errors"
	"fmt"
	"io"
)

// maxRow is the maximum size of a row of predicted data in bytes.
const maxRow = 1 << 20

// predictor reverts the prediction of LZW and Flate data (7.4.4.4), row by row.
type predictor struct {
	in     io.Reader
	png    bool
	bits   int // bits per component
	colors int
	pixel  int // distance in bytes to the same component of the pixel on the left
	row    []byte
	above  []byte
	unread []byte // decoded bytes that are not yet read
	err    error
}

// predict returns a reader that reverts the prediction of the data of in. It
// returns in itself if parms specifies no prediction.
func (d *Document) predict(in io.Reader, parms *Dict) (io.Reader, error) {
	kind, _ := d.Int(parms.Get("Predictor"))
	if kind < 2 {
		return in, nil
	}
	value := func(key Name, fallback int) int {
		if v, ok := d.Int(parms.Get(key)); ok && v > 0 {
			return v
		}
		return fallback
	}
	columns, bits, colors := value("Columns", 1), value("BitsPerComponent", 8), value("Colors", 1)
	if bits > 32 || colors > 1<<10 || columns > 8*maxRow || columns*bits*colors > 8*maxRow {
		return nil, fmt.Errorf("%w: rows of predicted data are too long", ErrLimit)
	}
	size := (columns*bits*colors + 7) / 8
	return &predictor{
		in: in, png: kind >= 10, bits: bits, colors: colors, pixel: (bits*colors + 7) / 8,
		row: make([]byte, size), above: make([]byte, size),
	}, nil
}

func (p *predictor) Read(out []byte) (int, error) {
	n := 0
	for n < len(out) {
		if len(p.unread) == 0 {
			if p.err != nil {
				return n, p.err
			}
			p.err = p.next()
			continue
		}
		copied := copy(out[n:], p.unread)
		p.unread = p.unread[copied:]
		n += copied
	}
	return n, nil
}

// next decodes the next row. The last row may be incomplete.
func (p *predictor) next() error {
	var tag [1]byte
	if p.png {
		if _, err := io.ReadFull(p.in, tag[:]); err != nil {
			return eofIfTruncated(err)
		}
	}
	p.row, p.above = p.above, p.row
	n, err := io.ReadFull(p.in, p.row)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	clear(p.row[n:])
	if p.png {
		p.revertPNG(tag[0])
	} else {
		p.revertTIFF()
	}
	p.unread = p.row[:n]
	return eofIfTruncated(err)
}

// revertPNG reverts the PNG filter types (ISO/IEC 15948, 9.2).
func (p *predictor) revertPNG(filter byte) {
	row, above, pixel := p.row, p.above, p.pixel
	switch filter {
	case 1: // Sub
		for i := pixel; i < len(row); i++ {
			row[i] += row[i-pixel]
		}
	case 2: // Up
		for i := range row {
			row[i] += above[i]
		}
	case 3: // Average
		for i := range row {
			left := 0
			if i >= pixel {
				left = int(row[i-pixel])
			}
			row[i] += byte((left + int(above[i])) / 2) //nolint:gosec // the mean of two bytes
		}
	case 4: // Paeth
		for i := range row {
			var left, corner int
			if i >= pixel {
				left, corner = int(row[i-pixel]), int(above[i-pixel])
			}
			row[i] += paeth(left, int(above[i]), corner)
		}
	}
}

// paeth returns a (left), b (above) or c (upper left): the one that is nearest to
// a + b - c.
func paeth(a, b, c int) byte {
	distance := func(v int) int { return max(v, -v) }
	pa, pb, pc := distance(b-c), distance(a-c), distance(a+b-2*c)
	switch {
	case pa <= pb && pa <= pc:
		return byte(a) //nolint:gosec // each is a byte
	case pb <= pc:
		return byte(b) //nolint:gosec // as above
	}
	return byte(c) //nolint:gosec // as above
}

// revertTIFF reverts the horizontal differencing of TIFF (predictor 2).
func (p *predictor) revertTIFF() {
	row := p.row
	switch p.bits {
	case 8:
		for i := p.colors; i < len(row); i++ {
			row[i] += row[i-p.colors]
		}
	case 16:
		for i := 2 * p.colors; i+1 < len(row); i += 2 {
			sum := uint16(row[i])<<8 + uint16(row[i+1]) + uint16(row[i-2*p.colors])<<8 + uint16(row[i-2*p.colors+1])
			row[i], row[i+1] = byte(sum>>8), byte(sum) //nolint:gosec // its two bytes
		}
	case 1, 2, 4:
		p.revertTIFFBits()
	}
}

// revertTIFFBits is revertTIFF for components with fewer than eight bits.
func (p *predictor) revertTIFFBits() {
	per, mask := 8/p.bits, byte(1<<p.bits-1)
	left := make([]byte, p.colors)
	for i := range len(p.row) * per {
		shift := 8 - p.bits*(i%per+1)
		at := &p.row[i/per]
		v := (*at>>shift + left[i%p.colors]) & mask
		left[i%p.colors] = v
		*at = *at&^(mask<<shift) | v<<shift
	}
}
