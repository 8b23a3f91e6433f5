package pdf

import (
	"errors"
	"fmt"
	"io"
)

// Limits on the memory and work for one document. An ordinary certificate remains
// far below each limit.
const (
	maxDecoded    = 32 << 20  // bytes that one stream may decode to
	maxWork       = 160 << 20 // bytes parsed and decoded for one document, see charge
	maxObjectSize = 16 << 20  // bytes of an object's text, without stream data
	maxNodes      = 1 << 19   // objects within one indirect object
	maxDepth      = 256       // nesting depth of arrays and dictionaries
	maxNumber     = 8_388_607 // the highest object number (Annex C.2)
	maxCached     = 1 << 20   // objects in the cache, including contained objects
)

const (
	chunkSize    = 16 << 10
	chunkOverlap = 4 << 10 // windows up to this size are always within one chunk
	chunkStep    = chunkSize - chunkOverlap
	maxChunks    = 128
)

// source reads windows of the file through a small cache of chunks.
type source struct {
	r      io.ReaderAt
	size   int64
	chunks map[int64][]byte
	work   int64 // bytes parsed and decoded so far
	err    error // first error of r, or ErrLimit
}

func newSource(r io.ReaderAt, size int64) *source {
	return &source{r: r, size: size, chunks: make(map[int64][]byte)}
}

// fail returns err, and records err if it is the first error. Document.Err
// returns the recorded error.
func (s *source) fail(err error) error {
	if s.err == nil {
		s.err = err
	}
	return err
}

// charge adds n bytes of work. It returns ErrLimit if the sum exceeds maxWork.
func (s *source) charge(n int64) error {
	s.work += n
	if s.work > maxWork {
		return s.fail(fmt.Errorf("%w: too much work is needed to read it", ErrLimit))
	}
	return nil
}

// chargeParsed charges the work of a lexer that began at the position from: the
// bytes, and 32 more for each object.
func (s *source) chargeParsed(l *lexer, from int) error {
	return s.charge(int64(l.pos-from) + 32*int64(l.nodes))
}

// window returns n bytes from offset, or fewer at the end of the file. The
// caller must not change the bytes.
func (s *source) window(offset int64, n int) ([]byte, error) {
	if offset < 0 || offset >= s.size {
		return nil, nil
	}
	if n > chunkOverlap {
		return s.read(offset, n)
	}
	at := offset / chunkStep * chunkStep
	chunk, ok := s.chunks[at]
	if !ok {
		var err error
		if chunk, err = s.read(at, chunkSize); err != nil {
			return nil, err
		}
		if len(s.chunks) >= maxChunks {
			clear(s.chunks)
		}
		s.chunks[at] = chunk
	}
	from := int(offset - at)
	return chunk[from:min(from+n, len(chunk))], nil
}

// read reads up to n bytes from offset without the cache.
func (s *source) read(offset int64, n int) ([]byte, error) {
	return s.readInto(make([]byte, min(int64(n), s.size-offset)), offset)
}

// readInto reads len(buf) bytes from offset, which must be in the file, and
// returns buf.
func (s *source) readInto(buf []byte, offset int64) ([]byte, error) {
	got, err := s.r.ReadAt(buf, offset)
	if got == len(buf) {
		return buf, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, s.fail(fmt.Errorf("reading %d bytes at offset %d: %w", len(buf), offset, err))
}
