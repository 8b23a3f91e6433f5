package pdf

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// Update is an incremental update (7.5.6) of a document being put together.
// New strings and streams are encrypted as the file is.
type Update struct {
	doc     *Document
	first   int // the first new object number
	next    int
	order   []int
	objects map[int]Object
	refs    map[int]Ref
	pages   map[int]Ref // by index: pages that stood directly in /Kids
	catalog Ref         // zero while it is made up
	trailer []Entry
	written bool
}

var errWritten = errors.New("the update was written already")

// Update begins an incremental update. From then on the document is not
// repaired any more.
func (d *Document) Update() *Update {
	d.frozen = true
	size := d.xref.size()
	if n, ok := d.Int(d.xref.trailer.Get("Size")); ok && n > size && n <= maxNumber {
		size = n
	}
	// An object that is lost but still referred to must not come to life as one of
	// ours.
	if d.referred >= size && d.referred < maxNumber/2 {
		size = d.referred + 1
	}
	u := &Update{doc: d, first: size, next: size, catalog: d.catalogRef, objects: map[int]Object{}, refs: map[int]Ref{}, pages: map[int]Ref{}}
	if d.treeMadeUp {
		u.SetCatalog(d.catalog.Clone().Set("Pages", u.Add(d.catalog.Get("Pages"))))
	}
	return u
}

// Reserve returns the reference of a new object that is to be given with Set.
// One that never is remains null.
func (u *Update) Reserve() Ref {
	ref := Ref{Number: u.next}
	u.next++
	return ref
}

// Add adds obj as a new indirect object.
func (u *Update) Add(obj Object) Ref { return u.Set(u.Reserve(), obj) }

// Set gives the object of ref, one of the document or a reserved one, a new
// value. The reference that is good from then on is returned: the generation
// is the one the object has in the file, whatever ref said.
func (u *Update) Set(ref Ref, obj Object) Ref {
	if ref.Number < u.first {
		ref = u.doc.currentRef(ref)
	}
	if _, ok := u.objects[ref.Number]; !ok {
		u.order = append(u.order, ref.Number)
	}
	u.objects[ref.Number] = obj
	u.refs[ref.Number] = ref
	return ref
}

// Resolve is Document.Resolve on the document as updated so far.
func (u *Update) Resolve(obj Object) Object {
	for range maxHops {
		ref, ok := obj.(Ref)
		if !ok {
			return obj
		}
		if changed, ok := u.objects[ref.Number]; ok {
			obj = changed
		} else {
			obj = u.doc.Object(ref)
		}
	}
	return nil
}

// Dict is Document.Dict on the document as updated so far.
func (u *Update) Dict(obj Object) *Dict { return asDict(u.Resolve(obj)) }

// Array is Document.Array on the document as updated so far.
func (u *Update) Array(obj Object) Array {
	a, _ := u.Resolve(obj).(Array)
	return a
}

// Catalog returns the document catalog as updated so far; clone it to change it.
func (u *Update) Catalog() *Dict {
	if changed, ok := u.objects[u.catalog.Number].(*Dict); ok {
		return changed
	}
	return u.doc.catalog
}

// SetCatalog replaces the document catalog.
func (u *Update) SetCatalog(catalog *Dict) {
	if u.catalog == (Ref{}) { // it was made up
		u.catalog = u.Reserve()
	}
	u.Set(u.catalog, catalog)
}

// SetPage gives the page a new dictionary and returns its reference. A page
// that stood directly in /Kids becomes an indirect object.
func (u *Update) SetPage(p *Page, dict *Dict) Ref {
	if p.Ref != (Ref{}) {
		return u.Set(p.Ref, dict)
	}
	if ref, ok := u.pages[p.Index]; ok {
		return u.Set(ref, dict)
	}
	// The reference is this update's and not the page's: another update of the
	// same document numbers its objects anew.
	ref := u.Reserve()
	u.pages[p.Index] = ref
	if !dict.Has("Parent") {
		if n := len(p.path); n > 0 && p.path[n-1].ref != (Ref{}) {
			dict = dict.Clone().Set("Parent", p.path[n-1].ref)
		}
	}
	u.Set(ref, dict)
	u.replaceKid(p.path, ref)
	return ref
}

// PageRef returns the reference of a page, zero for one that stands directly in
// /Kids as long as SetPage has not made it an object.
func (u *Update) PageRef(p *Page) Ref {
	if p.Ref != (Ref{}) {
		return p.Ref
	}
	return u.pages[p.Index]
}

// PageDict returns the dictionary of a page as updated so far; clone it to change
// it.
func (u *Update) PageDict(p *Page) *Dict {
	if changed, ok := u.objects[u.PageRef(p).Number].(*Dict); ok {
		return changed
	}
	return p.Dict
}

// replaceKid puts kid in the place that path leads to. Nodes that stand directly
// in their parents are replaced in turn, up to one that is an object.
func (u *Update) replaceKid(path []treeNode, kid Object) {
	for _, n := range slices.Backward(path) {
		node := n.dict
		if changed, ok := u.objects[n.ref.Number].(*Dict); ok {
			node = changed
		}
		node = node.Clone()
		kids, _ := u.doc.kids(node)
		kids = slices.Clone(kids)
		if n.kid < len(kids) {
			kids[n.kid] = kid
		}
		node.Set("Kids", kids)
		if n.ref != (Ref{}) {
			u.Set(n.ref, node)
			return
		}
		kid = node
	}
	u.SetCatalog(u.Catalog().Clone().Set("Pages", kid))
}

// SetTrailer sets an entry of the new trailer, such as Info. Root, Size, Prev,
// ID and Encrypt cannot be set.
func (u *Update) SetTrailer(key Name, value Object) {
	u.trailer = append(u.trailer, Entry{key, value})
}

// WriteTo writes the tail: the bytes that follow the original. They begin with
// a newline where the original does not end in one. It can be called once.
func (u *Update) WriteTo(w io.Writer) (int64, error) {
	d := u.doc
	if u.written {
		return 0, errWritten
	}
	u.written = true
	if d.src.err != nil {
		return 0, d.src.err
	}
	if u.catalog == (Ref{}) {
		u.SetCatalog(d.catalog)
	}
	last, err := d.src.window(d.src.size-1, 1)
	if err != nil {
		return 0, err
	}
	s := newSerializer(w, d.src.size, d)
	if len(last) == 1 && last[0] != '\n' {
		s.buf = append(s.buf, '\n')
	}
	for _, number := range u.order {
		s.indirect(u.refs[number], u.objects[number])
	}
	entries := make([]numbered, 0, len(s.entries)+1)
	for _, e := range s.entries {
		entries = append(entries, numbered{e.ref.Number, entry{kind: entryInFile, offset: e.offset - d.base, generation: e.ref.Generation}})
	}
	trailer, err := u.newTrailer(s.fileIdentifier())
	if err != nil {
		return s.written, err
	}
	if d.repaired {
		entries = u.complete(entries)
	} else {
		trailer.Set("Prev", Integer(d.xref.start))
	}
	size := u.next
	stream := Ref{}
	if d.xref.stream {
		stream = u.Reserve()
	}
	s.writeXref(entries, trailer, d.base, size, stream)
	if s.err == nil && d.src.err != nil {
		s.err = d.src.err
	}
	return s.written, s.err
}

// structural are the entries of a trailer, and of a cross-reference stream,
// that belong to one section and are not carried over (7.5.5, 7.5.8.2).
var structural = []Name{
	"Size", "Prev", "XRefStm", "ID", "Type", "Index", "W",
	"Length", "Filter", "DecodeParms", "F", "FFilter", "FDecodeParms", "DL",
}

// newTrailer returns the trailer of the update: all of the previous one (7.5.6)
// and a new second file identifier (14.4).
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
		if d.Encrypted() { // the key comes from the lack of it (algorithm 2)
			return trailer, d.src.err
		}
		first = identifier
	}
	trailer.Set("ID", Array{first, identifier})
	return trailer, d.src.err
}

// complete adds all other objects of the document to the entries of an update,
// for a file whose own cross-reference is of no use.
func (u *Update) complete(entries []numbered) []numbered {
	entries = append(entries, numbered{0, entry{generation: 65535}})
	for _, section := range u.doc.xref.sections {
		for _, sub := range section.subsections {
			for i, e := range sub.entries {
				if _, ok := u.objects[sub.first+i]; !ok {
					entries = append(entries, numbered{sub.first + i, e})
				}
			}
		}
	}
	return entries
}

// Bytes returns the tail as WriteTo writes it.
func (u *Update) Bytes() ([]byte, error) {
	var out bytes.Buffer
	out.Grow(chunkOverlap)
	if _, err := u.WriteTo(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
