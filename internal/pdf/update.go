package pdf

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// Update is an incremental update (7.5.6) of a document. If the file is
// encrypted, the update encrypts new strings and streams too.
type Update struct {
	doc      *Document
	snapshot *Snapshot // the snapshot that created the update, or nil
	first    int       // the first new object number
	next     int
	order    []int
	objects  map[int]Object
	refs     map[int]Ref
	pages    map[int]Ref // by index: references of pages that are direct objects of /Kids in the document
	catalog  Ref         // zero if the catalog is not an indirect object
	trailer  []Entry
	written  bool
}

var errWritten = errors.New("the update is already written")

// Update begins an incremental update. The update corrects a faulty page tree.
// After a call of Update, the cross-reference of the document is never rebuilt.
func (d *Document) Update() *Update {
	faulty := d.FaultyPageTree()
	d.frozen = true
	size := d.xref.size()
	if n, ok := d.Int(d.xref.trailer.Get("Size")); ok && n > size && n <= maxNumber {
		size = n
	}
	// A new object must not get the number of a missing object that is still
	// referenced.
	if d.maxReferenced >= size && d.maxReferenced <= maxReference {
		size = d.maxReferenced + 1
	}
	u := &Update{doc: d, first: size, next: size, catalog: d.catalogRef, objects: map[int]Object{}, refs: map[int]Ref{}, pages: map[int]Ref{}}
	if faulty {
		u.repairTree()
	}
	return u
}

// Reserve returns the reference of a new object that the caller sets later. An
// object that is never set is null.
func (u *Update) Reserve() Ref {
	ref := Ref{Number: u.next}
	u.next++
	return ref
}

// Add adds obj as a new indirect object.
func (u *Update) Add(obj Object) Ref { return u.Set(u.Reserve(), obj) }

// Set sets a new value for the object of ref, which is in the document or
// reserved. It returns ref with the generation of the object in the document.
func (u *Update) Set(ref Ref, obj Object) Ref {
	if ref.Number < u.first && u.snapshot == nil {
		ref = u.doc.currentRef(ref)
	}
	if _, ok := u.objects[ref.Number]; !ok {
		u.order = append(u.order, ref.Number)
	}
	u.objects[ref.Number] = obj
	u.refs[ref.Number] = ref
	return ref
}

// Resolve is like Document.Resolve, with the changes so far.
func (u *Update) Resolve(obj Object) Object {
	for range maxHops {
		ref, ok := obj.(Ref)
		if !ok {
			return obj
		}
		if changed, ok := u.objects[ref.Number]; ok || u.snapshot != nil {
			obj = changed
		} else {
			obj = u.doc.Object(ref)
		}
	}
	return nil
}

// Dict is like Document.Dict, with the changes so far.
func (u *Update) Dict(obj Object) *Dict { return asDict(u.Resolve(obj)) }

// Array is like Document.Array, with the changes so far.
func (u *Update) Array(obj Object) Array {
	a, _ := u.Resolve(obj).(Array)
	return a
}

// Catalog returns the document catalog with the changes so far. Clone it before you
// change it.
func (u *Update) Catalog() *Dict {
	if changed, ok := u.objects[u.catalog.Number].(*Dict); ok {
		return changed
	}
	return u.doc.catalog
}

// CatalogRef returns the reference of the document catalog. If the catalog is not
// an indirect object, CatalogRef adds it as a new object.
func (u *Update) CatalogRef() Ref {
	if u.catalog == (Ref{}) {
		u.SetCatalog(u.doc.catalog)
	}
	return u.catalog
}

// SetCatalog replaces the document catalog.
func (u *Update) SetCatalog(catalog *Dict) {
	if u.catalog == (Ref{}) { // the catalog is not an indirect object
		u.catalog = u.Reserve()
	}
	u.Set(u.catalog, catalog)
}

// SetPage replaces the dictionary of a page and returns the reference of the page.
// dict should be a changed copy of PageDict.
func (u *Update) SetPage(p *Page, dict *Dict) Ref { return u.Set(u.PageRef(p), dict) }

// PageRef returns the reference of a page. A page that is a direct object of
// /Kids in the document becomes an indirect object of the update.
func (u *Update) PageRef(p *Page) Ref {
	if p.Ref != (Ref{}) {
		return p.Ref
	}
	// The reference is stored in the update and not in the page, because another
	// update of the same document may assign another number.
	return u.pages[p.Index]
}

// PageDict returns the dictionary of a page with the changes so far. Clone it before
// you change it.
func (u *Update) PageDict(p *Page) *Dict {
	if changed, ok := u.objects[u.PageRef(p).Number].(*Dict); ok {
		return changed
	}
	return p.Dict
}

// SetTrailer sets an entry of the new trailer, such as Info. Root, Size, Prev, ID
// and Encrypt must not be set, because the update sets these entries.
func (u *Update) SetTrailer(key Name, value Object) {
	u.trailer = append(u.trailer, Entry{key, value})
}

// WriteTo writes the tail: the bytes that follow the original. The tail begins
// with a newline if the original does not end with a newline. WriteTo can be
// called only once.
func (u *Update) WriteTo(w io.Writer) (int64, error) {
	d := u.doc
	if u.written {
		return 0, errWritten
	}
	u.written = true
	if d.src.err != nil {
		return 0, d.src.err
	}
	u.CatalogRef() // adds the catalog if it is not an indirect object
	newline, err := u.endsLine()
	if err != nil {
		return 0, err
	}
	s := newSerializer(w, d.src.size, d)
	if !newline {
		s.buf = append(s.buf, '\n')
	}
	for _, number := range u.order {
		s.indirect(u.refs[number], u.objects[number])
	}
	entries := make([]numberedEntry, 0, len(s.entries)+1)
	for _, e := range s.entries {
		entries = append(entries, numberedEntry{e.ref.Number, entry{kind: entryInFile, offset: e.offset - d.headerAt, generation: e.ref.Generation}})
	}
	trailer, err := u.newTrailer(s.fileIdentifier())
	if err != nil {
		return s.written, err
	}
	if d.repaired || d.lenient {
		if entries, err = u.complete(entries); err != nil {
			return s.written, err
		}
	} else {
		trailer.Set("Prev", Integer(d.xref.start))
	}
	size := u.next
	stream := Ref{}
	if d.xref.stream || slices.ContainsFunc(entries, func(n numberedEntry) bool { return n.entry.kind == entryInStream }) {
		stream = u.Reserve()
	}
	s.writeXref(entries, trailer, d.headerAt, size, stream)
	if s.err == nil && d.src.err != nil {
		s.err = d.src.err
	}
	return s.written, s.err
}

// endsLine reports whether the document ends with a newline.
func (u *Update) endsLine() (bool, error) {
	if u.snapshot != nil {
		return u.snapshot.last == '\n', nil
	}
	last, err := u.doc.src.window(u.doc.src.size-1, 1)
	return len(last) == 0 || last[0] == '\n', err
}

// structural lists the entries of a trailer or cross-reference stream that
// belong to one section and are not copied (7.5.5, 7.5.8.2).
var structural = []Name{
	"Size", "Prev", "XRefStm", "ID", "Type", "Index", "W",
	"Length", "Filter", "DecodeParms", "F", "FFilter", "FDecodeParms", "DL",
}

// newTrailer returns the trailer of the update: the entries of the previous
// trailer (7.5.6), the entries of SetTrailer, and a new second file identifier
// (14.4). An encrypted file without a first identifier gets no identifier.
func (u *Update) newTrailer(identifier String) (*Dict, error) {
	d := u.doc
	trailer := d.xref.trailer.Clone()
	for _, key := range structural {
		trailer.Delete(key)
	}
	for _, e := range u.trailer {
		trailer.Set(e.Key, e.Value)
	}
	trailer.Set("Root", u.catalog)
	if v := d.xref.trailer.Get("Encrypt"); v != nil {
		trailer.Set("Encrypt", v)
	}
	first, ok := String(""), false
	if ids := d.Array(d.xref.trailer.Get("ID")); len(ids) > 0 {
		first, ok = d.Resolve(ids[0]).(String)
	}
	if !ok {
		if d.Encrypted() { // a new identifier would change the key (algorithm 2)
			return trailer, d.src.err
		}
		first = identifier
	}
	trailer.Set("ID", Array{first, identifier})
	return trailer, d.src.err
}

// complete adds the entries of all other objects of the document to the entries
// of an update, because some readers cannot use the cross-reference of the
// document.
func (u *Update) complete(entries []numberedEntry) ([]numberedEntry, error) {
	d := u.doc
	numbers, err := numbersOf(d)
	if err != nil {
		return nil, err
	}
	entries = append(entries, numberedEntry{0, entry{generation: 65535}})
	for _, number := range numbers {
		if _, ok := u.objects[number]; ok || number == 0 {
			continue
		}
		e, err := d.lookup(number)
		if err != nil {
			return nil, err
		}
		if e.kind == entryInFile {
			if e.offset += d.base - d.headerAt; e.offset < 0 { // the object is before the header
				e = entry{}
			}
		}
		entries = append(entries, numberedEntry{number, e})
	}
	return entries, nil
}

// Bytes calls WriteTo and returns the tail. Like WriteTo, it can be called only
// once.
func (u *Update) Bytes() ([]byte, error) {
	var out bytes.Buffer
	out.Grow(chunkOverlap)
	if _, err := u.WriteTo(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
