package main

import "syscall"

// dieWithParent makes the kernel send SIGQUIT to the server if pgcluster is killed. PostgreSQL then shuts down
// immediately.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
