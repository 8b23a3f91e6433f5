package backup

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncAll makes all files on the file system of a folder durable. For many files, this is much
// faster than a sync of each file.
func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	if err := errors.Join(unix.Syncfs(int(d.Fd())), d.Close()); err != nil { //nolint:gosec // a descriptor fits in an int
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return nil
}
