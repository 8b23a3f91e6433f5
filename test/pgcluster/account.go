package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the system account of the server. PostgreSQL refuses to run as root. Therefore, if pgcluster
// runs as root, the server uses the account postgres. Otherwise it uses the current account.
type account struct {
	uid, gid uint32
	drop     bool // true if the account differs from the current account
}

// serverAccount returns the account for the server.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return account{}, fmt.Errorf("PostgreSQL does not run as root, and its account is missing: %w", err)
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

// chown changes the owner of a folder to the account a, if a differs from the current account.
func (a account) chown(folder string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(folder, int(a.uid), int(a.gid))
}

// attributes returns the attributes of a process that runs under the account and in its own process
// group. An interrupt from the terminal therefore does not reach the server. On Linux, the server
// stops if pgcluster is killed.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	dieWithParent(attr)
	return attr
}
