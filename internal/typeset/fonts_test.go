package typeset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// Every embedded font is in embeddedFonts, is intact and has its licence.
func TestEmbedded(t *testing.T) {
	f := testFonts(t)
	sums, err := digests()
	if err != nil {
		t.Fatal(err)
	}
	if len(sums) != len(embeddedFonts) {
		t.Errorf("SHA256SUMS has %d digests, want %d", len(sums), len(embeddedFonts))
	}
	for _, e := range f.entries {
		loaded, err := f.load(e)
		if err != nil {
			t.Error(err)
			continue
		}
		if loaded.ascent < 0.5 || loaded.descent < 0.1 || loaded.capHeight < 0.5 {
			t.Errorf("%s has the ascent %v, descent %v and cap height %v, want at least 0.5, 0.1 and 0.5", e.name, loaded.ascent, loaded.descent, loaded.capHeight)
		}
	}
	packages := map[string]bool{}
	for _, e := range embeddedFonts {
		packages[e.family] = true
	}
	text, err := Licences()
	if n := strings.Count(text, "SIL OPEN FONT LICENSE Version 1.1"); err != nil || n != len(packages) {
		t.Errorf("the text has %d licences, want %d, one for each family; err = %v", n, len(packages), err)
	}
	size := int64(0)
	err = fs.WalkDir(embedded, ".", func(_ string, d fs.DirEntry, err error) error {
		if info, infoErr := d.Info(); infoErr == nil {
			size += info.Size()
		}
		return err
	})
	const budget = 2_700_000
	if err != nil || size > budget {
		t.Errorf("the fonts have %d bytes, %v; want at most %d", size, err, budget)
	}
}

// tableAt returns the position of the record of a table in the list of tables of a font.
func tableAt(t *testing.T, font []byte, tag string) int {
	t.Helper()
	i := bytes.Index(font, []byte(tag))
	if i < 0 {
		t.Fatalf("the font has no table %s", tag)
	}
	return i
}

// readFace refuses a font that is damaged, is variable or must not be embedded.
func TestRefusedFonts(t *testing.T) {
	testFonts(t)
	data, err := readEmbedded("NotoSansThai_400Regular.ttf")
	if err != nil {
		t.Fatal(err)
	}
	patched := func(change func(font []byte)) []byte {
		font := bytes.Clone(data)
		change(font)
		return font
	}
	os2 := binary.BigEndian.Uint32(data[tableAt(t, data, "OS/2")+8:])
	for name, font := range map[string][]byte{
		"empty": {},
		"text":  []byte("This is not a font, but a text."),
		"cut":   data[:len(data)/2],
		"WOFF":  append([]byte("wOFF"), data[4:]...),
		"a table of 4 GB": patched(func(font []byte) {
			binary.BigEndian.PutUint32(font[tableAt(t, font, "head")+12:], 0xFFFF_FFF0)
		}),
		"variable": patched(func(font []byte) { copy(font[tableAt(t, font, "GDEF"):], "fvar") }),
		"restricted": patched(func(font []byte) {
			binary.BigEndian.PutUint16(font[os2+os2Type:], restricted)
		}),
		"no subsets": patched(func(font []byte) {
			binary.BigEndian.PutUint16(font[os2+os2Type:], noSubsetting)
		}),
	} {
		if _, err := readFace(font, 0, 0, name); !errors.Is(err, ErrFont) {
			t.Errorf("%s: the error is %v, want %v", name, err, ErrFont)
		}
	}
	if _, err := readFace(data, 1, 0, "second"); !errors.Is(err, ErrFont) {
		t.Errorf("the second font: the error is %v, want %v", err, ErrFont)
	}
	if _, err := readFace(data, 0, 0, "intact"); err != nil {
		t.Error(err)
	}
}

// At most two large fonts are in memory, and a font that was removed from memory is read again.
func TestLargeFonts(t *testing.T) {
	testFonts(t)
	data, err := readEmbedded("NotoSansThai_400Regular.ttf")
	if err != nil {
		t.Fatal(err)
	}
	folder := fstest.MapFS{}
	large := append(bytes.Clone(data), make([]byte, largeFont)...)
	for _, script := range []string{"TaiLe", "Oriya", "Nko", "Tibetan"} {
		folder["NotoSans"+script+"-Regular.ttf"] = &fstest.MapFile{Data: large}
	}
	f, err := New(folder)
	if err != nil {
		t.Fatal(err)
	}
	loaded := func() (n int) {
		for _, e := range f.entries {
			if e.large && e.face != nil {
				n++
			}
		}
		return n
	}
	for range 2 {
		for _, script := range []string{"TaiLe", "Oriya", "Nko", "Tibetan"} {
			style := Style{Font: Font{Family: "Noto Sans " + script}, Size: 10}
			if b := layout(t, f, "ไทย", style, 100); b.lines[0].clusters[0].face.name != "NotoSans"+script+"-Regular" {
				t.Errorf("the font is %s, want that of %s", b.lines[0].clusters[0].face.name, script)
			}
		}
		if loaded() != maxLarge {
			t.Errorf("%d large fonts are in memory, want %d", loaded(), maxLarge)
		}
	}
}
