package design

import (
	"math"
	"slices"
)

// Place returns the layout for other pages. It moves each field that is not completely on its page, and reduces
// the field if it is too large. A field of a missing page moves to the last page. moved has the ids of the
// fields that changed.
func (l *Layout) Place(pages []Page) (placed Layout, moved []string) {
	placed = *l
	placed.Fields = slices.Clone(l.Fields)
	for i := range placed.Fields {
		if f := &placed.Fields[i]; f.place(pages) {
			moved = append(moved, f.ID)
		}
	}
	return placed, moved
}

// place moves the field onto a page, and reports whether the field changed. It does not change a field
// whose box is not valid, because Check returns a problem for the field.
func (f *Field) place(pages []Page) (changed bool) {
	if !f.isPlaced() || len(pages) == 0 {
		return false
	}
	if f.Page > len(pages) {
		f.Page, changed = len(pages), true
	}
	page := pages[max(f.Page, 1)-1]
	if f.inside(page) {
		return changed
	}
	left, top, right, bottom := f.extent()
	scale := min(1, page.Width/(right-left), page.Height/(bottom-top))
	if scale < 1 {
		center := point{(left + right) / 2, (top + bottom) / 2}
		f.Box[2], f.Box[3] = floor(f.Box[2]*scale), floor(f.Box[3]*scale)
		f.Box[0], f.Box[1] = center.x-f.Box[2]/2, center.y-f.Box[3]/2
		left, top, right, bottom = f.extent()
	}
	f.Box[0] = hundredth(f.Box[0] + max(0, -left) + min(0, page.Width-right))
	f.Box[1] = hundredth(f.Box[1] + max(0, -top) + min(0, page.Height-bottom))
	return true
}

// extent returns the sides of the smallest unrotated rectangle around the rotated box.
func (f *Field) extent() (left, top, right, bottom float64) {
	left, top, right, bottom = math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, c := range f.corners() {
		left, top, right, bottom = min(left, c.x), min(top, c.y), max(right, c.x), max(bottom, c.y)
	}
	return left, top, right, bottom
}

// hundredth rounds a coordinate to two decimals, and floor rounds it down to two decimals.
func hundredth(v float64) float64 { return math.Round(v*100) / 100 }
func floor(v float64) float64     { return math.Floor(v*100) / 100 }
