package design

import (
	"encoding/binary"
	"math"
	"slices"
)

// sRGB returns an ICC profile of sRGB (IEC 61966-2-1), as ICC.1:2004-10 (version 4.2) defines it: a
// display profile with a matrix and parametric curves.
func sRGB() []byte {
	text := func(s string) []byte { // multiLocalizedUnicodeType, 10.13
		const record, header = 12, 16
		out := append([]byte("mluc\x00\x00\x00\x00"), 0, 0, 0, 1, 0, 0, 0, record, 'e', 'n', 'U', 'S')
		out = binary.BigEndian.AppendUint32(out, uint32(2*len(s)))
		out = binary.BigEndian.AppendUint32(out, header+record)
		for i := range len(s) {
			out = append(out, 0, s[i])
		}
		return out
	}
	fixed := func(kind string, values ...float64) []byte { // XYZType, parametricCurveType
		out := []byte(kind)
		for _, v := range values {
			out = binary.BigEndian.AppendUint32(out, uint32(int32(math.Round(v*65536))))
		}
		return out
	}
	const xyz = "XYZ \x00\x00\x00\x00"
	// The curve is Y = (aX+b)^g for X >= d, and Y = cX otherwise (10.15, function 3).
	curve := fixed("para\x00\x00\x00\x00\x00\x03\x00\x00", 2.4, 1/1.055, 0.055/1.055, 1/12.92, 0.04045)
	tags := []struct {
		name string
		data []byte
	}{
		{"desc", text("sRGB")},
		{"cprt", text("No copyright, use freely")},
		{"wtpt", fixed(xyz, 0.9642, 1, 0.8249)}, // D50, 7.2.16
		// chad adapts the white point from D65 to D50 by the Bradford method.
		{"chad", fixed("sf32\x00\x00\x00\x00", 1.04788, 0.02292, -0.05022, 0.02959, 0.99048, -0.01707, -0.00925, 0.01508, 0.75168)},
		{"rXYZ", fixed(xyz, 0.43607, 0.22249, 0.01392)},
		{"gXYZ", fixed(xyz, 0.38515, 0.71687, 0.09708)},
		{"bXYZ", fixed(xyz, 0.14307, 0.06061, 0.71410)},
		{"rTRC", curve}, {"gTRC", curve}, {"bTRC", curve},
	}
	const headerSize, entrySize = 128, 12
	table := binary.BigEndian.AppendUint32(nil, uint32(len(tags)))
	var body []byte
	at := map[string]uint32{} // tags with the same data share it
	start := headerSize + 4 + entrySize*len(tags)
	for _, tag := range tags {
		offset, ok := at[string(tag.data)]
		if !ok {
			offset = uint32(start + len(body))
			at[string(tag.data)] = offset
			body = append(body, tag.data...)
			body = append(body, make([]byte, -len(tag.data)&3)...)
		}
		table = append(table, tag.name...)
		table = binary.BigEndian.AppendUint32(table, offset)
		table = binary.BigEndian.AppendUint32(table, uint32(len(tag.data)))
	}
	header := make([]byte, headerSize) // 7.2
	binary.BigEndian.PutUint32(header, uint32(start+len(body)))
	copy(header[8:], "\x04\x20\x00\x00mntrRGB XYZ ")
	for i, v := range []uint16{2026, 1, 1, 0, 0, 0} {
		binary.BigEndian.PutUint16(header[24+2*i:], v)
	}
	copy(header[36:], "acsp")
	copy(header[68:], fixed("", 0.9642, 1, 0.8249))
	return slices.Concat(header, table, body)
}
