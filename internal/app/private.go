package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// others is the set of permissions of all users except the owner.
const others fs.FileMode = 0o077

// setUmask makes all files and folders that this process creates private, including those that
// libraries create.
func setUmask() { syscall.Umask(int(others)) }

// makePrivate creates the data folder if it does not exist. It removes the permissions of other users on
// the data folder and on the files and folders directly in it. It also sets the umask, so that all files
// that the process creates later are private. denied contains the errors of permissions that could not
// be changed, for example because another user owns the file. The vault works with such a file, and the
// doctor reports it.
func makePrivate(dir string) (denied, err error) {
	setUmask()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	open, err := openToOthers(dir)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, f := range open {
		if err := os.Chmod(f.path, f.mode&^others); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...), nil
}

// openFile is a file or folder on which other users have permissions.
type openFile struct {
	path string
	mode fs.FileMode
}

// openToOthers returns the data folder and the files and folders directly in it, if other users
// have permissions on them. It does not descend, because a private folder hides what it contains,
// and it does not follow symbolic links, because their targets may be shared on purpose.
func openToOthers(dir string) ([]openFile, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the permissions of the data folder: %w", err)
	}
	var list []openFile
	add := func(path string, mode fs.FileMode) {
		if (mode.IsRegular() || mode.IsDir()) && mode&others != 0 {
			list = append(list, openFile{path, mode})
		}
	}
	add(dir, info.Mode())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the data folder: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // a file of SQLite that another process removed
		}
		if err != nil {
			return nil, fmt.Errorf("reading the permissions of the data folder: %w", err)
		}
		add(filepath.Join(dir, e.Name()), info.Mode())
	}
	return list, nil
}

// examinePermissions returns an error if other users have permissions on the data folder or on
// files and folders directly in it. The error lists the commands that remove these permissions.
func examinePermissions(dir string) error {
	open, err := openToOthers(dir)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return nil
	}
	commands := make([]string, len(open))
	for i, f := range open {
		private := "600"
		if f.mode.IsDir() {
			private = "700"
		}
		commands[i] = fmt.Sprintf("chmod %s %q", private, f.path)
	}
	return fmt.Errorf("other users have permissions; run %s", strings.Join(commands, "; "))
}
