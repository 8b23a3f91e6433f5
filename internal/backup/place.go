package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/certvault/certvault/internal/blob"
)

const (
	// leastFree is the share of the vault's own disk that a backup leaves free. If less is free, the
	// vault rejects uploads.
	leastFree = 0.05
	// diskEvery is the interval at which the free space is checked.
	diskEvery = 200 * time.Millisecond
)

// CheckFolder checks that scheduled backups can be written to a folder: that the folder exists, is
// not in one of the vault's folders in the data folder, and accepts files. data is the data folder.
func CheckFolder(data, dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s does not exist; create it, or mount its disk", dir)
	}
	if err != nil {
		return fmt.Errorf("checking the folder of backups: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if err := checkPlace(data, filepath.Join(dir, folderTime)); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return fmt.Errorf("the folder of backups accepts no files: %w", err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// checkPlace returns an error if dir is the data folder, or is in one of the vault's folders there.
// The vault may copy, list or delete the contents of these folders.
func checkPlace(data, dir string) error {
	place, err := realPath(dir)
	if err != nil {
		return err
	}
	root, err := realPath(data)
	if err != nil {
		return err
	}
	if place == root {
		return fmt.Errorf("the folder %s is the data folder; choose another folder for the backup", dir)
	}
	for _, name := range []string{filesDir, keysDir, "tls", "outbox", "cache"} {
		own, err := realPath(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if place == own || strings.HasPrefix(place, own+string(filepath.Separator)) {
			return fmt.Errorf("the folder %s is inside %s, which belongs to the vault; choose another folder for the backup", dir, filepath.Join(data, name))
		}
	}
	return nil
}

// realPath returns the absolute path of a file and resolves symbolic links. The file need not exist.
func realPath(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("resolving a path: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(name)
	if err == nil {
		return resolved, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || name == filepath.Dir(name) {
		return "", fmt.Errorf("resolving a path: %w", err)
	}
	parent, err := realPath(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(name)), nil
}

// watchDisk calls cancel with ErrFull if the backup is on the vault's own disk and less than
// leastFree of the disk is free. The returned channel is closed when the checks have ended, at the
// latest after the end of ctx.
func watchDisk(ctx context.Context, data, dir string, cancel context.CancelCauseFunc) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !sameDisk(data, dir) {
			return
		}
		tick := time.NewTicker(diskEvery)
		defer tick.Stop()
		for {
			if free, err := blob.FreeShare(dir); err == nil && free < leastFree {
				cancel(fmt.Errorf("%w: the backup is on the vault's disk, which has less than %.0f %% free", ErrFull, 100*leastFree))
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return ended
}

// sameDisk reports whether two folders are on the same file system.
func sameDisk(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}
