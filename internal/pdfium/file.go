package pdfium

import (
	"errors"
	"fmt"
	"io"
)

// window is the size of the read-ahead buffer in bytes. PDFium reads 512 bytes
// at a time.
const window = 32 << 10

// file is a Source with a position and a buffer of the last read.
type file struct {
	src  Source
	size int64
	pos  int64

	buf   []byte
	start int64 // position of buf
}

func newFile(src Source) (*file, error) {
	if src.HeadSize < 0 || src.HeadSize > 0 && src.Head == nil {
		return nil, fmt.Errorf("%w: the source has no head, or a negative size", ErrRequest)
	}
	size := src.HeadSize + int64(len(src.Tail))
	if size > maxMemory {
		return nil, fmt.Errorf("%w: the file has %d bytes", ErrLoad, size)
	}
	return &file{src: src, size: size}, nil
}

// Seek implements io.Seeker.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 {
		return 0, errors.New("the position is before the start of the file")
	}
	f.pos = offset
	return offset, nil
}

// Read reads into p until p is full or the file ends. At the end it returns 0
// and no error, like read(2).
func (f *file) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && f.pos < f.size {
		if f.pos < f.start || f.pos >= f.start+int64(len(f.buf)) {
			if len(p)-n >= window {
				k := int(min(int64(len(p)-n), f.size-f.pos))
				if err := f.readAt(p[n:n+k], f.pos); err != nil {
					return n, err
				}
				n += k
				f.pos += int64(k)
				continue
			}
			if err := f.fill(); err != nil {
				return n, err
			}
		}
		k := copy(p[n:], f.buf[f.pos-f.start:])
		n += k
		f.pos += int64(k)
	}
	return n, nil
}

// fill reads the aligned window that contains pos.
func (f *file) fill() error {
	start := f.pos / window * window
	if f.buf == nil {
		f.buf = make([]byte, window)
	}
	buf := f.buf[:min(window, f.size-start)]
	f.buf = f.buf[:0]
	if err := f.readAt(buf, start); err != nil {
		return err
	}
	f.buf, f.start = buf, start
	return nil
}

// readAt fills p with the bytes of the file from offset off. All these bytes must
// be within the file.
func (f *file) readAt(p []byte, off int64) error {
	if off < f.src.HeadSize {
		head := p[:min(int64(len(p)), f.src.HeadSize-off)]
		// At the end of the file ReadAt may return io.EOF or nil (io.ReaderAt).
		if n, err := f.src.Head.ReadAt(head, off); n < len(head) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("reading %d bytes at offset %d: %w", len(head), off, err)
		}
		p, off = p[len(head):], off+int64(len(head))
	}
	if len(p) > 0 {
		copy(p, f.src.Tail[off-f.src.HeadSize:])
	}
	return nil
}
