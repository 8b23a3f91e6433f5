//go:build !linux

package main

import "syscall"

// dieWithParent has no counterpart outside Linux: there a server outlives this
// process when it is killed.
func dieWithParent(*syscall.SysProcAttr) {}
