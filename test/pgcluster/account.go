package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the system account the server runs under. PostgreSQL refuses to
// run as root, so root hands the cluster to the account of the installed
// package; anybody else keeps it.
type account struct {
	uid, gid uint32
	drop     bool // whether it is another account than ours
}

// serverAccount tells which account that is here.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return account{}, fmt.Errorf("PostgreSQL does not run as root and its own account is missing: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("account postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("account postgres: %w", err)
	}
	return account{uid: uint32(uid), gid: uint32(gid), drop: true}, nil
}

// own gives the folder to the account.
func (a account) own(folder string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(folder, int(a.uid), int(a.gid))
}

// attributes make a process run under the account, in a process group of its
// own, so that an interrupt typed at the terminal reaches the command and not
// the server under it.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	dieWithParent(attr)
	return attr
}
