package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	blobsDir    = "blobs"
	incomingDir = "incoming"
	// minFree is the share of the disk that must stay free for Put to accept a blob: sealing and the
	// database need free space even when uploads are refused.
	minFree = 0.05
	// minReserve is the share of the disk that must stay free for PutReserved to accept a blob.
	// This free space is for the database alone. The space between minReserve and minFree is the
	// reserve for sealing: 4 GB of a disk of 100 GB, enough for the tails of about 40,000 accepted
	// uploads.
	minReserve = 0.01
	// copyBuffer is the size in bytes of the buffer for the content of a blob.
	copyBuffer = 64 << 10
)

// Folder is a Store in a folder of the file system.
type Folder struct {
	root string
	// free returns the share of the disk that is free. Tests replace it.
	free    func() (float64, error)
	buffers sync.Pool
	// made is the set of the directories that exist and are durable.
	made sync.Map
	transit
	// syncDir makes the entries of a directory durable. Tests replace it.
	syncDir func(dir string) error
}

var _ FileStore = (*Folder)(nil)

// NewFolder opens a folder as a store. It creates the folder if needed.
func NewFolder(root string) (*Folder, error) {
	f := OpenFolder(root)
	if err := f.create(); err != nil {
		return nil, err
	}
	return f, nil
}

// OpenFolder is like NewFolder, but it creates nothing, and does not check whether the folder
// exists.
func OpenFolder(root string) *Folder {
	f := &Folder{root: root, buffers: sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}, syncDir: SyncDir}
	f.free = f.freeShare
	return f
}

// create creates the folders of the store if needed.
func (f *Folder) create() error {
	for _, dir := range []string{blobsDir, incomingDir} {
		if err := os.MkdirAll(filepath.Join(f.root, dir), 0o700); err != nil {
			return fmt.Errorf("creating the file store: %w", err)
		}
	}
	if err := SyncDir(f.root); err != nil {
		return fmt.Errorf("creating the file store: %w", err)
	}
	return nil
}

func (f *Folder) file(key string) string {
	return filepath.Join(f.root, blobsDir, filepath.FromSlash(key))
}

// Put writes the content to a temporary file and links it to the name of the key. It syncs the file and
// the directory, because a power failure can undo a link that is not synced.
func (f *Folder) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	return f.put(ctx, key, r, minFree)
}

// PutReserved is like Put, but may also use the reserve.
func (f *Folder) PutReserved(ctx context.Context, key string, r io.Reader) (int64, error) {
	return f.put(ctx, key, r, minReserve)
}

// put stores a blob. It returns ErrFull if the free share of the disk is smaller than least.
func (f *Folder) put(ctx context.Context, key string, r io.Reader, least float64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if err := f.checkFree(least); err != nil {
		return 0, err
	}
	file, err := os.CreateTemp(filepath.Join(f.root, incomingDir), "")
	if err != nil {
		return 0, storeError(err)
	}
	in := f.begin(file)
	defer in.end()
	size, err := f.copyTo(ctx, in, r)
	if e := file.Close(); err == nil && e != nil {
		err = storeError(e)
	}
	if err == nil {
		err = f.link(file.Name(), key)
	}
	// The blob is stored even if its temporary name cannot be removed. Clean removes the name later.
	removed := os.Remove(file.Name())
	if err != nil {
		return 0, errors.Join(err, ignoreMissing(removed))
	}
	return size, nil
}

func (f *Folder) copyTo(ctx context.Context, file *incoming, r io.Reader) (int64, error) {
	buffer := f.buffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has only *[]byte
	defer f.buffers.Put(buffer)
	size, err := fill(ctx, file, r, *buffer)
	if err != nil {
		return 0, err
	}
	if err := file.Sync(); err != nil {
		return 0, storeError(err)
	}
	return size, nil
}

// fill reads r to its end and writes the content to a file. It returns an error of r unchanged.
func fill(ctx context.Context, file io.Writer, r io.Reader, buffer []byte) (size int64, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		// Fill the buffer before each write: a multipart reader returns 4 kB at
		// a time, and each write is a system call.
		n, readErr := readBuffer(r, buffer)
		if n > 0 {
			if _, err := file.Write(buffer[:n]); err != nil {
				return 0, storeError(err)
			}
			size += int64(n)
		}
		if errors.Is(readErr, io.EOF) {
			return size, nil
		}
		if readErr != nil {
			return 0, readErr
		}
	}
}

// readBuffer reads from r until the buffer is full or r returns an error. Unlike io.ReadFull,
// readBuffer returns the error of r unchanged, so that an interrupted upload does not look
// complete.
func readBuffer(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// link makes a complete file the blob of a key. Unlike a rename, a link does not replace an
// existing file. If the link cannot be made durable, link removes it, so that no blob remains under
// the key after a failed Put.
func (f *Folder) link(from, key string) error {
	to := f.file(key)
	dir := filepath.Dir(to)
	if err := f.makeDir(dir); err != nil {
		return storeError(err)
	}
	if err := os.Link(from, to); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", key, ErrExists)
	} else if err != nil {
		return storeError(err)
	}
	if err := f.syncDir(dir); err != nil {
		return errors.Join(storeError(err), ignoreMissing(os.Remove(to)))
	}
	return nil
}

// makeDir creates a directory and its parents, and makes each entry durable.
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
	if err := f.syncDir(parent); err != nil {
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

// Link makes file a hard link to a blob. It returns ErrNotFound if the blob does not exist. A blob is
// never written again, so the linked file keeps its content after the blob is deleted.
func (f *Folder) Link(key, file string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	err := os.Link(f.file(key), file)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, e := os.Lstat(f.file(key)); errors.Is(e, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return err
}

type folderObject struct {
	*os.File

	size int64
}

func (o *folderObject) Size() int64 { return o.size }

// Version returns the current version of the open file, which may differ from the version at the
// time of Open.
func (o *folderObject) Version() (Version, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(o.Fd()), &s); err != nil {
		return Version{}, fmt.Errorf("reading the state of a file: %w", err)
	}
	return Version{Inode: s.Ino, Size: s.Size, Modified: s.Mtim.Nano(), Changed: s.Ctim.Nano()}, nil
}

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

// Walk calls visit for each blob whose key is greater than after, in the order of the keys, until
// visit returns an error.
func (f *Folder) Walk(ctx context.Context, after string, visit func(Info) error) error {
	return f.walk(ctx, "", after, visit)
}

// walk is Walk for the blobs whose keys begin with folder, which is "" or ends with "/".
func (f *Folder) walk(ctx context.Context, folder, after string, visit func(Info) error) error {
	entries, err := os.ReadDir(filepath.Join(f.root, blobsDir, filepath.FromSlash(folder)))
	if err != nil {
		return ignoreMissing(err)
	}
	// The key a.b is less than a/b, although the name a.b is greater than a.
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(keyName(a), keyName(b)) })
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := folder + keyName(e)
		if key <= after && !strings.HasPrefix(after, key) {
			continue
		}
		if e.IsDir() {
			if err := f.walk(ctx, key, after, visit); err != nil {
				return err
			}
			continue
		}
		if key <= after {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // the blob was deleted in the meantime
		}
		if err != nil {
			return fmt.Errorf("listing files: %w", err)
		}
		if err := visit(Info{Key: key, Size: info.Size(), Modified: info.ModTime()}); err != nil {
			return err
		}
	}
	return nil
}

// keyName returns the name of an entry as a part of a key: the name of a folder ends with "/".
func keyName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// Clean removes the temporary files of interrupted operations that were last written before the given
// time.
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

// CheckReserve returns ErrFull if the free share of the disk is smaller than minReserve.
func (f *Folder) CheckReserve(context.Context) error { return f.checkFree(minReserve) }

// checkFree returns ErrFull if the free share of the disk is smaller than least.
func (f *Folder) checkFree(least float64) error {
	share, err := f.free()
	if err != nil {
		return fmt.Errorf("checking the free disk space: %w", err)
	}
	if share < least {
		return ErrFull
	}
	return nil
}

func (f *Folder) freeShare() (float64, error) { return FreeShare(f.root) }

// FreeShare returns the share of the disk of a folder that is free, from 0 to 1.
func FreeShare(dir string) (float64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return float64(s.Bavail) / float64(s.Blocks), nil
}

func storeError(err error) error {
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

// SyncDir makes the entries of a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
