//go:build !linux

package db

import "syscall"

// limitSilence does nothing: only Linux can limit the time until data is acknowledged.
func limitSilence(_, _ string, _ syscall.RawConn) error { return nil }
