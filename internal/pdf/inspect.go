package pdf

// Findings lists the features of a document that decide whether it can be
// accepted and how it may be changed. Inspect finds the features in the catalog,
// the interactive form, the outline, and the first pages with their annotations.
type Findings struct {
	// Signatures are the signed signature fields in the order of the form.
	Signatures []SignatureField
	// DocMDP states which changes are permitted after signing. It is the
	// strictest P of all DocMDP transforms and of the locks of signed fields
	// (12.8.2.2, 12.7.5.5): 1 permits no changes, 2 permits filling in forms and
	// signing, 3 also permits annotating. DocMDP is 0 if there is no restriction.
	DocMDP int
	// Certified reports whether there is a certification signature.
	Certified bool
	// FieldsLocked reports whether a signature locks some or all fields
	// (12.8.2.4).
	FieldsLocked bool
	// UsageRights reports whether there is a UR3 or UR signature (12.8.2.3).
	UsageRights bool

	AcroForm         bool // an interactive form with at least one field
	XFA              bool // an XFA form (12.7.3)
	JavaScript       bool // a JavaScript action (12.6.4.17), a rendition with a script, or a javascript: link
	Launch           bool // a launch action (12.6.4.6)
	OpenAction       bool // an open action other than a single GoTo action
	AdditionalAction bool // an /AA entry (12.6.3)
	EmbeddedFiles    bool // embedded or attached files (7.11.4)
	Portfolio        bool // a /Collection (12.3.5)
	Layers           bool // optional content (8.11)
	RichMedia        bool // rich media, 3D, movie, screen and sound annotations
	ExternalActions  bool // actions that access other files or hosts: SubmitForm, ImportData, GoToR, GoToE

	// Incomplete reports whether a limit ended the traversal early. Signatures
	// are complete even then, unless there are more than 65,536 fields or fields
	// are nested more than 64 levels deep.
	Incomplete bool
}

// SignatureField is a field of type Sig with a value (12.7.5.5).
type SignatureField struct {
	Field     Ref
	Value     Ref    // the signature dictionary, zero if it is a direct object
	Name      string // partial field name
	SubFilter Name
	Timestamp bool    // a document time-stamp (12.8.5)
	ByteRange []int64 // nil if it is not four integers
}

// Limits of the traversal. maxFields is large, so that no signature is missed.
const (
	maxFields       = 1 << 16
	maxFieldDepth   = 64
	maxSeenPages    = 48
	maxSeenAnnots   = 512
	maxSeenOutlines = 128
	maxActions      = 64      // in a chain; also the limit of an /AA entry and of a /Reference
	maxAllActions   = 1 << 15 // in all chains
)

// inspector collects findings.
type inspector struct {
	d       *Document
	f       Findings
	seen    map[int]bool
	fields  int
	annots  int
	actions int
}

// Inspect traverses the document and returns its findings.
func (d *Document) Inspect() Findings {
	i := inspector{d: d, seen: map[int]bool{}}
	catalog := d.catalog
	i.openAction(catalog.Get("OpenAction"))
	i.additional(catalog.Get("AA"))
	names := d.Dict(catalog.Get("Names"))
	i.f.JavaScript = i.f.JavaScript || i.hasNames(names.Get("JavaScript"))
	i.f.EmbeddedFiles = i.hasNames(names.Get("EmbeddedFiles")) || len(d.Array(catalog.Get("AF"))) > 0
	i.f.Portfolio = d.Dict(catalog.Get("Collection")) != nil
	i.f.Layers = len(d.Array(d.Dict(catalog.Get("OCProperties")).Get("OCGs"))) > 0
	form := d.Dict(catalog.Get("AcroForm"))
	fields := d.Array(form.Get("Fields"))
	i.f.AcroForm = len(fields) > 0
	i.f.XFA = d.Resolve(form.Get("XFA")) != nil
	i.permissions(d.Dict(catalog.Get("Perms")))
	for _, field := range fields {
		i.field(field, "", 0)
	}
	i.outline(d.Dict(catalog.Get("Outlines")))
	pages := 0
	d.walkPages(0, false, func(p *Page) bool {
		if pages++; pages > maxSeenPages {
			i.f.Incomplete = true
			return false
		}
		i.page(p)
		return true
	})
	return i.f
}

// hasNames reports whether the root of a name tree (7.9.6) has names or kids.
func (i *inspector) hasNames(root Object) bool {
	node := i.d.Dict(root)
	return len(i.d.Array(node.Get("Names"))) > 0 || len(i.d.Array(node.Get("Kids"))) > 0
}

// firstVisit reports whether an object is visited for the first time. It reports
// true for every direct object.
func (i *inspector) firstVisit(obj Object) bool {
	ref, ok := obj.(Ref)
	if !ok {
		return true
	}
	if i.seen[ref.Number] {
		return false
	}
	i.seen[ref.Number] = true
	return true
}

// openAction inspects /OpenAction, which is an action or a destination.
func (i *inspector) openAction(obj Object) {
	action, ok := i.d.Resolve(obj).(*Dict)
	if !ok {
		return
	}
	if i.d.Name(action.Get("S")) != "GoTo" || action.Has("Next") {
		i.f.OpenAction = true
	}
	i.action(obj)
}

// additional inspects the actions of an /AA entry.
func (i *inspector) additional(obj Object) {
	triggers := i.d.Dict(obj)
	if triggers.Len() == 0 {
		return
	}
	i.f.AdditionalAction = true
	n := 0
	for _, action := range triggers.All() {
		if n++; n > maxActions {
			i.f.Incomplete = true
			return
		}
		i.action(action)
	}
}

// action inspects an action and the actions that follow it.
func (i *inspector) action(obj Object) {
	limit := min(maxActions, maxAllActions-i.actions)
	list, complete := Actions(i.d, obj, limit)
	i.actions += len(list)
	i.f.Incomplete = i.f.Incomplete || !complete
	for _, action := range list {
		i.f.JavaScript = i.f.JavaScript || i.d.RunsScript(action)
		switch i.d.Name(action.Get("S")) {
		case "Launch":
			i.f.Launch = true
		case "SubmitForm", "ImportData", "GoToR", "GoToE":
			i.f.ExternalActions = true
		}
	}
}

// Resolver returns the object that a reference refers to, and any other object unchanged. It is a
// Document or an Update.
type Resolver interface{ Resolve(obj Object) Object }

// Actions returns an action (12.6.2) and the actions that follow it in /Next, and nil
// for each of these objects that is not a dictionary. The list is not complete if
// there are more than limit objects.
func Actions(r Resolver, first Object, limit int) (list []*Dict, complete bool) {
	seen := map[int]bool{}
	for queue, n := (Array{first}), 0; len(queue) > 0; n++ {
		if n >= limit {
			return list, false
		}
		obj := queue[0]
		queue = queue[1:]
		if ref, ok := obj.(Ref); ok {
			if seen[ref.Number] {
				continue
			}
			seen[ref.Number] = true
		}
		action := asDict(r.Resolve(obj))
		list = append(list, action)
		switch next := r.Resolve(action.Get("Next")).(type) {
		case *Dict:
			queue = append(queue, action.Get("Next"))
		case Array:
			queue = append(queue, next[:min(len(next), limit)]...)
		}
	}
	return list, true
}

// RunsScript reports whether an action (12.6.2) runs JavaScript or opens a
// javascript: URI, which a browser would run. It ignores the actions in /Next.
func (d *Document) RunsScript(action *Dict) bool {
	switch d.Name(action.Get("S")) {
	case "JavaScript":
		return true
	case "Rendition":
		return action.Has("JS")
	case "URI":
		return isScript(d.Text(action.Get("URI")))
	}
	return false
}

// isScript reports whether a URI has the scheme javascript. It ignores case, white
// space and control characters, because browsers ignore case and many of these
// characters.
func isScript(uri string) bool {
	const scheme = "javascript:"
	n := 0
	for i := 0; i < len(uri) && n < len(scheme); i++ {
		if uri[i] <= ' ' {
			continue
		}
		if uri[i]|0x20 != scheme[n]|0x20 {
			return false
		}
		n++
	}
	return n == len(scheme)
}

// permissions inspects the permissions dictionary (12.8.6).
func (i *inspector) permissions(perms *Dict) {
	if signature := i.d.Dict(perms.Get("DocMDP")); signature != nil {
		i.f.Certified = true
		i.references(signature)
		if i.f.DocMDP == 0 {
			i.restrict(2) // default of P
		}
	}
	i.f.UsageRights = i.f.UsageRights || perms.Has("UR3") || perms.Has("UR")
}

// restrict sets DocMDP to p if p is stricter.
func (i *inspector) restrict(p int) {
	if p >= 1 && p <= 3 && (i.f.DocMDP == 0 || p < i.f.DocMDP) {
		i.f.DocMDP = p
	}
}

// references inspects the signature reference dictionaries (12.8.1, table 256).
func (i *inspector) references(signature *Dict) {
	list := i.d.Array(signature.Get("Reference"))
	for _, obj := range list[:min(len(list), maxActions)] {
		reference := i.d.Dict(obj)
		parms := i.d.Dict(reference.Get("TransformParams"))
		switch i.d.Name(reference.Get("TransformMethod")) {
		case "DocMDP":
			i.f.Certified = true
			p, ok := i.d.Int(parms.Get("P"))
			if !ok {
				p = 2
			}
			i.restrict(p)
		case "FieldMDP":
			i.f.FieldsLocked = true
		case "UR", "UR3":
			i.f.UsageRights = true
		}
	}
}

// field inspects a form field (12.7.4) and its kids. kind is the inherited /FT.
func (i *inspector) field(obj Object, kind Name, depth int) {
	if i.fields++; i.fields > maxFields || depth > maxFieldDepth {
		i.f.Incomplete = true
		return
	}
	if !i.firstVisit(obj) {
		return
	}
	field := i.d.Dict(obj)
	if fieldType := i.d.Name(field.Get("FT")); fieldType != "" {
		kind = fieldType
	}
	if kind == "Sig" {
		i.signature(obj, field)
	}
	i.actionsOf(field)
	for _, kid := range i.d.Array(field.Get("Kids")) {
		if i.fields > maxFields {
			return
		}
		i.field(kid, kind, depth+1)
	}
}

// actionsOf inspects the actions of a field or an annotation.
func (i *inspector) actionsOf(dict *Dict) {
	if action := dict.Get("A"); action != nil {
		i.action(action)
	}
	i.additional(dict.Get("AA"))
}

// signature inspects a signature field.
func (i *inspector) signature(obj Object, field *Dict) {
	value := i.d.Dict(field.Get("V"))
	if value == nil {
		return
	}
	s := SignatureField{
		Name:      i.d.Text(field.Get("T")),
		SubFilter: i.d.Name(value.Get("SubFilter")),
		Timestamp: i.d.Name(value.Get("Type")) == "DocTimeStamp",
	}
	s.Field, _ = obj.(Ref)
	s.Value, _ = field.Get("V").(Ref)
	if list := i.d.Array(value.Get("ByteRange")); len(list) == 4 {
		for _, v := range list {
			n, ok := i.d.Resolve(v).(Integer)
			if !ok {
				s.ByteRange = nil
				break
			}
			s.ByteRange = append(s.ByteRange, int64(n))
		}
	}
	i.f.Signatures = append(i.f.Signatures, s)
	i.references(value)
	if lock := i.d.Dict(field.Get("Lock")); lock != nil {
		i.f.FieldsLocked = true
		if p, ok := i.d.Int(lock.Get("P")); ok {
			i.restrict(p)
		}
	}
}

// outline inspects the actions of the first outline items (12.3.3).
func (i *inspector) outline(root *Dict) {
	queue := Array{root.Get("First")}
	for n := 0; len(queue) > 0; n++ {
		obj := queue[0]
		queue = queue[1:]
		if obj == nil || !i.firstVisit(obj) {
			continue
		}
		if n >= maxSeenOutlines {
			i.f.Incomplete = true
			return
		}
		item := i.d.Dict(obj)
		if action := item.Get("A"); action != nil {
			i.action(action)
		}
		queue = append(queue, item.Get("Next"), item.Get("First"))
	}
}

// page inspects a page and its annotations (12.5).
func (i *inspector) page(p *Page) {
	i.additional(p.Dict.Get("AA"))
	i.f.EmbeddedFiles = i.f.EmbeddedFiles || len(i.d.Array(p.Dict.Get("AF"))) > 0
	annots, _ := p.Annotations()
	for _, obj := range annots {
		if i.annots++; i.annots > maxSeenAnnots {
			i.f.Incomplete = true
			return
		}
		if !i.firstVisit(obj) {
			continue
		}
		annot := i.d.Dict(obj)
		switch i.d.Name(annot.Get("Subtype")) {
		case "FileAttachment":
			i.f.EmbeddedFiles = true
		case "RichMedia", "3D", "Movie", "Screen", "Sound":
			i.f.RichMedia = true
		}
		i.actionsOf(annot)
	}
}
