package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	blobsDir    = "blobs"
	incomingDir = "incoming"
	// minFree is the share of the disk that must stay free for a blob to be
	// taken: the database must be able to go on after uploads are refused.
	minFree = 0.05
	// copyBuffer is how much of a blob is in memory while it is written.
	copyBuffer = 64 << 10
)

// Folder is a Store in a folder of the file system.
type Folder struct {
	root    string
	buffers sync.Pool
	// made holds the directories known to exist and to be durable.
	made sync.Map
}

var _ Store = (*Folder)(nil)

// NewFolder opens a folder as a store, making it when it is not there.
func NewFolder(root string) (*Folder, error) {
	f := &Folder{root: root, buffers: sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}}
	for _, dir := range []string{blobsDir, incomingDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			return nil, fmt.Errorf("making the file store: %w", err)
		}
	}
	if err := syncDir(root); err != nil {
		return nil, fmt.Errorf("making the file store: %w", err)
	}
	return f, nil
}

func (f *Folder) file(key string) string {
	return filepath.Join(f.root, blobsDir, filepath.FromSlash(key))
}

// Put writes to a file of its own, and only the whole and durable file gets
// the key's name: data, name and folder entry are each synced, since a rename
// alone may be lost with the power.
func (f *Folder) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if err := f.room(); err != nil {
		return 0, err
	}
	file, err := os.CreateTemp(filepath.Join(f.root, incomingDir), "")
	if err != nil {
		return 0, storing(err)
	}
	size, err := f.fill(ctx, file, r)
	if e := file.Close(); err == nil && e != nil {
		err = storing(e)
	}
	if err == nil {
		err = f.publish(file.Name(), key)
	}
	if err != nil {
		return 0, errors.Join(err, ignoreMissing(os.Remove(file.Name())))
	}
	return size, nil
}

func (f *Folder) fill(ctx context.Context, file *os.File, r io.Reader) (int64, error) {
	buffer := f.buffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool holds nothing else
	defer f.buffers.Put(buffer)
	var size int64
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		// Whole buffers: a multipart reader gives 4 kB at a time, and each write is a
		// call.
		n, readErr := readBuffer(r, *buffer)
		if n > 0 {
			if _, err := file.Write((*buffer)[:n]); err != nil {
				return 0, storing(err)
			}
			size += int64(n)
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return 0, readErr
		}
	}
	if err := file.Sync(); err != nil {
		return 0, storing(err)
	}
	return size, nil
}

// readBuffer fills a buffer as far as r goes. Unlike io.ReadFull it leaves r's
// error as it is: the unexpected end of an upload must not pass for its end.
func readBuffer(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

func (f *Folder) publish(from, key string) error {
	to := f.file(key)
	dir := filepath.Dir(to)
	if err := f.makeDir(dir); err != nil {
		return storing(err)
	}
	if err := os.Rename(from, to); err != nil {
		return storing(err)
	}
	if err := syncDir(dir); err != nil {
		return storing(err)
	}
	return nil
}

// makeDir makes a directory and those above it, each one durable in its parent.
func (f *Folder) makeDir(dir string) error {
	if _, ok := f.made.Load(dir); ok {
		return nil
	}
	parent := filepath.Dir(dir)
	if dir != filepath.Join(f.root, blobsDir) {
		if err := f.makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(parent); err != nil {
		return err
	}
	f.made.Store(dir, true)
	return nil
}

// Open opens a blob.
func (f *Folder) Open(_ context.Context, key string) (Object, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	file, err := os.Open(f.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("opening a file: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a file: %w", err), file.Close())
	}
	return &folderObject{File: file, size: info.Size()}, nil
}

type folderObject struct {
	*os.File

	size int64
}

func (o *folderObject) Size() int64 { return o.size }

// Delete removes a blob.
func (f *Folder) Delete(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := ignoreMissing(os.Remove(f.file(key))); err != nil {
		return fmt.Errorf("removing a file: %w", err)
	}
	return nil
}

// Walk calls f for each blob.
func (f *Folder) Walk(ctx context.Context, visit func(Info) error) error {
	base := filepath.Join(f.root, blobsDir)
	return filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		rel, err := filepath.Rel(base, name)
		if err != nil {
			return fmt.Errorf("listing files: %w", err)
		}
		return visit(Info{Key: path.Clean(filepath.ToSlash(rel)), Size: info.Size(), Modified: info.ModTime()})
	})
}

// Clean removes the files of Puts that a crash interrupted.
func (f *Folder) Clean(ctx context.Context, before time.Time) error {
	dir := filepath.Join(f.root, incomingDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("listing unfinished files: %w", err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil || !info.ModTime().Before(before) {
			continue
		}
		if err := ignoreMissing(os.Remove(filepath.Join(dir, e.Name()))); err != nil {
			return fmt.Errorf("removing an unfinished file: %w", err)
		}
	}
	return nil
}

// room refuses below minFree of the disk.
func (f *Folder) room() error {
	var s unix.Statfs_t
	if err := unix.Statfs(f.root, &s); err != nil {
		return fmt.Errorf("asking for free disk: %w", err)
	}
	if float64(s.Bavail) < minFree*float64(s.Blocks) {
		return ErrFull
	}
	return nil
}

func storing(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("storing a file: %w", err)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
