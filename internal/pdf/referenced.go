package pdf

import (
	"bytes"
	"errors"
)

const (
	// maxReference is the highest object number in a reference that affects the
	// numbers of new objects. It leaves room for new objects below 4,194,304, the
	// highest object number of PDFium.
	maxReference = maxNumber/2 - 1000
	// References of up to referenceLength bytes are found. A usual reference is
	// shorter, such as "8388607 65535 R" with a few spaces.
	referenceLength = 64
)

// AvoidReferenced ensures that in later updates, new objects have numbers above
// those in all references of the file. Otherwise, a new object could become the
// target of a reference to a missing object. AvoidReferenced ignores numbers above
// maxReference. It returns only errors of the reader.
//
// AvoidReferenced reads the whole file, but does not parse the objects: it
// searches the bytes of the file and of the decoded object streams. Other bytes
// that look like a reference count too, which leaves numbers unused but is
// harmless. An object stream that cannot be decoded is skipped, because viewers
// cannot read its references either.
func (d *Document) AvoidReferenced() error {
	buf := make([]byte, min(scanWindow, d.src.size))
	for at := int64(0); at < d.src.size; at += scanWindow - referenceLength {
		text, err := d.src.readInto(buf[:min(int64(len(buf)), d.src.size-at)], at)
		if err != nil {
			return err
		}
		d.maxReferenced = max(d.maxReferenced, highestIn(text))
	}
	// The search of object streams has its own limit of work and starts no repair,
	// so that it does not change how the document is read.
	work, failure, frozen := d.src.work, d.src.err, d.frozen
	d.src.work, d.frozen = 0, true
	for number := range d.objectStreamNumbers() {
		if s, err := d.objectStream(number); err == nil {
			d.maxReferenced = max(d.maxReferenced, highestIn(s.data))
		}
		if d.src.err != nil && !errors.Is(d.src.err, ErrLimit) {
			return d.src.err
		}
	}
	if d.src.err != nil && failure == nil {
		d.clearCaches() // the caches contain null for objects beyond the limit
	}
	d.src.work, d.src.err, d.frozen = work, failure, frozen
	return nil
}

// objectStreamNumbers returns the numbers of the object streams to which the
// cross-reference refers.
func (d *Document) objectStreamNumbers() map[int]bool {
	numbers := map[int]bool{}
	for _, section := range d.xref.sections {
		for _, sub := range section.subsections {
			if sub.stride > 0 {
				continue // a table has no objects in streams
			}
			for i := range sub.count {
				if e, err := d.entryAt(&sub, i); err == nil && e.kind == entryInStream {
					numbers[e.stream] = true
				}
			}
		}
	}
	return numbers
}

// highestIn returns the highest object number up to maxReference in the
// references in text, or 0 if there are none.
func highestIn(text []byte) int {
	highest := 0
	for from := 0; ; {
		i := bytes.IndexByte(text[from:], 'R')
		if i < 0 {
			return highest
		}
		from += i + 1
		if from < len(text) && isRegular(text[from]) {
			continue
		}
		// The number, the generation and white space precede R (7.3.10).
		rest, generation := lastNumber(text[max(0, from-1-referenceLength) : from-1])
		if generation == nil {
			continue
		}
		if _, digits := lastNumber(rest); digits != nil {
			if n, ok := parseInt(digits); ok && n <= maxReference {
				highest = max(highest, int(n))
			}
		}
	}
}

// lastNumber returns the digits before the white space at the end of text, and the
// text before the digits. Both are nil if text does not end with digits and white
// space.
func lastNumber(text []byte) (before, digits []byte) {
	end := len(text)
	for end > 0 && isSpace(text[end-1]) {
		end--
	}
	start := end
	for start > 0 && isDigit(text[start-1]) {
		start--
	}
	if end == len(text) || start == end {
		return nil, nil
	}
	return text[:start], text[start:end]
}
