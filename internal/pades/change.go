package pades

import (
	"errors"
	"io"
	"slices"

	"github.com/certvault/certvault/internal/pdf"
)

const (
	maxChangedObjects = 1 << 14 // objects of a revision that are compared
	maxEntries        = 1 << 10 // entries of a dictionary that are compared; each entry requires a search
)

// unlistedChange returns the list for changes that cannot be listed, for example
// because there are too many: a single entry without counts.
func unlistedChange() []Change { return []Change{{Kind: ChangedOther}} }

// changes lists the kinds of objects that were added, replaced or removed after a revision.
// checkChanges uses the list to decide whether the signature permits the changes. changes opens
// both revisions itself, so a limit that is exceeded here does not affect other checks.
func changes(r io.ReaderAt, revision, size int64) ([]Change, error) {
	before, err := pdf.Open(io.NewSectionReader(r, 0, revision), revision)
	if err != nil {
		return unlistedChange(), readError(err)
	}
	now, err := pdf.Open(r, size)
	if err != nil {
		return unlistedChange(), readError(err)
	}
	c := comparison{before: before, now: now, counts: map[ChangeKind]*Change{}}
	repaired := [2]bool{before.Repaired(), now.Repaired()}
	moved, err := now.MovedObjects(before)
	if err != nil || len(moved) > maxChangedObjects {
		return unlistedChange(), readError(err)
	}
	c.trailer()
	for _, number := range moved {
		ref := pdf.Ref{Number: number}
		c.object(before.Object(ref), now.Object(ref))
	}
	if err := errors.Join(before.Err(), now.Err()); err != nil {
		return unlistedChange(), readError(err)
	}
	if repaired != [2]bool{before.Repaired(), now.Repaired()} { // a repair replaced a cross-reference table during the comparison
		return unlistedChange(), nil
	}
	return c.list(), nil
}

// readError returns err if reading failed. It returns nil if the content of the file
// caused err. In that case changes returns unlistedChange.
func readError(err error) error {
	if err == nil || unreadableVerdict(err) != "" {
		return nil
	}
	return err
}

// comparison counts the differences between two revisions.
type comparison struct {
	before, now *pdf.Document
	counts      map[ChangeKind]*Change
}

// list returns the counts in the order of the kinds.
func (c *comparison) list() []Change {
	out := []Change{}
	for _, kind := range []ChangeKind{
		ChangedSignature, ChangedForm, ChangedAnnotation, ChangedPage, ChangedCatalog,
		ChangedMetadata, ChangedValidation, ChangedStream, ChangedOther,
	} {
		if n := c.counts[kind]; n != nil {
			out = append(out, *n)
		}
	}
	return out
}

func (c *comparison) count(kind ChangeKind, replaced bool) {
	n := c.counts[kind]
	if n == nil {
		n = &Change{Kind: kind}
		c.counts[kind] = n
	}
	if replaced {
		n.Replaced++
	} else {
		n.Added++
	}
}

// trailer compares the trailers. Different catalogs count as a changed page,
// because another catalog can show another document even if no object was
// written.
func (c *comparison) trailer() {
	before, now := c.before.Trailer(), c.now.Trailer()
	_, rootBefore := c.before.Catalog()
	if _, root := c.now.Catalog(); root.Number != rootBefore.Number {
		c.count(ChangedPage, true)
	}
	if !equal(before.Get("Info"), now.Get("Info"), 0) {
		c.count(ChangedMetadata, before.Has("Info"))
	}
	if !equal(before.Get("Encrypt"), now.Get("Encrypt"), 0) {
		c.count(ChangedOther, before.Has("Encrypt"))
	}
}

// object counts an object whose position differs between the revisions, unless
// its value is the same.
func (c *comparison) object(before, now pdf.Object) {
	if equal(before, now, 0) {
		return
	}
	// An object that changed its kind counts as an object of its old kind,
	// because the reference to it may be unchanged. An object that is now a
	// page counts as a page.
	kind, replaced := kindOf(c.before, now, before), before != nil
	if newKind := kindOf(c.now, before, now); kind == "" || newKind == ChangedPage {
		kind, replaced = newKind, replaced && kind != ""
	}
	if kind != "" {
		c.count(kind, replaced)
	}
}

// kindOf returns the kind of obj, an object of doc. other is the same object in
// the other revision. The kind is empty for nil, cross-reference streams and object
// streams.
func kindOf(doc *pdf.Document, other, obj pdf.Object) ChangeKind {
	switch v := obj.(type) {
	case nil:
		return ""
	case *pdf.Stream:
		switch doc.Name(v.Dict.Get("Type")) {
		case "XRef", "ObjStm":
			return ""
		case "Metadata":
			return ChangedMetadata
		}
		return ChangedStream
	case pdf.Array:
		return kindOfArray(doc, v)
	case *pdf.Dict:
		otherDict, _ := other.(*pdf.Dict)
		return kindOfDict(doc, otherDict, v)
	}
	return ChangedOther
}

func kindOfDict(doc *pdf.Document, other, dict *pdf.Dict) ChangeKind {
	kind := doc.Name(dict.Get("Type"))
	switch { // the order matters: an object can match several cases
	case kind == "Catalog" || dict.Has("Pages"):
		if other != nil && !equal(other.Get("Pages"), dict.Get("Pages"), 0) {
			return ChangedPage
		}
		return ChangedCatalog
	case kind == "Pages" || kind == "Page" || dict.Has("MediaBox"):
		if other != nil && onlyAnnotations(other, dict) {
			return ChangedAnnotation
		}
		return ChangedPage
	case kind == "Sig" || kind == "DocTimeStamp" || dict.Has("ByteRange") || doc.Name(dict.Get("FT")) == "Sig":
		return ChangedSignature
	case dict.Has("FT") || doc.Name(dict.Get("Subtype")) == "Widget" || dict.Has("Fields"):
		return ChangedForm
	case kind == "Annot":
		return ChangedAnnotation
	case dict.Has("Certs") || dict.Has("OCSPs") || dict.Has("VRI") || kind == "DSS" || kind == "VRI":
		return ChangedValidation
	}
	return ChangedOther
}

// kindOfArray returns the kind of an array that is an indirect object, usually a list
// of annotations, fields, pages or content streams.
func kindOfArray(doc *pdf.Document, list pdf.Array) ChangeKind {
	kind := ChangedOther
	for _, item := range list[:min(len(list), 16)] {
		if _, ok := doc.Resolve(item).(*pdf.Stream); ok {
			return ChangedStream
		}
		dict := doc.Dict(item)
		switch itemType := doc.Name(dict.Get("Type")); {
		case itemType == "Page" || itemType == "Pages" || dict.Has("Kids") && !dict.Has("FT") && !dict.Has("T"):
			return ChangedPage
		case itemType == "Annot" || dict.Has("Rect"):
			kind = ChangedAnnotation
		case dict.Has("FT") && kind == ChangedOther:
			kind = ChangedForm
		}
	}
	return kind
}

// onlyAnnotations reports whether two pages differ only in their annotations and
// their tab order.
func onlyAnnotations(before, now *pdf.Dict) bool {
	a, b := before.Clone(), now.Clone()
	for _, key := range []pdf.Name{"Annots", "Tabs"} {
		a.Delete(key)
		b.Delete(key)
	}
	return equal(a, b, 0)
}

// equal reports whether two direct objects are equal. Streams are never equal.
// Objects that exceed a limit count as different.
func equal(a, b pdf.Object, depth int) bool {
	if depth > maxNesting {
		return false
	}
	switch x := a.(type) {
	case *pdf.Dict:
		y, ok := b.(*pdf.Dict)
		if !ok || x.Len() > maxEntries || y.Len() > maxEntries {
			return false
		}
		for key := range y.All() { // a key can occur twice, so equal lengths do not imply equal keys
			if x.Has(key) != y.Has(key) {
				return false
			}
		}
		for key := range x.All() {
			if !equal(x.Get(key), y.Get(key), depth+1) {
				return false
			}
		}
		return true
	case pdf.Array:
		y, ok := b.(pdf.Array)
		return ok && slices.EqualFunc(x, y, func(a, b pdf.Object) bool { return equal(a, b, depth+1) })
	case *pdf.Stream:
		return false
	}
	switch b.(type) {
	case *pdf.Dict, pdf.Array, *pdf.Stream:
		return false
	}
	return a == b
}
