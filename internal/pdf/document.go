package pdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
)

// Document is an open PDF file.
type Document struct {
	src      *source
	headerAt int64  // offset of the header; offsets in an update are relative to it
	base     int64  // offsets in the file are relative to it: headerAt, or 0
	header   string // version in the header

	xref          xref
	repaired      bool
	lenient       bool // some readers cannot use the cross-reference, although this package can
	maxReferenced int  // the highest object number in a reference, as far as known
	repairing     bool // Open or a repair is reading the file, so Object must not start a repair
	frozen        bool // the document must not be repaired, for example because an update has begun

	crypt    *crypt
	cryptRef int // object number of the encryption dictionary, whose strings are not encrypted

	objects map[int]Object
	loading map[int]bool
	nodes   int // number of parsed objects in the cache, including contained objects

	objectStreams map[int]*objectStream
	streamBytes   int // size of objectStreams in bytes

	catalog    *Dict
	catalogRef Ref
	first      *Page
	tree       *treeState // nil until the page tree is checked
}

// Open opens a file of size bytes. It reads the header, the end of the file, the
// cross-reference chain and the encryption dictionary, and finds the catalog and
// the first page. If the cross-reference is unusable, Open rebuilds it. Open
// returns an error of this package, or an error that wraps an error of r.
func Open(r io.ReaderAt, size int64) (*Document, error) {
	if size <= 0 {
		return nil, ErrEmpty
	}
	d := &Document{src: newSource(r, size)}
	isPDF, err := d.findHeader()
	if err != nil {
		return nil, err
	}
	err = d.openByXref()
	if err != nil && d.base > 0 && errors.Is(err, ErrDamaged) && d.src.err == nil {
		// Some writers count offsets from the beginning of the file and not from
		// the header. Some readers find no object in the files of these writers.
		d.base = 0
		if err = d.openByXref(); err == nil {
			d.lenient = true
		} else {
			d.base = d.headerAt
		}
	}
	if err == nil || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoPages) || d.src.err != nil {
		return d.openResult(err)
	}
	if !isPDF { // a file without a header is repaired only if it begins with a percent sign
		if text, err := d.src.window(0, 1); err != nil || string(text) != "%" {
			return nil, errors.Join(err, ErrNotPDF)
		}
	}
	return d.openResult(d.repair())
}

// openResult returns the results of Open. An error that src recorded takes
// precedence over err.
func (d *Document) openResult(err error) (*Document, error) {
	if d.src.err != nil {
		err = d.src.err
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// findHeader searches for the header (7.5.2) in the first 1024 bytes, as common
// viewers do. It reports whether there is a header.
func (d *Document) findHeader() (bool, error) {
	const header = 1024
	text, err := d.src.window(0, header+len("%!PS-Adobe-3.0 PDF-1.7"))
	if err != nil {
		return false, err
	}
	for _, mark := range []string{"%PDF-", "%!PS-Adobe-"} {
		i := bytes.Index(text, []byte(mark))
		if i < 0 || i >= header {
			continue
		}
		line := text[i+len(mark):]
		if j := bytes.IndexAny(line, "\r\n"); j >= 0 {
			line = line[:j]
		}
		if mark != "%PDF-" {
			j := bytes.Index(line, []byte("PDF-"))
			if j < 0 {
				continue
			}
			line = line[j+len("PDF-"):]
		}
		if len(line) >= 3 && isDigit(line[0]) && line[1] == '.' && isDigit(line[2]) {
			d.header = string(line[:3])
		}
		d.headerAt, d.base = int64(i), int64(i)
		return true, nil
	}
	return false, nil
}

// reset discards the cross-reference, the encryption, the page tree and the
// objects that were read.
func (d *Document) reset() {
	d.xref = xref{}
	d.crypt, d.cryptRef = nil, 0
	d.clearCaches()
	d.lenient, d.catalog, d.catalogRef, d.first, d.tree = false, nil, Ref{}, nil, nil
}

// clearCaches empties the caches of objects.
func (d *Document) clearCaches() {
	d.objects = make(map[int]Object)
	d.loading = make(map[int]bool)
	d.objectStreams = make(map[int]*objectStream)
	d.nodes, d.streamBytes = 0, 0
}

// openByXref reads the file through its cross-reference.
func (d *Document) openByXref() error {
	d.reset()
	d.repairing = true // Object must not repair the file, because Open repairs it if openByXref fails
	defer func() { d.repairing = false }()
	if err := d.loadXref(); err != nil {
		return err
	}
	return d.start()
}

// start sets up the encryption and finds the catalog and the first page.
func (d *Document) start() error {
	if err := d.startCrypt(); err != nil {
		return err
	}
	catalog, ok := d.Resolve(d.xref.trailer.Get("Root")).(*Dict)
	if !ok || !catalog.Has("Pages") {
		return fmt.Errorf("%w: no catalog", ErrDamaged)
	}
	d.catalog = catalog
	if ref, ok := d.xref.trailer.Get("Root").(Ref); ok {
		d.catalogRef = d.currentRef(ref)
	}
	first, err := d.Page(0)
	if err != nil {
		return err
	}
	d.first = first
	return nil
}

// currentRef returns ref with the object's generation in the file.
func (d *Document) currentRef(ref Ref) Ref {
	e, err := d.lookup(ref.Number)
	if err != nil {
		return Ref{Number: ref.Number}
	}
	return Ref{ref.Number, e.generation}
}

// Size returns the length of the file in bytes.
func (d *Document) Size() int64 { return d.src.size }

// HeaderOffset returns the number of bytes before the header.
func (d *Document) HeaderOffset() int64 { return d.headerAt }

// Version returns the later of the versions in the header and in the catalog,
// such as "1.7". It does not check whether the version in the catalog is valid. It
// returns "" if there is no version.
func (d *Document) Version() string {
	return max(d.header, string(d.Name(d.catalog.Get("Version"))))
}

// Trailer returns the trailer dictionary, which may be the dictionary of a
// cross-reference stream. The dictionary is shared: do not change it.
func (d *Document) Trailer() *Dict { return d.xref.trailer }

// Catalog returns the document catalog (7.7.2) and its reference. The reference
// is zero if the catalog is a direct object of the trailer or was created by a
// repair.
func (d *Document) Catalog() (*Dict, Ref) { return d.catalog, d.catalogRef }

// Repaired reports whether the cross-reference was unusable and was rebuilt.
func (d *Document) Repaired() bool { return d.repaired }

// Err returns the first error because of which objects may have been read as null,
// or pages may not have been counted: an error of the reader, or ErrLimit. If Err
// is not nil, an Update of the document fails.
func (d *Document) Err() error { return d.src.err }

// maxHops is the maximum length of a chain of references to references.
const maxHops = 32

// Resolve follows references until it reaches a direct object. A missing or
// unreadable object and a loop resolve to null; see Err.
func (d *Document) Resolve(obj Object) Object {
	for range maxHops {
		ref, ok := obj.(Ref)
		if !ok {
			return obj
		}
		obj = d.Object(ref)
	}
	return nil
}

// Object returns the object that ref refers to. It returns nil if the object is
// missing or cannot be read; see Err. If the object is not at its offset, Object
// tries to repair the document. Object does not compare the generations of ref and
// of the object, because viewers show a file in which these generations differ.
func (d *Document) Object(ref Ref) Object {
	number := ref.Number
	if obj, ok := d.objects[number]; ok {
		return obj
	}
	if number <= 0 || d.loading[number] {
		return nil
	}
	d.loading[number] = true
	obj, nodes, err := d.readObject(number)
	delete(d.loading, number)
	if err != nil {
		if errors.Is(err, ErrDamaged) && d.repairLate() {
			return d.Object(ref)
		}
		if !errors.Is(err, ErrDamaged) {
			_ = d.src.fail(err)
		}
		obj = nil
	}
	if d.nodes += nodes + 1; d.nodes > maxCached {
		clear(d.objects)
		d.nodes = nodes + 1
	}
	d.objects[number] = obj
	return obj
}

// repairLate rebuilds the cross-reference after an object was not found at its
// offset, and reports whether the repair succeeded. If the repair fails, the
// document stays as it was and is never repaired again.
func (d *Document) repairLate() bool {
	if d.repaired || d.repairing || d.frozen {
		return false
	}
	before := *d
	if err := d.repair(); err != nil {
		*d = before
		d.frozen = true
		return false
	}
	return true
}

// readObject reads an object from the file or from its object stream. It also
// returns the number of objects that were parsed.
func (d *Document) readObject(number int) (Object, int, error) {
	e, err := d.lookup(number)
	if err != nil {
		return nil, 0, err
	}
	switch e.kind {
	case entryInFile:
		if e.offset == 0 && d.base == 0 { // some writers use offset 0 for a free object
			return nil, 0, nil
		}
		in, err := d.readIndirect(e.offset+d.base, number)
		if err != nil {
			return nil, 0, err
		}
		if d.crypt != nil && number != d.cryptRef {
			in.obj = d.crypt.decryptStrings(in.obj, in.ref)
		}
		return in.obj, in.nodes, nil
	case entryInStream:
		s, err := d.objectStream(e.stream)
		if err != nil {
			return nil, 0, err
		}
		return d.objectOf(s, number, e.index)
	case entryFree:
	}
	return nil, 0, nil
}

// Dict resolves obj and returns the dictionary, or the dictionary of the stream. If
// obj is neither, Dict returns nil, which is treated as an empty dictionary.
func (d *Document) Dict(obj Object) *Dict { return asDict(d.Resolve(obj)) }

func asDict(obj Object) *Dict {
	switch v := obj.(type) {
	case *Dict:
		return v
	case *Stream:
		return v.Dict
	}
	return nil
}

// Array resolves obj and returns it as an array. It returns nil if obj is not an
// array.
func (d *Document) Array(obj Object) Array {
	a, _ := d.Resolve(obj).(Array)
	return a
}

// Name resolves obj and returns it as a name. It returns "" if obj is not a name.
func (d *Document) Name(obj Object) Name {
	n, _ := d.Resolve(obj).(Name)
	return n
}

// Text resolves obj and returns the text string (7.9.2.2) as UTF-8. It returns ""
// if obj is not a string.
func (d *Document) Text(obj Object) string {
	s, _ := d.Resolve(obj).(String)
	return s.Text()
}

// Int resolves obj and returns it as an integer. A real number is truncated. Int
// reports false if obj is not a number or is too large.
func (d *Document) Int(obj Object) (int, bool) {
	switch v := d.Resolve(obj).(type) {
	case Integer:
		return int(v), true
	case Real:
		if f := v.Float64(); math.Abs(f) < 1<<53 {
			return int(f), true
		}
	}
	return 0, false
}

// Float resolves obj and returns it as a number. It reports false if obj is not a
// finite number.
func (d *Document) Float(obj Object) (float64, bool) {
	switch v := d.Resolve(obj).(type) {
	case Integer:
		return float64(v), true
	case Real:
		f := v.Float64()
		return f, !math.IsInf(f, 0) && !math.IsNaN(f)
	}
	return 0, false
}
