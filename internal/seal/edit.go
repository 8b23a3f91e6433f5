package seal

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/certvault/certvault/internal/pdf"
)

// edit is an incremental update that adds the stamp to a document.
type edit struct {
	doc    *pdf.Document
	update *pdf.Update
	stamp  Stamp
	// clean reports whether the content of the page is known to be clean: see Placement.Clean.
	clean bool
}

// content appends the stamp to the content of a page, as an artifact (ISO 32000-2, 14.8.2.2). The
// artifact consists only of paths and therefore needs no resources. The existing content is enclosed in
// operators, so that its graphics state does not affect the stamp.
func (e *edit) content(page *pdf.Page, f frame, s spot) error {
	return e.draw(page, e.dict(page).Clone(), f, s, nil)
}

// strip enlarges the boxes of a page by a strip below it and draws the stamp there. Content outside
// the old box stays hidden. strip returns the frame of the enlarged page and the place of the
// stamp.
func (e *edit) strip(page *pdf.Page, f frame, shapes []*figure) (frame, spot, error) {
	shown, s := f.strip(shapes)
	larger := f.enlarged(shown)
	s.x, s.y = s.x-shown.X0, s.y-shown.Y0
	g := page.Geometry()
	box := larger.area()
	media := union(g.MediaBox, box)
	dict := e.dict(page).Clone()
	dict.Set("MediaBox", media.Array())
	if media != box || page.Inherited("CropBox") != nil {
		dict.Set("CropBox", box.Array())
	}
	old := f.area()
	return larger, s, e.draw(page, dict, larger, s, &old)
}

// errViewersStop reports that some viewers stop before the end of a page's content, and would not show a
// stamp that follows the content.
var errViewersStop = errors.New("the page's content has errors at which viewers stop")

// draw sets the content of a page: the old content, clipped if clip is set, and the stamp. It also
// corrects wrong lengths of the old content streams.
func (e *edit) draw(page *pdf.Page, dict *pdf.Dict, f frame, s spot, clip *pdf.Rectangle) error {
	balance := pdf.CleanBalance()
	if !e.clean {
		var err error
		if balance, err = e.doc.ContentBalance(page); err != nil {
			return fmt.Errorf("reading the page content: %w", err)
		}
	}
	if balance.Faulty {
		return errViewersStop
	}
	for _, ref := range balance.WrongLength {
		e.update.Set(ref, e.doc.Object(ref))
	}
	var before, after bytes.Buffer
	if clip != nil {
		before.WriteString("q ")
		for _, v := range []float64{clip.X0, clip.Y0, clip.Width(), clip.Height()} {
			writeNumber(&before, v)
			before.WriteByte(' ')
		}
		before.WriteString("re W n\n")
	}
	before.Write(balance.Prefix)
	after.Write(balance.Suffix)
	if clip != nil {
		after.WriteString("\nQ")
	}
	after.WriteByte('\n')
	drawArtifact(&after, f, s)
	contents := pdf.Array{e.update.Add(pdf.NewStream(nil, before.Bytes()))}
	contents = append(contents, page.Contents()...)
	contents = append(contents, e.update.Add(pdf.NewStream(nil, after.Bytes())))
	dict.Set("Contents", contents)
	e.update.SetPage(page, dict)
	return nil
}

// drawArtifact writes the operators of a stamp, marked as an artifact.
func drawArtifact(b *bytes.Buffer, f frame, s spot) {
	b.WriteString("/Artifact BMC\nq ")
	for _, v := range s.matrix(f) {
		writeNumber(b, v)
		b.WriteByte(' ')
	}
	b.WriteString("cm\n")
	backing, operators := s.figure.content()
	if !s.transparent {
		b.Write(backing)
	}
	b.Write(operators)
	b.WriteString("Q\nEMC\n")
}

// annotation adds the stamp to a page as a rubber stamp annotation (ISO 32000-2, 12.5.6.12) that is
// printed, read-only and locked. The content of the page stays unchanged.
func (e *edit) annotation(page *pdf.Page, f frame, s spot) {
	m := s.matrix(f)
	n := math.Hypot(m[0], m[1])
	backing, operators := s.figure.content()
	form := e.update.Add(pdf.NewStream(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("XObject")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("Form")},
		pdf.Entry{Key: "BBox", Value: numbers(0, 0, s.figure.width, s.figure.height)},
		pdf.Entry{Key: "Matrix", Value: numbers(m[0]/n, m[1]/n, m[2]/n, m[3]/n, 0, 0)},
		pdf.Entry{Key: "Resources", Value: pdf.NewDict()},
	), slices.Concat(backing, operators)))
	const flags = 1<<2 | 1<<6 | 1<<7 // Print, ReadOnly, Locked (12.5.3)
	dict := pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Annot")},
		pdf.Entry{Key: "Subtype", Value: pdf.Name("Stamp")},
		pdf.Entry{Key: "Rect", Value: s.rectangle(f).Array()},
		pdf.Entry{Key: "F", Value: pdf.Integer(flags)},
		pdf.Entry{Key: "Contents", Value: pdf.TextString("Verify at " + e.stamp.VerifyURL)},
		pdf.Entry{Key: "AP", Value: pdf.NewDict(pdf.Entry{Key: "N", Value: form})},
	)
	if ref := e.update.PageRef(page); ref != (pdf.Ref{}) {
		dict.Set("P", ref)
	}
	ref := e.update.Add(dict)
	annotations, holder := e.annotations(page)
	annotations = append(slices.Clip(annotations), ref)
	if holder != (pdf.Ref{}) {
		e.update.Set(holder, annotations)
		return
	}
	e.update.SetPage(page, e.dict(page).Clone().Set("Annots", annotations))
}

// appended adds a page at the end: the verification sheet, or a page with only the stamp. It returns
// the frame of the new page and the place of the stamp.
func (e *edit) appended(first frame, j *job) (frame, spot, error) {
	if j.sheet == nil {
		return e.appendStamp(first, j.figures[min(1, len(j.figures)-1)])
	}
	f := newSheetFrame(first)
	p, s, err := j.drawSheet(f, false)
	if err != nil {
		return frame{}, spot{}, err
	}
	return f, s, e.appendPage(f, p.resources(e.update), p.content.Bytes())
}

// appendStamp adds a page with only the stamp. The page has the size of a page with the given frame, but at
// least 216 and at most maxPage points in each direction.
func (e *edit) appendStamp(first frame, fig *figure) (frame, spot, error) {
	f := frame{width: bound(first.width, 216, maxPage), height: bound(first.height, 216, maxPage), matrix: [6]float64{1, 0, 0, 1, 0, 0}}
	s := f.corner(fig, TopLeft)
	s.x, s.y = (f.width-s.width())/2, (f.height-s.height())*2/3
	var content bytes.Buffer
	drawArtifact(&content, f, s)
	return f, s, e.appendPage(f, pdf.NewDict(), content.Bytes())
}

// appendPage adds a page at the end.
func (e *edit) appendPage(f frame, resources *pdf.Dict, content []byte) error {
	catalog := e.update.Catalog()
	root, ok := catalog.Get("Pages").(pdf.Ref)
	tree := e.update.Dict(root)
	if !ok || tree == nil {
		return fmt.Errorf("appending a page: %w", pdf.ErrDamaged)
	}
	page := e.update.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")},
		pdf.Entry{Key: "Parent", Value: root},
		pdf.Entry{Key: "MediaBox", Value: numbers(0, 0, f.width, f.height)},
		pdf.Entry{Key: "CropBox", Value: numbers(0, 0, f.width, f.height)},
		pdf.Entry{Key: "Rotate", Value: pdf.Integer(0)},
		pdf.Entry{Key: "Resources", Value: resources},
		pdf.Entry{Key: "Contents", Value: e.update.Add(pdf.NewStream(nil, content))},
	))
	kids := e.update.Array(tree.Get("Kids"))
	tree = tree.Clone()
	tree.Set("Kids", append(slices.Clip(kids), page))
	tree.Set("Count", pdf.Integer(e.doc.PageCount()+1))
	e.update.Set(root, tree)
	return nil
}

func bound(v, low, high float64) float64 { return max(low, min(v, high)) }

// enlarged returns the frame of a page that displays the given area. The area is in points from the
// lower left corner of f.
func (f frame) enlarged(shown pdf.Rectangle) frame {
	m := f.matrix
	return frame{shown.Width(), shown.Height(), [6]float64{
		m[0], m[1], m[2], m[3],
		shown.X0*m[0] + shown.Y0*m[2] + m[4], shown.X0*m[1] + shown.Y0*m[3] + m[5],
	}}
}

// area returns the displayed page as a rectangle in default user space.
func (f frame) area() pdf.Rectangle {
	m := f.matrix
	x, y := m[0]*f.width+m[2]*f.height+m[4], m[1]*f.width+m[3]*f.height+m[5]
	return pdf.Rectangle{X0: min(m[4], x), Y0: min(m[5], y), X1: max(m[4], x), Y1: max(m[5], y)}
}

func union(a, b pdf.Rectangle) pdf.Rectangle {
	return pdf.Rectangle{X0: min(a.X0, b.X0), Y0: min(a.Y0, b.Y0), X1: max(a.X1, b.X1), Y1: max(a.Y1, b.Y1)}
}
