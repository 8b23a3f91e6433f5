package pdf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

const (
	maxFound    = 1 << 19 // maximum number of objects in a repair
	maxTrailers = 4096
)

// foundObject is an object that the repair found. If several objects have the
// same number, the last one in the file is used, as after incremental updates.
type foundObject struct {
	number   int
	position int64 // offset in the file of the object or of its object stream
	entry    entry
}

// repairer rebuilds the cross-reference by reading the file once sequentially,
// in windows.
type repairer struct {
	d             *Document
	found         []foundObject
	objectStreams []int   // object numbers in file order
	trailers      []*Dict // trailers of tables and cross-reference streams
	catalogs      []int
	pageTrees     []int // object numbers of the roots of page trees
	nextObj       int64 // offset of the next "obj" in the window, or of the window's end
	lastStart     int64 // offset of the last object
	closed        bool  // the last object is a cross-reference stream, or is followed by a trailer or startxref
}

// repair rebuilds the cross-reference and finds the catalog and the first page.
// If there is no valid catalog or page tree, repair creates one for the objects
// in the file. It returns ErrTruncated if the file ends within its last object,
// ErrDamaged if there is neither a catalog nor a page, and ErrNoPages if there is
// a catalog without a page.
func (d *Document) repair() error {
	d.reset()
	d.repaired, d.repairing = true, true
	defer func() { d.repairing = false }()
	r := repairer{d: d}
	if err := r.scan(); err != nil {
		return err
	}
	if truncated, err := r.truncated(); err != nil || truncated {
		return errors.Join(err, ErrTruncated)
	}
	if len(r.found) == 0 {
		return ErrDamaged
	}
	d.xref.sections = []section{r.section()}
	d.xref.trailer = r.trailer()
	if err := d.startCrypt(); err != nil {
		return err
	}
	if err := r.readObjectStreams(); err != nil {
		return err
	}
	if root, ok := r.findCatalog(); ok {
		d.xref.trailer.Set("Root", root)
		if err := d.start(); !errors.Is(err, ErrNoPages) || r.emptyTree() {
			return err
		}
	} else if d.xref.trailer.Delete("Root"); r.synthesizeCatalog() {
		return nil
	}
	if d.src.err != nil {
		return d.src.err
	}
	return r.synthesizePageTree()
}

// synthesizeCatalog creates a catalog for the last page tree with a page, and
// reports whether there is such a tree.
func (r *repairer) synthesizeCatalog() bool {
	d := r.d
	for _, number := range slices.Backward(r.pageTrees) {
		d.catalog = NewDict(Entry{"Type", Name("Catalog")}, Entry{"Pages", d.currentRef(Ref{Number: number})})
		if first, err := d.Page(0); err == nil {
			d.first = first
			return true
		}
	}
	d.catalog = nil
	return false
}

// emptyTree reports whether the /Kids of the page tree's root is an empty array.
func (r *repairer) emptyTree() bool {
	kids, ok := r.d.Resolve(r.d.Dict(r.d.catalog.Get("Pages")).Get("Kids")).(Array)
	return ok && len(kids) == 0
}

// maxSyntheticPages is the maximum number of pages in a page tree that synthesizePageTree
// creates.
const maxSyntheticPages = 4096

// synthesizePageTree creates a page tree of the page objects in the file. If there
// are no page objects, it returns ErrNoPages if there is a catalog, otherwise
// ErrDamaged.
func (r *repairer) synthesizePageTree() error {
	d := r.d
	kids := Array{}
	for _, f := range r.found {
		if len(kids) == maxSyntheticPages || len(kids) > 0 && kids[len(kids)-1] == (Ref{f.number, f.entry.generation}) {
			continue
		}
		page, ok := d.Object(Ref{Number: f.number}).(*Dict)
		if d.src.err != nil {
			return d.src.err
		}
		if ok && d.Name(page.Get("Type")) == "Page" {
			kids = append(kids, Ref{f.number, f.entry.generation})
		}
	}
	if len(kids) == 0 {
		if d.catalog == nil {
			return ErrDamaged
		}
		return ErrNoPages
	}
	tree := NewDict(Entry{"Type", Name("Pages")}, Entry{"Kids", kids}, Entry{"Count", Integer(len(kids))})
	d.catalog = d.catalog.Clone().Set("Type", Name("Catalog")).Set("Pages", tree)
	first, err := d.Page(0)
	d.first = first
	return err
}

// scanOverlap is the number of bytes that two windows share: more than the length
// of "0000000000 00000 obj".
const scanOverlap = 64

// scan finds the objects and trailers.
func (r *repairer) scan() error {
	src := r.d.src
	var window []byte
	var at int64 // offset of window
	for pos := r.d.base; pos < src.size; {
		end := at + int64(len(window))
		if end < src.size && pos > end-scanOverlap {
			at = max(r.d.base, pos-scanOverlap)
			var err error
			if window, err = src.read(at, scanWindow); err != nil {
				return err
			}
			if err := src.charge(int64(len(window) / 8)); err != nil {
				return err
			}
		}
		var err error
		if pos, err = r.step(window, at, pos); err != nil {
			return err
		}
	}
	return nil
}

// step processes the next object or trailer after the offset pos in the window, and
// returns the offset at which to continue. at is the offset of the window.
func (r *repairer) step(window []byte, at, pos int64) (int64, error) {
	end := at + int64(len(window))
	if r.nextObj < pos { // the result is reused, because many trailers may precede the object
		r.nextObj = end
		if i := bytes.Index(window[pos-at:], []byte("obj")); i >= 0 {
			r.nextObj = pos + int64(i)
		}
	}
	before := window[pos-at : min(r.nextObj, end)-at]
	if j := bytes.Index(before, []byte("trailer")); j >= 0 {
		return r.trailerAt(pos + int64(j+len("trailer")))
	}
	if bytes.Contains(before, []byte("startxref")) {
		r.closed = true
	}
	if r.nextObj >= end {
		r.nextObj = 0
		if end < r.d.src.size {
			end -= scanOverlap - 1
		}
		return max(end, pos+1), nil
	}
	after := r.nextObj + int64(len("obj"))
	start, ok := objectStart(window[:r.nextObj-at])
	if !ok {
		return after, nil
	}
	return r.objectAt(at+int64(start), after)
}

// objectStart returns the index of the object number in text. It returns false if
// text does not end with an object number and a generation.
func objectStart(text []byte) (int, bool) {
	i := len(text)
	for range 2 {
		end := i
		for i > 0 && isSpace(text[i-1]) && end-i < 16 {
			i--
		}
		digits := i
		for i > 0 && isDigit(text[i-1]) && digits-i < 10 {
			i--
		}
		if i == digits {
			return 0, false
		}
		if digits == end && end != len(text) { // the numbers must be separated
			return 0, false
		}
	}
	return i, true
}

// trailerAt records the trailer dictionary at pos, and returns the offset at
// which to continue.
func (r *repairer) trailerAt(pos int64) (int64, error) {
	r.closed = true
	if err := r.d.src.charge(chunkOverlap / 2); err != nil { // limits the number of trailers
		return 0, err
	}
	obj, err := r.d.parseAt(pos)
	if errors.Is(err, ErrDamaged) {
		return pos, nil
	}
	if err != nil {
		return 0, err
	}
	if dict, ok := obj.(*Dict); ok && len(r.trailers) < maxTrailers {
		r.trailers = append(r.trailers, dict)
	}
	return pos, nil
}

// objectAt records the object that begins at start. It returns the offset at which
// to continue: the end of the data of a stream, or after if there is no stream.
func (r *repairer) objectAt(start, after int64) (int64, error) {
	d := r.d
	text, err := d.src.window(start, chunkOverlap)
	if err != nil {
		return 0, err
	}
	l := lexer{buf: text}
	in, err := parseIndirect(&l, 0)
	if err := d.src.chargeParsed(&l, 0); err != nil {
		return 0, err
	}
	if err != nil { // not an object, or nested too deeply
		return after, nil //nolint:nilerr // the object is skipped
	}
	if len(r.found) >= maxFound {
		return 0, fmt.Errorf("%w: too many objects", ErrLimit)
	}
	number := in.ref.Number
	r.found = append(r.found, foundObject{
		number: number, position: start,
		entry: entry{kind: entryInFile, offset: start - d.base, generation: in.ref.Generation},
	})
	r.lastStart, r.closed = start, false
	d.maxReferenced = max(d.maxReferenced, l.maxRef)
	dict := asDict(in.obj)
	stream, ok := in.obj.(*Stream)
	switch dict.Get("Type") {
	case Name("Catalog"):
		r.catalogs = append(r.catalogs, number)
	case Name("Pages"):
		if !dict.Has("Parent") {
			r.pageTrees = append(r.pageTrees, number)
		}
	case Name("ObjStm"):
		if ok {
			r.objectStreams = append(r.objectStreams, number)
		}
	case Name("XRef"):
		if ok && len(r.trailers) < maxTrailers {
			r.closed = true
			r.trailers = append(r.trailers, dict)
			d.xref.stream = true
		}
	}
	if !ok {
		return after, nil
	}
	stream.doc, stream.offset, stream.length = d, start+in.end, -1
	if _, indirect := dict.Get("Length").(Ref); indirect {
		stream.Dict = nil // an indirect /Length cannot be resolved yet
	}
	if err := d.measure(stream); err != nil {
		return 0, err
	}
	return stream.offset + stream.length, nil
}

// truncated reports whether the file ends within its last object.
func (r *repairer) truncated() (bool, error) {
	if r.closed || len(r.found) == 0 {
		return false, nil
	}
	const overlap = 16
	for pos := r.lastStart; pos < r.d.src.size; pos += scanWindow - overlap {
		text, err := r.d.src.window(pos, scanWindow)
		if err != nil {
			return false, err
		}
		if bytes.Contains(text, []byte("endobj")) || bytes.Contains(text, []byte("startxref")) {
			return false, nil
		}
	}
	return true, nil
}

// section returns the cross-reference section of the found objects.
func (r *repairer) section() section {
	slices.SortStableFunc(r.found, func(a, b foundObject) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.position, b.position))
	})
	var s section
	for i, f := range r.found {
		if i+1 < len(r.found) && r.found[i+1].number == f.number {
			continue
		}
		last := len(s.subsections) - 1
		if last < 0 || s.subsections[last].first+s.subsections[last].count != f.number {
			s.subsections = append(s.subsections, subsection{first: f.number})
			last++
		}
		sub := &s.subsections[last]
		sub.entries = append(sub.entries, f.entry)
		sub.count++
	}
	return s
}

// trailer returns a trailer with the entries of inheritedTrailer from all found
// trailers. A later trailer takes precedence over an earlier trailer.
func (r *repairer) trailer() *Dict {
	trailer := &Dict{}
	for _, t := range slices.Backward(r.trailers) {
		for _, key := range inheritedTrailer {
			if v := t.Get(key); v != nil && !trailer.Has(key) {
				trailer.Set(key, v)
			}
		}
	}
	return trailer
}

// readObjectStreams adds the objects in object streams.
func (r *repairer) readObjectStreams() error {
	d := r.d
	seen := map[int]bool{}
	for _, number := range slices.Backward(r.objectStreams) {
		if seen[number] {
			continue
		}
		seen[number] = true
		e, err := d.lookup(number)
		if err != nil {
			return err
		}
		s, err := d.objectStream(number)
		if errors.Is(err, ErrDamaged) {
			continue
		}
		if err != nil {
			return err
		}
		for i, n := range s.numbers {
			if n == 0 {
				continue
			}
			if len(r.found) >= maxFound {
				return fmt.Errorf("%w: too many objects", ErrLimit)
			}
			r.found = append(r.found, foundObject{
				number: n, position: e.offset + d.base,
				entry: entry{kind: entryInStream, stream: number, index: i},
			})
			d.xref.stream = true
		}
	}
	d.xref.sections = []section{r.section()}
	d.objects = make(map[int]Object) // some objects may have been read as null
	d.nodes = 0
	return nil
}

// findCatalog returns the catalog of the last trailer that refers to a valid
// catalog, otherwise the last valid catalog outside of object streams. If there is
// neither, findCatalog searches the objects in object streams, and also records the
// page trees among them.
func (r *repairer) findCatalog() (Object, bool) {
	d := r.d
	valid := func(root Object) bool { return d.Dict(d.Dict(root).Get("Pages")) != nil }
	for _, t := range slices.Backward(r.trailers) {
		root := t.Get("Root")
		if !valid(root) {
			continue
		}
		if ref, ok := root.(Ref); ok {
			root = d.currentRef(ref)
		}
		return root, true
	}
	for _, number := range slices.Backward(r.catalogs) {
		if ref := (Ref{Number: number}); valid(ref) {
			return d.currentRef(ref), true
		}
	}
	for _, f := range slices.Backward(r.found) {
		if f.entry.kind != entryInStream {
			continue
		}
		dict := d.Dict(Ref{Number: f.number})
		if d.src.err != nil {
			break
		}
		switch {
		case dict.Get("Type") == Name("Catalog") && valid(Ref{Number: f.number}):
			return Ref{Number: f.number}, true
		case dict.Get("Type") == Name("Pages") && !dict.Has("Parent"):
			r.pageTrees = append(r.pageTrees, f.number)
		}
	}
	return nil, false
}
