package pdf

import (
	"errors"
	"fmt"
	"slices"
)

// objectStream is a decoded object stream (7.5.7).
type objectStream struct {
	data    []byte
	numbers []int
	offsets []int // offsets of the objects in data
}

// objectStream returns the decoded object stream with the given number. It caches
// object streams of up to maxDecoded bytes in total.
func (d *Document) objectStream(number int) (*objectStream, error) {
	if s, ok := d.objectStreams[number]; ok {
		return s, nil
	}
	if e, err := d.lookup(number); err != nil || e.kind != entryInFile {
		return nil, errors.Join(err, fmt.Errorf("%w: no object stream", errObject))
	}
	stream, ok := d.Object(Ref{Number: number}).(*Stream)
	if !ok {
		return nil, fmt.Errorf("%w: no object stream", errObject)
	}
	data, err := d.decodeAll(stream)
	if err != nil {
		return nil, err
	}
	s := &objectStream{data: data}
	count, _ := d.Int(stream.Dict.Get("N"))
	first, _ := d.Int(stream.Dict.Get("First"))
	s.readHeader(count, first)
	if d.streamBytes += len(data); d.streamBytes > maxDecoded {
		clear(d.objectStreams)
		d.streamBytes = len(data)
	}
	d.objectStreams[number] = s
	return s, nil
}

// readHeader parses up to count pairs of object number and offset. It stops at the
// first pair that is not two integers. The object number of a pair with an invalid
// number or offset becomes 0.
func (s *objectStream) readHeader(count, first int) {
	if first < 0 || first > len(s.data) {
		return
	}
	l := lexer{buf: s.data[:first]}
	for range count {
		number, ok1 := l.integer()
		offset, ok2 := l.integer()
		if !ok1 || !ok2 {
			return
		}
		if number <= 0 || number > maxNumber || offset < 0 || offset > int64(len(s.data)-first) {
			number, offset = 0, 0
		}
		s.numbers = append(s.numbers, int(number))
		s.offsets = append(s.offsets, first+int(offset))
	}
}

// objectOf parses the object with the given number. If the object is not at index,
// objectOf searches for its number.
func (d *Document) objectOf(s *objectStream, number, index int) (Object, int, error) {
	if index >= len(s.numbers) || s.numbers[index] != number {
		if err := d.src.charge(int64(len(s.numbers) / 4)); err != nil {
			return nil, 0, err
		}
		if index = slices.Index(s.numbers, number); index < 0 {
			return nil, 0, fmt.Errorf("%w: it is not in its object stream", errObject)
		}
	}
	l := lexer{buf: s.data, pos: s.offsets[index]}
	obj, err := l.object(0, true)
	if chargeErr := d.src.chargeParsed(&l, s.offsets[index]); chargeErr != nil {
		return nil, 0, chargeErr
	}
	if errors.Is(err, errEnd) {
		return nil, 0, fmt.Errorf("%w: its object stream ends before it", errObject)
	}
	if err != nil {
		return nil, 0, err
	}
	if _, ok := obj.(keyword); ok {
		obj = nil
	}
	return obj, l.nodes, nil
}
