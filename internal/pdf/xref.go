package pdf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// entryKind is the type of a cross-reference entry (7.5.8.3, table 18).
type entryKind byte

const (
	entryFree entryKind = iota
	entryInFile
	entryInStream
)

// entry is the position of an object.
type entry struct {
	kind       entryKind
	offset     int64 // offset of an object in the file, relative to Document.base
	generation int   // generation of an object in the file, or of the next use of a free object
	stream     int   // object number of the object stream
	index      int   // index in the object stream
}

// subsection is a range of object numbers in a cross-reference section. The
// entries of a stream and of a table in the usual form are parsed on demand, so
// that a file with many objects opens quickly.
type subsection struct {
	first, count int

	offset int64 // offset of the first entry of a table
	stride int   // size of an entry of a table in bytes, 0 for other forms

	rows   []byte // data of a cross-reference stream
	widths [3]int

	entries []entry // entries of other forms
}

// section is a cross-reference section (7.5.4, 7.5.8).
type section struct {
	subsections []subsection // sorted by first, unless subsections overlap
	overlaps    bool
	hybrid      bool // the next section is the cross-reference stream of this table
}

// xref is the cross-reference of a document: its sections, newest first.
type xref struct {
	sections []section
	trailer  *Dict
	start    int64 // offset of the newest section, relative to Document.base
	stream   bool  // the newest section is a stream, or a repair found a cross-reference stream or objects in streams
}

const (
	maxSections    = 1024
	maxSubsections = 1 << 17
)

var errXref = fmt.Errorf("%w: invalid cross-reference", ErrDamaged)

// lookup returns the entry of an object. An object without an entry is free.
func (d *Document) lookup(number int) (entry, error) {
	hidden := false
	if err := d.src.charge(int64(len(d.xref.sections))); err != nil {
		return entry{}, err
	}
	for i := range d.xref.sections {
		s := &d.xref.sections[i]
		if s.overlaps {
			if err := d.src.charge(int64(len(s.subsections))); err != nil {
				return entry{}, err
			}
		}
		sub := s.find(number)
		if sub == nil {
			if hidden && !s.hybrid {
				return entry{}, nil
			}
			continue
		}
		e, err := d.entryAt(sub, number-sub.first)
		if err != nil {
			return entry{}, err
		}
		// The table of a hybrid file lists objects of its stream as free
		// (7.5.8.4).
		if e.kind == entryFree && s.hybrid {
			hidden = true
			continue
		}
		return e, nil
	}
	return entry{}, nil
}

// find returns the subsection that contains number, or nil if there is none.
func (s *section) find(number int) *subsection {
	if s.overlaps {
		for i := range s.subsections {
			if sub := &s.subsections[i]; number >= sub.first && number-sub.first < sub.count {
				return sub
			}
		}
		return nil
	}
	i, found := slices.BinarySearchFunc(s.subsections, number, func(sub subsection, n int) int { return cmp.Compare(sub.first, n) })
	if !found {
		i--
	}
	if i < 0 || number-s.subsections[i].first >= s.subsections[i].count {
		return nil
	}
	return &s.subsections[i]
}

// sort sorts the subsections, unless some of them overlap. Overlapping subsections
// keep their order and are searched linearly. Therefore a section with an overlap
// and more than 256 subsections counts as damaged.
func (s *section) sort() error {
	inOrder := func(a, b subsection) int { return cmp.Compare(a.first, b.first) }
	sorted := s.subsections
	if !slices.IsSortedFunc(sorted, inOrder) {
		sorted = slices.SortedStableFunc(slices.Values(sorted), inOrder)
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1].first+sorted[i-1].count > sorted[i].first {
			s.overlaps = true
			if len(sorted) > 256 {
				return errXref
			}
			return nil
		}
	}
	s.subsections = sorted
	return nil
}

// entryAt returns the entry with index i of a subsection.
func (d *Document) entryAt(sub *subsection, i int) (entry, error) {
	switch {
	case sub.stride > 0:
		text, err := d.src.window(sub.offset+int64(i)*int64(sub.stride), 18)
		if err != nil {
			return entry{}, err
		}
		return parseTableEntry(text)
	case sub.rows != nil:
		return sub.row(i), nil
	default:
		return sub.entries[i], nil
	}
}

// row parses an entry of a cross-reference stream (7.5.8.3). An entry of an
// unknown type, or with a number out of range, counts as free.
func (s *subsection) row(i int) entry {
	width := s.widths[0] + s.widths[1] + s.widths[2]
	row := s.rows[i*width : (i+1)*width]
	field := func(n int, fallback int64) int64 {
		if s.widths[n] == 0 {
			return fallback
		}
		var v int64
		for _, c := range row[:s.widths[n]] {
			v = v<<8 | int64(c)
		}
		row = row[s.widths[n]:]
		return v & (1<<56 - 1)
	}
	kind, second, third := field(0, 1), field(1, 0), field(2, 0)
	switch {
	case kind == 1 && third <= 65535:
		return entry{kind: entryInFile, offset: second, generation: int(third)}
	case kind == 2 && second <= maxNumber && third <= maxNumber:
		return entry{kind: entryInStream, stream: int(second), index: int(third)}
	}
	return entry{}
}

// inheritedTrailer lists the entries that may be only in an older trailer.
var inheritedTrailer = []Name{"Root", "Encrypt", "ID", "Info"}

// loadXref reads the chain of cross-reference sections, beginning with the
// section whose offset startxref states (7.5.5).
func (d *Document) loadXref() error {
	start, err := d.findStartXref()
	if err != nil {
		return err
	}
	x := &d.xref
	seen := map[int64]bool{}
	subsections, rows := 0, 0
	next := start
	for more := true; more; {
		part, err := d.readSection(next)
		if err != nil {
			return err
		}
		if seen[part.at] || len(x.sections) >= maxSections {
			return fmt.Errorf("%w: /Prev has a loop, or leads to more than %d sections", errXref, maxSections)
		}
		seen[part.at] = true
		if x.trailer == nil {
			x.trailer, x.stream, x.start = part.trailer, part.stream, part.at
		} else {
			x.inherit(part.trailer)
		}
		parts := []sectionPart{part}
		if at, ok := part.trailer.Get("XRefStm").(Integer); ok && !part.stream {
			hidden, err := d.readXrefStream(int64(at))
			if err != nil {
				return err
			}
			parts[0].section.hybrid = true
			parts = append(parts, hidden)
		}
		for _, p := range parts {
			if err := p.section.sort(); err != nil {
				return err
			}
			if subsections += len(p.section.subsections); subsections > maxSubsections {
				return fmt.Errorf("%w: too many cross-reference subsections", ErrLimit)
			}
			for _, sub := range p.section.subsections {
				rows += len(sub.rows)
			}
			if rows > maxDecoded {
				return fmt.Errorf("%w: the cross-reference is too large", ErrLimit)
			}
			x.sections = append(x.sections, p.section)
		}
		switch prev := part.trailer.Get("Prev").(type) {
		case Integer:
			next = int64(prev)
		case Real:
			next = int64(prev.Float64())
		case Ref: // some old files have a reference whose number is the offset
			next = int64(prev.Number)
		default:
			more = false
		}
	}
	return nil
}

// inherit copies the entries of inheritedTrailer that only the older trailer has.
func (x *xref) inherit(older *Dict) {
	for _, key := range inheritedTrailer {
		if v := older.Get(key); v != nil && x.trailer.Get(key) == nil {
			x.trailer = x.trailer.Clone().Set(key, v)
		}
	}
}

// findStartXref returns the offset that the last startxref of the file states. It
// searches at most the last 64 KiB.
func (d *Document) findStartXref() (int64, error) {
	const tail = 1024
	for n := int64(tail); ; n *= 4 {
		from := max(0, d.src.size-n)
		text, err := d.src.window(from, int(d.src.size-from))
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndex(text, []byte("startxref")); i >= 0 {
			l := lexer{buf: text, pos: i + len("startxref")}
			if v, err := l.object(0, false); err == nil {
				if v, ok := v.(Integer); ok && v >= 0 {
					return int64(v), nil
				}
			}
			return 0, fmt.Errorf("%w: invalid startxref", errXref)
		}
		if from == 0 || n >= 64*tail {
			return 0, fmt.Errorf("%w: no startxref", errXref)
		}
	}
}

// sectionPart is a section read from the file.
type sectionPart struct {
	section section
	trailer *Dict
	stream  bool
	at      int64 // offset of the section, relative to Document.base
}

// readSection reads the section at an offset relative to d.base. If the section
// begins elsewhere, readSection does not search for it, and the file is repaired.
// Otherwise an update would contain the wrong offset as /Prev, and other readers
// would find no object of the original.
func (d *Document) readSection(at int64) (sectionPart, error) {
	if at < 0 || at+d.base >= d.src.size {
		return sectionPart{}, fmt.Errorf("%w: offset %d is outside the file", errXref, at)
	}
	text, err := d.src.window(at+d.base, 64)
	if err != nil {
		return sectionPart{}, err
	}
	l := lexer{buf: text}
	l.skipSpace()
	if l.hasPrefix("xref") {
		return d.readTable(at + int64(l.pos))
	}
	if l.pos < len(text) && isDigit(text[l.pos]) {
		if part, err := d.readXrefStream(at); err == nil || !errors.Is(err, ErrDamaged) {
			return part, err
		}
	}
	return sectionPart{}, fmt.Errorf("%w: no section at offset %d", errXref, at)
}

// readXrefStream reads the cross-reference stream (7.5.8) at an offset relative
// to d.base.
func (d *Document) readXrefStream(at int64) (sectionPart, error) {
	in, err := d.readIndirect(at+d.base, 0)
	if err != nil {
		return sectionPart{}, err
	}
	s, ok := in.obj.(*Stream)
	if !ok || s.Dict.Get("Type") != Name("XRef") {
		return sectionPart{}, fmt.Errorf("%w: no stream at offset %d", errXref, at)
	}
	part := sectionPart{at: at, stream: true, trailer: s.Dict}
	w, ok := s.Dict.Get("W").(Array)
	if !ok || len(w) < 3 {
		return part, fmt.Errorf("%w: invalid /W", errXref)
	}
	var widths [3]int
	total := 0
	for i := range widths {
		v, ok := w[i].(Integer)
		if !ok || v < 0 || v > 8 {
			return part, fmt.Errorf("%w: invalid /W", errXref)
		}
		widths[i] = int(v)
		total += int(v)
	}
	if total == 0 {
		return part, fmt.Errorf("%w: invalid /W", errXref)
	}
	rows, err := d.decodeAll(s)
	if err != nil {
		return part, err
	}
	index, ok := s.Dict.Get("Index").(Array)
	if !ok {
		index = Array{Integer(0), s.Dict.Get("Size")}
	}
	for ; len(index) >= 2 && len(rows) >= total; index = index[2:] {
		first, ok1 := index[0].(Integer)
		count, ok2 := index[1].(Integer)
		if !ok1 || !ok2 || first < 0 || count < 0 || first > maxNumber {
			return part, fmt.Errorf("%w: invalid /Index", errXref)
		}
		n := int(min(int64(count), int64(len(rows)/total), maxNumber))
		if n == 0 {
			continue
		}
		if len(part.section.subsections) >= maxSubsections {
			return part, fmt.Errorf("%w: too many cross-reference subsections", ErrLimit)
		}
		part.section.subsections = append(part.section.subsections,
			subsection{first: int(first), count: n, rows: rows[:n*total], widths: widths})
		rows = rows[n*total:]
	}
	return part, nil
}

// size returns one more than the highest object number in the cross-reference.
func (x *xref) size() int {
	size := 1
	for _, s := range x.sections {
		for _, sub := range s.subsections {
			size = max(size, sub.first+sub.count)
		}
	}
	return size
}
