package panel

import (
	"testing"

	"github.com/certvault/certvault/internal/design"
)

// A new field is within the page, and covers no other field while there is room.
func TestPlaceOfNewFields(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		first design.Page
		free  int
	}{{design.Page{Width: 595.28, Height: 841.89}, 14}, {design.Page{Width: 142, Height: 142}, 2}} {
		l := design.Layout{Fields: []design.Field{{ID: "picture", Kind: design.Image, Page: 1, Box: design.Box{0, 0, test.first.Width, test.first.Height}}}}
		for i := range 40 {
			addField(&l, test.first, []string{"text", "signature"}[i%2])
			f := l.Fields[i+1]
			if f.Box[0] < 0 || f.Box[1] < 0 || f.Box[0]+f.Box[2] > test.first.Width || f.Box[1]+f.Box[3] > test.first.Height {
				t.Errorf("the box of field %d is %v, want a box on the page", i+1, f.Box)
			}
			for _, other := range l.Fields[1 : i+1] {
				if i < test.free && f.Box[1] < other.Box[1]+other.Box[3] && other.Box[1] < f.Box[1]+f.Box[3] {
					t.Errorf("field %d at %v covers another at %v", i+1, f.Box, other.Box)
				}
			}
		}
	}
}
