package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxPixels is the maximum number of pixels of an image.
const maxPixels = 128_000_000

// maxProfile is the maximum size of an ICC profile in bytes. Profiles of printing presses have
// about two million bytes.
const maxProfile = 8 << 20

// These are markers of ITU-T T.81, table B.1.
const (
	markerSOF0  = 0xC0 // baseline
	markerSOF1  = 0xC1 // extended sequential
	markerSOF2  = 0xC2 // progressive
	markerDHT   = 0xC4
	markerJPG   = 0xC8
	markerDAC   = 0xCC // arithmetic coding conditions
	markerSOF15 = 0xCF
	markerRST0  = 0xD0
	markerRST7  = 0xD7
	markerSOI   = 0xD8
	markerEOI   = 0xD9
	markerSOS   = 0xDA
	markerDNL   = 0xDC
	markerAPP0  = 0xE0
	markerAPP1  = 0xE1
	markerAPP2  = 0xE2
	markerAPP14 = 0xEE
	markerAPP15 = 0xEF
	markerCOM   = 0xFE
	markerTEM   = 0x01
)

// span is a range of bytes of the original.
type span struct{ offset, length int64 }

// jpegImage is the content of the marker segments of a JPEG file.
type jpegImage struct {
	width, height int
	ids           []byte // component identifiers
	adobe         bool   // has an Adobe APP14 segment
	jfif          bool
	exif          exif
	density       density
	profile       []byte // ICC profile, empty if absent or unsuitable
	keep          []span // the ranges to copy: the image without metadata
	end           int64  // end of the image in the file
}

// jpegReader reads the marker segments of a JPEG file. It does not decode samples.
type jpegReader struct {
	r      *windowReader
	img    jpegImage
	chunks map[byte][]byte // chunks of the ICC profile by sequence number
	count  byte            // number of chunks
	size   int             // total size of the chunks
	scans  int
	frame  bool
}

// readJPEG parses the file of size bytes in r. An error is a *Refusal, or an error of r.
func readJPEG(r io.ReaderAt, size int64) (*jpegImage, error) {
	j := jpegReader{r: newWindowReader(r, size), chunks: map[byte][]byte{}}
	if err := j.run(); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, refuse("truncated", "The JPEG image is cut off: its end is missing.")
		}
		return nil, err
	}
	j.img.profile = j.profile()
	return &j.img, nil
}

func (j *jpegReader) run() error {
	head, err := j.r.bytes(0, 2)
	if err != nil {
		return err
	}
	if head[0] != 0xFF || head[1] != markerSOI {
		return errNotJPEG
	}
	j.keepRange(0, 2)
	at := int64(2)
	for {
		marker, start, err := j.marker(at)
		if err != nil {
			return err
		}
		switch {
		case marker == markerEOI:
			if j.scans == 0 {
				return refuse("damaged", "The JPEG file contains no image.")
			}
			j.keepRange(start, 2)
			j.img.end = start + 2
			return nil
		case marker == markerSOI, marker >= markerRST0 && marker <= markerRST7, marker == markerTEM:
			return errDamagedJPEG // these markers must not appear between segments
		}
		body, err := j.segment(start + 2)
		if err != nil {
			return err
		}
		next := start + 4 + int64(len(body))
		if err := j.readSegment(marker, body, span{start, next - start}); err != nil {
			return err
		}
		if marker == markerSOS {
			end, err := j.entropy(next)
			if err != nil {
				return err
			}
			j.keepRange(next, end-next)
			next = end
		}
		at = next
	}
}

var (
	errNotJPEG     = refuse("type_mismatch", "The file has the extension of a JPEG image, but its content is something else.")
	errDamagedJPEG = refuse("damaged", "The JPEG image is damaged and cannot be read.")
)

// marker returns the first marker at or after offset. Fill bytes may precede it (B.1.1.2). No other bytes
// are allowed there, but some encoders write them and decoders skip them, as marker does.
func (j *jpegReader) marker(offset int64) (marker byte, start int64, err error) {
	for {
		start, err = j.r.index(offset, 0xFF)
		if err != nil {
			return 0, 0, err
		}
		b, err := j.r.bytes(start, 2)
		if err != nil {
			return 0, 0, err
		}
		if b[1] != 0 && b[1] != 0xFF {
			return b[1], start, nil
		}
		offset = start + 1
	}
}

// segment returns the parameters of the marker segment whose length is at offset (B.1.1.4).
func (j *jpegReader) segment(offset int64) ([]byte, error) {
	b, err := j.r.bytes(offset, 2)
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(b))
	if n < 2 {
		return nil, errDamagedJPEG
	}
	return j.r.bytes(offset+2, n-2)
}

// entropy returns the end of the entropy-coded data at offset: the offset of the next marker that is
// not a restart marker (B.1.1.5).
func (j *jpegReader) entropy(offset int64) (int64, error) {
	for {
		i, err := j.r.index(offset, 0xFF)
		if err != nil {
			return 0, err
		}
		b, err := j.r.bytes(i, 2)
		if err != nil {
			return 0, err
		}
		switch {
		case b[1] == 0 || b[1] >= markerRST0 && b[1] <= markerRST7:
			offset = i + 2
		case b[1] == 0xFF:
			offset = i + 1
		default:
			return i, nil
		}
	}
}

// readSegment reads a segment, and adds the segment to the ranges to copy if the image needs it.
func (j *jpegReader) readSegment(marker byte, body []byte, whole span) error {
	keep := true
	switch {
	case marker == markerAPP0:
		keep = bytes.HasPrefix(body, []byte("JFIF\x00"))
		if keep {
			j.img.jfif = true
			j.img.density = jfifDensity(body)
		}
	case marker == markerAPP1:
		keep = false
		if tiff, ok := bytes.CutPrefix(body, []byte("Exif\x00\x00")); ok {
			j.img.exif = readExif(tiff)
		}
	case marker == markerAPP2:
		keep = j.readProfile(body)
	case marker == markerAPP14:
		keep = bytes.HasPrefix(body, []byte("Adobe")) && len(body) >= 12
		j.img.adobe = j.img.adobe || keep
	case marker >= markerAPP0 && marker <= markerAPP15, marker == markerCOM:
		keep = false
	case marker == markerSOS:
		if !j.frame || len(body) < 6 {
			return errDamagedJPEG
		}
		j.scans++
	case marker == markerDAC, marker == markerDNL:
		return errCodingJPEG
	case marker >= markerSOF0 && marker <= markerSOF15 && marker != markerDHT:
		if err := j.readFrame(marker, body); err != nil {
			return err
		}
	}
	if keep {
		j.keepRange(whole.offset, whole.length)
	}
	return nil
}

var errCodingJPEG = refuse("unsupported_coding",
	"The JPEG image uses a rare coding (arithmetic, lossless, hierarchical or more than 8 bits) that PDF cannot show. Save it as an ordinary JPEG.")

// readFrame reads a frame header (B.2.2). DCTDecode supports baseline, extended and progressive Huffman
// coding with 8 bits per sample (ISO 32000-2, 7.4.8).
func (j *jpegReader) readFrame(marker byte, body []byte) error {
	if marker > markerSOF2 || j.frame || len(body) < 6 || body[0] != 8 {
		if j.frame || len(body) < 6 {
			return errDamagedJPEG
		}
		return errCodingJPEG
	}
	height, width, n := int(binary.BigEndian.Uint16(body[1:])), int(binary.BigEndian.Uint16(body[3:])), int(body[5])
	if width == 0 || height == 0 || len(body) != 6+3*n {
		return errDamagedJPEG
	}
	if n != 1 && n != 3 && n != 4 {
		return errCodingJPEG
	}
	if err := checkPixels(width, height); err != nil {
		return err
	}
	j.frame = true
	j.img.width, j.img.height = width, height
	for i := range n {
		j.img.ids = append(j.img.ids, body[6+3*i])
		if h, v := body[7+3*i]>>4, body[7+3*i]&15; h < 1 || h > 4 || v < 1 || v > 4 {
			return errDamagedJPEG
		}
	}
	return nil
}

// readProfile stores a chunk of an ICC profile (ICC.1, B.4), unless the profile is too large, and
// reports whether body is such a chunk.
func (j *jpegReader) readProfile(body []byte) bool {
	chunk, ok := bytes.CutPrefix(body, []byte("ICC_PROFILE\x00"))
	if !ok || len(chunk) < 2 {
		return false
	}
	j.size += len(chunk) - 2
	if j.size <= maxProfile {
		j.chunks[chunk[0]] = bytes.Clone(chunk[2:])
		j.count = chunk[1]
	}
	return true
}

// profile returns the ICC profile, or nil if it is incomplete or does not fit the image.
func (j *jpegReader) profile() []byte {
	var profile []byte
	for i := range int(j.count) {
		profile = append(profile, j.chunks[byte(i+1)]...)
	}
	if !profileFits(profile, len(j.img.ids)) {
		return nil
	}
	return profile
}

// keepRange adds a range to the ranges to copy.
func (j *jpegReader) keepRange(offset, length int64) {
	if n := len(j.img.keep); n > 0 && j.img.keep[n-1].offset+j.img.keep[n-1].length == offset {
		j.img.keep[n-1].length += length
		return
	}
	if length > 0 {
		j.img.keep = append(j.img.keep, span{offset, length})
	}
}

// body returns the image without its metadata, and its length.
func (j *jpegImage) body(r io.ReaderAt) (io.Reader, int64) {
	var readers []io.Reader
	var length int64
	for _, s := range j.keep {
		readers = append(readers, io.NewSectionReader(r, s.offset, s.length))
		length += s.length
	}
	return io.MultiReader(readers...), length
}

// rgb reports whether the components are RGB and not YCbCr: there is no JFIF or Adobe segment, and the
// component identifiers are R, G and B.
func (j *jpegImage) rgb() bool {
	return !j.jfif && !j.adobe && slices.Equal(j.ids, []byte("RGB"))
}

func checkPixels(width, height int) error {
	if int64(width)*int64(height) > maxPixels {
		return refuse("too_many_pixels", fmt.Sprintf("The image has %d x %d pixels. The limit is 128 megapixels.", width, height))
	}
	return nil
}

// profileFits reports whether an ICC profile is for images with n components (ICC.1, 7.2).
func profileFits(profile []byte, n int) bool {
	if len(profile) < 132 || string(profile[36:40]) != "acsp" || int(binary.BigEndian.Uint32(profile)) > len(profile) {
		return false
	}
	space, ok := map[int]string{1: "GRAY", 3: "RGB ", 4: "CMYK"}[n]
	return ok && string(profile[16:20]) == space
}
