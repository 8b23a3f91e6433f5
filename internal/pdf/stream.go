package pdf

import (
	"bufio"
	"bytes"
	"io"
)

// Stream is a stream object (7.3.8). The data of a stream of a document is not kept
// in memory, but read from the file each time.
type Stream struct {
	Dict *Dict

	doc    *Document // the document that contains the stream; nil for a new stream
	ref    Ref       // reference of the stream, on which the encryption depends
	offset int64     // offset of its data in the file
	length int64     // length of its data in the file; -1 if not yet known

	searched bool // /Length was wrong or missing, so the end was searched for

	data    []byte    // data of a new stream
	body    io.Reader // data of a new stream, copied when the stream is written
	bodyLen int64
	encoded bool // the data already has the form that Dict's /Filter describes
}

// NewStream returns a stream with data. When the stream is written, the data is
// compressed if dict has no filter and compressed data is smaller. dict may be nil
// and is not changed.
func NewStream(dict *Dict, data []byte) *Stream { return &Stream{Dict: dict.Clone(), data: data} }

// NewRawStream returns a stream with data that is already encoded as the
// /Filter of dict describes, or that must stay unencoded.
func NewRawStream(dict *Dict, data []byte) *Stream {
	return &Stream{Dict: dict.Clone(), data: data, encoded: true}
}

// NewStreamFrom returns a stream of exactly length bytes that are copied from
// body when the stream is written. The stream can be written only once. The bytes
// must already be encoded, as for NewRawStream.
func NewStreamFrom(dict *Dict, body io.Reader, length int64) *Stream {
	return &Stream{Dict: dict.Clone(), body: body, bodyLen: length, encoded: true}
}

// WithDict returns a stream with the data of s and another dictionary, which
// must have the same /Filter and /DecodeParms.
func (s *Stream) WithDict(dict *Dict) *Stream {
	t := *s
	t.Dict = dict
	return &t
}

// Raw returns a reader of the data as in the file, decrypted but not decoded. For
// a new stream, the reader returns the data that the stream was created with.
func (s *Stream) Raw() (io.Reader, error) {
	if s.doc == nil {
		if s.body != nil {
			return s.body, nil
		}
		return bytes.NewReader(s.data), nil
	}
	return s.doc.rawReader(s)
}

// Decoded returns a reader of the data decoded by all filters. For a new stream, Decoded is
// the same as Raw. The error of Decoded, or of a later read, is ErrLimit if the
// decoded data exceeds 32 MiB, and ErrFilter if the stream has an image filter or
// an unknown filter. Damaged or truncated data ends early without an error, as in
// viewers.
func (s *Stream) Decoded() (io.Reader, error) {
	if s.doc == nil {
		return s.Raw()
	}
	return s.doc.decoder(s)
}

// rawReader returns a reader of the decrypted data of a stream of the document.
func (d *Document) rawReader(s *Stream) (*bufio.Reader, error) {
	if err := d.measure(s); err != nil {
		return nil, err
	}
	plain := bufio.NewReaderSize(io.NewSectionReader(d.src.r, s.offset, s.length), int(min(max(s.length, 16), chunkSize)))
	if d.crypt == nil {
		return plain, nil
	}
	return d.crypt.streamReader(d, s, plain)
}

// measure determines the length of the data. The length is /Length if endstream
// or endobj follows data of this length. Otherwise findEndstream determines the
// end of the data.
func (d *Document) measure(s *Stream) error {
	if s.length >= 0 {
		return nil
	}
	if length, ok := d.Int(s.Dict.Get("Length")); ok && length >= 0 && int64(length) <= d.src.size-s.offset {
		text, err := d.src.window(s.offset+int64(length), 32)
		if err != nil {
			return err
		}
		l := lexer{buf: text}
		for l.pos < len(text) && isSpace(text[l.pos]) {
			l.pos++
		}
		if l.hasPrefix("endstream") || l.hasPrefix("endobj") {
			s.length = int64(length)
			return nil
		}
	}
	end, err := d.findEndstream(s.offset)
	if err != nil {
		return err
	}
	s.length, s.searched = end-s.offset, true
	return nil
}

// scanWindow is the window size for searches in the file.
const scanWindow = 256 << 10

// findEndstream returns the offset of the end of the stream data that begins at
// offset. The data ends before the next endstream or endobj and before the
// end-of-line marker that precedes this keyword. If neither keyword follows, the
// data ends with the file.
func (d *Document) findEndstream(offset int64) (int64, error) {
	const overlap = 16
	for pos, n := offset, chunkOverlap; pos < d.src.size; pos, n = pos+int64(n-overlap), scanWindow {
		text, err := d.src.window(pos, n)
		if err != nil {
			return 0, err
		}
		if err := d.src.charge(int64(len(text) / 8)); err != nil {
			return 0, err
		}
		at := bytes.Index(text, []byte("endstream"))
		if i := bytes.Index(text, []byte("endobj")); i >= 0 && (at < 0 || i < at) {
			at = i
		}
		if at < 0 {
			continue
		}
		end := pos + int64(at)
		before, err := d.src.window(max(offset, end-2), int(min(2, end-offset)))
		if err != nil {
			return 0, err
		}
		switch {
		case bytes.HasSuffix(before, []byte("\r\n")):
			end -= 2
		case bytes.HasSuffix(before, []byte("\n")), bytes.HasSuffix(before, []byte("\r")):
			end--
		}
		return end, nil
	}
	return d.src.size, nil
}
