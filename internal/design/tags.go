package design

import (
	"cmp"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/certvault/certvault/internal/pdf"
)

// tags is the structure tree (ISO 32000-2, 14.7). All elements and their marked-content identifiers
// (MCIDs, 14.7.5.2) are in the base, so a certificate adds no elements. A design without tags becomes a
// figure with the alternative text of the layout. A tagged design keeps its elements.
type tags struct {
	p        *publisher
	off      bool // the tree of the design cannot be extended
	existing bool
	root     pdf.Ref
	tree     *pdf.Dict // the dictionary of root
	parent   pdf.Ref   // the parent of new elements: the root, or its element Document
	space    pdf.Object
	numbers  map[int]pdf.Object // the parent tree (14.7.5.4): the elements of each page or object by key
	next     int                // the next key of the parent tree
	kids     pdf.Array          // the new elements of parent
}

// These are the limits of structure trees that are extended.
const (
	maxNumbers = 1 << 16
	maxDepth   = 32
	maxMarks   = 1 << 12 // of a page
)

func newTags(p *publisher) *tags {
	t := &tags{p: p, numbers: map[int]pdf.Object{}}
	value := p.u.Catalog().Get("StructTreeRoot")
	tree, ok := p.doc.Resolve(value).(*pdf.Dict)
	if !ok {
		t.root, t.tree = p.u.Reserve(), pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("StructTreeRoot")})
		t.parent = p.u.Reserve()
		return t
	}
	t.existing, t.tree = true, tree.Clone()
	if t.root, ok = value.(pdf.Ref); !ok {
		t.root = p.u.Reserve()
	}
	left := maxNumbers
	t.off = !t.read(tree.Get("ParentTree"), &left, 0)
	if next, ok := p.doc.Int(tree.Get("ParentTreeNextKey")); ok && next < maxNumbers {
		t.next = next
	}
	for key := range t.numbers {
		t.next = max(t.next, key+1)
	}
	t.parent = t.root
	if kids := p.list(tree.Get("K")); len(kids) == 1 {
		if ref, ok := kids[0].(pdf.Ref); ok && p.doc.Name(p.doc.Dict(ref).Get("S")) == "Document" {
			t.parent, t.space = ref, p.doc.Dict(ref).Get("NS")
		}
	}
	return t
}

// list returns the value of /K as an array. The value may be one object instead of an array.
func (p *publisher) list(obj pdf.Object) pdf.Array {
	if obj == nil {
		return nil
	}
	if a, ok := p.u.Resolve(obj).(pdf.Array); ok {
		return slices.Clone(a)
	}
	return pdf.Array{obj}
}

// read reads a number tree (7.9.7). It returns false if the tree is damaged or too large.
func (t *tags) read(obj pdf.Object, left *int, depth int) bool {
	node := t.p.doc.Dict(obj)
	numbers := t.p.doc.Array(node.Get("Nums"))
	kids := t.p.doc.Array(node.Get("Kids"))
	if *left -= 1 + len(numbers)/2; *left < 0 || depth > maxDepth {
		return false
	}
	for ; len(numbers) >= 2; numbers = numbers[2:] {
		key, ok := t.p.doc.Int(numbers[0])
		if !ok || key < 0 || key >= maxNumbers {
			return false
		}
		t.numbers[key] = numbers[1]
	}
	for _, kid := range kids {
		if !t.read(kid, left, depth+1) {
			return false
		}
	}
	return true
}

// pageTags is the structure of a page.
type pageTags struct {
	*tags

	page *pdf.Page
	ref  pdf.Ref
	off  bool
	key  int
	list pdf.Array // elements by their MCID
	wrap int       // MCID of the design, or -1
}

// page begins the structure of a page.
func (t *tags) page(page *pdf.Page) *pageTags {
	out := &pageTags{tags: t, page: page, ref: t.p.u.PageRef(page), off: t.off, wrap: -1}
	if out.off {
		return out
	}
	out.key = t.next
	if key, ok := t.p.doc.Int(page.Dict.Get("StructParents")); ok && t.existing && key >= 0 {
		if list, ok := t.p.doc.Resolve(t.numbers[key]).(pdf.Array); ok {
			out.key, out.list = key, slices.Clone(list)
		}
	}
	n := t.p.marks(page)
	if n > maxMarks || len(out.list) > maxNumbers {
		out.off = true
		return out
	}
	for len(out.list) < n {
		out.list = append(out.list, nil)
	}
	t.next = max(t.next, out.key+1)
	if !t.existing {
		out.wrap = len(out.list)
		g := page.Geometry()
		out.add(out.figure(cmp.Or(t.p.l.Alt, t.p.l.Title, t.p.doc.Text(t.p.doc.Dict(t.p.doc.Trailer().Get("Info")).Get("Title")), defaultAlt), g.Box))
	}
	return out
}

// defaultAlt is the alternative text of a design that has neither an alternative text nor a title.
const defaultAlt = "Certificate"

var markForm = regexp.MustCompile(`/MCID\s+(\d{1,9})`)

// marks returns one more than the highest MCID on a page, or 0 if there is none.
func (p *publisher) marks(page *pdf.Page) (n int) {
	for _, part := range page.Contents() {
		stream, ok := p.doc.Resolve(part).(*pdf.Stream)
		if !ok {
			continue
		}
		in, err := stream.Decoded()
		if err != nil {
			continue
		}
		data, _ := io.ReadAll(in) // damaged content ends early, as in viewers
		for _, m := range markForm.FindAllSubmatch(data, -1) {
			if v, err := strconv.Atoi(string(m[1])); err == nil {
				n = max(n, v+1)
			}
		}
	}
	for _, properties := range p.doc.Dict(page.Resources().Get("Properties")).All() {
		if v, ok := p.doc.Int(p.doc.Dict(properties).Get("MCID")); ok {
			n = max(n, v+1)
		}
	}
	return n
}

// add adds an element for the next MCID.
func (t *pageTags) add(element *pdf.Dict) (mark int, ref pdf.Ref) {
	mark = len(t.list)
	element.Set("P", t.parent)
	element.Set("Pg", t.ref)
	element.Set("K", pdf.Integer(mark))
	if t.space != nil {
		element.Set("NS", t.space)
	}
	ref = t.p.u.Add(element)
	t.list = append(t.list, ref)
	t.kids = append(t.kids, ref)
	return mark, ref
}

func element(kind string) *pdf.Dict {
	return pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("StructElem")}, pdf.Entry{Key: "S", Value: pdf.Name(kind)})
}

// figure returns an element for a picture in a rectangle.
func (t *pageTags) figure(alt string, box pdf.Rectangle) *pdf.Dict {
	e := element("Figure").Set("Alt", pdf.TextString(alt)).Set("A", pdf.NewDict(
		pdf.Entry{Key: "O", Value: pdf.Name("Layout")},
		pdf.Entry{Key: "BBox", Value: box.Array()},
	))
	if t.p.l.Language != "" {
		e.Set("Lang", pdf.TextString(t.p.l.Language))
	}
	return e
}

// tag returns the structure type of a text. A tagged design has its own headings.
func (t *pageTags) tag(heading bool) string {
	if heading && !t.existing {
		return "H1"
	}
	return "P"
}

// field adds the element of a text. It returns its MCID, or -1 without tags. The language of a text without
// a language is that of the certificate, or of the layout in a tagged design.
func (t *pageTags) field(heading bool, language string) (mark int, ref pdf.Ref) {
	if t.off {
		return -1, ref
	}
	e := element(t.tag(heading))
	if t.existing {
		language = cmp.Or(language, t.p.l.Language)
	}
	if language != "" && (!t.existing || language != t.language()) {
		e.Set("Lang", pdf.TextString(language))
	}
	return t.add(e)
}

// language returns the language of the document. A design keeps its own language if it is tagged or if the
// layout has no language.
func (t *tags) language() string {
	if own := t.p.doc.Text(t.p.u.Catalog().Get("Lang")); own != "" && (t.existing || t.p.l.Language == "") {
		return own
	}
	return t.p.l.Language
}

// picture adds the element of a picture. It returns its MCID, or -1 without tags.
func (t *pageTags) picture(f *Field) int {
	if t.off {
		return -1
	}
	alt := f.Label
	switch {
	case alt != "":
	case f.Kind == Signature:
		alt = "Signature"
	case f.Image == logo:
		alt = "Logo"
	default:
		alt = "Picture"
	}
	mark, _ := t.add(t.figure(alt, t.extent(f)))
	return mark
}

// extent returns the smallest rectangle around a field, in the coordinates of the page.
func (t *pageTags) extent(f *Field) pdf.Rectangle {
	g := t.page.Geometry()
	_, height := g.Size()
	m := g.Matrix()
	var r pdf.Rectangle
	for i, c := range f.corners() {
		y := height - c.y
		px, py := c.x*m[0]+y*m[2]+m[4], c.x*m[1]+y*m[3]+m[5]
		if i == 0 {
			r = pdf.Rectangle{X0: px, Y0: py, X1: px, Y1: py}
		}
		r = pdf.Rectangle{X0: min(r.X0, px), Y0: min(r.Y0, py), X1: max(r.X1, px), Y1: max(r.Y1, py)}
	}
	return r
}

// begin and end return the operators around the content of a design without tags.
func (t *pageTags) begin() []byte {
	if t.wrap < 0 {
		return nil
	}
	return []byte("/Figure <</MCID " + strconv.Itoa(t.wrap) + ">> BDC\n")
}

func (t *pageTags) end() []byte {
	if t.wrap < 0 {
		return nil
	}
	return []byte("EMC\n")
}

// finish sets the entries of the dictionary of a page that belong to the structure.
func (t *pageTags) finish(dict *pdf.Dict) {
	if t.off {
		return
	}
	t.numbers[t.key] = t.list
	dict.Set("StructParents", pdf.Integer(t.key))
	dict.Set("Tabs", pdf.Name("S"))
}

// write writes the tree. all reports whether each page has elements.
func (t *tags) write(catalog *pdf.Dict, all bool) {
	if t.off || len(t.kids) == 0 {
		return
	}
	u := t.p.u
	switch {
	case !t.existing:
		u.Set(t.parent, element("Document").Set("P", t.root).Set("K", t.kids))
		t.tree.Set("K", pdf.Array{t.parent})
		t.p.plan.Document = t.parent.Number
	case t.parent == t.root:
		t.tree.Set("K", append(t.p.list(t.tree.Get("K")), t.kids...))
	default:
		document := u.Dict(t.parent).Clone()
		u.Set(t.parent, document.Set("K", append(t.p.list(document.Get("K")), t.kids...)))
	}
	numbers := pdf.Array{}
	for _, key := range slices.Sorted(maps.Keys(t.numbers)) {
		numbers = append(numbers, pdf.Integer(key), t.numbers[key])
	}
	t.tree.Set("ParentTree", u.Add(pdf.NewDict(pdf.Entry{Key: "Nums", Value: numbers})))
	t.tree.Set("ParentTreeNextKey", pdf.Integer(t.next))
	u.Set(t.root, t.tree)
	catalog.Set("StructTreeRoot", t.root)
	if !t.existing && all { // a program that reads only tagged content would skip pages without elements
		catalog.Set("MarkInfo", pdf.NewDict(pdf.Entry{Key: "Marked", Value: pdf.Boolean(true)}))
	}
}
