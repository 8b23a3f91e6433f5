//go:build !linux

package pdfium

// zero returns false, because the system has no fast way to zero memory.
func (*memory) zero(int, int) bool { return false }
