//go:build !linux

package pdfium

// zero reports that the system has no fast way to zero memory.
func (*memory) zero(int, int) bool { return false }
