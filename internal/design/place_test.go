package design

import (
	"slices"
	"testing"
)

// Place changes only the fields that are not completely on an existing page.
func TestPlace(t *testing.T) {
	t.Parallel()
	l := Layout{Fields: []Field{
		{ID: "stays", Kind: Name, Page: 1, Box: Box{10, 20, 100, 30}},
		{ID: "moves", Kind: Title, Page: 1, Box: Box{700, 500, 100, 30}},
		{ID: "shrinks", Kind: Text, Page: 1, Box: Box{50, 100, 800, 40}},
		{ID: "turned", Kind: Text, Page: 1, Box: Box{0, 500, 400, 20}, Rotate: 90},
		{ID: "other page", Kind: Text, Page: 2, Box: Box{10, 300, 100, 30}},
		{ID: "qr", Kind: QR, Page: 1, Box: Box{780, 20, 60, 60}},
	}}
	page := Page{Width: 400, Height: 450}
	placed, moved := l.Place([]Page{page})
	if want := []string{"moves", "shrinks", "turned", "other page", "qr"}; !slices.Equal(moved, want) {
		t.Errorf("moved %q, want %q", moved, want)
	}
	for i := range placed.Fields {
		if f := &placed.Fields[i]; f.Page != 1 || !f.inside(page) {
			t.Errorf("%s is on page %d at %v, want it within page 1", f.ID, f.Page, f.Box)
		}
	}
	if got, want := placed.Fields[0].Box, l.Fields[0].Box; got != want {
		t.Errorf("the first field is at %v, want %v", got, want)
	}
	if got, want := placed.Fields[1].Box, (Box{300, 420, 100, 30}); got != want {
		t.Errorf("the second field is at %v, want %v", got, want)
	}
	if l.Fields[1].Box[0] != 700 {
		t.Error("Place changed the layout itself")
	}
	if _, moved := placed.Place([]Page{page}); len(moved) > 0 {
		t.Errorf("a second Place moved %q, want none", moved)
	}
}
