package typeset

import (
	"encoding/binary"

	"github.com/go-text/typesetting/font/opentype"
)

// The parts of a table refer to each other by offsets. If many offsets refer to the same place, a reader
// that copies all items needs thousands of times as much memory as the file. So the number of items is
// counted before a font is read.
const (
	maxItems       = 1 << 22 // real fonts have up to 500,000
	maxEncodings   = 64      // of cmap
	maxFontDicts   = 256     // of CFF, whose FDSelect has numbers of one byte
	maxSubroutines = 1 << 20
	// maxSequence is the maximum number of glyphs that replace one glyph. Real fonts have up to about ten.
	// The limit is necessary, because the shaper checks the length of the text only between two lookups.
	maxSequence = 32
)

// checkItems checks the number of items in the tables of a font, and that its glyphs do not overlap.
func checkItems(l *opentype.Loader) error {
	c := &itemCounter{left: maxItems}
	raw := func(tag string) []byte {
		t, err := l.RawTable(opentype.MustNewTag(tag))
		if err != nil {
			return nil
		}
		return t
	}
	c.layout(raw("GSUB"), false)
	c.layout(raw("GPOS"), true)
	c.definitions(raw("GDEF"))
	const table = 1
	c.data = append([]byte{0}, raw("HVAR")...)
	c.variations(c.offset32(table, 4))
	c.data = append([]byte{0}, raw("MVAR")...)
	c.variations(c.offset(table, 10))
	c.characters(raw("cmap"))
	if c.left < 0 {
		return errItems
	}
	if !ascending(raw("gvar"), gvarOffsets) || !ascending(raw("loca"), locaOffsets(raw("head"))) {
		return errOffsets
	}
	return nil
}

// itemCounter counts the items of tables.
type itemCounter struct {
	data []byte // one byte, followed by the current table
	left int    // number of items that are still allowed
}

// at returns the 16-bit number at a position, or 0 if the position is 0 or outside the table.
func (c *itemCounter) at(i int) int {
	if i <= 0 || i+2 > len(c.data) {
		return 0
	}
	return int(be16(c.data, i))
}

// at32 returns the 32-bit number at a position, or 0 in the same cases as at.
func (c *itemCounter) at32(i int) int {
	if i <= 0 || i+4 > len(c.data) {
		return 0
	}
	return int(binary.BigEndian.Uint32(c.data[i:]))
}

// offset returns the position to which the offset at from+i refers, or 0 if there is none. Offsets are
// relative to from.
func (c *itemCounter) offset(from, i int) int {
	if v := c.at(from + i); v > 0 {
		return from + v
	}
	return 0
}

func (c *itemCounter) offset32(from, i int) int {
	if v := c.at32(from + i); v > 0 {
		return from + v
	}
	return 0
}

// use counts n+1 items, and reports whether the limit allows them.
func (c *itemCounter) use(n int) bool {
	c.left -= n + 1
	return c.left >= 0
}

// each calls visit for the positions to which a list of records refers. The number of records is at i, and
// the records follow. Each of them has the length record and contains, at skip, an offset from base.
func (c *itemCounter) each(base, i, skip, record int, visit func(at int)) {
	if base <= 0 {
		return
	}
	n := c.at(i)
	for k := 0; k < n && c.use(0); k++ {
		if at := c.offset(base, i-base+2+k*record+skip); at > 0 {
			visit(at)
		}
	}
}

// list counts the items of a list. Their number is at the position at.
func (c *itemCounter) list(at int) { c.use(min(len(c.data), c.at(at))) }

// coverage counts the items of a coverage table: glyphs or ranges.
func (c *itemCounter) coverage(at int) { c.list(at + 2) }

// classes counts the items of a class definition: glyphs or ranges.
func (c *itemCounter) classes(at int) {
	if c.at(at) == formatGlyphs {
		c.list(at + 4)
	} else {
		c.list(at + 2)
	}
}

// layout counts the items of GSUB or GPOS (OpenType, common table formats).
func (c *itemCounter) layout(data []byte, positions bool) {
	if len(data) < 10 {
		return
	}
	// A byte before the table makes all positions greater than 0.
	c.data = append([]byte{0}, data...)
	const table = 1
	scripts, features, lookups := c.offset(table, 4), c.offset(table, 6), c.offset(table, 8)
	c.each(scripts, scripts, 4, 6, func(script int) {
		if system := c.offset(script, 0); system > 0 {
			c.list(system + 4)
		}
		c.each(script, script+2, 4, 6, func(system int) { c.list(system + 4) })
	})
	c.each(features, features, 4, 6, func(feature int) { c.list(feature + 2) })
	c.each(lookups, lookups, 0, 2, func(lookup int) {
		kind := c.at(lookup)
		c.each(lookup, lookup+4, 0, 2, func(at int) { c.subtable(kind, at, positions, true) })
	})
	if c.at(table+2) == 0 {
		return
	}
	variations := c.offset32(table, 10)
	n := c.at32(variations + 4)
	for k := 0; variations > 0 && k < n && c.use(0); k++ {
		if conditions := c.offset32(variations, 8+8*k); conditions > 0 {
			c.list(conditions)
		}
		substitution := c.offset32(variations, 12+8*k)
		count := c.at(substitution + 4)
		for i := 0; substitution > 0 && i < count && c.use(0); i++ {
			if feature := c.offset32(substitution, 8+6*i); feature > 0 {
				c.list(feature + 2)
			}
		}
	}
}

// These are the types of lookups of GSUB and GPOS, and the formats of subtables.
const (
	substitutionSequence, substitutionLigature, substitutionContext, substitutionChain = 2, 4, 5, 6
	substitutionExtension, substitutionReverse                                         = 7, 8

	positionPair, positionCursive, positionBase, positionLigature, positionMark = 2, 3, 4, 5, 6
	positionContext, positionChain, positionExtension                           = 7, 8, 9
	formatGlyphs, formatClasses, formatCoverages                                = 1, 2, 3
)

// subtable counts the items of a subtable of a lookup. kind is the type of the lookup. positions reports
// whether the table is GPOS, and extension whether an extension subtable is allowed.
func (c *itemCounter) subtable(kind, at int, positions, extension bool) {
	format := c.at(at)
	switch {
	case !positions && kind == substitutionExtension || positions && kind == positionExtension:
		if extension {
			c.subtable(c.at(at+2), c.offset32(at, 4), positions, false)
		}
		return
	case !positions && kind == substitutionContext || positions && kind == positionContext:
		c.context(at, format)
		return
	case !positions && kind == substitutionChain || positions && kind == positionChain:
		c.chain(at, format)
		return
	}
	c.coverage(c.offset(at, 2))
	switch {
	case positions:
		c.position(kind, format, at)
	case kind == substitutionLigature:
		c.each(at, at+4, 0, 2, func(set int) {
			c.each(set, set, 0, 2, func(ligature int) { c.list(ligature + 2) })
		})
	case kind == substitutionReverse:
		back := at + 4
		ahead := back + 2 + 2*c.at(back)
		c.each(at, back, 0, 2, c.coverage)
		c.each(at, ahead, 0, 2, c.coverage)
		c.list(ahead + 2 + 2*c.at(ahead))
	case kind == 1: // single substitution
		if format == formatClasses {
			c.list(at + 4)
		}
	case kind == substitutionSequence:
		c.each(at, at+4, 0, 2, func(sequence int) {
			if c.list(sequence); c.at(sequence) > maxSequence {
				c.left = -1
			}
		})
	default: // alternates
		c.each(at, at+4, 0, 2, c.list)
	}
}

// position counts the items of a subtable of GPOS.
func (c *itemCounter) position(kind, format, at int) {
	switch {
	case kind == positionPair && format == formatGlyphs:
		c.each(at, at+8, 0, 2, func(set int) { c.use(8 * c.at(set)) })
	case kind == positionPair:
		c.classes(c.offset(at, 8))
		c.classes(c.offset(at, 10))
		c.use(min(len(c.data), 4*c.at(at+12)*c.at(at+14)))
	case kind == positionCursive:
		c.use(4 * c.at(at+4))
	case kind == positionBase || kind == positionMark || kind == positionLigature:
		classes := c.at(at + 6)
		c.coverage(c.offset(at, 4))
		c.list(c.offset(at, 8))
		others := c.offset(at, 10)
		if kind != positionLigature {
			c.use(min(len(c.data), c.at(others)*classes))
			return
		}
		c.each(others, others, 0, 2, func(ligature int) { c.use(min(len(c.data), c.at(ligature)*classes)) })
	case format == formatClasses: // single adjustment, with a value for each glyph
		c.use(4 * c.at(at+6))
	}
}

// rules calls visit for the rules of all sets of a contextual subtable. The number of sets is at i.
func (c *itemCounter) rules(at, i int, visit func(rule int)) {
	c.each(at, i, 0, 2, func(set int) { c.each(set, set, 0, 2, visit) })
}

// context counts the items of a contextual subtable.
func (c *itemCounter) context(at, format int) {
	rule := func(rule int) { c.use(c.at(rule) + 2*c.at(rule+2)) }
	switch format {
	case formatGlyphs:
		c.coverage(c.offset(at, 2))
		c.rules(at, at+4, rule)
	case formatClasses:
		c.coverage(c.offset(at, 2))
		c.classes(c.offset(at, 4))
		c.rules(at, at+6, rule)
	case formatCoverages:
		n := c.at(at + 2)
		for k := 0; k < n && c.use(0); k++ {
			c.coverage(c.offset(at, 6+2*k))
		}
		c.use(2 * c.at(at+4))
	}
}

// chain counts the items of a chained contextual subtable.
func (c *itemCounter) chain(at, format int) {
	rule := func(rule int) { // the backtrack, input and lookahead sequences, and lookups
		n := c.at(rule)
		in := rule + 2 + 2*n
		m := max(0, c.at(in)-1)
		ahead := in + 2 + 2*m
		k := c.at(ahead)
		c.use(n + m + k + 2*c.at(ahead+2+2*k))
	}
	switch format {
	case formatGlyphs:
		c.coverage(c.offset(at, 2))
		c.rules(at, at+4, rule)
	case formatClasses:
		c.coverage(c.offset(at, 2))
		for i := 4; i <= 8; i += 2 {
			c.classes(c.offset(at, i))
		}
		c.rules(at, at+10, rule)
	case formatCoverages:
		i := at + 2
		for range 3 {
			c.each(at, i, 0, 2, c.coverage)
			i += 2 + 2*c.at(i)
		}
		c.use(2 * c.at(i))
	}
}

// definitions counts the items of GDEF.
func (c *itemCounter) definitions(data []byte) {
	if len(data) < 12 {
		return
	}
	c.data = append([]byte{0}, data...)
	const table = 1
	c.classes(c.offset(table, 4))
	c.classes(c.offset(table, 10))
	for _, i := range []int{6, 8} { // attachment points, carets of ligatures
		if at := c.offset(table, i); at > 0 {
			c.coverage(c.offset(at, 0))
			c.each(at, at+2, 0, 2, c.list)
		}
	}
	minor := c.at(table + 2)
	if sets := c.offset(table, 12); minor >= 2 && sets > 0 {
		n := c.at(sets + 2)
		for k := 0; k < n && c.use(0); k++ {
			c.coverage(c.offset32(sets, 4+4*k))
		}
	}
	if minor >= 3 {
		c.variations(c.offset32(table, 14))
	}
}

// variations counts the items of an item variation store.
func (c *itemCounter) variations(at int) {
	if at <= 0 {
		return
	}
	regions := c.offset32(at, 2)
	c.use(min(len(c.data), 3*c.at(regions)*c.at(regions+2)))
	n := c.at(at + 6)
	for k := 0; k < n && c.use(0); k++ {
		if data := c.offset32(at, 8+4*k); data > 0 {
			c.use(min(len(c.data), c.at(data)*(1+c.at(data+4))) + c.at(data+4))
		}
	}
}

// characters counts the items of cmap.
func (c *itemCounter) characters(data []byte) {
	c.data = append([]byte{0}, data...)
	const table, selectors = 1, 14
	n := c.at(table + 2)
	if n > maxEncodings {
		c.left = -1
		return
	}
	for k := range n {
		at := c.offset32(table, 8+8*k)
		switch c.at(at) {
		case 0, 2, 4, 6:
			c.use(c.at(at + 2))
		case selectors:
			count := c.at32(at + 6)
			for i := 0; i < count && c.use(0); i++ {
				for _, offset := range []int{13, 17} {
					if list := c.offset32(at, offset+11*i); list > 0 {
						c.use(min(len(c.data), c.at32(list)))
					}
				}
			}
		default:
			c.use(min(len(c.data), c.at32(at+4)))
		}
	}
}

// offsets returns the position, the number and the size of the offsets in a table.
type offsets func(table []byte) (from, n, size int)

func gvarOffsets(t []byte) (from, n, size int) {
	const header, count, flags = 20, 12, 14
	if len(t) < header {
		return 0, 0, 2
	}
	return header, int(be16(t, count)) + 1, 2 + 2*int(be16(t, flags)&1)
}

func locaOffsets(head []byte) offsets {
	size := 2
	if len(head) >= headLength && be16(head, headLocaFormat) != 0 {
		size = 4
	}
	return func(t []byte) (int, int, int) { return 0, len(t) / size, size }
}

// ascending reports whether no offset is less than the offset before it. If so, the data of the
// glyphs does not overlap. It returns true for a table that is too short.
func ascending(table []byte, where offsets) bool {
	from, n, size := where(table)
	last := uint32(0)
	for i := range n {
		at := from + i*size
		if at+size > len(table) {
			return true // the reader refuses such a table
		}
		v := uint32(be16(table, at))
		if size == 4 {
			v = binary.BigEndian.Uint32(table[at:])
		}
		if v < last {
			return false
		}
		last = v
	}
	return true
}
