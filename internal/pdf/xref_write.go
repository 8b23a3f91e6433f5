package pdf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// numberedEntry is a cross-reference entry to write.
type numberedEntry struct {
	number int
	entry  entry
}

// writeXref writes the cross-reference of entries and the trailer (7.5.4,
// 7.5.5, 7.5.8). Offsets are relative to base. stream is the reference of the
// cross-reference stream, or the zero Ref for a table. trailer must be complete
// except for /Size.
func (s *serializer) writeXref(entries []numberedEntry, trailer *Dict, base int64, size int, stream Ref) {
	start := s.offset() - base
	if stream != (Ref{}) {
		entries = append(entries, numberedEntry{stream.Number, entry{kind: entryInFile, offset: start}})
		size = max(size, stream.Number+1)
	}
	slices.SortFunc(entries, func(a, b numberedEntry) int { return cmp.Compare(a.number, b.number) })
	trailer.Set("Size", Integer(size))
	if stream != (Ref{}) {
		s.writeXrefStream(entries, trailer, stream)
	} else {
		s.writeXrefTable(entries, trailer)
	}
	s.buf = fmt.Appendf(s.buf, "startxref\n%d\n%%%%EOF\n", start)
	s.flush()
}

// runs calls yield for each run of entries with consecutive numbers.
func runs(entries []numberedEntry, yield func([]numberedEntry)) {
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n].number == entries[0].number+n {
			n++
		}
		yield(entries[:n])
		entries = entries[n:]
	}
}

func (s *serializer) writeXrefTable(entries []numberedEntry, trailer *Dict) {
	s.buf = append(s.buf, "xref\n"...)
	runs(entries, func(run []numberedEntry) {
		s.buf = fmt.Appendf(s.buf, "%d %d\n", run[0].number, len(run))
		for _, n := range run {
			kind := 'n'
			if n.entry.kind == entryFree {
				kind = 'f'
			}
			s.buf = fmt.Appendf(s.buf, "%010d %05d %c \n", n.entry.offset, n.entry.generation, kind)
		}
	})
	s.buf = append(s.buf, "trailer\n"...)
	s.dict(trailer, Ref{}, false, 0)
	s.buf = append(s.buf, '\n')
}

func (s *serializer) writeXrefStream(entries []numberedEntry, trailer *Dict, ref Ref) {
	width := 1
	for _, n := range entries {
		for v := max(n.entry.offset, int64(n.entry.stream)); v >= 1<<(8*width); {
			width++
		}
	}
	var rows bytes.Buffer
	var index Array
	runs(entries, func(run []numberedEntry) {
		index = append(index, Integer(run[0].number), Integer(len(run)))
		for _, n := range run {
			second, third := n.entry.offset, n.entry.generation
			if n.entry.kind == entryInStream {
				second, third = int64(n.entry.stream), n.entry.index
			}
			rows.WriteByte(byte(n.entry.kind))
			rows.Write(binary.BigEndian.AppendUint64(nil, uint64(second))[8-width:])  //nolint:gosec // not negative
			rows.Write(binary.BigEndian.AppendUint16(nil, uint16(min(third, 65535)))) //nolint:gosec // as above
		}
	})
	dict := NewDict(
		Entry{"Type", Name("XRef")},
		Entry{"W", Array{Integer(1), Integer(width), Integer(2)}},
		Entry{"Index", index},
	)
	for key, value := range trailer.All() {
		dict.Set(key, value)
	}
	data := rows.Bytes()
	if packed := deflate(data); len(packed)+len("/Filter/FlateDecode") < len(data) {
		data = packed
		dict.Set("Filter", Name("FlateDecode"))
	}
	dict.Set("Length", Integer(len(data)))
	s.buf = fmt.Appendf(s.buf, "%d %d obj\n", ref.Number, ref.Generation)
	s.dict(dict, ref, false, 0) // a cross-reference stream is not encrypted (7.5.8.2)
	s.buf = append(s.buf, "\nstream\n"...)
	s.buf = append(s.buf, data...)
	s.buf = append(s.buf, "\nendstream\nendobj\n"...)
}
