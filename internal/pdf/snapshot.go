package pdf

import "fmt"

// Snapshot contains the parts of a document that an update needs: its size, trailer,
// catalog and encryption. Unlike a Document, a Snapshot can be used by several
// goroutines at a time. It is for programs that write many updates of one document
// and know the references of the objects to replace.
type Snapshot struct {
	doc  Document
	next int
	last byte // the last byte of the file
}

// Snapshot returns a snapshot of the document. The error is ErrDamaged if other
// readers cannot use the cross-reference or the page tree of the document, because
// an update would have to replace them.
func (d *Document) Snapshot() (*Snapshot, error) {
	if d.FaultyPageTree() || d.repaired || d.lenient {
		return nil, fmt.Errorf("%w: an update must repair it", ErrDamaged)
	}
	last, err := d.src.window(d.src.size-1, 1)
	if err != nil {
		return nil, err
	}
	next := d.Update().next
	trailer := d.xref.trailer.Clone()
	if ids := d.Array(trailer.Get("ID")); len(ids) > 0 {
		trailer.Set("ID", Array{d.Resolve(ids[0])})
	}
	if d.src.err != nil {
		return nil, d.src.err
	}
	return &Snapshot{
		doc: Document{
			src:      &source{size: d.src.size},
			headerAt: d.headerAt, base: d.base,
			xref:  xref{trailer: trailer, start: d.xref.start, stream: d.xref.stream},
			crypt: d.crypt, cryptRef: d.cryptRef,
			catalog: d.catalog, catalogRef: d.catalogRef,
			frozen: true,
		},
		next: next, last: last[0],
	}, nil
}

// Update begins an incremental update of the document. The update cannot read the
// document: Resolve, Dict and Array return only objects of the update. The reference
// that is passed to Set must have the generation of the object in the document.
func (s *Snapshot) Update() *Update {
	return &Update{doc: &s.doc, snapshot: s, first: s.next, next: s.next, catalog: s.doc.catalogRef, objects: map[int]Object{}, refs: map[int]Ref{}, pages: map[int]Ref{}}
}
