package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrLocation means that a text does not name a store.
var ErrLocation = errors.New("not the location of a file store")

// OpenURL returns the store at a location: the path of a folder, or a URL for OpenS3. It creates nothing
// in the store, and does not check whether the store exists. The error is ErrLocation if the location is
// not valid. Only S3 uses the options.
func OpenURL(location string, o S3Options) (FileStore, error) {
	scheme, _, found := strings.Cut(location, "://")
	switch {
	case IsS3(location):
		return OpenS3(location, o)
	case found:
		return nil, fmt.Errorf("%w: the scheme %s:// is not supported; name a folder, such as certvault-data/files, or %s", ErrLocation, scheme, s3Form)
	case location == "":
		return nil, fmt.Errorf("%w: the location is empty; name a folder, such as certvault-data/files, or %s", ErrLocation, s3Form)
	}
	return OpenFolder(filepath.Clean(location)), nil
}

// IsS3 reports whether a location is in S3.
func IsS3(location string) bool { return strings.HasPrefix(location, s3Scheme+"://") }

// Location returns the path of the store.
func (f *Folder) Location() string { return f.root }

// exists returns an error if the folder is not a store.
func (f *Folder) exists(context.Context) error {
	if _, err := os.Stat(f.root); err != nil {
		return fmt.Errorf("opening the file store: %w", err)
	}
	if _, err := os.Stat(filepath.Join(f.root, blobsDir)); err != nil {
		return fmt.Errorf("%s is not a file store; name the folder files of a data folder, such as certvault-data/files: %w", f.root, err)
	}
	return nil
}

// createNew creates the folders of the store, unless the folder contains something else.
func (f *Folder) createNew() error {
	entries, err := os.ReadDir(f.root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("creating the file store: %w", err)
	}
	if _, err := os.Stat(filepath.Join(f.root, blobsDir)); len(entries) > 0 && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not empty and is not a file store; name a new folder, or the folder files of a data folder", f.root)
	}
	return f.create()
}

// contains reports whether another store is in the same folder, or in a folder below it. The folder of
// the other store need not exist. contains follows symbolic links, and recognizes a folder that is
// mounted in another place.
func (f *Folder) contains(other FileStore) (bool, error) {
	o, ok := other.(*Folder)
	if !ok {
		return false, nil
	}
	dir := o.root
	root, err := os.Stat(f.root)
	if err != nil {
		return false, fmt.Errorf("opening the file store: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, fmt.Errorf("opening the file store: %w", err)
	}
	// Resolve the links in the part of the path that exists.
	for {
		resolved, err := filepath.EvalSymlinks(dir)
		if err == nil {
			dir = resolved
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("opening the file store: %w", err)
		}
		dir = filepath.Dir(dir)
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false, fmt.Errorf("opening the file store: %w", err)
		}
		if os.SameFile(root, info) {
			return true, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false, nil
		}
		dir = parent
	}
}
