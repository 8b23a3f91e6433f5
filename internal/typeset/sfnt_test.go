package typeset

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

type table struct {
	tag  string
	data []byte
}

// sfnt returns a font with the tables, which must be in the order of their tags (OpenType, otff).
func sfnt(tables []table) []byte {
	const version, record, header = 0x00010000, 16, 12
	n := len(tables)
	log := bits.Len(uint(n)) - 1
	out := binary.BigEndian.AppendUint32(nil, version)
	for _, v := range []int{n, record << log, log, n*record - record<<log} {
		out = binary.BigEndian.AppendUint16(out, uint16(v))
	}
	var body []byte
	for _, t := range tables {
		data := append(slices.Clone(t.data), make([]byte, -len(t.data)&3)...)
		sum := uint32(0)
		for i := 0; i < len(data); i += 4 {
			sum += binary.BigEndian.Uint32(data[i:])
		}
		out = append(out, t.tag...)
		for _, v := range []uint32{sum, uint32(header + record*n + len(body)), uint32(len(t.data))} {
			out = binary.BigEndian.AppendUint32(out, v)
		}
		body = append(body, data...)
	}
	return append(out, body...)
}
