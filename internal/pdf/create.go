package pdf

import "io"

// Writer writes a new PDF 1.7 file sequentially. It stops at the first
// error, which Close returns.
type Writer struct {
	s    *serializer
	next int
}

// NewWriter writes the header of a new file to w and returns a Writer for the
// rest of the file.
func NewWriter(w io.Writer) *Writer {
	s := newSerializer(w, 0, nil)
	// The comment marks the file as binary (7.5.2).
	s.buf = append(s.buf, "%PDF-1.7\n%\xE2\xE3\xCF\xD3\n"...)
	s.flush()
	return &Writer{s: s, next: 1}
}

// Reserve returns the reference of an object that the caller writes later with
// Set.
func (w *Writer) Reserve() Ref {
	ref := Ref{Number: w.next}
	w.next++
	return ref
}

// Add writes obj as a new indirect object.
func (w *Writer) Add(obj Object) Ref {
	ref := w.Reserve()
	w.Set(ref, obj)
	return ref
}

// Set writes obj as the indirect object of a reserved reference.
func (w *Writer) Set(ref Ref, obj Object) { w.s.indirect(ref, obj) }

// Written returns the number of bytes written so far.
func (w *Writer) Written() int64 { return w.s.written }

// Err returns the first error.
func (w *Writer) Err() error { return w.s.err }

// Close writes the cross-reference table and the trailer. The trailer refers to root,
// the catalog, and to info, the document information dictionary, unless info is
// the zero Ref. Reserved objects that were never set are null. Close returns the
// first error of the Writer.
func (w *Writer) Close(root, info Ref) error {
	entries := []numberedEntry{{0, entry{generation: 65535}}}
	for _, e := range w.s.entries {
		entries = append(entries, numberedEntry{e.ref.Number, entry{kind: entryInFile, offset: e.offset}})
	}
	identifier := w.s.fileIdentifier()
	trailer := NewDict(Entry{"Root", root}, Entry{"ID", Array{identifier, identifier}})
	if info != (Ref{}) {
		trailer.Set("Info", info)
	}
	w.s.writeXref(entries, trailer, 0, w.next, Ref{})
	return w.s.err
}
