package design

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/pdf"
)

// rewriter copies a document to a new file, without the parts that are removed.
type rewriter struct {
	doc     *pdf.Document
	w       *pdf.Writer
	refs    map[int]pdf.Ref // by object number in the document
	removed map[int]bool    // object numbers of removed annotations
	queue   []int           // object numbers in the document
}

// maxObjects is the maximum number of objects that are copied.
const maxObjects = 1 << 18

// removedAnnotations are the subtypes of annotations that belong to forms, files and media.
var removedAnnotations = []pdf.Name{"Widget", "FileAttachment", "RichMedia", "3D", "Movie", "Screen", "Sound"}

// removedKeys are the entries that are removed from every dictionary. They refer to actions, files and the
// private data of programs.
var removedKeys = []pdf.Name{"AA", "AF", "EF", "PieceInfo"}

// removedFromCatalog are the entries of the catalog that are not copied: those for forms, files and signatures,
// and those that rewriter.catalog sets itself.
var removedFromCatalog = []pdf.Name{"AcroForm", "Collection", "DSS", "Legal", "NeedsRendering", "Perms", "Pages", "StructTreeRoot", "Names"}

// rewrite returns a new file with the document, without JavaScript, forms, attachments and media. The file has
// only the current objects and is not encrypted.
func rewrite(doc *pdf.Document) ([]byte, error) {
	var out bytes.Buffer
	r := &rewriter{doc: doc, w: pdf.NewWriter(&out), refs: map[int]pdf.Ref{}, removed: map[int]bool{}}
	var list []*pdf.Page
	for i := range doc.PageCount() {
		p, err := doc.Page(i)
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller converts it
		}
		list = append(list, p)
		annotations, _ := p.Annotations()
		for _, a := range annotations {
			if ref, ok := a.(pdf.Ref); ok && slices.Contains(removedAnnotations, doc.Name(doc.Dict(a).Get("Subtype"))) {
				r.removed[ref.Number] = true
			}
		}
	}
	// The new file has a new page tree, because the old page tree may be faulty. References for all pages are
	// reserved first, because other objects may refer to pages.
	tree := r.w.Reserve()
	kids := make(pdf.Array, len(list))
	for i, p := range list {
		ref := r.w.Reserve()
		kids[i] = ref
		if p.Ref != (pdf.Ref{}) {
			r.refs[p.Ref.Number] = ref
		}
	}
	for i, p := range list {
		ref, ok := kids[i].(pdf.Ref)
		if !ok {
			continue
		}
		r.w.Set(ref, r.page(p, tree))
	}
	r.w.Set(tree, pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Pages")}, pdf.Entry{Key: "Kids", Value: kids}, pdf.Entry{Key: "Count", Value: pdf.Integer(len(kids))}))
	root := r.w.Add(r.catalog(tree))
	info := pdf.Ref{}
	if dict := doc.Dict(doc.Trailer().Get("Info")); dict != nil {
		info = r.w.Add(r.copy(dict, 0))
	}
	if err := r.drain(); err != nil {
		return nil, err
	}
	if err := doc.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the caller converts it
	}
	if err := r.w.Close(root, info); err != nil {
		return nil, fmt.Errorf("writing the design: %w", err)
	}
	return out.Bytes(), nil
}

// drain copies the objects in the queue, and the objects to which these refer.
func (r *rewriter) drain() error {
	for len(r.queue) > 0 {
		number := r.queue[0]
		r.queue = r.queue[1:]
		if len(r.refs) > maxObjects {
			return fmt.Errorf("%w: too many objects", pdf.ErrLimit)
		}
		r.w.Set(r.refs[number], r.copy(r.doc.Object(pdf.Ref{Number: number}), 0))
		if err := r.w.Err(); err != nil {
			return fmt.Errorf("writing the design: %w", err)
		}
	}
	return nil
}

// page returns a copy of a page with the attributes that it inherits, and without removed annotations.
func (r *rewriter) page(p *pdf.Page, tree pdf.Ref) *pdf.Dict {
	dict := p.Dict.Clone()
	for _, key := range []pdf.Name{"Resources", "MediaBox", "CropBox", "Rotate"} {
		if v := p.Inherited(key); v != nil {
			dict.Set(key, v)
		}
	}
	annotations, _ := p.Annotations()
	var kept pdf.Array
	for _, a := range annotations {
		annotation := r.doc.Dict(a)
		parent, _ := annotation.Get("Parent").(pdf.Ref) // popup annotations have one
		if annotation != nil && !slices.Contains(removedAnnotations, r.doc.Name(annotation.Get("Subtype"))) && !r.removed[parent.Number] {
			kept = append(kept, a)
		}
	}
	dict.Delete("Annots")
	if len(kept) > 0 {
		dict.Set("Annots", kept)
	}
	dict.Delete("Parent")
	copied, ok := r.copy(dict, 0).(*pdf.Dict)
	if !ok {
		return nil
	}
	return copied.Set("Parent", tree)
}

// catalog returns a copy of the catalog with the new page tree and without the removed entries.
func (r *rewriter) catalog(tree pdf.Ref) *pdf.Dict {
	from, _ := r.doc.Catalog()
	dict := from.Clone()
	for _, key := range removedFromCatalog {
		dict.Delete(key)
	}
	if r.doc.Name(dict.Get("PageMode")) == "UseAttachments" {
		dict.Delete("PageMode")
	}
	if names := r.doc.Dict(from.Get("Names")).Clone(); names.Has("Dests") {
		dict.Set("Names", pdf.NewDict(pdf.Entry{Key: "Dests", Value: names.Get("Dests")}))
	}
	if from.Has("StructTreeRoot") {
		dict.Set("StructTreeRoot", from.Get("StructTreeRoot"))
	}
	copied, ok := r.copy(dict, 0).(*pdf.Dict)
	if !ok {
		return nil
	}
	if v := r.doc.Version(); v > "1.7" {
		copied.Set("Version", pdf.Name(v))
	}
	return copied.Set("Pages", tree)
}

// copy returns a copy of an object. Its references are to objects of the new file.
func (r *rewriter) copy(obj pdf.Object, depth int) pdf.Object {
	if depth > maxCopyDepth {
		return nil
	}
	switch v := obj.(type) {
	case pdf.Ref:
		if r.removed[v.Number] || r.doc.Object(v) == nil {
			return nil
		}
		ref, ok := r.refs[v.Number]
		if !ok {
			ref = r.w.Reserve()
			r.refs[v.Number] = ref
			r.queue = append(r.queue, v.Number)
		}
		return ref
	case pdf.Array:
		out := make(pdf.Array, 0, len(v))
		for _, element := range v {
			if !r.leadsNowhere(element) {
				out = append(out, r.copy(element, depth+1))
			}
		}
		return out
	case *pdf.Dict:
		return r.copyDict(v, depth)
	case *pdf.Stream:
		return v.WithDict(r.copyDict(v.Dict, depth))
	}
	return obj
}

// maxCopyDepth limits the nesting of direct objects.
const maxCopyDepth = 200

func (r *rewriter) copyDict(d *pdf.Dict, depth int) *pdf.Dict {
	out := pdf.NewDict()
	for key, value := range d.All() {
		if slices.Contains(removedKeys, key) || r.leadsNowhere(value) {
			continue
		}
		if v := r.copy(value, depth+1); v != nil {
			out.Set(key, v)
		}
	}
	return out
}

// leadsNowhere reports whether a value is an action that is removed, or a reference of the structure to
// a removed annotation.
func (r *rewriter) leadsNowhere(value pdf.Object) bool {
	dict, ok := r.doc.Resolve(value).(*pdf.Dict)
	if !ok {
		return false
	}
	if ref, ok := dict.Get("Obj").(pdf.Ref); ok && r.doc.Name(dict.Get("Type")) == "OBJR" {
		return r.removed[ref.Number]
	}
	if kind := r.doc.Name(dict.Get("Type")); kind != "" && kind != "Action" {
		return false
	}
	switch r.doc.Name(dict.Get("S")) {
	case "Launch", "SubmitForm", "ImportData", "ResetForm", "Hide", "GoToR", "GoToE", "Rendition", "Movie", "Sound", "Trans", "GoTo3DView", "RichMediaExecute",
		"SetOCGState", "Named", "Thread":
		return dict.Has("S") && r.isAction(dict)
	}
	return r.doc.RunsScript(dict)
}

// isAction reports whether a dictionary with /S is an action. Structure elements also have /S, for example.
func (r *rewriter) isAction(dict *pdf.Dict) bool {
	return !dict.Has("P") && !dict.Has("K") && !dict.Has("Subtype")
}
