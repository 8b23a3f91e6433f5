package seal

import (
	"bufio"
	"compress/flate"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
)

// maxInterlaced is the maximum size in bytes of an interlaced image, which is decoded in memory as a
// whole.
const maxInterlaced = 192 << 20

// pass is one of the seven passes of Adam7 interlacing (W3C PNG, 8.2), or the single pass of an image
// without interlacing.
type pass struct{ x, y, dx, dy int }

var (
	adam7  = []pass{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}
	single = []pass{{0, 0, 1, 1}}
)

func (p pass) size(width, height int) (w, h int) {
	return (width - p.x + p.dx - 1) / p.dx, (height - p.y + p.dy - 1) / p.dy
}

// stride returns the length in bytes of a row with the given number of pixels.
func (img *pngImage) stride(pixels int) int { return (pixels*img.samples()*img.depth + 7) / 8 }

// rowFunc receives a row of unfiltered samples, and a filter that suits the row.
type rowFunc func(row []byte, filter byte) error

// rows decodes the image and calls f for each row, from top to bottom. The filter is that of the row in
// the file, or Up for an interlaced image. The row is valid only during the call. An error is a *Refusal,
// an error of r, an error of f, or the end of ctx.
func (img *pngImage) rows(ctx context.Context, r io.ReaderAt, f rowFunc) error {
	if !img.interlaced {
		return img.decode(ctx, r, single, func(_, _ int, row []byte, filter byte) error { return f(row, filter) })
	}
	stride := img.stride(img.width)
	if int64(stride)*int64(img.height) > maxInterlaced {
		return refuse("too_complex", "The interlaced PNG image is too large. Save it without interlacing.")
	}
	whole := make([]byte, stride*img.height)
	bits := img.samples() * img.depth
	err := img.decode(ctx, r, adam7, func(n, y int, row []byte, _ byte) error {
		p := adam7[n]
		width, _ := p.size(img.width, img.height)
		target := whole[(p.y+y*p.dy)*stride:][:stride]
		for i := range width {
			copyPixel(target, p.x+i*p.dx, row, i, bits)
		}
		return nil
	})
	if err != nil {
		return err
	}
	const up = 2
	for y := range img.height {
		if err := f(whole[y*stride:][:stride], up); err != nil {
			return err
		}
	}
	return nil
}

// copyPixel copies pixel j of the source row to pixel i of the target row. A pixel has the given number of
// bits. The pixel of the target row must be zero before the call.
func copyPixel(to []byte, i int, from []byte, j, bits int) {
	if bits >= 8 {
		n := bits / 8
		copy(to[i*n:(i+1)*n], from[j*n:(j+1)*n])
		return
	}
	to[i*bits/8] |= sampleAt(from, j, bits) << (8 - bits - i*bits%8)
}

// sampleAt returns sample i of a row of samples of 1, 2, 4 or 8 bits.
func sampleAt(row []byte, i, bits int) byte {
	return row[i*bits/8] >> (8 - bits - i*bits%8) & (1<<bits - 1)
}

// decode decompresses each pass and undoes the filters. For each row, decode calls f with the index of
// the pass, the index of the row, the row and its filter.
func (img *pngImage) decode(ctx context.Context, r io.ReaderAt, passes []pass, f func(n, y int, row []byte, filter byte) error) error {
	source, _ := img.compressed(r)
	z, err := zlib.NewReader(bufio.NewReaderSize(source, 32<<10))
	if err != nil {
		return dataError(err)
	}
	data := bufio.NewReaderSize(z, 64<<10)
	distance := max(1, img.samples()*img.depth/8)
	for n, p := range passes {
		width, height := p.size(img.width, img.height)
		if width <= 0 || height <= 0 {
			continue
		}
		stride := img.stride(width)
		row, above := make([]byte, stride), make([]byte, stride)
		for y := range height {
			if y%64 == 0 && ctx.Err() != nil {
				return fmt.Errorf("decoding the PNG image: %w", context.Cause(ctx))
			}
			filter, err := data.ReadByte()
			if err != nil {
				return dataError(err)
			}
			if _, err := io.ReadFull(data, row); err != nil {
				return dataError(err)
			}
			if !unfilter(filter, row, above, distance) {
				return errDamagedPNG
			}
			if err := f(n, y, row, filter); err != nil {
				return err
			}
			row, above = above, row
		}
	}
	return nil
}

// dataError converts an error of decompression to a *Refusal, unless it is an error of the reader.
func dataError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errShortPNG
	case errors.Is(err, zlib.ErrHeader), errors.Is(err, zlib.ErrDictionary), errors.Is(err, zlib.ErrChecksum):
		return errDamagedPNG
	}
	if corrupt := flate.CorruptInputError(0); errors.As(err, &corrupt) {
		return errDamagedPNG
	}
	return fmt.Errorf("reading the original: %w", err)
}

// unfilter undoes a filter (W3C PNG, 9.2) in place and reports whether the filter type is valid.
func unfilter(filter byte, row, above []byte, distance int) bool {
	switch filter {
	case 0:
	case 1:
		for i := distance; i < len(row); i++ {
			row[i] += row[i-distance]
		}
	case 2:
		for i := range row {
			row[i] += above[i]
		}
	case 3:
		for i := range row {
			left := 0
			if i >= distance {
				left = int(row[i-distance])
			}
			row[i] += byte((left + int(above[i])) / 2) //nolint:gosec // the mean of two bytes
		}
	case 4:
		for i := range row {
			var left, corner byte
			if i >= distance {
				left, corner = row[i-distance], above[i-distance]
			}
			row[i] += paeth(left, above[i], corner)
		}
	default:
		return false
	}
	return true
}

// applyFilter writes row to out with a filter applied. It is the inverse of unfilter.
func applyFilter(filter byte, out, row, above []byte, distance int) {
	copy(out, row)
	switch filter {
	case 1:
		for i := distance; i < len(row); i++ {
			out[i] -= row[i-distance]
		}
	case 2:
		for i := range row {
			out[i] -= above[i]
		}
	case 3:
		for i := range row {
			left := 0
			if i >= distance {
				left = int(row[i-distance])
			}
			out[i] -= byte((left + int(above[i])) / 2) //nolint:gosec // the mean of two bytes
		}
	case 4:
		for i := range row {
			var left, corner byte
			if i >= distance {
				left, corner = row[i-distance], above[i-distance]
			}
			out[i] -= paeth(left, above[i], corner)
		}
	}
}

// paeth returns the Paeth predictor of filter 4 (W3C PNG, 9.4).
func paeth(left, above, corner byte) byte {
	a, b, c := int(left), int(above), int(corner)
	p := a + b - c
	pa, pb, pc := abs(p-a), abs(p-b), abs(p-c)
	switch {
	case pa <= pb && pa <= pc:
		return left
	case pb <= pc:
		return above
	}
	return corner
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
