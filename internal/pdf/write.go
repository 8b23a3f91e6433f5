package pdf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// serializer writes indirect objects and records their offsets.
type serializer struct {
	w       io.Writer
	start   int64 // offset in the complete file at which writing starts
	written int64
	digest  hash.Hash // digest of the written bytes; for copied streams, of their checksum and length
	buf     []byte    // bytes not yet written
	doc     *Document // nil for a new file
	entries []writtenEntry
	err     error
}

// writtenEntry is the position of a written indirect object.
type writtenEntry struct {
	ref    Ref
	offset int64 // in the complete file
}

func newSerializer(w io.Writer, start int64, doc *Document) *serializer {
	return &serializer{w: w, start: start, digest: sha256.New(), doc: doc}
}

// offset returns the offset of the next byte in the complete file.
func (s *serializer) offset() int64 { return s.start + s.written + int64(len(s.buf)) }

// fail records the first error.
func (s *serializer) fail(err error) {
	if s.err == nil && err != nil {
		s.err = err
	}
}

// flush writes the buffer.
func (s *serializer) flush() {
	s.digest.Write(s.buf)
	s.writeOut(s.buf)
	s.buf = s.buf[:0]
}

func (s *serializer) writeOut(data []byte) {
	if s.err != nil || len(data) == 0 {
		return
	}
	n, err := s.w.Write(data)
	s.written += int64(n)
	if err != nil {
		s.fail(fmt.Errorf("writing the PDF: %w", err))
	}
}

// indirect writes an indirect object (7.3.10).
func (s *serializer) indirect(ref Ref, obj Object) {
	if s.err != nil {
		return
	}
	s.entries = append(s.entries, writtenEntry{ref, s.offset()})
	s.buf = fmt.Appendf(s.buf, "%d %d obj\n", ref.Number, ref.Generation)
	encrypt := s.doc != nil && s.doc.crypt != nil && s.doc.crypt.strings != cryptIdentity && ref.Number != s.doc.cryptRef
	if stream, ok := obj.(*Stream); ok {
		s.stream(ref, stream, encrypt)
	} else {
		s.object(obj, ref, encrypt, 0)
	}
	s.buf = append(s.buf, "\nendobj\n"...)
	s.flush()
}

// token appends the text of an object, with a separator if needed. A separator
// is also needed after a single solidus, which is an empty name.
func (s *serializer) token(text string) {
	if n := len(s.buf); n > 0 && (isRegular(s.buf[n-1]) || s.buf[n-1] == '/') {
		s.buf = append(s.buf, ' ')
	}
	s.buf = append(s.buf, text...)
}

// object appends a direct object. If encrypt is true, its strings are encrypted
// with the key of ref, the indirect object that contains the direct object.
func (s *serializer) object(obj Object, ref Ref, encrypt bool, depth int) {
	if depth > maxDepth {
		s.fail(fmt.Errorf("%w: objects are nested too deeply", ErrLimit))
		return
	}
	switch v := obj.(type) {
	case nil:
		s.token("null")
	case Boolean:
		s.token(strconv.FormatBool(bool(v)))
	case Integer:
		s.token(strconv.FormatInt(int64(v), 10))
	case Real:
		s.token(string(v))
	case Name:
		s.name(v)
	case Ref:
		s.token(v.String())
	case String:
		if encrypt {
			s.hexString(s.doc.crypt.encryptBytes([]byte(v), ref, s.doc.crypt.strings))
		} else {
			s.string(v)
		}
	case Array:
		s.buf = append(s.buf, '[')
		for _, element := range v {
			s.object(element, ref, encrypt, depth+1)
		}
		s.buf = append(s.buf, ']')
	case *Dict:
		s.dict(v, ref, encrypt, depth)
	case *Placeholder:
		s.token("")
		v.Offset = s.offset()
		s.buf = append(s.buf, v.Text...)
	default: // a stream or a keyword
		s.fail(fmt.Errorf("writing the PDF: a %T is not a direct object", obj)) //nolint:err113 // an error of the caller
	}
}

func (s *serializer) dict(d *Dict, ref Ref, encrypt bool, depth int) {
	signature := isSignature(d)
	s.buf = append(s.buf, "<<"...)
	for key, value := range d.All() {
		s.name(key)
		s.object(value, ref, encrypt && (!signature || key != "Contents"), depth+1)
	}
	s.buf = append(s.buf, ">>"...)
}

const upperHex = "0123456789ABCDEF"

// name appends a name (7.3.5).
func (s *serializer) name(n Name) {
	s.buf = append(s.buf, '/')
	for i := range len(n) {
		if c := n[i]; c <= ' ' || c >= 0x7f || c == '#' || !isRegular(c) {
			s.buf = append(s.buf, '#', upperHex[c>>4], upperHex[c&15])
		} else {
			s.buf = append(s.buf, c)
		}
	}
}

// string appends a literal string if v is printable ASCII, otherwise a hexadecimal
// string (7.3.4).
func (s *serializer) string(v String) {
	for i := range len(v) {
		if v[i] < ' ' || v[i] >= 0x7f {
			s.hexString([]byte(v))
			return
		}
	}
	s.buf = append(s.buf, '(')
	for i := range len(v) {
		if c := v[i]; c == '(' || c == ')' || c == '\\' {
			s.buf = append(s.buf, '\\')
		}
		s.buf = append(s.buf, v[i])
	}
	s.buf = append(s.buf, ')')
}

func (s *serializer) hexString(data []byte) {
	s.buf = append(s.buf, '<')
	s.buf = hex.AppendEncode(s.buf, data)
	s.buf = append(s.buf, '>')
}

// maxCopied is the maximum size of a stream that is read into memory to encrypt or
// decrypt it.
const maxCopied = 64 << 20

// stream appends a stream (7.3.8). If the data is not in memory and must not be
// encrypted, stream copies it directly to the writer.
func (s *serializer) stream(ref Ref, stream *Stream, encryptStrings bool) {
	dict := stream.Dict.Clone()
	body, length, err := stream.source()
	if err != nil {
		s.fail(err)
		return
	}
	var data []byte
	if body == nil {
		data = stream.data
		if !stream.encoded && !dict.Has("Filter") {
			if packed := deflate(data); len(packed)+len("/Filter/FlateDecode") < len(data) {
				data = packed
				dict.Set("Filter", Name("FlateDecode"))
			}
		}
		length = int64(len(data))
	}
	if s.doc != nil && s.doc.crypt != nil {
		c := s.doc.crypt
		method := c.streamMethod(s.doc, dict)
		if method == cryptIdentity && dict.Get("Type") == Name("Metadata") && !dict.Has("Filter") {
			// The Crypt filter is for readers that ignore /EncryptMetadata
			// (7.6.6).
			dict.Set("Filter", Array{Name("Crypt")})
			dict.Set("DecodeParms", Array{NewDict(Entry{"Type", Name("CryptFilterDecodeParms")}, Entry{"Name", Name("Identity")})})
		}
		if method != cryptIdentity {
			if body != nil {
				if data, err = readExactly(body, length); err != nil {
					s.fail(err)
					return
				}
				body = nil
			}
			data = c.encryptBytes(data, ref, method)
			length = int64(len(data))
		}
	}
	dict.Set("Length", Integer(length))
	s.object(dict, ref, encryptStrings, 0)
	s.buf = append(s.buf, "\nstream\n"...)
	if body != nil {
		s.copy(body, length)
	} else {
		s.buf = append(s.buf, data...)
	}
	s.buf = append(s.buf, "\nendstream"...)
}

// source returns a reader of a stream's data and the length of the data. The
// reader is nil if the data of a new stream is in memory.
func (s *Stream) source() (io.Reader, int64, error) {
	if s.doc == nil {
		return s.body, s.bodyLen, nil
	}
	raw, err := s.doc.rawReader(s)
	if err != nil || s.doc.crypt == nil {
		return raw, s.length, err
	}
	// The length of the data is known only after decryption, which removes the
	// initialization vector and the padding.
	data, err := io.ReadAll(io.LimitReader(raw, maxCopied+1))
	if err != nil {
		return nil, 0, err
	}
	if len(data) > maxCopied {
		return nil, 0, fmt.Errorf("%w: an encrypted stream has more than %d bytes", ErrLimit, maxCopied)
	}
	return bytes.NewReader(data), int64(len(data)), nil
}

func readExactly(body io.Reader, length int64) ([]byte, error) {
	if length < 0 || length > maxCopied {
		return nil, fmt.Errorf("%w: a stream has %d bytes", ErrLimit, length)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, fmt.Errorf("copying a stream: %w", err)
	}
	return data, nil
}

// copy flushes the buffer, and copies length bytes of a stream directly to the
// writer.
func (s *serializer) copy(body io.Reader, length int64) {
	s.flush()
	if s.err != nil {
		return
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.Copy(io.MultiWriter(s.w, sum), io.LimitReader(body, length))
	s.written += n
	if err == nil && n < length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		s.fail(fmt.Errorf("copying a stream: %w", err))
	}
	s.digest.Write(sum.Sum(nil))
	s.digest.Write(strconv.AppendInt(nil, length, 10))
}

// fileIdentifier returns 16 bytes that identify the written content (14.4).
func (s *serializer) fileIdentifier() String {
	s.flush()
	return String(s.digest.Sum(nil)[:16])
}

// deflateLevel is the level at which this library compresses the content of a stamp as well as
// compress/zlib does by default, in less than half the time.
const deflateLevel = 7

var deflaters = sync.Pool{New: func() any {
	z, _ := zlib.NewWriterLevel(io.Discard, deflateLevel) // the level is valid
	return z
}}

// deflate returns data encoded for FlateDecode.
func deflate(data []byte) []byte {
	var out bytes.Buffer
	z := deflaters.Get().(*zlib.Writer) //nolint:forcetypeassert,errcheck // the pool has only this type
	defer deflaters.Put(z)
	z.Reset(&out)
	_, err := z.Write(data)
	if err = errors.Join(err, z.Close()); err != nil { // a buffer returns no errors
		return data
	}
	return out.Bytes()
}
