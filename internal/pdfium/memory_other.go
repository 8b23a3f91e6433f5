//go:build !unix

package pdfium

func reserve(size int64) (*memory, error) {
	return &memory{reserved: make([]byte, size)}, nil
}

func (m *memory) release() error {
	m.reserved = nil
	return nil
}
