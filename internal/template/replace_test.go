package template_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/vault"
)

// The texts of a built-in design are in the language that was chosen, or in English if the fonts do not
// have the characters of the language.
func TestLanguageOfBuiltIn(t *testing.T) {
	t.Parallel()
	embedded, err := typeset.New()
	ok(t, err)
	f := newFixture(t, dbtest.SQLite(t), func(d *vault.Deps) { d.Fonts = embedded })
	without, err := f.Templates.WithoutFont(t.Context(), f.inst.ID)
	if err != nil || !slices.Equal(without, []string{"zh"}) {
		t.Errorf("languages without a font = %q, err = %v, want zh", without, err)
	}
	for language, want := range map[string][2]string{"": {"en", "Diploma"}, "de": {"de", "Urkunde"}, "ar": {"ar", "دبلوم"}, "zh": {"en", "Diploma"}} {
		made, err := f.Templates.Create(t.Context(), template.NewTemplate{Institution: f.inst, Name: "Diploma " + language, BuiltIn: "heritage", Language: language})
		ok(t, err)
		if l := made.Draft.Layout; l.Language != want[0] || l.Title != want[1] {
			t.Errorf("language %q: got the language %s and the title %s, want %s", language, l.Language, l.Title, want)
		}
	}
	if _, err := f.Templates.Create(t.Context(), template.NewTemplate{Institution: f.inst, Name: "x", BuiltIn: "heritage", Language: "xx"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown language: err = %v, want Invalid", err)
	}
}

// ReplaceDesign keeps the fields, and does not change the published version.
func TestReplaceDesign(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		tmpl := f.publish(t, "Light", layout())
		before := tmpl.Published
		small := func() template.NewTemplate {
			return template.NewTemplate{Institution: f.inst, Design: bytes.NewReader(pdftest.Blank(300, 200))}
		}
		if _, _, err := f.Templates.ReplaceDesign(t.Context(), tmpl.UUID, before.Revision+1, small()); !fault.Is(err, fault.Conflict) {
			t.Errorf("a wrong revision: err = %v, want Conflict", err)
		}
		other := small()
		other.Institution = f.other
		if _, _, err := f.Templates.ReplaceDesign(t.Context(), tmpl.UUID, before.Revision, other); !fault.Is(err, fault.NotFound) {
			t.Errorf("another institution: err = %v, want NotFound", err)
		}
		next, moved, err := f.Templates.ReplaceDesign(t.Context(), tmpl.UUID, before.Revision, small())
		ok(t, err)
		if next.Published.ID != before.ID || next.Draft == nil || next.Draft.Number != 2 || next.Draft.Pages[0] != (design.Page{Width: 300, Height: 200}) || next.Draft.DesignID() == before.DesignID() {
			t.Errorf("draft = %+v, want draft 2 with the new design, and the same published version", next.Draft)
		}
		if len(moved) == 0 || len(next.Draft.Layout.Fields) != len(before.Layout.Fields) {
			t.Errorf("moved = %q and the draft has %d fields, want a moved field and as many fields as before", moved, len(next.Draft.Layout.Fields))
		}
		for _, p := range next.Draft.Layout.Check(next.Draft.Pages) {
			if p.Code == design.CodeFieldInvalid {
				t.Errorf("problem = %v, want no invalid field", p)
			}
		}
		// The page of the built-in design is larger, so no field moves. The draft gets the description
		// of the built-in design.
		again, moved, err := f.Templates.ReplaceDesign(t.Context(), tmpl.UUID, next.Draft.Revision, template.NewTemplate{Institution: f.inst, BuiltIn: "token"})
		ok(t, err)
		if again.Draft.ID != next.Draft.ID || again.Draft.Revision != next.Draft.Revision+1 || len(moved) > 0 || again.Draft.Layout.Alt == "" {
			t.Errorf("moved = %q, draft = %+v, want no moved field, and the same draft with the next revision and a description", moved, again.Draft)
		}
	})
}
