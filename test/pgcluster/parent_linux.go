package main

import "syscall"

// dieWithParent has the kernel stop the server when this process is killed and
// cannot do it: SIGQUIT is PostgreSQL's immediate shutdown.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
