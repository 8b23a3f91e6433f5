package pades

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// signatureDict is a signature dictionary in the bytes of a file. Its byte
// range omits exactly its own /Contents.
type signatureDict struct {
	number     int      // of the indirect object that contains it
	ranges     [4]int64 // /ByteRange
	dict       node
	text       []byte // the bytes to which the offsets in dict refer
	value      []byte // value of /Contents
	paddingErr error  // error of the hexadecimal form or of the padding of the value, or nil
	cms        []byte // the value of /Contents without padding, in DER
	isBER      bool   // the value is BER and not DER
}

// end returns the end of the revision that the signature covers.
func (f *signatureDict) end() int64 { return f.ranges[2] + f.ranges[3] }

// Limits of the search.
const (
	scanChunk     = 1 << 20
	maxHits       = 1 << 12 // occurrences of the key /ByteRange
	maxDictionary = 64 << 10
	maxContents   = 2*maxCMS + 2
	maxBacktracks = 8 // attempts to find the beginning of the object
	maxFound      = 64
	// maxScanWork limits the bytes that are read and parsed around all occurrences of /ByteRange. The
	// same bytes may be parsed for many occurrences, so a file of 2 MB could take an hour without this limit.
	maxScanWork = 256 << 20
	nodeWork    = 256 // cost of a parsed object in bytes
)

var byteRangeKey = []byte("/ByteRange")

// scanner searches for signature dictionaries.
type scanner struct {
	r    io.ReaderAt
	size int64
	work int
}

// scan finds the signature dictionaries of a file. complete is false if a limit
// ended the search.
func scan(r io.ReaderAt, size int64) (list []signatureDict, complete bool, err error) {
	search := scanner{r: r, size: size}
	buf := make([]byte, min(scanChunk+int64(len(byteRangeKey)), max(size, 0)))
	hits := 0
	for at := int64(0); at < size; at += scanChunk {
		chunk, err := window(r, at, min(at+scanChunk+int64(len(byteRangeKey)), size), buf)
		if err != nil {
			return nil, false, err
		}
		for from := 0; ; {
			i := bytes.Index(chunk[from:], byteRangeKey)
			if i < 0 || from+i >= scanChunk { // the next chunk contains this occurrence
				break
			}
			from += i
			if hits++; hits > maxHits {
				return list, false, nil
			}
			f, ok, err := search.inspect(at + int64(from))
			if err != nil {
				return nil, false, err
			}
			if search.work > maxScanWork {
				return list, false, nil
			}
			if ok {
				if list = append(list, f); len(list) > maxFound {
					return list, false, nil
				}
			}
			from += len(byteRangeKey)
		}
	}
	return list, true, nil
}

// window reads the bytes between two offsets, into buf if they fit.
func window(r io.ReaderAt, from, to int64, buf []byte) ([]byte, error) {
	from = max(from, 0)
	if n := to - from; n > int64(len(buf)) {
		buf = make([]byte, n)
	}
	buf = buf[:to-from]
	if n, err := r.ReadAt(buf, from); n < len(buf) {
		if err == nil || err == io.EOF { // ReadAt returns io.EOF unwrapped
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading %d bytes at offset %d: %w", len(buf), from, err)
	}
	return buf, nil
}

// inspect parses the dictionary that has the key /ByteRange at an offset. ok is false
// if there is no such dictionary, or if its /Contents does not exactly fill the gap of
// the byte range. The latter is the case for a signature of an attached file.
func (c *scanner) inspect(at int64) (f signatureDict, ok bool, err error) {
	value, err := window(c.r, at, min(at+256, c.size), nil)
	if err != nil {
		return f, false, err
	}
	s := syntax{buf: value, at: len(byteRangeKey)}
	array, err := s.object(0)
	if err != nil || !f.readRanges(&array, c.size) {
		return f, false, nil //nolint:nilerr // it is not a byte range
	}
	gap, until := f.ranges[1], f.ranges[2]
	if until-gap > maxContents || at > until+maxDictionary || at < gap-maxDictionary {
		return f, false, nil
	}
	base := max(0, min(at, gap)-maxDictionary)
	if f.text, err = window(c.r, base, min(max(at, until)+maxDictionary, c.size), nil); err != nil {
		return f, false, err
	}
	c.work += len(f.text)
	before := f.text[:min(at, gap)-base]
	for range maxBacktracks {
		if c.work > maxScanWork {
			break
		}
		i := bytes.LastIndex(before, []byte("obj"))
		if i < 0 {
			break
		}
		before = before[:i]
		if c.readObject(&f, i, int(at-base)) && f.readContents(int(gap-base), int(until-base)) {
			return f, true, nil
		}
	}
	return f, false, nil
}

// readRanges sets the byte range and reports whether it has two valid parts: the
// first part begins at the start of the file, and the second part is after the
// first part and within the file.
func (f *signatureDict) readRanges(array *node, size int64) bool {
	if array.kind != kindArray || len(array.items) != len(f.ranges) {
		return false
	}
	for i := range array.items {
		v, ok := array.items[i].integer()
		if !ok {
			return false
		}
		f.ranges[i] = v
	}
	return f.ranges[0] == 0 && f.ranges[1] > 0 && f.ranges[1] < f.ranges[2] && f.ranges[2] <= size && f.ranges[3] <= size-f.ranges[2]
}

// readObject parses the indirect object whose keyword obj is at i, and reports
// whether a dictionary in the object has the key at offset at.
func (c *scanner) readObject(f *signatureDict, i, at int) bool {
	number, ok := objectNumber(f.text[:i])
	if !ok {
		return false
	}
	s := syntax{buf: f.text, at: i + len("obj")}
	object, err := s.object(0)
	c.work += s.at - i + nodeWork*s.nodes
	if err != nil {
		return false
	}
	f.number = number
	return f.within(&object, at)
}

// objectNumber returns the object number if text ends with an object number and a generation number
// (7.3.10).
func objectNumber(text []byte) (int, bool) {
	fields := bytes.FieldsFunc(text[max(0, len(text)-32):], func(r rune) bool { return strings.ContainsRune(" \n\r\t\f\x00", r) })
	if len(fields) < 2 {
		return 0, false
	}
	if _, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 16); err != nil {
		return 0, false
	}
	digits := fields[len(fields)-2]
	for i := len(digits); i > 0; i-- { // after a delimiter, white space is optional
		if c := digits[i-1]; c < '0' || c > '9' {
			digits = digits[i:]
			break
		}
	}
	number, err := strconv.ParseUint(string(digits), 10, 31)
	return int(number), err == nil && number > 0
}

// within sets f.dict to the dictionary in n that has a key at an offset, and reports whether there
// is such a dictionary.
func (f *signatureDict) within(n *node, at int) bool {
	if at < n.start || at >= n.end {
		return false
	}
	for i := range n.keys {
		if n.keys[i].start == at {
			f.dict = *n
			return true
		}
	}
	for i := range n.items {
		if f.within(&n.items[i], at) {
			return true
		}
	}
	return false
}

// readContents reads the value of /Contents, and reports whether the value exactly fills the gap of
// the byte range.
func (f *signatureDict) readContents(from, to int) bool {
	v, ok := f.dict.get("Contents")
	if !ok || v.kind != kindHex || v.start != from || v.end != to {
		return false
	}
	digits := f.text[from+1 : to-1]
	f.value = make([]byte, len(digits)/2)
	if _, err := hex.Decode(f.value, digits); err != nil {
		f.paddingErr = errHex
		return true
	}
	if bytes.ContainsAny(digits, "abcdef") && bytes.ContainsAny(digits, "ABCDEF") {
		f.paddingErr = errHex
	}
	cms, rest, err := fromBER(f.value, 0)
	if err != nil || len(bytes.Trim(rest, "\x00")) > 0 {
		f.paddingErr = errPadding
	}
	f.cms = cms
	f.isBER = !bytes.Equal(cms, f.value[:len(f.value)-len(rest)])
	return true
}

// These errors report bytes in /Contents that no signature covers and that differ from the only
// accepted form.
var (
	errHex     = fmt.Errorf("%w: the hexadecimal string of the signature is not canonical", errSyntax)
	errPadding = fmt.Errorf("%w: the value of the signature cannot be parsed, or data follows it", errSyntax)
)

// endsRevision reports whether a revision may end at an offset: after %%EOF and
// optional white space.
func endsRevision(r io.ReaderAt, end int64) (bool, error) {
	tail, err := window(r, end-16, end, nil)
	if err != nil {
		return false, err
	}
	return bytes.HasSuffix(bytes.TrimRight(tail, " \r\n"), []byte("%%EOF")), nil
}
