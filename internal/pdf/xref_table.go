package pdf

import "fmt"

// readTable reads the cross-reference table (7.5.4) whose keyword is at an offset
// relative to d.base, and the trailer of the table.
func (d *Document) readTable(at int64) (sectionPart, error) {
	part := sectionPart{at: at}
	pos := at + d.base + int64(len("xref"))
	for {
		text, err := d.src.window(pos, 256)
		if err != nil {
			return part, err
		}
		l := lexer{buf: text}
		l.skipSpace()
		if l.hasPrefix("trailer") {
			obj, err := d.parseAt(pos + int64(l.pos) + int64(len("trailer")))
			if err != nil {
				return part, err
			}
			trailer, ok := obj.(*Dict)
			if !ok {
				return part, fmt.Errorf("%w: no trailer dictionary", errXref)
			}
			part.trailer = trailer
			return part, nil
		}
		first, ok1 := l.integer()
		count, ok2 := l.integer()
		if !ok1 || !ok2 || first < 0 || count < 0 || first > maxNumber || count > maxNumber {
			return part, fmt.Errorf("%w: invalid subsection", errXref)
		}
		l.skipSpace()
		pos += int64(l.pos)
		sub := subsection{first: int(first), count: int(count), offset: pos}
		if count == 0 {
			continue
		}
		if len(part.section.subsections) >= maxSubsections {
			return part, fmt.Errorf("%w: too many cross-reference subsections", ErrLimit)
		}
		if err := d.measureTable(&sub); err != nil {
			return part, err
		}
		if pos, err = d.endOfTable(&sub); err != nil {
			return part, err
		}
		// The first entry of a table belongs to object 0, even if the header of the
		// subsection states 1. Some readers use the number in the header, so their
		// object numbers are one too high.
		if len(part.section.subsections) == 0 && sub.first == 1 {
			if e, err := d.entryAt(&sub, 0); err == nil && e.kind == entryFree && e.generation == 65535 {
				sub.first, d.lenient = 0, true
			}
		}
		part.section.subsections = append(part.section.subsections, sub)
	}
}

// integer parses an integer.
func (l *lexer) integer() (int64, bool) {
	obj, err := l.object(0, false)
	v, ok := obj.(Integer)
	return int64(v), err == nil && ok
}

// measureTable determines the stride of the entries, which is 20 bytes in the
// standard. The stride remains 0 if the first entry does not have the usual form, or
// the last entry is not at the position that follows from the stride.
func (d *Document) measureTable(sub *subsection) error {
	text, err := d.src.window(sub.offset, 24)
	if err != nil {
		return err
	}
	if len(text) < 18 {
		return nil
	}
	if _, err := parseTableEntry(text[:18]); err != nil {
		return nil //nolint:nilerr // the table is read token by token
	}
	stride := 18
	for stride < len(text) && isSpace(text[stride]) {
		stride++
	}
	if stride == 18 || stride > 21 && sub.count > 1 {
		return nil
	}
	stride = min(stride, 20)
	last, err := d.src.window(sub.offset+int64(sub.count-1)*int64(stride), 18)
	if err != nil {
		return err
	}
	if _, err := parseTableEntry(last); err == nil {
		sub.stride = stride
	}
	return nil
}

// endOfTable returns the offset of the end of the subsection. It reads the entries
// token by token if their form is unusual or their number differs from the header.
func (d *Document) endOfTable(sub *subsection) (int64, error) {
	if sub.stride > 0 {
		end := sub.offset + int64(sub.count-1)*int64(sub.stride) + 18
		text, err := d.src.window(end, 64)
		if err != nil {
			return 0, err
		}
		l := lexer{buf: text}
		l.skipSpace()
		// The subsection must be followed by the trailer or another header, not
		// by an entry.
		if l.hasPrefix("trailer") {
			return end, nil
		}
		_, ok1 := l.integer()
		_, ok2 := l.integer()
		l.skipSpace()
		if ok1 && ok2 && !l.hasPrefix("n") && !l.hasPrefix("f") {
			return end, nil
		}
		sub.stride = 0
	}
	return d.readEntries(sub)
}

// readEntries reads the entries of a subsection token by token, up to its count
// or the trailer, and returns the offset of the end.
func (d *Document) readEntries(sub *subsection) (int64, error) {
	pos := sub.offset
	for len(sub.entries) < sub.count {
		text, err := d.src.window(pos, chunkOverlap)
		if err != nil {
			return 0, err
		}
		if len(text) == 0 {
			return 0, fmt.Errorf("%w: the table has no end", errXref)
		}
		l := lexer{buf: text}
		done := 0
		for len(sub.entries) < sub.count {
			l.skipSpace()
			if l.hasPrefix("trailer") {
				sub.count = len(sub.entries)
				break
			}
			offset, ok1 := l.integer()
			generation, ok2 := l.integer()
			kind, err := l.object(0, false)
			if l.short {
				break
			}
			if !ok1 || !ok2 || err != nil || offset < 0 {
				return 0, fmt.Errorf("%w: invalid table entry", errXref)
			}
			e := entry{generation: int(min(max(generation, 0), 65535))}
			switch kind {
			case keyword("n"):
				e.kind, e.offset = entryInFile, offset
			case keyword("f"):
			default:
				return 0, fmt.Errorf("%w: invalid table entry", errXref)
			}
			sub.entries = append(sub.entries, e)
			done = l.pos
		}
		if err := d.src.chargeParsed(&l, 0); err != nil {
			return 0, err
		}
		if done == 0 && len(sub.entries) < sub.count {
			return 0, fmt.Errorf("%w: invalid table entry", errXref)
		}
		pos += int64(done)
	}
	if sub.count == 0 {
		sub.entries = []entry{}
	}
	return pos, nil
}

// parseTableEntry parses an entry of a table: "nnnnnnnnnn ggggg n" (7.5.4).
func parseTableEntry(text []byte) (entry, error) {
	if len(text) != 18 || text[10] != ' ' || text[16] != ' ' {
		return entry{}, errXref
	}
	offset, ok1 := parseInt(text[:10])
	generation, ok2 := parseInt(text[11:16])
	if !ok1 || !ok2 || offset < 0 || generation < 0 {
		return entry{}, errXref
	}
	switch text[17] {
	case 'n':
		return entry{kind: entryInFile, offset: offset, generation: int(generation)}, nil
	case 'f':
		return entry{generation: int(generation)}, nil
	}
	return entry{}, errXref
}
