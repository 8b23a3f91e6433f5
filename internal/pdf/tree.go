package pdf

import (
	"fmt"
	"slices"
)

// treeState is the result of a check of the page tree.
type treeState struct {
	pages  int
	faulty bool
}

// PageCount returns the number of pages: /Count of the page tree's root, or, if
// the page tree is faulty, the number of pages that a limited traversal finds.
// If there are too many pages to count, Err returns ErrLimit.
func (d *Document) PageCount() int { return d.checkTree().pages }

// FaultyPageTree reports whether the page tree breaks a rule of 7.7.3, so that other
// readers may find other pages, or none. Examples are a wrong /Count or /Parent, a
// loop, or a page that is a direct object. An Update corrects a faulty page tree.
func (d *Document) FaultyPageTree() bool { return d.checkTree().faulty }

// checkTree checks the page tree at the first call, and returns the same result
// at later calls.
func (d *Document) checkTree() treeState {
	for d.tree == nil {
		repaired := d.repaired
		c := treeCheck{d: d}
		n, ok := c.count(d.catalog.Get("Pages"), nil, 0)
		if !ok || n == 0 {
			w := treeWalk{d: d, visit: func(*Page) bool { return false }, from: maxTreeNodes, seen: map[int]bool{}}
			w.node(d.catalog.Get("Pages"))
			if n, ok = w.next, false; w.visited > maxTreeNodes {
				_ = d.src.fail(fmt.Errorf("%w: too many pages", ErrLimit))
			}
		}
		if d.repaired == repaired { // otherwise a repair has changed the objects during the check
			d.tree = &treeState{pages: n, faulty: !ok}
		}
	}
	return *d.tree
}

// treeCheck is a limited traversal of a page tree that ends at the first fault.
type treeCheck struct {
	d       *Document
	visited int
}

// count returns the number of pages in an element of /Kids. It returns false if
// there is a fault. A loop exceeds the limit on the depth or on the number of nodes.
func (c *treeCheck) count(obj, parent Object, depth int) (int, bool) {
	ref, ok := obj.(Ref)
	if c.visited++; !ok || c.visited > maxTreeNodes || depth > maxTreeDepth {
		return 0, false
	}
	dict, ok := c.d.Object(ref).(*Dict)
	if !ok || depth > 0 && !refersTo(dict.Get("Parent"), parent) || depth == 0 && dict.Has("Parent") {
		return 0, false
	}
	switch dict.Get("Type") {
	case Name("Page"):
		return 1, depth > 0 && !dict.Has("Kids")
	case Name("Pages"):
	default:
		return 0, false
	}
	kids, ok := c.d.Resolve(dict.Get("Kids")).(Array)
	if !ok {
		return 0, false
	}
	total := 0
	for _, kid := range kids {
		n, ok := c.count(kid, ref, depth+1)
		if !ok {
			return 0, false
		}
		total += n
	}
	return total, c.d.Resolve(dict.Get("Count")) == Integer(total)
}

// refersTo reports whether obj refers to the same object as the reference target.
// It ignores the generations.
func refersTo(obj, target Object) bool {
	a, ok := obj.(Ref)
	b, isRef := target.(Ref)
	return ok && isRef && a.Number == b.Number
}

// treeRepair corrects a page tree in an update. It visits the same nodes and pages
// as a treeWalk, in the same order.
type treeRepair struct {
	u       *Update
	seen    map[int]bool
	pages   int
	visited int
}

// repairTree corrects the page tree so that all readers find the pages that
// PageCount counts.
func (u *Update) repairTree() {
	r := treeRepair{u: u, seen: map[int]bool{}}
	old := u.doc.catalog.Get("Pages")
	var root Ref
	if e, ok := u.doc.treeEntry(old); ok && e.leaf { // the tree consists of one page
		root = u.Reserve()
		page := r.node(old, root, 1)
		u.Set(root, NewDict(Entry{"Type", Name("Pages")}, Entry{"Kids", Array{page}}, Entry{"Count", Integer(1)}))
	} else {
		root = r.node(old, Ref{}, 0)
	}
	if !refersTo(old, root) {
		u.SetCatalog(u.Catalog().Clone().Set("Pages", root))
	}
}

// node corrects an element of /Kids and the elements below it. It returns the
// reference of the element in the update, or the zero Ref if the element contains
// no page.
func (r *treeRepair) node(obj Object, parent Ref, depth int) Ref {
	d := r.u.doc
	if r.visited++; r.visited > maxTreeNodes {
		return Ref{}
	}
	if ref, ok := obj.(Ref); ok {
		if r.seen[ref.Number] {
			return Ref{}
		}
		r.seen[ref.Number] = true
	}
	e, ok := d.treeEntry(obj)
	if !ok || depth > maxTreeDepth {
		return Ref{}
	}
	ref := e.ref
	if ref == (Ref{}) {
		ref = r.u.Reserve()
	}
	_, inPlace := d.Object(e.ref).(*Dict)
	n := changedDict{dict: e.dict.Clone(), changed: !inPlace}
	if e.leaf {
		if e.ref == (Ref{}) {
			r.u.pages[r.pages] = ref
		}
		r.pages++
		n.set("Type", Name("Page"))
		n.delete("Kids")
	} else {
		before := r.pages
		kids := Array{}
		for _, kid := range e.kids {
			if kid := r.node(kid, ref, depth+1); kid != (Ref{}) {
				kids = append(kids, kid)
			}
		}
		if len(kids) == 0 {
			return Ref{}
		}
		n.set("Type", Name("Pages"))
		n.set("Count", Integer(r.pages-before))
		if old, ok := d.Resolve(e.dict.Get("Kids")).(Array); !ok || !slices.Equal(old, kids) {
			n.set("Kids", kids)
		}
	}
	if depth == 0 {
		n.delete("Parent")
	} else if !refersTo(e.dict.Get("Parent"), parent) {
		n.set("Parent", parent)
	}
	if n.changed {
		r.u.Set(ref, n.dict)
	}
	return ref
}

// changedDict is a copy of a dictionary that records whether it was changed.
type changedDict struct {
	dict    *Dict
	changed bool
}

func (c *changedDict) set(key Name, value Object) {
	if _, isArray := value.(Array); isArray || c.dict.Get(key) != value {
		c.dict.Set(key, value)
		c.changed = true
	}
}

func (c *changedDict) delete(key Name) {
	if c.dict.Has(key) {
		c.dict.Delete(key)
		c.changed = true
	}
}
