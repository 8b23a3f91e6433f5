package seal

import (
	"slices"

	"github.com/certvault/certvault/internal/pdf"
)

// These are the limits of the search for actions.
const (
	maxPages       = 200
	maxAnnotations = 5000
	maxFields      = 5000
	maxOutlines    = 5000
	maxActions     = 64 // an action and those that follow it
	maxDepth       = 16 // of the form fields
)

// disarm removes references to active content: JavaScript, launch actions, open actions that do more
// than go to a place, additional actions and XFA. It changes the catalog, and the form fields, outline
// items, pages and annotations within the limits above. The objects remain in the original.
func (e *edit) disarm(f pdf.Findings) {
	if !active(f) {
		return
	}
	catalog := e.update.Catalog().Clone()
	if e.doesMore(catalog.Get("OpenAction")) {
		catalog.Delete("OpenAction")
	}
	catalog.Delete("AA")
	e.changeDict(catalog, "Names", func(names *pdf.Dict) bool { return remove(names, "JavaScript") })
	e.changeDict(catalog, "AcroForm", func(form *pdf.Dict) bool { return remove(form, "XFA") })
	e.update.SetCatalog(catalog)
	if !f.JavaScript && !f.Launch && !f.AdditionalAction {
		return
	}
	left := maxFields
	for _, field := range e.update.Array(e.update.Dict(catalog.Get("AcroForm")).Get("Fields")) {
		e.disarmField(field, &left, 0)
	}
	e.disarmOutline(e.update.Dict(catalog.Get("Outlines")).Get("First"))
	for i := range min(e.doc.PageCount(), maxPages) {
		page, err := e.doc.Page(i)
		if err != nil {
			return
		}
		e.disarmPage(page)
	}
}

// remove deletes a key and reports whether it existed.
func remove(dict *pdf.Dict, key pdf.Name) bool {
	found := dict.Has(key)
	dict.Delete(key)
	return found
}

// changeDict calls change with a copy of the dictionary at key in parent, and stores the copy if
// change returns true.
func (e *edit) changeDict(parent *pdf.Dict, key pdf.Name, change func(*pdf.Dict) bool) {
	value := parent.Get(key)
	dict := e.update.Dict(value)
	if dict == nil {
		return
	}
	dict = dict.Clone()
	if !change(dict) {
		return
	}
	if ref, ok := value.(pdf.Ref); ok {
		e.update.Set(ref, dict)
		return
	}
	parent.Set(key, dict)
}

// doesMore reports whether an open action does more than go to a place in the document.
func (e *edit) doesMore(obj pdf.Object) bool {
	action := e.update.Dict(obj) // nil for a destination
	return action != nil && (e.doc.Name(action.Get("S")) != "GoTo" || action.Has("Next"))
}

// isActive reports whether an action, or one of the actions that follow it, runs JavaScript or starts a
// program. If there are too many actions, isActive returns true.
func (e *edit) isActive(obj pdf.Object) bool {
	list, complete := pdf.Actions(e.update, obj, maxActions)
	return !complete || slices.ContainsFunc(list, func(action *pdf.Dict) bool {
		return e.doc.RunsScript(action) || e.doc.Name(action.Get("S")) == "Launch"
	})
}

// disarmDict removes additional actions and an active action from an annotation, a form field or an
// outline item. It reports whether it changed dict.
func (e *edit) disarmDict(dict *pdf.Dict) bool {
	changed := remove(dict, "AA")
	if e.isActive(dict.Get("A")) {
		dict.Delete("A")
		changed = true
	}
	return changed
}

func (e *edit) disarmField(field pdf.Object, left *int, depth int) {
	if *left--; *left < 0 || depth > maxDepth {
		return
	}
	dict := e.update.Dict(field)
	if ref, ok := field.(pdf.Ref); ok && dict != nil {
		if changed := dict.Clone(); e.disarmDict(changed) {
			e.update.Set(ref, changed)
		}
	}
	for _, kid := range e.update.Array(dict.Get("Kids")) {
		e.disarmField(kid, left, depth+1)
	}
}

// disarmOutline removes the active actions of an outline item (ISO 32000-2, 12.3.3), of the items that
// follow it, and of the items below them.
func (e *edit) disarmOutline(first pdf.Object) {
	queue, seen := pdf.Array{first}, map[pdf.Ref]bool{}
	for n := 0; len(queue) > 0 && n < maxOutlines; n++ {
		ref, ok := queue[0].(pdf.Ref) // 12.3.3: items are indirect objects
		queue = queue[1:]
		if !ok || seen[ref] {
			continue
		}
		seen[ref] = true
		item := e.update.Dict(ref)
		if changed := item.Clone(); e.disarmDict(changed) {
			e.update.Set(ref, changed)
		}
		queue = append(queue, item.Get("Next"), item.Get("First"))
	}
}

func (e *edit) disarmPage(page *pdf.Page) {
	dict := e.dict(page).Clone()
	changed := remove(dict, "AA")
	annotations, holder := e.annotations(page)
	var direct bool // whether an annotation that is a direct object changed
	annotations = append(pdf.Array(nil), annotations...)
	for i, a := range annotations[:min(len(annotations), maxAnnotations)] {
		annotation := e.update.Dict(a).Clone()
		if annotation.Len() == 0 || !e.disarmDict(annotation) {
			continue
		}
		if ref, ok := a.(pdf.Ref); ok {
			e.update.Set(ref, annotation)
			continue
		}
		annotations[i], direct = annotation, true
	}
	if direct && holder != (pdf.Ref{}) {
		e.update.Set(holder, annotations)
	} else if direct {
		dict.Set("Annots", annotations)
		changed = true
	}
	if changed {
		e.update.SetPage(page, dict)
	}
}

// dict returns the dictionary of a page with the changes so far.
func (e *edit) dict(page *pdf.Page) *pdf.Dict { return e.update.PageDict(page) }

// annotations returns the annotations of a page with the changes so far, and the reference of the
// array. The reference is the zero Ref if the array is a direct object of the page.
func (e *edit) annotations(page *pdf.Page) (pdf.Array, pdf.Ref) {
	value := e.dict(page).Get("Annots")
	array := e.update.Array(value)
	if ref, ok := value.(pdf.Ref); ok && array != nil {
		return array, ref
	}
	return array, pdf.Ref{}
}
