package design

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"
)

// These are the limits of layouts.
const (
	maxFields  = 100
	maxText    = 2000 // code points of a text
	maxID      = 64   // bytes of an id or a language tag
	maxLines   = 20
	maxSize    = 1000 // points
	minSize    = 1
	maxTrack   = 1000 // thousandths of the size
	minLeading = 0.5
	maxLeading = 5
	minQR      = 56.69 // 20 mm in points, rounded to two decimal places
	rounding   = 0.01  // tolerance in points, because coordinates are rounded
	bleed      = 0.5   // points by which a text or the QR code may leave the page
)

var (
	colorForm   = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)
	pictureForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	braces      = regexp.MustCompile(`\{[^{}]*\}`)
)

// logo is the id of the institution's logo, as the picture of a field.
const logo = "logo"

// Check returns the problems of a layout on the pages of a design.
func (l *Layout) Check(pages []Page) Problems {
	var out Problems
	if len(l.Fields) > maxFields {
		out = append(out, Problem{Code: CodeFieldInvalid, Detail: "fields"})
	}
	if !validLanguage(l.Language) {
		out = append(out, Problem{Code: CodeFieldInvalid, Detail: "language"})
	}
	if tooLong(l.Title) || tooLong(l.Alt) {
		out = append(out, Problem{Code: CodeFieldInvalid, Detail: "title"})
	}
	ids := map[string]bool{}
	for i := range l.Fields {
		f := &l.Fields[i]
		if f.ID == "" || len(f.ID) > maxID || ids[f.ID] {
			out = append(out, Problem{f.ID, CodeFieldInvalid, "id"})
		}
		ids[f.ID] = true
		out = append(out, f.check(pages)...)
	}
	if !l.Uses("name") {
		out = append(out, Problem{Code: CodeNameMissing})
	}
	return append(out, l.checkQR(pages)...)
}

// invalid returns the names of the properties that have invalid values.
func (f *Field) invalid(pages []Page) (out []string) {
	fail := func(bad bool, property string) {
		if bad {
			out = append(out, property)
		}
	}
	fail(f.Page < 1 || f.Page > len(pages), "page")
	fail(!f.isPlaced(), "box")
	switch {
	case f.Kind == QR:
		fail(f.Rotate != 0, "rotate")
		return out
	case f.Kind == Signature:
		fail(f.signatory() == 0, "text")
	case f.Kind == Image:
		fail(f.Image != logo && !pictureForm.MatchString(f.Image), "image")
	case f.isText():
		fail(strings.TrimSpace(f.Text) == "" || tooLong(f.Text), "text")
		fail(f.Font.Family == "" || f.Font.Weight != 0 && (f.Font.Weight < 100 || f.Font.Weight > 900), "font")
		fail(!within(f.Size, minSize, maxSize), "size")
		fail(f.MinSize != 0 && !within(f.MinSize, minSize, f.Size), "min_size")
		fail(f.Lines < 0 || f.Lines > maxLines, "lines")
		fail(f.Leading != 0 && !within(f.Leading, minLeading, maxLeading), "leading")
		fail(f.Color != "" && !colorForm.MatchString(f.Color), "color")
		fail(!within(f.Tracking, -maxTrack/4, maxTrack), "tracking")
		fail(!slices.Contains([]string{"", "none", "upper", "lower"}, f.Case), "case")
		fail(!validLanguage(f.Language), "language")
		fail(!slices.Contains([]string{"", "long", "month", "year", "iso"}, f.Format), "format")
	default:
		fail(true, "kind")
	}
	fail(!slices.Contains([]string{"", "left", "center", "right"}, f.Align), "align")
	fail(!slices.Contains([]string{"", "top", "middle", "bottom"}, f.VAlign), "valign")
	return out
}

// check returns the problems of a field without regard to other fields.
func (f *Field) check(pages []Page) (out Problems) {
	for _, property := range f.invalid(pages) {
		out = append(out, Problem{f.ID, CodeFieldInvalid, property})
	}
	if len(out) > 0 {
		return out
	}
	if page := pages[f.Page-1]; !f.isPicture() && !f.inside(page) {
		out = append(out, Problem{f.ID, CodeFieldInvalid, "box"})
	}
	if f.isText() {
		for _, text := range braces.FindAllString(f.Text, -1) {
			if placeholder.FindString(text) != text {
				out = append(out, Problem{f.ID, CodePlaceholder, text})
			}
		}
	}
	return out
}

// checkQR returns the problems of the QR code.
func (l *Layout) checkQR(pages []Page) (out Problems) {
	var code *Field
	for i := range l.Fields {
		f := &l.Fields[i]
		if f.Kind != QR {
			continue
		}
		if code != nil {
			return Problems{{Field: f.ID, Code: CodeQRMissing}}
		}
		code = f
	}
	if code == nil {
		return Problems{{Code: CodeQRMissing}}
	}
	if len(code.invalid(pages)) > 0 {
		return nil // check reports this problem
	}
	if min(code.Box[2], code.Box[3]) < minQR-rounding {
		out = append(out, Problem{Field: code.ID, Code: CodeQRTooSmall})
	}
	for i := range l.Fields {
		f := &l.Fields[i]
		if f != code && f.Page == code.Page && f.isPlaced() && overlap(f.corners(), code.corners()) {
			out = append(out, Problem{code.ID, CodeQRCovered, f.ID})
		}
	}
	return out
}

// Overlaps returns a warning for each field that overlaps an earlier field of the same page. Long texts
// of such fields may be drawn over each other. A picture may be behind texts on purpose, so an overlap is
// only a warning. An overlap with the QR code is not in the result, because Check reports it.
func (l *Layout) Overlaps(pages []Page) (out Problems) {
	for i := range l.Fields[:min(len(l.Fields), maxFields)] {
		f := &l.Fields[i]
		if f.Kind == QR || len(f.invalid(pages)) > 0 {
			continue
		}
		for j := range i {
			other := &l.Fields[j]
			if other.Kind != QR && other.Page == f.Page && other.isPlaced() && overlap(f.corners(), other.corners()) {
				out = append(out, Problem{f.ID, CodeFieldsOverlap, other.ID})
				break
			}
		}
	}
	return out
}

func (f *Field) isPicture() bool { return f.Kind == Image || f.Kind == Signature }

func (f *Field) isText() bool {
	switch f.Kind {
	case Name, Title, Date, Reference, Details, Column, Text:
		return true
	case Signature, Image, QR:
	}
	return false
}

func tooLong(text string) bool { return utf8.RuneCountInString(text) > maxText }

func within(v, low, high float64) bool { return v >= low && v <= high }

// validLanguage reports whether a tag is empty, or valid and not too long.
func validLanguage(tag string) bool {
	if tag == "" {
		return true
	}
	_, err := language.Parse(tag)
	return err == nil && len(tag) <= maxID
}

// maxCoordinate is the largest coordinate in points. The sides of a page have at most 14,400 points.
const maxCoordinate = 1e5

func (b Box) valid() bool {
	for _, v := range b {
		if !within(v, -maxCoordinate, maxCoordinate) {
			return false
		}
	}
	return b[2] > 0 && b[3] > 0
}

// isPlaced reports whether the numbers of the box and its angle are within their limits.
func (f *Field) isPlaced() bool {
	return f.Box.valid() && within(f.Rotate, -maxCoordinate, maxCoordinate)
}

// point is a point on the page as displayed, from its top left.
type point struct{ x, y float64 }

// corners returns the corners of the rotated box.
func (f *Field) corners() [4]point {
	sin, cos := math.Sincos(f.Rotate * math.Pi / 180)
	w, h := f.Box[2]/2, f.Box[3]/2
	center := point{f.Box[0] + w, f.Box[1] + h}
	var out [4]point
	for i, c := range []point{{-w, -h}, {w, -h}, {w, h}, {-w, h}} {
		out[i] = point{center.x + c.x*cos - c.y*sin, center.y + c.x*sin + c.y*cos}
	}
	return out
}

// inside reports whether the rotated box is on the page, or leaves it by at most bleed.
func (f *Field) inside(p Page) bool {
	for _, c := range f.corners() {
		if !within(c.x, -bleed, p.Width+bleed) || !within(c.y, -bleed, p.Height+bleed) {
			return false
		}
	}
	return true
}

// overlap reports whether two rectangles have a common area. If they have none, a side of one of them
// separates them.
func overlap(a, b [4]point) bool {
	for _, sides := range [][4]point{a, b} {
		for i := range sides {
			p, q := sides[i], sides[(i+1)%len(sides)]
			axis := point{q.y - p.y, p.x - q.x}
			n := math.Hypot(axis.x, axis.y)
			lowA, highA := project(a, axis, n)
			lowB, highB := project(b, axis, n)
			if highA <= lowB+rounding || highB <= lowA+rounding {
				return false
			}
		}
	}
	return true
}

// project returns the extent of a rectangle along an axis of length n.
func project(corners [4]point, axis point, n float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, c := range corners {
		v := (c.x*axis.x + c.y*axis.y) / n
		low, high = min(low, v), max(high, v)
	}
	return low, high
}
