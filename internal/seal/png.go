package seal

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// These are the colour types of PNG (W3C PNG, 11.2.1).
const (
	pngGray      = 0
	pngRGB       = 2
	pngPalette   = 3
	pngGrayAlpha = 4
	pngRGBA      = 6
)

// pngDepths are the bit depths that each colour type may have.
var pngDepths = map[byte]string{
	pngGray:      "\x01\x02\x04\x08\x10",
	pngRGB:       "\x08\x10",
	pngPalette:   "\x01\x02\x04\x08",
	pngGrayAlpha: "\x08\x10",
	pngRGBA:      "\x08\x10",
}

// maxAncillary is the maximum size in bytes of an ancillary chunk other than iCCP. A larger chunk is
// skipped.
const maxAncillary = 1 << 20

// pngImage is the content of the chunks of a PNG file.
type pngImage struct {
	width, height int
	depth         int // bits per sample
	colour        byte
	interlaced    bool
	palette       []byte
	transparency  []byte // content of tRNS
	density       density
	exif          exif
	gamma         float64 // from gAMA; 0 if absent or overridden by sRGB
	profile       []byte  // ICC profile, empty if absent or unsuitable
	data          []span  // the contents of the IDAT chunks
	end           int64   // end of the image in the file
}

var (
	errNotPNG     = refuse("type_mismatch", "The file has the extension of a PNG image, but its content is something else.")
	errDamagedPNG = refuse("damaged", "The PNG image is damaged and cannot be read.")
	errShortPNG   = refuse("truncated", "The PNG image is cut off: its end is missing.")
)

// readPNG parses the chunks of the file of size bytes in r. It does not decode image data. An error
// is a *Refusal, or an error of r.
func readPNG(r io.ReaderAt, size int64) (*pngImage, error) {
	p := pngReader{r: newWindowReader(r, size)}
	if err := p.run(); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errShortPNG
		}
		return nil, err
	}
	if !profileFits(p.img.profile, p.img.colours()) {
		p.img.profile = nil
	}
	return &p.img, nil
}

type pngReader struct {
	r       *windowReader
	img     pngImage
	dataEnd int64 // end of the last IDAT chunk
	srgb    bool
}

func (p *pngReader) run() error {
	if signature, err := p.r.bytes(0, len(pngSignature)); err != nil {
		return err
	} else if string(signature) != pngSignature {
		return errNotPNG
	}
	at := int64(len(pngSignature))
	for first := true; ; first = false {
		header, err := p.r.bytes(at, 8)
		if err != nil {
			return err
		}
		length, kind := int64(binary.BigEndian.Uint32(header)), string(header[4:8])
		if length > 1<<31-1 || first != (kind == "IHDR") {
			return errDamagedPNG
		}
		next := at + 12 + length
		if next > p.r.size {
			return io.ErrUnexpectedEOF
		}
		intact, err := p.checksum(at+4, length)
		if err != nil {
			return err
		}
		critical := kind[0]&0x20 == 0
		switch {
		case !intact && critical:
			return errDamagedPNG
		case !intact: // ancillary chunks are optional (W3C PNG, 13.1)
		case kind == "IDAT":
			if err := p.readData(at, span{at + 8, length}); err != nil {
				return err
			}
		case kind == "IEND":
			p.img.end = next
			return p.finish()
		case critical || ancillary[kind] && length <= maxAncillary || kind == "iCCP" && length <= maxProfile:
			body, err := p.r.bytes(at+8, int(min(length, maxProfile)))
			if err != nil {
				return err
			}
			if err := p.readChunk(kind, body); err != nil {
				return err
			}
		}
		at = next
	}
}

// ancillary lists the ancillary chunks, other than iCCP, that affect the rendering. Ancillary
// chunks that are neither listed nor iCCP are skipped.
var ancillary = map[string]bool{"tRNS": true, "pHYs": true, "gAMA": true, "sRGB": true, "eXIf": true}

// checksum reports whether the CRC of the chunk whose type is at offset is correct.
func (p *pngReader) checksum(offset, length int64) (bool, error) {
	crc := uint32(0)
	for left := 4 + length; left > 0; {
		n := min(left, 32<<10)
		b, err := p.r.bytes(offset, int(n))
		if err != nil {
			return false, err
		}
		crc = crc32.Update(crc, crc32.IEEETable, b)
		offset, left = offset+n, left-n
	}
	b, err := p.r.bytes(offset, 4)
	if err != nil {
		return false, err
	}
	return binary.BigEndian.Uint32(b) == crc, nil
}

// readData records an IDAT chunk at offset. IDAT chunks must be consecutive (W3C PNG, 5.6).
func (p *pngReader) readData(offset int64, data span) error {
	if p.dataEnd != 0 && p.dataEnd != offset || p.img.colour == pngPalette && p.img.palette == nil {
		return errDamagedPNG
	}
	p.dataEnd = offset + 12 + data.length
	if data.length > 0 {
		p.img.data = append(p.img.data, data)
	}
	return nil
}

// readChunk reads a chunk other than IDAT and IEND. body is valid only during the call.
func (p *pngReader) readChunk(kind string, body []byte) error {
	img := &p.img
	switch kind {
	case "IHDR":
		return p.readHeader(body)
	case "PLTE":
		if len(body) == 0 || len(body)%3 != 0 || len(body) > 768 || img.palette != nil {
			return errDamagedPNG
		}
		img.palette = bytes.Clone(body)
	case "tRNS":
		img.transparency = bytes.Clone(body)
	case "pHYs":
		if len(body) == 9 {
			x, y := float64(binary.BigEndian.Uint32(body)), float64(binary.BigEndian.Uint32(body[4:]))
			img.density = density{x, y, false}
			if body[8] == 1 {
				img.density = density{x * 0.0254, y * 0.0254, true}
			}
		}
	case "gAMA":
		if len(body) == 4 {
			img.gamma = float64(binary.BigEndian.Uint32(body)) / 100000
		}
	case "sRGB":
		p.srgb = true
	case "eXIf":
		img.exif = readExif(body)
	case "iCCP":
		img.profile = inflateProfile(body)
	default: // an unknown critical chunk cannot be skipped
		return errDamagedPNG
	}
	return nil
}

func (p *pngReader) readHeader(b []byte) error {
	if len(b) != 13 || b[10] != 0 || b[11] != 0 || b[12] > 1 {
		return errDamagedPNG
	}
	width, height := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if width == 0 || height == 0 || width > 1<<31-1 || height > 1<<31-1 || !bytes.Contains([]byte(pngDepths[b[9]]), b[8:9]) {
		return errDamagedPNG
	}
	p.img.width, p.img.height = int(width), int(height)
	p.img.depth, p.img.colour, p.img.interlaced = int(b[8]), b[9], b[12] == 1
	return checkPixels(p.img.width, p.img.height)
}

func (p *pngReader) finish() error {
	img := &p.img
	if len(img.data) == 0 {
		return errDamagedPNG
	}
	want := map[byte]int{pngGray: 2, pngRGB: 6}[img.colour]
	if img.colour == pngPalette && len(img.transparency)*3 > len(img.palette) || want != 0 && len(img.transparency) != want || want == 0 && img.colour != pngPalette {
		img.transparency = nil
	}
	if p.srgb {
		img.gamma = 0
	}
	return nil
}

// inflateProfile returns the profile of an iCCP chunk (W3C PNG, 11.3.2.3), or nil if the profile is
// damaged or too large.
func inflateProfile(body []byte) []byte {
	_, rest, ok := bytes.Cut(body, []byte{0})
	if !ok || len(rest) < 2 || rest[0] != 0 {
		return nil
	}
	z, err := zlib.NewReader(bytes.NewReader(rest[1:]))
	if err != nil {
		return nil
	}
	profile, err := io.ReadAll(io.LimitReader(z, maxProfile+1))
	if err != nil || len(profile) > maxProfile {
		return nil
	}
	return profile
}

// samples returns the number of samples per pixel in the file.
func (img *pngImage) samples() int {
	return map[byte]int{pngGray: 1, pngRGB: 3, pngPalette: 1, pngGrayAlpha: 2, pngRGBA: 4}[img.colour]
}

// colours returns the number of colour components per pixel: 1 or 3.
func (img *pngImage) colours() int {
	if img.colour == pngGray || img.colour == pngGrayAlpha {
		return 1
	}
	return 3
}

// compressed returns the zlib stream of the image data in the file, and its length.
func (img *pngImage) compressed(r io.ReaderAt) (io.Reader, int64) {
	readers := make([]io.Reader, 0, len(img.data))
	var length int64
	for _, s := range img.data {
		readers = append(readers, io.NewSectionReader(r, s.offset, s.length))
		length += s.length
	}
	return io.MultiReader(readers...), length
}
