//go:build !linux

package db

import "syscall"

// limitSilence does nothing, because TCP_USER_TIMEOUT is an option of Linux.
func limitSilence(_, _ string, _ syscall.RawConn) error { return nil }
