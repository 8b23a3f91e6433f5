package typeset

import (
	"slices"
	"testing"
	"testing/fstest"
)

// A style selects the nearest face of its family, first by slant and then by weight. An unknown family is
// treated as Inter.
func TestNearestFace(t *testing.T) {
	f := testFonts(t)
	for _, c := range []struct {
		font Font
		want string
	}{
		{Font{}, "Inter-400Regular"},
		{Font{Family: Inter, Weight: 501}, "Inter-600SemiBold"},
		{Font{Family: Inter, Italic: true}, "Inter-400Regular"},
		{Font{Family: "Comic", Weight: 700, Italic: true}, "Inter-600SemiBold"},
		{Font{Family: EBGaramond, Italic: true}, "EBGaramond-400Regular-Italic"},
		{Font{Family: EBGaramond, Weight: 900, Italic: true}, "EBGaramond-400Regular-Italic"},
		{Font{Family: EBGaramond, Weight: 900}, "EBGaramond-600SemiBold"},
		{Font{Family: CormorantGaramond}, "CormorantGaramond-600SemiBold"},
		{Font{Family: CormorantGaramond, Italic: true}, "CormorantGaramond-500Medium-Italic"},
		{Font{Family: Cinzel, Italic: true}, "Cinzel-500Medium"},
		{Font{Family: PlayfairDisplay}, "PlayfairDisplay-700Bold"},
		{Font{Family: Jost, Weight: 600}, "Jost-600SemiBold"},
		{Font{Family: GreatVibes}, "GreatVibes-400Regular"},
		{Font{Family: PinyonScript}, "PinyonScript-400Regular"},
	} {
		if got := layout(t, f, "Anna", Style{Font: c.font, Size: 10}, 1000).lines[0].clusters[0].face.name; got != c.want {
			t.Errorf("the face for %+v is %s, want %s", c.font, got, c.want)
		}
	}
}

// Characters that a family lacks are drawn in a font of their script, or in a font for every script. That
// font has serifs unless the family is a sans serif. A family with preferred in embeddedFonts is no
// replacement.
func TestSimilarFallback(t *testing.T) {
	f := testFonts(t)
	for _, c := range []struct{ family, text, want string }{
		{Cinzel, "Κώστας", "EBGaramond-400Regular"},
		{PinyonScript, "Анна", "EBGaramond-400Regular"},
		{Jost, "Κώστας", "Inter-400Regular"},
		{Inter, "محمد", "NotoNaskhArabic-500Medium"},
	} {
		b := layout(t, f, c.text, Style{Font: Font{Family: c.family}, Size: 10}, 1000)
		for _, k := range b.lines[0].clusters {
			if k.face.name != c.want {
				t.Errorf("%s with the family %s is drawn in %s, want %s", c.text, c.family, k.face.name, c.want)
			}
		}
	}
}

// Families returns each family once, with its faces.
func TestFamilies(t *testing.T) {
	testFonts(t)
	f, err := New(fstest.MapFS{"NotoSansOriya-Regular.ttf": {Data: []byte("x")}, "NotoSansCJK-Regular.ttc": {Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	list := f.Families()
	find := func(name string) Family {
		i := slices.IndexFunc(list, func(f Family) bool { return f.Name == name })
		if i < 0 {
			t.Fatalf("%s is missing", name)
		}
		return list[i]
	}
	for _, want := range []Family{
		{Name: Inter, Category: SansSerif, Faces: []FamilyFace{{400, false}, {600, false}}},
		{Name: EBGaramond, Category: Serif, Faces: []FamilyFace{{400, false}, {400, true}, {600, false}}},
		{Name: CormorantGaramond, Category: Serif, Faces: []FamilyFace{{500, true}, {600, false}}},
		{Name: Cinzel, Category: Display, Faces: []FamilyFace{{500, false}}},
		{Name: PlayfairDisplay, Category: Display, Faces: []FamilyFace{{700, false}}},
		{Name: Jost, Category: SansSerif, Faces: []FamilyFace{{400, false}, {600, false}}},
		{Name: GreatVibes, Category: Script, Faces: []FamilyFace{{400, false}}},
		{Name: PinyonScript, Category: Script, Faces: []FamilyFace{{400, false}}},
		{Name: "Noto Naskh Arabic", Category: Serif, Script: "Arab", Faces: []FamilyFace{{500, false}}},
		{Name: "Noto Sans Oriya", Category: SansSerif, Script: "Orya", Faces: []FamilyFace{{400, false}}},
		{Name: "Noto Sans CJK", Category: SansSerif, Script: "Hani", Faces: []FamilyFace{{400, false}}},
	} {
		if got := find(want.Name); got.Category != want.Category || got.Script != want.Script || got.Uploaded || !slices.Equal(got.Faces, want.Faces) {
			t.Errorf("the family is %+v, want %+v", got, want)
		}
	}
	if list[0].Script != "" || list[len(list)-1].Script == "" {
		t.Error("the families are in the wrong order, want those of a single script last")
	}
}
