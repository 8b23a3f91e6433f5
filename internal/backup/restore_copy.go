package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/certvault/certvault/internal/keyring"
)

const (
	// restoreBuffer is the size of the buffer of a worker in bytes. Most files fit into it.
	restoreBuffer = 256 << 10
	// workersPerCPU is the number of workers for each CPU. It is more than 1, because a worker often
	// waits for the disk.
	workersPerCPU = 4
)

// copier copies the files of a backup to the target of a restore, and checks them while copying.
type copier struct {
	dir    string
	target *target
	// skip has the names of files that are checked and not copied.
	skip map[string]bool
	// made has the folders that exist in the target.
	made sync.Map
}

// run copies all files of a backup. files is the number of files in the backup according to the
// manifest. The error is ErrDamaged if a file is missing, differs from the manifest, or is not in the
// manifest.
func (c *copier) run(ctx context.Context, ring *keyring.Ring, files int) error {
	g, ctx := errgroup.WithContext(ctx)
	work := make(chan Entry, 1000)
	g.Go(func() error {
		defer close(work)
		return eachEntry(ctx, c.dir, ring, func(e Entry) error {
			if e.Missing {
				return nil
			}
			select {
			case work <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	for range workersPerCPU * runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			w := copyWorker{copier: c, buffer: make([]byte, restoreBuffer), digest: sha256.New()}
			for e := range work {
				if err := w.copy(ctx, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error { return c.checkAdditional(ctx, ring, files) })
	return g.Wait()
}

// checkAdditional checks that the folder of a backup has no file that is not in the manifest. The
// workers check that each file of the manifest exists, so there is an additional file only if the
// folder has more files than the manifest names.
func (c *copier) checkAdditional(ctx context.Context, ring *keyring.Ring, want int) error {
	n := 0
	if err := eachFile(ctx, c.dir, func(string) { n++ }); err != nil || n <= want {
		return err
	}
	known, err := openEarlier(c.dir, ring, c.target.header.Installation)
	if err != nil {
		return err
	}
	additional := ""
	if err := eachFile(ctx, c.dir, func(name string) {
		if _, ok := known.has(name); !ok && additional == "" {
			additional = name
		}
	}); err != nil || additional == "" {
		return err
	}
	return fmt.Errorf("%w: %s is not in its manifest", ErrDamaged, filepath.Join(c.dir, filepath.FromSlash(additional)))
}

// copyWorker copies files one after the other.
type copyWorker struct {
	*copier

	buffer []byte
	digest hash.Hash
}

// copy copies and checks a file.
func (w *copyWorker) copy(ctx context.Context, e Entry) (err error) {
	to, err := w.target.path(e.Name)
	if err != nil {
		return err
	}
	if w.skip[e.Name] {
		to = ""
	}
	name := filepath.Join(w.dir, filepath.FromSlash(e.Name))
	from, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, name)
	}
	if err != nil {
		return fmt.Errorf("reading the backup: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	out := io.Discard
	if to != "" {
		file, err := w.createFile(to)
		if err != nil {
			return err
		}
		defer func() {
			if e := file.Close(); e != nil && err == nil {
				err = fmt.Errorf("writing %s: %w", to, e)
			}
		}()
		out = file
	}
	w.digest.Reset()
	size, err := w.transfer(ctx, from, out)
	if err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	if size != e.Size {
		return fmt.Errorf("%w: %s has %d bytes instead of %d", ErrDamaged, name, size, e.Size)
	}
	if Digest(w.digest.Sum(nil)) != e.SHA256 {
		return fmt.Errorf("%w: the content of %s does not match its SHA-256 in the manifest", ErrDamaged, name)
	}
	return nil
}

// transfer copies a file to out and to the digest.
func (w *copyWorker) transfer(ctx context.Context, from io.Reader, out io.Writer) (size int64, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return size, err
		}
		n, err := from.Read(w.buffer)
		size += int64(n)
		w.digest.Write(w.buffer[:n])
		if _, err := out.Write(w.buffer[:n]); err != nil {
			return size, err
		}
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
}

// createFile creates a file with its folder.
func (w *copyWorker) createFile(name string) (*os.File, error) {
	dir := filepath.Dir(name)
	if _, made := w.made.Load(dir); !made {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
		w.made.Store(dir, true)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return f, nil
}
