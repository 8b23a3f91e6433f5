package typeset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-text/typesetting/font/opentype"
)

// embeddedFont returns the file of an embedded font.
func embeddedFont(t testing.TB, name string) []byte {
	t.Helper()
	testFonts(t)
	data, err := readEmbedded(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// withCFF converts a TrueType font to an OpenType font with CFF outlines.
func withCFF(t testing.TB, data []byte) []byte {
	t.Helper()
	f, err := readFace(data, 0, 0, "Test")
	if err != nil {
		t.Fatal(err)
	}
	loaders, err := opentype.NewLoaders(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	maxp, err := loaders[0].RawTable(opentype.MustNewTag("maxp"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSubset("F", f)
	for glyph := 1; glyph < int(be16(maxp, maxpGlyphs)); glyph++ {
		c := &cluster{parts: []part{{glyph: uint16(glyph)}}, text: strconv.Itoa(glyph)}
		s.add(appendKey(nil, c.parts, 0, c.text), c)
	}
	return replaceTable(t, data, "CFF ", s.compact())
}

// replaceTable returns a font with the given outlines. tag is "CFF " or "glyf". Other tables for outlines,
// such as loca, are omitted.
func replaceTable(t testing.TB, data []byte, tag string, content []byte) []byte {
	t.Helper()
	loaders, err := opentype.NewLoaders(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	list := []table{{tag, content}}
	for _, tag := range []string{"GDEF", "GPOS", "GSUB", "OS/2", "cmap", "head", "hhea", "hmtx", "maxp", "name", "post"} {
		if content, err := loaders[0].RawTable(opentype.MustNewTag(tag)); err == nil {
			list = append(list, table{tag, content})
		}
	}
	out := sfnt(list)
	if tag == "CFF " {
		copy(out, "OTTO")
	}
	return out
}

// tablesOf returns the tables of a font, in the order of their tags.
func tablesOf(t testing.TB, data []byte) []table {
	t.Helper()
	loaders, err := opentype.NewLoaders(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var list []table
	for _, tag := range loaders[0].Tables() {
		content, err := loaders[0].RawTable(tag)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, table{tag.String(), content})
	}
	return list
}

// replaceTables returns a copy of a font. The parameter with replaces the table of the same tag.
func replaceTables(t testing.TB, data []byte, with table) []byte {
	t.Helper()
	list := tablesOf(t, data)
	for i := range list {
		if list[i].tag == with.tag {
			list[i] = with
		}
	}
	return sfnt(list)
}

// collected returns a font collection (.ttc) that contains fonts.
func collected(fonts ...[]byte) []byte {
	out := append([]byte("ttcf\x00\x01\x00\x00"), 0, 0, 0, byte(len(fonts)))
	at := len(out) + 4*len(fonts)
	for _, font := range fonts {
		out = binary.BigEndian.AppendUint32(out, uint32(at))
		at += len(font)
	}
	for _, font := range fonts {
		from := uint32(len(out))
		font = bytes.Clone(font)
		for i := range int(be16(font, 4)) {
			entry := font[12+16*i+8:]
			binary.BigEndian.PutUint32(entry, binary.BigEndian.Uint32(entry)+from)
		}
		out = append(out, font...)
	}
	return out
}

// variableFont returns a variable font with the letters a, b and c.
func variableFont(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/SourceSerifVariable-abc.ttf")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// upload inspects a font file, and encodes the result as JSON and decodes it, as the vault does.
func upload(t testing.TB, data []byte) Uploaded {
	t.Helper()
	info, err := Inspect(data)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	u := Uploaded{SHA256: sha256.Sum256(data), Size: int64(len(data)), Read: func() ([]byte, error) { return data, nil }}
	if err := json.Unmarshal(stored, &u.Info); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestUploaded checks that each font format is accepted, and that PDF readers extract the texts that use
// the fonts.
func TestUploaded(t *testing.T) {
	base := testFonts(t)
	thai, semibold := embeddedFont(t, "NotoSansThai_400Regular.ttf"), embeddedFont(t, "EBGaramond_600SemiBold.ttf")
	italic := embeddedFont(t, "CormorantGaramond_500Medium_Italic.ttf")
	for _, c := range []struct {
		name, text string
		data       []byte
		want       []Face
	}{
		{"TrueType", "VAV Ärger", semibold, []Face{{"EB Garamond", "SemiBold", 600, false, 0, 0}}},
		{"italic", "VAV Ärger", italic, []Face{{"Cormorant Garamond", "Medium Italic", 500, true, 0, 0}}},
		{"OpenType", "น้ำทิพย์ 12", withCFF(t, thai), []Face{{"Noto Sans Thai", "Regular", 400, false, 0, 0}}},
		{"collection", "VAV", collected(italic, semibold), []Face{{"Cormorant Garamond", "Medium Italic", 500, true, 0, 0}, {"EB Garamond", "SemiBold", 600, false, 1, 0}}},
		{"variable", "abcacb", variableFont(t), []Face{
			{"Source Serif Variable", "ExtraLight", 200, false, 0, 1},
			{"Source Serif Variable", "Light", 300, false, 0, 2},
			{"Source Serif Variable", "Regular", 400, false, 0, 3},
			{"Source Serif Variable", "Semibold", 600, false, 0, 4},
			{"Source Serif Variable", "Bold", 700, false, 0, 5},
			{"Source Serif Variable", "Black", 900, false, 0, 6},
		}},
	} {
		u := upload(t, c.data)
		if !slices.Equal(u.Info.Faces, c.want) || u.Info.Family != c.want[0].Family {
			t.Errorf("%s: the faces are %+v, want %+v", c.name, u.Info, c.want)
			continue
		}
		f := base.With(u)
		var contents []string
		subsets := NewSubsets("F")
		for _, face := range c.want {
			b := layout(t, f, c.text, Style{Font: Font{Family: face.Family, Weight: face.Weight, Italic: face.Italic}, Size: 20}, 400)
			for _, k := range b.lines[0].clusters {
				if got := f.entries[slices.IndexFunc(f.entries, func(e *entry) bool { return e.face == k.face })]; !got.uploaded {
					t.Errorf("%s: %q is drawn in the font %s, want an uploaded font", c.name, k.text, got.name)
				}
			}
			var content bytes.Buffer
			b.Draw(&content, subsets, 50, 100)
			contents = append(contents, content.String())
		}
		file := pages(t, 500, 200, subsets, contents)
		if out, err := tool(t, file, "qpdf", "--check", "FILE"); err != nil {
			t.Errorf("%s: qpdf: %v\n%s", c.name, err, out)
		}
		out, err := tool(t, file, "pdftotext", "-enc", "UTF-8", "FILE", "-")
		if n := strings.Count(plain(out), c.text); err != nil || n != len(c.want) {
			t.Errorf("%s: readers find the text %d times, want %d: %v\n%s", c.name, n, len(c.want), err, out)
		}
	}
}

// The instances of a variable font have the same glyphs and positions as in the output of HarfBuzz:
// hb-shape --no-glyph-names --variations=wght=200 testdata/SourceSerifVariable-abc.ttf abcacb.
func TestInstancesAreThoseOfHarfBuzz(t *testing.T) {
	data := variableFont(t)
	var areas []float64
	for _, c := range []struct {
		instance int
		want     string
	}{
		{1, "[1=0+505|2=1+580|3=2+488|1=3+505|3=4+488|2=5+580]"},
		{3, "[1=0+509|2=1+577|3=2+488|1=3+509|3=4+488|2=5+577]"},
		{6, "[1=0+540|2=1+623|3=2+523|1=3+540|3=4+523|2=5+623]"},
	} {
		f, err := readFace(data, 0, c.instance, "Test")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := describe(testFonts(t).shaper(), f, "abcacb"), clustersOf(t, strings.Trim(c.want, "[]")); got != want {
			t.Errorf("instance %d:\n got %s\nwant %s", c.instance, got, want)
		}
		areas = append(areas, math.Abs(area(f.segments(1))))
	}
	if !slices.IsSorted(areas) || areas[2] < 1.5*areas[0] {
		t.Errorf("the areas of a glyph in the instances are %v, want areas that grow with the weight, the last at least 1.5 times the first", areas)
	}
}

// area returns the approximate area of an outline, which is negative for one of the two orientations.
func area(segments []opentype.Segment) (sum float64) {
	var start, pen opentype.SegmentPoint
	edge := func(to opentype.SegmentPoint) {
		sum += float64(pen.X*to.Y-to.X*pen.Y) / 2
		pen = to
	}
	for _, s := range segments {
		end := s.ArgsSlice()[len(s.ArgsSlice())-1]
		if s.Op == opentype.SegmentOpMoveTo {
			edge(start)
			start, pen = end, end
			continue
		}
		edge(end)
	}
	edge(start)
	return sum
}

// argsAreOffsets is the flag ARGS_ARE_XY_VALUES of a component of a composite glyph.
const argsAreOffsets = 0x0002

// bomb returns a font in which each glyph is composed of many copies of the previous glyph.
func bomb(t *testing.T, data []byte) []byte {
	t.Helper()
	const depth, fan = 6, 100
	var glyf, loca []byte
	for glyph := range depth + 1 {
		loca = binary.BigEndian.AppendUint32(loca, uint32(len(glyf)))
		if glyph == 0 {
			glyf = append(glyf, 0, 1, 0, 0, 0, 0, 0, 9, 0, 9, 0, 2, 0, 0, 1, 1, 1)
			glyf = append(glyf, make([]byte, 15)...) // coordinates
			continue
		}
		glyf = append(glyf, 0xFF, 0xFF, 0, 0, 0, 0, 0, 9, 0, 9)
		for i := range fan {
			flags := byte(moreComponents | argsAreOffsets)
			if i == fan-1 {
				flags = argsAreOffsets
			}
			glyf = append(glyf, 0, flags, 0, byte(glyph-1), 1, 1)
		}
	}
	loca = binary.BigEndian.AppendUint32(loca, uint32(len(glyf)))
	font := replaceTable(t, data, "glyf", glyf)
	loaders, err := opentype.NewLoaders(bytes.NewReader(font))
	if err != nil {
		t.Fatal(err)
	}
	var list []table
	for _, tag := range []string{"OS/2", "cmap", "glyf", "head", "hhea", "hmtx", "maxp", "name"} {
		content, err := loaders[0].RawTable(opentype.MustNewTag(tag))
		if err != nil {
			t.Fatal(err)
		}
		switch tag {
		case "head":
			binary.BigEndian.PutUint16(content[headLocaFormat:], 1)
		case "hhea":
			binary.BigEndian.PutUint16(content[hheaMetrics:], depth+1)
		case "maxp":
			binary.BigEndian.PutUint16(content[maxpGlyphs:], depth+1)
		}
		list = append(list, table{tag, content})
	}
	return sfnt(append(list, table{"loca", loca}))
}

// charstringBomb returns a CFF font in which each subroutine calls the previous subroutine many times.
func charstringBomb(t *testing.T, data []byte) []byte {
	t.Helper()
	const depth, fan, bias = 9, 60, 107
	var subrs [][]byte
	for i := range depth {
		body := []byte{139, 139, opLineTo}
		if i > 0 {
			body = bytes.Repeat(append(cffInt(i-1-bias), 29), fan) // callgsubr
		}
		subrs = append(subrs, append(body, 11))
	}
	start := append([]byte{139, 139, opMoveTo}, append(cffInt(depth-1-bias), 29, opEnd)...)
	names, none, globals, chars := cffIndex([]byte("Bomb")), cffIndex(), cffIndex(subrs...), cffIndex(start, start)
	top := func(chars int) []byte { return append(cffOffset(chars), 17) }
	at := 4 + len(names) + len(cffIndex(top(0))) + len(none) + len(globals)
	return replaceTable(t, data, "CFF ", slices.Concat([]byte{1, 0, 4, 4}, names, cffIndex(top(at)), none, globals, chars))
}

// layoutBomb returns a GSUB table with 20,000 references to one lookup, which has 20,000 references to one
// subtable.
func layoutBomb() []byte {
	const n = 20_000
	b := []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 10}
	b = binary.BigEndian.AppendUint16(b, n)
	for range n {
		b = binary.BigEndian.AppendUint16(b, 2+2*n)
	}
	b = binary.BigEndian.AppendUint16(append(b, 0, 1, 0, 0), n) // single substitution
	for range n {
		b = binary.BigEndian.AppendUint16(b, 6)
	}
	return b
}

// TestRefusedUploads checks the code and the reason of the error for each font that cannot be used.
func TestRefusedUploads(t *testing.T) {
	thai := embeddedFont(t, "NotoSansThai_400Regular.ttf")
	os2 := binary.BigEndian.Uint32(thai[tableAt(t, thai, "OS/2")+8:])
	licensed := func(bits uint16) []byte {
		font := bytes.Clone(thai)
		binary.BigEndian.PutUint16(font[os2+os2Type:], bits)
		return font
	}
	renamed := func(data []byte, from, to string) []byte {
		font := bytes.Clone(data)
		copy(font[tableAt(t, font, from):], to)
		return font
	}
	for _, c := range []struct {
		name   string
		data   []byte
		code   string
		reason string
	}{
		{"empty", nil, FontFormat, "ends in .ttf, .otf or .ttc"},
		{"WOFF2", append([]byte("wOF2"), thai[4:]...), FontFormat, "ends in .ttf, .otf or .ttc"},
		{"too large", make([]byte, MaxFontSize+1), FontTooLarge, "at most 33554432 bytes are allowed"},
		{"cut", thai[:len(thai)/2], FontDamaged, "damaged"},
		{"restricted", licensed(restricted), FontNotEmbeddable, "fsType 0x0002) forbid"},
		{"no subsets", licensed(noSubsetting | 8), FontNotEmbeddable, "fsType 0x0108) allow only the whole font"},
		{"bitmaps", licensed(bitmapsOnly), FontNotEmbeddable, "fsType 0x0200) allow only its bitmaps"},
		{"restricted in a collection", collected(thai, licensed(restricted)), FontNotEmbeddable, "forbid"},
		{"pictures", renamed(thai, "glyf", "CBDT"), FontNoOutlines, "pictures"},
		{"CFF2", renamed(withCFF(t, thai), "CFF ", "CFF2"), FontFormat, "TrueType version"},
		{"no names", renamed(thai, "name", "nome"), FontDamaged, "name"},
		{"no characters", renamed(thai, "cmap", "cmop"), FontDamaged, "damaged"},
		{"damaged variations", renamed(thai, "GDEF", "fvar"), FontDamaged, "fvar"},
		{"too many points", bomb(t, thai), FontDamaged, "too many points"},
		{"outlines without end", charstringBomb(t, thai), FontDamaged, "too long"},
		{"lookups without end", replaceTables(t, thai, table{"GSUB", layoutBomb()}), FontDamaged, "too many items"},
		{"overlapping glyphs", replaceTables(t, thai, table{"loca", binary.BigEndian.AppendUint16([]byte{0, 9}, 3)}), FontDamaged, "overlap"},
		{"empty collection", collected(), FontDamaged, "empty font collection"},
	} {
		info, err := Inspect(c.data)
		reason, ok := errors.AsType[*FontError](err)
		if !ok || !errors.Is(err, ErrFont) || reason.Code != c.code || !strings.Contains(reason.Reason, c.reason) {
			t.Errorf("%s: %+v, %v, want the code %s and %q", c.name, info, err, c.code, c.reason)
		}
	}
	for _, bits := range []uint16{0, 4, 8} { // installable, print and preview, editable
		if _, err := Inspect(licensed(bits)); err != nil {
			t.Errorf("licence bits %d: err = %v, want nil", bits, err)
		}
	}
}

// TestWith checks that an uploaded font is preferred to an embedded font of the same family and weight. It
// also checks that an uploaded font is used for characters that no other font has, and that With does not
// change its receiver.
func TestWith(t *testing.T) {
	base := testFonts(t)
	garamond, thai := upload(t, embeddedFont(t, "EBGaramond_600SemiBold.ttf")), upload(t, withCFF(t, embeddedFont(t, "NotoSansThai_400Regular.ttf")))
	faceOf := func(f *Fonts, text string, font Font) *entry {
		face := layout(t, f, text, Style{Font: font, Size: 10}, 1000).lines[0].clusters[0].face
		return f.entries[slices.IndexFunc(f.entries, func(e *entry) bool { return e.face == face })]
	}
	f := base.With(garamond, thai)
	if e := faceOf(f, "Anna", Font{Family: EBGaramond, Weight: 600}); !e.uploaded {
		t.Error("the embedded face of weight 600 is used, want the uploaded face")
	}
	if e := faceOf(f, "Anna", Font{Family: EBGaramond}); e.uploaded {
		t.Error("the uploaded face of weight 600 is used, want the embedded face of weight 400")
	}
	if e := faceOf(base, "Anna", Font{Family: EBGaramond, Weight: 600}); e.uploaded {
		t.Error("With has changed its receiver")
	}
	if i := slices.IndexFunc(f.Families(), func(f Family) bool { return f.Name == "Noto Sans Thai" && f.Uploaded }); i < 0 {
		t.Error("Families does not return the uploaded family")
	}
	if cjk := "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"; exists(cjk) {
		data, err := os.ReadFile(cjk)
		if err != nil {
			t.Fatal(err)
		}
		if e := faceOf(base.With(upload(t, data)), "王", Font{}); !e.uploaded {
			t.Error("an uploaded font is not tried for characters that no other font has")
		}
	}
	changed := thai
	changed.SHA256[0]++
	if _, err := base.With(changed).Layout("ไทย", Style{Font: Font{Family: "Noto Sans Thai"}, Size: 10}, 100); !errors.Is(err, ErrFont) {
		t.Errorf("a changed file: err = %v, want %v", err, ErrFont)
	}
	lost := thai
	lost.Read = func() ([]byte, error) { return nil, os.ErrNotExist }
	if _, err := base.With(lost).Layout("ไทย", Style{Font: Font{Family: "Noto Sans Thai"}, Size: 10}, 100); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a lost file: err = %v, want %v", err, os.ErrNotExist)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
