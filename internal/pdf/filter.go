package pdf

import (
	"bufio"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxFilters is the maximum number of filters of a stream.
const maxFilters = 16

// filter is a filter of a stream (7.4) with its parameters.
type filter struct {
	name  Name
	parms *Dict
}

// filters returns the filters of a stream in the order of decoding.
func (d *Document) filters(dict *Dict) ([]filter, error) {
	value, parms := d.Resolve(dict.Get("Filter")), d.Resolve(dict.Get("DecodeParms"))
	names, ok := value.(Array)
	if !ok {
		if value == nil {
			return nil, nil
		}
		names = Array{value}
	}
	if len(names) > maxFilters {
		return nil, fmt.Errorf("%w: too many filters", ErrLimit)
	}
	list, ok := parms.(Array)
	if !ok {
		list = Array{parms}
	}
	out := make([]filter, 0, len(names))
	for i, name := range names {
		f := filter{name: d.Name(name)}
		if i < len(list) {
			f.parms = d.Dict(list[i])
		}
		out = append(out, f)
	}
	return out, nil
}

// decoder returns a reader of the decoded data of a stream of the document.
func (d *Document) decoder(s *Stream) (io.Reader, error) {
	filters, err := d.filters(s.Dict)
	if err != nil {
		return nil, err
	}
	in, err := d.rawReader(s)
	if err != nil {
		return nil, err
	}
	var out io.Reader = &limitedReader{r: in, src: d.src, left: maxDecoded}
	for i, f := range filters {
		if i > 0 {
			in = bufio.NewReaderSize(out, chunkOverlap)
		}
		decoded, err := d.decode(f, in)
		if err != nil {
			return nil, err
		}
		out = &limitedReader{r: decoded, src: d.src, left: maxDecoded}
	}
	return out, nil
}

// decode returns a reader that decodes the data of in with one filter. It accepts
// the abbreviations of inline images (8.9.7), as viewers do in all streams.
func (d *Document) decode(f filter, in *bufio.Reader) (io.Reader, error) {
	switch f.name {
	case "FlateDecode", "Fl":
		return d.predict(newFlateReader(in), f.parms)
	case "LZWDecode", "LZW":
		early, ok := d.Int(f.parms.Get("EarlyChange"))
		return d.predict(newLZWReader(in, !ok || early != 0), f.parms)
	case "ASCIIHexDecode", "AHx":
		return &asciiHexReader{in: in}, nil
	case "ASCII85Decode", "A85":
		return &ascii85Reader{in: in}, nil
	case "RunLengthDecode", "RL":
		return &runLengthReader{in: in}, nil
	case "Crypt": // rawReader decrypts the data
		return in, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrFilter, f.name)
}

// decodeAll returns the decoded data of an object stream or a cross-reference
// stream. A stream with an image filter or an unknown filter counts as damaged.
func (d *Document) decodeAll(s *Stream) ([]byte, error) {
	r, err := d.decoder(s)
	if err == nil {
		buf := make([]byte, 0, min(4*s.length, 1<<20)+512)
		for err == nil {
			if len(buf) == cap(buf) { // do not double the buffer beyond the limit
				buf = append(make([]byte, 0, min(2*cap(buf), maxDecoded+chunkSize)), buf...)
			}
			var n int
			n, err = r.Read(buf[len(buf):cap(buf)])
			buf = buf[:len(buf)+n]
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
	}
	if errors.Is(err, ErrFilter) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil, err
}

// limitedReader reads from r and charges the bytes to src. It returns ErrLimit if r
// has more than left bytes, or if src exceeds its limit of work.
type limitedReader struct {
	r    io.Reader
	src  *source
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%w: a stream decodes to more than %d MiB", ErrLimit, maxDecoded>>20)
	}
	if chargeErr := l.src.charge(int64(n)); chargeErr != nil {
		return 0, chargeErr
	}
	return n, err
}

// flateReader decodes FlateDecode (7.4.4). Damaged or truncated data ends early
// without an error, and the checksum is ignored.
type flateReader struct {
	in      *bufio.Reader
	inflate io.ReadCloser
	err     error
}

var inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

func newFlateReader(in *bufio.Reader) *flateReader { return &flateReader{in: in} }

func (f *flateReader) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if f.inflate == nil {
		f.skipHeader()
		f.inflate = inflaters.Get().(io.ReadCloser)                         //nolint:forcetypeassert,errcheck // the pool has only this type
		if err := f.inflate.(flate.Resetter).Reset(f.in, nil); err != nil { //nolint:errcheck // documented by package flate
			f.err = err
			return 0, err
		}
	}
	n, err := f.inflate.Read(p)
	if err != nil {
		var corrupt flate.CorruptInputError
		if errors.As(err, &corrupt) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		f.err = err
		inflaters.Put(f.inflate)
		f.inflate = nil
	}
	return n, err
}

// skipHeader skips line ends and the zlib header (RFC 1950, 2.2) after them, even
// if the check bits of the header are wrong. Data without a header is read as raw
// deflate data.
func (f *flateReader) skipHeader() {
	for {
		head, err := f.in.Peek(2)
		if err != nil {
			return
		}
		if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			_, _ = f.in.Discard(2)
			return
		}
		if head[0] != '\r' && head[0] != '\n' {
			if head[0]&0x0f == 8 && head[0]>>4 <= 7 {
				_, _ = f.in.Discard(2)
			}
			return
		}
		_, _ = f.in.Discard(1)
	}
}

// eofIfTruncated returns io.EOF if err is io.ErrUnexpectedEOF, because truncated
// data must end without an error. It returns other errors unchanged.
func eofIfTruncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// asciiHexReader decodes ASCIIHexDecode (7.4.2).
type asciiHexReader struct {
	in   *bufio.Reader
	done bool
}

func (a *asciiHexReader) Read(p []byte) (int, error) {
	for n := 0; ; n++ {
		if a.done {
			return n, io.EOF
		}
		if n == len(p) {
			return n, nil
		}
		value, digits := 0, 0
		for digits < 2 {
			c, err := a.in.ReadByte()
			if err != nil && !errors.Is(err, io.EOF) {
				return n, err
			}
			if err != nil || c == '>' {
				a.done = true
				break
			}
			if v := hexDigit(c); v >= 0 {
				value = value<<4 | v
				digits++
			}
		}
		switch digits {
		case 0:
			return n, io.EOF
		case 1:
			value <<= 4
		}
		p[n] = byte(value)
	}
}

// ascii85Reader decodes ASCII85Decode (7.4.3).
type ascii85Reader struct {
	in     *bufio.Reader
	out    [4]byte
	unread []byte // decoded bytes that are not yet read
	done   bool
}

func (a *ascii85Reader) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(a.unread) == 0 {
			if a.done {
				return n, io.EOF
			}
			if err := a.group(); err != nil {
				return n, err
			}
			continue
		}
		copied := copy(p[n:], a.unread)
		a.unread = a.unread[copied:]
		n += copied
	}
	return n, nil
}

// group decodes the next group: five characters, a single z, or fewer characters
// at the end.
func (a *ascii85Reader) group() error {
	var value uint32
	digits := 0
	for digits < 5 {
		c, err := a.in.ReadByte()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil || c == '~' {
			a.done = true
			break
		}
		switch {
		case c == 'z' && digits == 0:
			a.out = [4]byte{}
			a.unread = a.out[:]
			return nil
		case c >= '!' && c <= 'u':
			value = value*85 + uint32(c-'!')
			digits++
		}
	}
	if digits < 2 {
		return nil
	}
	for i := digits; i < 5; i++ {
		value = value*85 + 84
	}
	a.out = [4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)} //nolint:gosec // single bytes of value
	a.unread = a.out[:digits-1]
	return nil
}

// runLengthReader decodes RunLengthDecode (7.4.5).
type runLengthReader struct {
	in     *bufio.Reader
	left   int // bytes left in the run
	repeat bool
	value  byte
}

func (r *runLengthReader) Read(p []byte) (int, error) {
	for n := range p {
		if r.left == 0 {
			length, err := r.in.ReadByte()
			if err != nil {
				return n, eofIfTruncated(err)
			}
			if length == 128 {
				r.in.Reset(bytes.NewReader(nil))
				return n, io.EOF
			}
			r.repeat = length > 128
			if r.repeat {
				r.left = 257 - int(length)
				if r.value, err = r.in.ReadByte(); err != nil {
					r.left = 0
					return n, eofIfTruncated(err)
				}
			} else {
				r.left = int(length) + 1
			}
		}
		r.left--
		if r.repeat {
			p[n] = r.value
			continue
		}
		c, err := r.in.ReadByte()
		if err != nil {
			r.left = 0
			return n, eofIfTruncated(err)
		}
		p[n] = c
	}
	return len(p), nil
}
