package pades

import (
	"bytes"
	"io"
	"slices"

	"github.com/certvault/certvault/internal/pdf"
)

const (
	maxChangedBytes   = 32 << 20 // that are searched for objects
	maxChangedObjects = 1 << 14
)

// changes lists what kinds of objects were added or replaced behind a revision. It
// is for people: a changed file is known by other means.
func changes(r io.ReaderAt, revision, size int64, now *pdf.Document) ([]Change, error) {
	if size-revision > maxChangedBytes {
		return []Change{{Kind: ChangedOther}}, nil
	}
	text, err := window(r, revision, size, nil)
	if err != nil {
		return nil, err
	}
	before, err := pdf.Open(io.NewSectionReader(r, 0, revision), revision)
	if err != nil {
		return []Change{{Kind: ChangedOther}}, nil //nolint:nilerr // what it was cannot be told
	}
	counts := map[ChangeKind]*Change{}
	for _, number := range objectNumbers(text, now) {
		ref := pdf.Ref{Number: number}
		was, is := before.Object(ref), now.Object(ref)
		kind, ok := changedKind(now, was, is)
		if !ok {
			continue
		}
		if counts[kind] == nil {
			counts[kind] = &Change{Kind: kind}
		}
		if was == nil {
			counts[kind].Added++
		} else {
			counts[kind].Replaced++
		}
	}
	var out []Change
	for _, kind := range []ChangeKind{
		ChangedSignature, ChangedForm, ChangedAnnotation, ChangedPage, ChangedCatalog,
		ChangedMetadata, ChangedValidation, ChangedStream, ChangedOther,
	} {
		if c := counts[kind]; c != nil {
			out = append(out, *c)
		}
	}
	return out, nil
}

// objectNumbers lists the objects that stand in the text, those of object streams
// included. What looks like one within a stream is listed too.
func objectNumbers(text []byte, doc *pdf.Document) []int {
	var out []int
	for from := 0; len(out) < maxChangedObjects; {
		i := bytes.Index(text[from:], []byte(" obj"))
		if i < 0 {
			break
		}
		from += i + len(" obj")
		number, ok := objectNumber(text[:from-len("obj")])
		if !ok {
			continue
		}
		out = append(out, number)
		stream, ok := doc.Object(pdf.Ref{Number: number}).(*pdf.Stream)
		if ok && doc.Name(stream.Dict.Get("Type")) == "ObjStm" {
			out = append(out, packed(stream, doc)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// packed lists the objects of an object stream (7.5.7).
func packed(stream *pdf.Stream, doc *pdf.Document) []int {
	n, _ := doc.Int(stream.Dict.Get("N"))
	r, err := stream.Decoded()
	if err != nil {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(r, 1<<16))
	if err != nil {
		return nil
	}
	s := syntax{buf: head}
	var out []int
	for range min(n, maxChangedObjects) {
		number, err := s.object(0)
		if err != nil {
			break
		}
		if _, err := s.object(0); err != nil {
			break
		}
		if v, ok := number.integer(); ok && v < 1<<31 {
			out = append(out, int(v))
		}
	}
	return out
}

// changedKind tells what kind of object was changed. It is not ok when the object is
// part of the file structure alone, or was not changed at all.
func changedKind(doc *pdf.Document, was, is pdf.Object) (ChangeKind, bool) {
	if stream, ok := is.(*pdf.Stream); ok {
		switch doc.Name(stream.Dict.Get("Type")) {
		case "XRef", "ObjStm":
			return "", false
		case "Metadata":
			return ChangedMetadata, true
		}
		return ChangedStream, true
	}
	if equal(was, is, 0) {
		return "", false
	}
	dict, ok := is.(*pdf.Dict)
	if !ok {
		if list, ok := is.(pdf.Array); ok {
			return changedArray(doc, list), true
		}
		return ChangedOther, true
	}
	old, _ := was.(*pdf.Dict)
	kind := doc.Name(dict.Get("Type"))
	switch {
	case kind == "Sig" || kind == "DocTimeStamp" || dict.Has("ByteRange") || doc.Name(dict.Get("FT")) == "Sig":
		return ChangedSignature, true
	case dict.Has("FT") || doc.Name(dict.Get("Subtype")) == "Widget" || dict.Has("Fields"):
		return ChangedForm, true
	case kind == "Catalog":
		return ChangedCatalog, true
	case kind == "Pages" || kind == "Page" && !onlyAnnotations(old, dict):
		return ChangedPage, true
	case kind == "Annot" || kind == "Page":
		return ChangedAnnotation, true
	case dict.Has("Certs") || dict.Has("OCSPs") || dict.Has("VRI") || kind == "DSS" || kind == "VRI":
		return ChangedValidation, true
	}
	return ChangedOther, true
}

// changedArray tells what a list that is an object of its own is: mostly annotations or
// fields.
func changedArray(doc *pdf.Document, list pdf.Array) ChangeKind {
	for _, item := range list[:min(len(list), 16)] {
		dict := doc.Dict(item)
		if doc.Name(dict.Get("Type")) == "Annot" || dict.Has("Rect") {
			return ChangedAnnotation
		}
		if dict.Has("FT") {
			return ChangedForm
		}
	}
	return ChangedOther
}

// onlyAnnotations tells whether two pages differ in their annotations at most.
func onlyAnnotations(was, is *pdf.Dict) bool {
	if was == nil {
		return false
	}
	a, b := was.Clone(), is.Clone()
	for _, key := range []pdf.Name{"Annots", "Tabs"} {
		a.Delete(key)
		b.Delete(key)
	}
	return equal(a, b, 0)
}

// equal compares direct objects. Streams are never equal.
func equal(a, b pdf.Object, depth int) bool {
	if depth > maxNesting {
		return false
	}
	switch x := a.(type) {
	case *pdf.Dict:
		y, ok := b.(*pdf.Dict)
		if !ok || x.Len() != y.Len() {
			return false
		}
		for key, value := range x.All() {
			if !equal(value, y.Get(key), depth+1) {
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
