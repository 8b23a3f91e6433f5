//go:build !linux

package app

// releaseCode does nothing: the system decides which pages of the binary stay in memory.
func releaseCode() error { return nil }
