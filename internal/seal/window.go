package seal

import (
	"bytes"
	"fmt"
	"io"
)

// windowReader reads a file in windows, so that a parser can access single bytes without a read
// call for each byte. Access beyond the end of the file returns io.ErrUnexpectedEOF.
type windowReader struct {
	r      io.ReaderAt
	size   int64
	start  int64
	window []byte
	buf    []byte
}

func newWindowReader(r io.ReaderAt, size int64) *windowReader {
	return &windowReader{r: r, size: size, buf: make([]byte, 64<<10)}
}

// bytes returns n bytes from offset. They are valid until the next call of bytes or index.
func (w *windowReader) bytes(offset int64, n int) ([]byte, error) {
	if offset < 0 || n < 0 || offset > w.size-int64(n) {
		return nil, io.ErrUnexpectedEOF
	}
	if offset < w.start || offset+int64(n) > w.start+int64(len(w.window)) {
		if n > len(w.buf) {
			w.buf = make([]byte, n)
		}
		if err := w.fill(offset); err != nil {
			return nil, err
		}
	}
	i := int(offset - w.start)
	return w.window[i : i+n], nil
}

// index returns the offset of the first byte c at or after offset.
func (w *windowReader) index(offset int64, c byte) (int64, error) {
	for {
		if _, err := w.bytes(offset, 1); err != nil {
			return 0, err
		}
		window := w.window[offset-w.start:]
		if i := bytes.IndexByte(window, c); i >= 0 {
			return offset + int64(i), nil
		}
		offset += int64(len(window))
	}
}

// fill reads the window that begins at offset.
func (w *windowReader) fill(offset int64) error {
	n := min(int64(len(w.buf)), w.size-offset)
	w.window = nil
	read, err := w.r.ReadAt(w.buf[:n], offset)
	if int64(read) < n {
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		return fmt.Errorf("reading the original: %w", err)
	}
	w.start, w.window = offset, w.buf[:n]
	return nil
}
