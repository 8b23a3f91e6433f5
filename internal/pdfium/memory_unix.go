//go:build unix

package pdfium

import (
	"fmt"
	"syscall"
)

func reserve(size int64) (*memory, error) {
	b, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("reserving %d bytes: %w", size, err)
	}
	return &memory{reserved: b}, nil
}

func (m *memory) release() error {
	b := m.reserved
	m.reserved = nil
	if b == nil {
		return nil
	}
	if err := syscall.Munmap(b); err != nil {
		return fmt.Errorf("freeing the memory: %w", err)
	}
	return nil
}
