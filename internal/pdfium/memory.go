package pdfium

import (
	"github.com/tetratelabs/wazero/experimental"
)

const (
	wasmPage = 64 << 10
	// minMemory is what PDFium needs to start.
	minMemory = 32 << 20
	// maxMemory keeps addresses and sizes within 31 bits.
	maxMemory = 1 << 31
)

// memory is the linear memory of one instance: address space is reserved for
// the limit at once, but pages cost only when touched. So growing never copies
// (which would need up to twice the limit), and freeing gives everything back to
// the system without waiting for the garbage collector.
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

// Free implements experimental.LinearMemory. The memory is freed by release
// instead, since wazero frees it in some cases of an ended module and not in
// others.
func (m *memory) Free() {}

// Allocate implements experimental.MemoryAllocator.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }
