package main

import "syscall"

// dieWithParent sets that the kernel sends SIGQUIT to the server if this process is killed. SIGQUIT
// is PostgreSQL's immediate shutdown.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
