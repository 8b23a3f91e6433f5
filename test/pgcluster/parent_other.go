//go:build !linux

package main

import "syscall"

// dieWithParent does nothing on systems other than Linux. On these systems the server continues to
// run if pgcluster is killed.
func dieWithParent(*syscall.SysProcAttr) {}
