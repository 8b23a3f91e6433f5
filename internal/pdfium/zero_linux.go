package pdfium

import "syscall"

// zero zeroes the bytes from start to end, which are multiples of wasmPage, by
// returning them to the system (madvise(2), MADV_DONTNEED on a private anonymous
// mapping). It reports whether it succeeded.
func (m *memory) zero(start, end int) bool {
	return start == end || syscall.Madvise(m.reserved[start:end], syscall.MADV_DONTNEED) == nil
}
