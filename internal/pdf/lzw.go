package pdf

import (
	"bufio"
	"io"
)

// Codes of LZWDecode (7.4.4.2).
const (
	lzwClear    = 256
	lzwEnd      = 257
	lzwFirst    = 258
	lzwMaxWidth = 12
)

// lzwReader decodes LZWDecode. Damaged data ends early without an error.
type lzwReader struct {
	in    *bufio.Reader
	early int // 1 if the code width increases one code early, otherwise 0

	bits  uint32
	nbits uint

	width    uint
	next     int // the next code to assign
	previous int // the previous code, or -1 after a clear code
	prefix   [1 << lzwMaxWidth]uint16
	suffix   [1 << lzwMaxWidth]byte

	stack  [1 << lzwMaxWidth]byte
	unread []byte // decoded bytes that are not yet read
	err    error
}

func newLZWReader(in *bufio.Reader, early bool) *lzwReader {
	r := &lzwReader{in: in}
	if early {
		r.early = 1
	}
	r.clear()
	return r
}

func (r *lzwReader) clear() { r.width, r.next, r.previous = 9, lzwFirst, -1 }

func (r *lzwReader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(r.unread) == 0 {
			if r.err != nil {
				return n, r.err
			}
			r.step()
			continue
		}
		copied := copy(p[n:], r.unread)
		r.unread = r.unread[copied:]
		n += copied
	}
	return n, nil
}

// step decodes one code.
func (r *lzwReader) step() {
	for r.nbits < r.width {
		c, err := r.in.ReadByte()
		if err != nil {
			r.err = eofIfTruncated(err)
			return
		}
		r.bits = r.bits<<8 | uint32(c)
		r.nbits += 8
	}
	r.nbits -= r.width
	code := int(r.bits >> r.nbits & (1<<r.width - 1))
	switch {
	case code == lzwClear:
		r.clear()
		return
	case code == lzwEnd, code > r.next, code == r.next && r.previous < 0:
		r.err = io.EOF
		return
	}
	at := len(r.stack)
	c := code
	if code == r.next { // the string of the previous code followed by its first byte
		at--
		c = r.previous
	}
	for c >= lzwFirst && at > 1 {
		at--
		r.stack[at] = r.suffix[c]
		c = int(r.prefix[c])
	}
	at--
	r.stack[at] = byte(c) //nolint:gosec // below 256 here
	if code == r.next {
		r.stack[len(r.stack)-1] = byte(c) //nolint:gosec // as above
	}
	r.unread = r.stack[at:]
	if r.previous >= 0 && r.next < len(r.prefix) {
		r.prefix[r.next] = uint16(r.previous) //nolint:gosec // below 4096
		r.suffix[r.next] = byte(c)            //nolint:gosec // as above
		r.next++
		if r.next+r.early >= 1<<r.width && r.width < lzwMaxWidth {
			r.width++
		}
	}
	r.previous = code
}
