package typeset

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-text/typesetting/language"
)

// Category is the kind of a family, for menus.
type Category string

// These are the categories.
const (
	Serif     Category = "serif"
	SansSerif Category = "sans"
	Display   Category = "display" // for headlines
	Script    Category = "script"  // like handwriting
)

// Family is a family of fonts.
type Family struct {
	Name string
	// Category is "" if the family has only uploaded fonts.
	Category Category
	// Script is the ISO 15924 code of the only script that the family is for, such as "Arab", or "".
	// Texts in this script use the family even if their style does not name it.
	Script string
	// Uploaded reports whether the family has fonts that were added by Fonts.With.
	Uploaded bool
	// Faces are the faces by weight, upright before italic.
	Faces []FamilyFace
}

// FamilyFace is a face of a family.
type FamilyFace struct {
	Weight int
	Italic bool
}

// Families returns the families for a menu, in this order: uploaded families, families for every script and
// families for a single script. Each of these groups is sorted by name.
func (f *Fonts) Families() []Family {
	var out []Family
	for _, e := range f.entries {
		face := FamilyFace{e.weight, e.italic}
		i := slices.IndexFunc(out, func(have Family) bool { return have.Name == e.family })
		if i < 0 {
			i = len(out)
			out = append(out, Family{Name: e.family, Category: e.category, Script: iso15924(e.script)})
		}
		out[i].Uploaded = out[i].Uploaded || e.uploaded
		if !slices.Contains(out[i].Faces, face) {
			out[i].Faces = append(out[i].Faces, face)
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Faces, func(a, b FamilyFace) int {
			return cmp.Or(a.Weight-b.Weight, italicRank(a)-italicRank(b))
		})
	}
	slices.SortStableFunc(out, func(a, b Family) int {
		return cmp.Or(familyRank(&a)-familyRank(&b), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func italicRank(f FamilyFace) int {
	if f.Italic {
		return 1
	}
	return 0
}

func familyRank(f *Family) int {
	switch {
	case f.Uploaded:
		return 0
	case f.Script == "":
		return 1
	}
	return 2
}

// iso15924 returns the code of a script, or "" if s is 0, which means every script.
func iso15924(s language.Script) string {
	if s == 0 {
		return ""
	}
	name := s.String()
	return strings.ToUpper(name[:1]) + name[1:]
}
