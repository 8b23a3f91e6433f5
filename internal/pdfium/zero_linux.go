package pdfium

import "syscall"

// zero sets the bytes from start to end to 0, by returning them to the system
// (madvise(2), MADV_DONTNEED on a private anonymous mapping). start and end must
// be multiples of wasmPage. zero reports whether it succeeded.
func (m *memory) zero(start, end int) bool {
	return start == end || syscall.Madvise(m.reserved[start:end], syscall.MADV_DONTNEED) == nil
}
