//go:build !linux

package main

import "syscall"

// dieWithParent does nothing outside Linux: there the server continues to run if this process is
// killed.
func dieWithParent(*syscall.SysProcAttr) {}
