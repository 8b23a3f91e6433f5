package typeset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Limits of the time and the memory to inspect a damaged font and to set texts in it. They are much larger
// than an undamaged font needs, because other programs run at the same time.
const (
	mutantTime   = 5 * time.Second
	mutantMemory = 512 << 20 // bytes allocated, including those that are free again
)

// mutants are the fonts that FuzzMutatedFont changes, each with the text that is set in it.
var mutants = sync.OnceValue(func() []mutant {
	var out []mutant
	for _, m := range []struct{ file, script string }{
		{"NotoSansThai_400Regular.ttf", "Thai"}, {"Jost_400Regular.ttf", "Latin"}, {"NotoNaskhArabic_500Medium.ttf", "Arabic"},
		{"NotoSerifDevanagari_500Medium.ttf", "Devanagari"}, {"NotoSansKhmer_400Regular.ttf", "Khmer"}, {"NotoSansHebrew_400Regular.ttf", "Hebrew"},
		{"NotoSansMyanmar_400Regular.ttf", "Myanmar"}, {"NotoSansGurmukhi_400Regular.ttf", "Gurmukhi"}, {"", "CFF"}, {"", "variable"},
	} {
		list := names(m.script)
		text := "VAV ffi 12"
		if len(list) > 0 {
			text = strings.Join([]string{list[0], list[len(list)/2], list[len(list)-1]}, " ")
		}
		out = append(out, mutant{file: m.file, kind: m.script, text: text})
	}
	return out
})

// mutant is a font before its mutation.
type mutant struct{ file, kind, text string }

// tables returns the tables of the font, in the order of their tags.
func (m mutant) tables(t testing.TB) []table {
	t.Helper()
	var data []byte
	switch m.kind {
	case "CFF":
		data = withCFF(t, embeddedFont(t, "NotoSansThai_400Regular.ttf"))
	case "variable":
		data = variableFont(t)
	default:
		data = embeddedFont(t, m.file)
	}
	return tablesOf(t, data)
}

// mutationSize is the length of a step of a mutation in bytes: the kind of change (1), the table (1), a
// position (3), a number (2) and a byte (1).
const mutationSize = 8

// mutate returns a font with the tables, changed by the steps. other returns the tables of another font.
func mutate(tables []table, other func(n int) []table, steps []byte) []byte {
	tables = slices.Clone(tables)
	magic := []byte(nil)
	for ; len(steps) >= mutationSize && len(tables) > 0; steps = steps[mutationSize:] {
		k := int(steps[1]) % len(tables)
		t := &tables[k]
		at, value := int(steps[2])<<16|int(steps[3])<<8|int(steps[4]), binary.BigEndian.Uint16(steps[5:])
		t.data = bytes.Clone(t.data)
		if at < 1<<23 {
			at %= max(1, len(t.data))
		} else { // near the beginning of the table, where its structure is
			at = (at - 1<<23) % max(1, min(len(t.data), 512))
		}
		rest := t.data[at:]
		switch steps[0] % 12 {
		case 0: // replace a byte
			if len(rest) > 0 {
				rest[0] = steps[7]
			}
		case 1, 2: // replace a number at an even position, often an offset or a count
			if rest = rest[at&1*min(1, len(rest)):]; len(rest) >= 2 {
				binary.BigEndian.PutUint16(rest, value)
			}
		case 3: // replace a 32-bit number
			if len(rest) >= 4 {
				binary.BigEndian.PutUint32(rest, uint32(value)<<(steps[7]%17))
			}
		case 4: // add or subtract 1
			if len(rest) > 0 {
				rest[0] += 1 - steps[7]&2
			}
		case 5: // remove the end of the table
			t.data = t.data[:at]
		case 6: // copy a part of the table to another position
			from := int(value) % max(1, len(t.data))
			copy(rest, t.data[from:min(len(t.data), from+1+int(steps[7]))])
		case 7: // use the same table of another font
			for _, o := range other(int(value)) {
				if o.tag == t.tag {
					t.data = o.data
				}
			}
		case 8: // use another table of the font
			t.data = tables[int(value)%len(tables)].data
		case 9: // remove the table
			tables = slices.Delete(tables, k, k+1)
		case 10: // write the same number many times
			for i := 0; i+2 <= len(rest) && i < 2*(1+int(steps[7])); i += 2 {
				binary.BigEndian.PutUint16(rest[i:], value)
			}
		case 11: // change the format of the font
			magic = [][]byte{[]byte("OTTO"), []byte("true"), nil}[steps[7]%3]
		}
	}
	if len(tables) == 0 {
		return nil
	}
	out := sfnt(tables)
	copy(out, magic)
	return out
}

// FuzzMutatedFont changes the tables of a font and uploads the result. Either the font is refused with a
// *FontError, or texts are set and drawn in it. The time and the memory are limited.
func FuzzMutatedFont(f *testing.F) {
	base := testFonts(f)
	cached := make([][]table, len(mutants()))
	for i, m := range mutants() {
		cached[i] = m.tables(f)
		f.Add(uint8(i), []byte{})
		k := byte(slices.IndexFunc(cached[i], func(t table) bool { return t.tag == "GSUB" || t.tag == "CFF " }))
		// The first of these seeds changes numbers near the beginning of two tables. The other one copies
		// a part of a table, and then replaces the table with the same table of another font.
		f.Add(uint8(i), []byte{1, k, 0x80, 0, 4, 0xFF, 0xFF, 0, 2, k + 1, 0x80, 0, 8, 0, 4, 0})
		f.Add(uint8(i), []byte{6, k, 0, 1, 0, 0, 40, 200, 7, k, 0, 0, 0, 0, 3, 0})
	}
	f.Fuzz(func(t *testing.T, which uint8, steps []byte) {
		if len(steps) > 32*mutationSize {
			return
		}
		i := int(which) % len(cached)
		data := mutate(cached[i], func(n int) []table { return cached[n%len(cached)] }, steps)
		before, began := allocated(), time.Now()
		setUploaded(t, base, data, mutants()[i].text)
		if used, took := allocated()-before, time.Since(began); used > mutantMemory || took > mutantTime {
			t.Errorf("a font of %d bytes took %s and %d bytes of memory, want at most %s and %d", len(data), took, used, mutantTime, mutantMemory)
		}
	})
}

// setUploaded uploads a font. If Inspect accepts it, setUploaded sets texts in up to three of its faces.
func setUploaded(t *testing.T, base *Fonts, data []byte, text string) {
	t.Helper()
	info, err := Inspect(data)
	if err != nil {
		if _, ok := errors.AsType[*FontError](err); !ok {
			t.Fatal(err)
		}
		return
	}
	set := base.With(Uploaded{SHA256: sha256.Sum256(data), Size: int64(len(data)), Info: info, Read: func() ([]byte, error) { return data, nil }})
	for _, face := range info.Faces[:min(3, len(info.Faces))] {
		font := Font{Family: face.Family, Weight: face.Weight, Italic: face.Italic}
		for _, style := range []Style{{Font: font, Size: 10, Lines: 3}, {Font: font, Size: 10, Tracking: 50}} {
			if b, err := set.Layout(text, style, 500); err == nil {
				write(b)
			}
		}
		subsets := NewSubsets("F")
		if err := subsets.Preload(set, font, "AVfi12กำ"); err == nil {
			for _, s := range subsets.list {
				s.compact()
			}
		}
	}
}

// allocated returns the bytes that were allocated on the heap since the process began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// sequenceBomb returns a table GSUB. Each of its lookups replaces glyph with length copies of glyph.
func sequenceBomb(glyph uint16, lookups, length int) []byte {
	be := binary.BigEndian
	var subtable []byte
	for _, v := range []uint16{1, 8, 1, 14} { // format, coverage, one sequence
		subtable = be.AppendUint16(subtable, v)
	}
	for _, v := range []uint16{1, 1, glyph, uint16(length)} {
		subtable = be.AppendUint16(subtable, v)
	}
	for range length {
		subtable = be.AppendUint16(subtable, glyph)
	}
	var list []byte
	list = be.AppendUint16(list, uint16(lookups))
	at := 2 + 2*lookups
	for i := range lookups {
		list = be.AppendUint16(list, uint16(at+8*i))
	}
	for i := range lookups {
		for _, v := range []uint16{2, 0, 1, uint16(8 * (lookups - i))} { // multiple substitution, all with one subtable
			list = be.AppendUint16(list, v)
		}
	}
	list = append(list, subtable...)
	var features []byte // ccmp has all lookups
	features = append(be.AppendUint16(features, 1), "ccmp"...)
	features = be.AppendUint16(features, 8)
	features = be.AppendUint16(be.AppendUint16(features, 0), uint16(lookups))
	for i := range lookups {
		features = be.AppendUint16(features, uint16(i))
	}
	scripts := append([]byte{0, 1}, "DFLT"...)
	for _, v := range []uint16{8, 4, 0, 0, 0xFFFF, 1, 0} {
		scripts = be.AppendUint16(scripts, v)
	}
	var out []byte
	for _, v := range []uint16{1, 0, 10, uint16(10 + len(scripts)), uint16(10 + len(scripts) + len(features))} {
		out = be.AppendUint16(out, v)
	}
	return slices.Concat(out, scripts, features, list)
}

// TestLongSequences checks that a font cannot replace a letter with so many glyphs that a text needs
// gigabytes: Inspect refuses long sequences, and Layout returns ErrNoRoom for a letter of too many glyphs.
func TestLongSequences(t *testing.T) {
	jost := embeddedFont(t, "Jost_400Regular.ttf")
	f, err := readFace(jost, 0, 0, "Test")
	if err != nil {
		t.Fatal(err)
	}
	glyph, _ := f.font.NominalGlyph('A')
	replaced := func(lookups, length int) []byte {
		return replaceTables(t, jost, table{"GSUB", sequenceBomb(uint16(glyph), lookups, length)})
	}
	if _, err := Inspect(replaced(1, maxSequence+1)); !errors.Is(err, ErrFont) {
		t.Errorf("a long sequence: err = %v, want %v", err, ErrFont)
	}
	before := allocated()
	for _, c := range []struct {
		lookups, length int
		want            error
	}{{1, maxSequence, nil}, {2, maxSequence, ErrNoRoom}, {9, maxSequence, ErrNoRoom}} {
		set := testFonts(t).With(upload(t, replaced(c.lookups, c.length)))
		b, err := set.Layout(strings.Repeat("A", 20), Style{Font: Font{Family: "Jost"}, Size: 1, Lines: 9}, 500)
		if !errors.Is(err, c.want) {
			t.Errorf("%d sequences of %d glyphs: err = %v, want %v", c.lookups, c.length, err, c.want)
		}
		if err == nil {
			write(b)
		}
	}
	if used := allocated() - before; used > mutantMemory {
		t.Errorf("the texts took %d bytes of memory, want at most %d", used, mutantMemory)
	}
}
