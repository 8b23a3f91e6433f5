package db

import (
	"errors"
	"os"
	"testing"
)

// TestNetworkFileSystem uses the types that the manual page statfs(2) lists. The file systems of the test
// are local.
func TestNetworkFileSystem(t *testing.T) {
	t.Parallel()
	for magic, want := range map[uint32]string{0x6969: "NFS", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x65735546: "FUSE", 0xef53: "", 0x58465342: "", 0x01021994: ""} {
		if got := networkKind(magic); got != want {
			t.Errorf("networkKind(%#x) = %q, want %q", magic, got, want)
		}
	}
	if kind, err := NetworkFileSystem(t.TempDir()); err != nil || kind != "" {
		t.Errorf("the folder of the test is on %q, %v, want a local file system", kind, err)
	}
	if _, err := NetworkFileSystem("/does/not/exist"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: error = %v, want one that it does not exist", err)
	}
}
