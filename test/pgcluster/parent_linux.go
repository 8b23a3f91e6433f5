package main

import "syscall"

// dieWithParent makes the kernel send SIGQUIT to the server if this process is killed. SIGQUIT is
// PostgreSQL's immediate shutdown.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
