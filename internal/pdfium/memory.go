package pdfium

import (
	"github.com/tetratelabs/wazero/experimental"
)

const (
	wasmPage = 64 << 10
	// minMemory is the memory in bytes that PDFium needs to start.
	minMemory = 32 << 20
	// maxMemory is the maximum memory limit and the maximum size of a file, in bytes.
	maxMemory = 1 << 31
)

// memory is the linear memory of one instance. It reserves address space for the
// limit at once, so that the memory can grow without a copy, which would need up
// to twice the limit. On Unix, a page uses memory only after its first access,
// and release returns all memory to the system without waiting for the garbage
// collector.
type memory struct {
	reserved []byte
}

var _ experimental.LinearMemory = (*memory)(nil)

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		return nil
	}
	return m.reserved[:size:size]
}

// Free implements experimental.LinearMemory. It does nothing, because wazero
// calls Free for some closed modules and not for others. release frees the
// memory.
func (m *memory) Free() {}

// Allocate implements experimental.MemoryAllocator.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }
