package db

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NetworkFileSystem returns the kind of a folder's file system, such as "NFS", if its files are on another
// machine or may be. Otherwise it returns "". A SQLite database needs a local file system, because programs
// share its write-ahead log in memory (sqlite.org/wal.html), and because a sync must reach the disk.
func NetworkFileSystem(dir string) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "", fmt.Errorf("reading the file system of %s: %w", dir, err)
	}
	return networkKind(uint32(s.Type)), nil // Type is signed on 32-bit systems
}

// networkKind returns the kind of a file system with a type of statfs(2).
func networkKind(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "SMB"
	case unix.CEPH_SUPER_MAGIC:
		return "CephFS"
	case unix.AFS_FS_MAGIC, unix.AFS_SUPER_MAGIC:
		return "AFS"
	case unix.V9FS_MAGIC:
		return "9P"
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE"
	}
	return ""
}
