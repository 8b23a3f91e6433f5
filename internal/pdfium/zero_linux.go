package pdfium

import "syscall"

// overwritten is the number of bytes, a multiple of wasmPage, that zero overwrites. A small document
// changes fewer bytes. Overwriting them takes less time than returning them to the system, because the
// next document would then cause a page fault for each 4 kB.
const overwritten = 1 << 20

// zero sets the bytes from start to end to 0. After the first bytes, it returns the memory to the system
// (madvise(2), MADV_DONTNEED on a private anonymous mapping), so that an idle instance needs little
// memory. start and end must be multiples of wasmPage. zero reports whether it succeeded.
func (m *memory) zero(start, end int) bool {
	middle := min(start+overwritten, end)
	clear(m.reserved[start:middle])
	return middle == end || syscall.Madvise(m.reserved[middle:end], syscall.MADV_DONTNEED) == nil
}
