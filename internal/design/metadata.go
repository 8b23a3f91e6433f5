package design

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"slices"
)

// metadata is the metadata of a picture that determines how the picture is displayed.
type metadata struct {
	orientation int     // of Exif, 1 to 8; 0 if unknown
	resolution  float64 // in pixels per inch; 0 if unknown
	profile     []byte  // ICC
}

// These are the limits of metadata, and the length of an inch. A resolution outside its limits is ignored.
const (
	minResolution = 10
	maxResolution = 10_000
	maxProfile    = 4 << 20 // bytes; a larger profile is ignored
	inch          = 2.54    // centimetres
)

// chunk is a chunk of a PNG image (PNG, 5.3).
type chunk struct {
	kind string
	data []byte
}

// pngChunks returns the chunks of a PNG image before the first incomplete chunk.
func pngChunks(file []byte) (out []chunk) {
	const signature, header, checksum = 8, 8, 4
	for at := signature; at+header <= len(file); {
		n := int(be32(file, at))
		end := at + header + n
		if n < 0 || end+checksum > len(file) {
			break
		}
		out = append(out, chunk{string(file[at+4 : at+header]), file[at+header : end]})
		at = end + checksum
	}
	return out
}

// pngMetadata returns the metadata of a PNG image.
func pngMetadata(file []byte) (m metadata) {
	for _, c := range pngChunks(file) {
		switch c.kind {
		case "pHYs": // PNG, 11.3.4.3: pixels per metre
			if len(c.data) == 9 && c.data[8] == 1 {
				m.setResolution(float64(be32(c.data, 0)) * inch / 100)
			}
		case "iCCP": // PNG, 11.3.2.3: a name, a method, and the compressed profile
			if i := bytes.IndexByte(c.data, 0); i >= 0 && i+2 < len(c.data) {
				if z, err := zlib.NewReader(bytes.NewReader(c.data[i+2:])); err == nil {
					if profile, err := io.ReadAll(io.LimitReader(z, maxProfile+1)); err == nil && len(profile) <= maxProfile {
						m.profile = profile
					}
				}
			}
		case "eXIf":
			m.readExif(c.data)
		}
	}
	return m
}

func (m *metadata) setResolution(v float64) {
	if within(v, minResolution, maxResolution) {
		m.resolution = v
	}
}

// segment is a marker segment of a JPEG image (ITU-T T.81, B.1.1.4).
type segment struct {
	marker byte
	data   []byte // the whole segment with its marker
}

// jpegSegments returns the segments before the first scan, and the rest of the file.
func jpegSegments(file []byte) (out []segment, rest []byte) {
	at := 2
	for at+4 <= len(file) && file[at] == 0xFF {
		marker := file[at+1]
		if marker == 0xFF { // fill bytes
			at++
			continue
		}
		end := at + 2 + int(binary.BigEndian.Uint16(file[at+2:]))
		if marker == 0xDA || end > len(file) || end < at+4 {
			break
		}
		out = append(out, segment{marker, file[at:end]})
		at = end
	}
	return out, file[at:]
}

// These are the markers of application segments and of comments (ITU-T T.81, table B.1).
const (
	app0, app1, app2, app14, app15 = 0xE0, 0xE1, 0xE2, 0xEE, 0xEF
	comment                        = 0xFE
)

// jpegMetadata returns the metadata of a JPEG image.
func jpegMetadata(file []byte) (m metadata) {
	list, _ := jpegSegments(file)
	parts := map[byte][]byte{}
	count := byte(0) // number of parts of the profile
	for _, s := range list {
		body := s.data[4:]
		switch {
		case s.marker == app0 && bytes.HasPrefix(body, []byte("JFIF\x00")) && len(body) >= 12: // ITU-T T.871, 10.1
			v := float64(binary.BigEndian.Uint16(body[8:]))
			switch body[7] {
			case 1:
				m.setResolution(v)
			case 2:
				m.setResolution(v * inch)
			}
		case s.marker == app1 && bytes.HasPrefix(body, []byte("Exif\x00\x00")):
			m.readExif(body[6:])
		case s.marker == app2 && bytes.HasPrefix(body, []byte("ICC_PROFILE\x00")) && len(body) > 14: // ICC.1, B.4
			parts[body[12]], count = body[14:], body[13]
		}
	}
	m.profile = joined(parts, count)
	return m
}

// joined returns the profile whose parts are numbered from 1, or nil if a part is missing or the profile is
// too large.
func joined(parts map[byte][]byte, count byte) (profile []byte) {
	for i := range int(count) {
		part := parts[byte(i+1)]
		if part == nil || len(profile)+len(part) > maxProfile {
			return nil
		}
		profile = append(profile, part...)
	}
	return profile
}

// plainJPEG returns a JPEG image without its metadata, because the metadata may name a person or a place.
func plainJPEG(file []byte) []byte {
	list, rest := jpegSegments(file)
	out := slices.Clone(file[:2])
	for _, s := range list {
		if s.marker >= app1 && s.marker <= app15 && s.marker != app14 || s.marker == comment {
			continue
		}
		out = append(out, s.data...)
	}
	return append(out, rest...)
}

// readExif reads the orientation and the resolution of an Exif block, which is a TIFF header with a
// directory.
func (m *metadata) readExif(tiff []byte) {
	var order binary.ByteOrder = binary.BigEndian
	if bytes.HasPrefix(tiff, []byte("II")) {
		order = binary.LittleEndian
	}
	if len(tiff) < 8 {
		return
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return
	}
	const entry, orientation, resolution, unit, centimetre = 12, 0x0112, 0x011A, 0x0128, 3
	density, factor := 0.0, 1.0
	for i, n := 0, int(order.Uint16(tiff[at:])); i < n; i++ {
		from := at + 2 + int64(i)*entry
		if from+entry > int64(len(tiff)) {
			break
		}
		field := tiff[from:]
		switch order.Uint16(field) {
		case orientation:
			if v := int(order.Uint16(field[8:])); v >= 1 && v <= 8 {
				m.orientation = v
			}
		case resolution:
			if k := int64(order.Uint32(field[8:])); k+8 <= int64(len(tiff)) {
				if d := order.Uint32(tiff[k+4:]); d > 0 {
					density = float64(order.Uint32(tiff[k:])) / float64(d)
				}
			}
		case unit:
			if order.Uint16(field[8:]) == centimetre {
				factor = inch
			}
		}
	}
	if m.resolution == 0 {
		m.setResolution(density * factor)
	}
}
