package pdf

import (
	"fmt"
	"slices"
)

// Page is a page object (7.7.3.3) with access to inherited attributes.
type Page struct {
	// Ref is the reference of the page, or the zero Ref if the page is a direct
	// object of /Kids.
	Ref Ref
	// Dict is the page dictionary without inherited attributes.
	Dict *Dict
	// Index counts from 0.
	Index int

	doc  *Document
	path []treeNode // nodes from the root of the page tree to the parent
}

// treeNode is a node of the page tree (7.7.3.2) on the path to a page.
type treeNode struct {
	ref  Ref // zero if it is a direct object of its parent
	dict *Dict
}

const (
	maxTreeDepth = 512
	maxTreeNodes = 1 << 16
)

// treeWalk is a limited traversal of the page tree. It visits each indirect node
// and page only once, so that a loop or a shared node is not traversed again.
type treeWalk struct {
	d       *Document
	visit   func(*Page) (more bool)
	next    int  // index of the next page
	from    int  // index of the first page that is visited
	trust   bool // skip whole nodes by their /Count
	seen    map[int]bool
	visited int
	path    []treeNode
}

// walkPages visits the pages, beginning with the index from, until visit returns
// false. If trust is true, it skips whole nodes before that page by their /Count.
func (d *Document) walkPages(from int, trust bool, visit func(*Page) (more bool)) {
	w := treeWalk{d: d, visit: visit, from: from, trust: trust, seen: map[int]bool{}}
	w.node(d.catalog.Get("Pages"))
}

// Page returns the page with the index, counted from 0. The error is ErrNoPages
// if there is no such page. The error can also be an error of the reader, or
// ErrLimit.
func (d *Document) Page(index int) (*Page, error) {
	if index == 0 && d.first != nil {
		return d.first, nil
	}
	if index < 0 || index >= maxTreeNodes {
		return nil, fmt.Errorf("%w with index %d", ErrNoPages, index)
	}
	var page *Page
	for _, trust := range []bool{true, false} {
		d.walkPages(index, trust, func(p *Page) bool {
			page = p
			return false
		})
		if page != nil || d.src.err != nil {
			return page, d.src.err
		}
	}
	if index > 0 {
		return nil, fmt.Errorf("%w with index %d", ErrNoPages, index)
	}
	return nil, ErrNoPages
}

// node traverses a node or a page. It returns false to end the traversal.
func (w *treeWalk) node(obj Object) bool {
	if w.visited++; w.visited > maxTreeNodes {
		return false
	}
	if ref, ok := obj.(Ref); ok {
		if w.seen[ref.Number] {
			return true
		}
		w.seen[ref.Number] = true
	}
	e, ok := w.d.treeEntry(obj)
	if !ok || len(w.path) > maxTreeDepth {
		return w.d.src.err == nil
	}
	if e.leaf {
		w.next++
		if w.next <= w.from {
			return true
		}
		return w.visit(&Page{Ref: e.ref, Dict: e.dict, Index: w.next - 1, doc: w.d, path: slices.Clone(w.path)})
	}
	if w.trust && len(w.path) > 0 {
		if n, ok := w.d.Int(e.dict.Get("Count")); ok && n >= 0 && n <= w.from-w.next {
			w.next += n
			return true
		}
	}
	w.path = append(w.path, treeNode{ref: e.ref, dict: e.dict})
	defer func() { w.path = w.path[:len(w.path)-1] }()
	for _, kid := range e.kids {
		if !w.node(kid) {
			return false
		}
	}
	return true
}

// treeEntry is a node of the page tree or a page.
type treeEntry struct {
	ref  Ref // zero if it is a direct object of its parent
	dict *Dict
	leaf bool // a page
	kids Array
}

// treeEntry reads an element of /Kids. It returns false if the element is
// neither a node nor a page.
func (d *Document) treeEntry(obj Object) (treeEntry, bool) {
	dict, ok := d.Resolve(obj).(*Dict)
	if !ok {
		return treeEntry{}, false
	}
	e := treeEntry{dict: dict}
	ref, indirect := obj.(Ref)
	if indirect {
		e.ref = d.currentRef(ref)
	}
	kids, isNode := d.kids(dict)
	kind := d.Name(dict.Get("Type"))
	if isNode && kind != "Page" {
		e.kids = kids
		return e, true
	}
	// An indirect dictionary counts as a page unless its /Type is Pages. A direct
	// dictionary must also have the /Type Page, /Contents or /MediaBox.
	e.leaf = true
	return e, kind != "Pages" && (indirect || kind == "Page" || dict.Has("Contents") || dict.Has("MediaBox"))
}

// kids returns the kids of a node. /Kids can be one dictionary instead of an array.
// kids returns false if /Kids is neither.
func (d *Document) kids(node *Dict) (Array, bool) {
	value := node.Get("Kids")
	switch v := d.Resolve(value).(type) {
	case Array:
		return v, true
	case *Dict:
		return Array{value}, true
	}
	return nil, false
}

// Inherited returns the value of key in the page or in the nearest ancestor
// that has the key (7.7.3.4), unresolved.
func (p *Page) Inherited(key Name) Object {
	if v := p.Dict.Get(key); v != nil && p.doc.Resolve(v) != nil {
		return v
	}
	for _, n := range slices.Backward(p.path) {
		if v := n.dict.Get(key); v != nil && p.doc.Resolve(v) != nil {
			return v
		}
	}
	return nil
}

// Resources returns the resource dictionary of the page (7.8.3), which may be
// inherited. It returns nil, which is treated as an empty dictionary, if there
// is none.
func (p *Page) Resources() *Dict { return p.doc.Dict(p.Inherited("Resources")) }

// maxContents is the maximum number of content streams of a page.
const maxContents = 1 << 14

// Contents returns the content streams of the page in order, unresolved. It omits
// elements that are not streams, and all elements after the first maxContents.
func (p *Page) Contents() []Object {
	value := p.Dict.Get("Contents")
	switch v := p.doc.Resolve(value).(type) {
	case *Stream:
		return []Object{value}
	case Array:
		var out []Object
		for _, part := range v[:min(len(v), maxContents)] {
			if _, ok := p.doc.Resolve(part).(*Stream); ok {
				out = append(out, part)
			}
		}
		return out
	}
	return nil
}

// Annotations returns the elements of /Annots, unresolved, and the reference of
// the array. The reference is zero if the array is a direct object of the page.
func (p *Page) Annotations() (Array, Ref) {
	value := p.Dict.Get("Annots")
	ref, ok := value.(Ref)
	if !ok {
		a, _ := value.(Array)
		return a, Ref{}
	}
	a, ok := p.doc.Resolve(ref).(Array)
	if !ok {
		return nil, Ref{}
	}
	return a, p.doc.currentRef(ref)
}
