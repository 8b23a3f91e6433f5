//go:build !linux

package db

// NetworkFileSystem returns "" on this system, because it is only known on Linux.
func NetworkFileSystem(string) (string, error) { return "", nil }
