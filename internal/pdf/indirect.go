package pdf

import (
	"bytes"
	"errors"
	"fmt"
)

// indirect is an indirect object read from the file.
type indirect struct {
	ref   Ref
	obj   Object
	nodes int
	end   int64 // offset of the end of the object's text; for a stream, of the start of its data
}

var errObject = fmt.Errorf("%w: invalid object", ErrDamaged)

// parseWith calls parse with growing windows from offset until a window
// contains the whole text to parse.
func (d *Document) parseWith(offset int64, parse func(*lexer) error) error {
	if offset < 0 || offset >= d.src.size {
		return fmt.Errorf("%w: offset %d is outside the file", errObject, offset)
	}
	for n := chunkOverlap; ; n *= 8 {
		text, err := d.src.window(offset, n)
		if err != nil {
			return err
		}
		l := lexer{buf: text}
		err = parse(&l)
		if chargeErr := d.src.chargeParsed(&l, 0); chargeErr != nil {
			return chargeErr
		}
		if !l.short || offset+int64(len(text)) >= d.src.size {
			return err
		}
		if n > maxObjectSize {
			return fmt.Errorf("%w: an object is too large", ErrLimit)
		}
	}
}

// parseAt parses the direct object at an absolute offset.
func (d *Document) parseAt(offset int64) (obj Object, err error) {
	err = d.parseWith(offset, func(l *lexer) error {
		var err error
		obj, err = l.object(0, true)
		if errors.Is(err, errEnd) {
			return errObject
		}
		return err
	})
	return obj, err
}

// readIndirect parses "n g obj ..." (7.3.10) at an absolute offset. If want is
// not 0, the object must have that number. Strings remain encrypted. An object
// with an unclosed string or container at the end of the file counts as damaged,
// because appended bytes would continue the object.
func (d *Document) readIndirect(offset int64, want int) (in indirect, err error) {
	err = d.parseWith(offset, func(l *lexer) error {
		in, err = parseIndirect(l, want)
		in.end += offset
		if err == nil && l.open {
			return errObject
		}
		return err
	})
	if err != nil {
		return indirect{}, err
	}
	if s, ok := in.obj.(*Stream); ok {
		s.doc, s.ref, s.offset, s.length = d, in.ref, in.end, -1
	}
	return in, nil
}

// parseIndirect parses an indirect object. For a stream, it stops at the start of
// the data.
func parseIndirect(l *lexer, want int) (indirect, error) {
	number, ok1 := l.integer()
	if !ok1 || number <= 0 || number > maxNumber || want != 0 && number != int64(want) {
		return indirect{}, errObject
	}
	generation, ok2 := l.integer()
	l.skipSpace()
	if !ok2 || generation < 0 || !l.hasPrefix("obj") {
		return indirect{}, errObject
	}
	l.pos += len("obj")
	in := indirect{ref: Ref{int(number), int(min(generation, 65535))}}
	obj, err := l.object(0, true)
	if errors.Is(err, errEnd) {
		return in, errObject
	}
	if err != nil {
		return in, err
	}
	if _, ok := obj.(keyword); ok { // endobj: the object is empty
		obj = nil
	}
	in.obj, in.nodes, in.end = obj, l.nodes, int64(l.pos)
	dict, ok := obj.(*Dict)
	if !ok {
		return in, nil
	}
	l.skipSpace()
	if !l.hasPrefix("stream") {
		return in, nil
	}
	l.pos += len("stream")
	// The keyword is followed by CR LF or LF (7.3.8.1); viewers also accept a
	// single CR, and spaces after the keyword.
	for l.pos < len(l.buf) && l.buf[l.pos] == ' ' {
		l.pos++
	}
	if l.pos+2 > len(l.buf) {
		l.short = true
	}
	switch {
	case bytes.HasPrefix(l.buf[l.pos:], []byte("\r\n")):
		l.pos += 2
	case bytes.HasPrefix(l.buf[l.pos:], []byte("\r")), bytes.HasPrefix(l.buf[l.pos:], []byte("\n")):
		l.pos++
	}
	in.obj, in.end = &Stream{Dict: dict}, int64(l.pos)
	return in, nil
}
