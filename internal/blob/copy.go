package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"
)

// copyWorkers is the number of blobs that are copied concurrently. Each worker mostly waits for the
// disk or the network.
const copyWorkers = 8

var (
	// ErrIncompleteCopy means that blobs could not be copied or that copies differ.
	ErrIncompleteCopy = errors.New("the copy is not complete")
	errDiffers        = errors.New("the file in the target differs from the source")
	errNoBlob         = errors.New("the name is not that of a stored file; remove the file from the source")
)

// Copier copies all blobs of a store to another store, and then the installation. Blobs that the target
// has are compared and not copied again, so that an interrupted copy can be continued. The source may be
// in use: Copier ignores blobs that are removed during the copy, and may miss blobs that are added
// during the copy.
type Copier struct {
	From, To FileStore
	// Problem is called for each blob that could not be copied, or whose copy differs. Calls do not
	// overlap.
	Problem func(key string, err error)

	reporting                                sync.Mutex
	copied, skipped, removed, failed, volume atomic.Int64
}

// CopyCounts describes how much was copied.
type CopyCounts struct {
	// Copied is the number of blobs that are new in the target, and Bytes is their size.
	Copied int64 `json:"copied"`
	Bytes  int64 `json:"bytes"`
	// Skipped is the number of blobs that the target already had, with the same content.
	Skipped int64 `json:"skipped"`
	// Removed is the number of blobs that were removed from the source during the copy.
	Removed int64 `json:"removed"`
	// Failed is the number of blobs that could not be copied, or whose copies differ.
	Failed int64 `json:"failed"`
}

// Counts returns the counts of the blobs that were processed so far.
func (c *Copier) Counts() CopyCounts {
	return CopyCounts{Copied: c.copied.Load(), Bytes: c.volume.Load(), Skipped: c.skipped.Load(), Removed: c.removed.Load(), Failed: c.failed.Load()}
}

// Run copies the blobs. If a blob cannot be read or differs, Run continues with the other blobs, and the
// error is ErrIncompleteCopy. If a store is not available or the target accepts no writes, Run returns
// an error at once. The target gets the installation after all blobs, so that no vault starts with an
// incomplete copy.
func (c *Copier) Run(ctx context.Context) error {
	installation, err := c.prepare(ctx)
	if err != nil {
		return err
	}
	if err := c.copyAll(ctx); err != nil {
		return err
	}
	if n := c.failed.Load(); n > 0 {
		return fmt.Errorf("%w: files of %s that are not in %s, or differ: %d", ErrIncompleteCopy, c.From.Location(), c.To.Location(), n)
	}
	return c.To.SetInstallation(ctx, installation)
}

// prepare checks both stores, and creates the target. It returns the installation of the source.
func (c *Copier) prepare(ctx context.Context) (Installation, error) {
	if err := c.From.exists(ctx); err != nil {
		return Installation{}, err
	}
	inside, err := c.From.contains(c.To)
	if err != nil {
		return Installation{}, err
	}
	if inside {
		return Installation{}, fmt.Errorf("the target %s is the source %s, or is inside it; name another folder", c.To.Location(), c.From.Location())
	}
	installation, err := c.From.Installation(ctx)
	if errors.Is(err, ErrNoInstallation) {
		return Installation{}, fmt.Errorf("%s is an incomplete copy, or was used only by an earlier version (if so, start certvault serve once): %w",
			c.From.Location(), err)
	}
	if err != nil {
		return Installation{}, err
	}
	target, err := c.To.Installation(ctx)
	if err != nil && !errors.Is(err, ErrNoInstallation) {
		return Installation{}, err
	}
	if err == nil && target.ID != installation.ID {
		return Installation{}, fmt.Errorf("the target belongs to another installation: %s has the id %s, and %s has the id %s; name another place",
			c.To.InstallationPath(), target.ID, c.From.InstallationPath(), installation.ID)
	}
	return installation, c.To.createNew()
}

// copyAll copies all blobs with several workers. The first error that is not the problem of one
// blob ends all workers.
func (c *Copier) copyAll(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	keys := make(chan string)
	var workers sync.WaitGroup
	for range copyWorkers {
		workers.Go(func() {
			for key := range keys {
				if ctx.Err() != nil {
					return
				}
				if err := c.copyBlob(ctx, key); err != nil {
					stop(err)
				}
			}
		})
	}
	err := c.From.Walk(ctx, "", func(i Info) error {
		select {
		case keys <- i.Key:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(keys)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// copyBlob copies one blob, or reports its problem. It returns an error if further blobs would fail
// too.
func (c *Copier) copyBlob(ctx context.Context, key string) error {
	source, err := c.From.Open(ctx, key)
	switch {
	case errors.Is(err, ErrUnavailable):
		return fmt.Errorf("reading from %s: %w", c.From.Location(), err)
	case errors.Is(err, ErrKey):
		c.report(key, errNoBlob)
		return nil
	case errors.Is(err, ErrNotFound):
		c.removed.Add(1)
		return nil
	case err != nil:
		c.report(key, err)
		return nil
	}
	defer func() { _ = source.Close() }() // it was only read
	reader := newDigestReader(source)
	written := false
	exists, err := c.hasTarget(ctx, key)
	switch {
	case errors.Is(err, ErrUnavailable):
		return fmt.Errorf("reading from %s: %w", c.To.Location(), err)
	case err != nil:
		c.report(key, err)
		return nil
	case exists:
		_, err = io.Copy(io.Discard, reader)
	default:
		_, err = c.To.Put(ctx, key, reader)
		written = err == nil
	}
	if errors.Is(reader.err, ErrUnavailable) {
		return fmt.Errorf("reading from %s: %w", c.From.Location(), reader.err)
	}
	if reader.err != nil {
		c.report(key, reader.err)
		return nil
	}
	if err != nil && !errors.Is(err, ErrExists) { // ErrExists: another process is copying the store too
		return fmt.Errorf("copying to %s: %w", c.To.Location(), err)
	}
	if err := c.compare(ctx, key, reader, source.Size()); errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("reading from %s: %w", c.To.Location(), err)
	} else if err != nil {
		if written {
			err = errors.Join(err, c.To.Delete(ctx, key))
		}
		c.report(key, err)
		return nil
	}
	if exists {
		c.skipped.Add(1)
		return nil
	}
	c.copied.Add(1)
	c.volume.Add(source.Size())
	return nil
}

// hasTarget reports whether the target has a blob.
func (c *Copier) hasTarget(ctx context.Context, key string) (bool, error) {
	o, err := c.To.Open(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, o.Close()
}

// compare reads a blob of the target, and compares it with what was read from the source.
func (c *Copier) compare(ctx context.Context, key string, source *digestReader, size int64) error {
	o, err := c.To.Open(ctx, key)
	if err != nil {
		return err
	}
	defer func() { _ = o.Close() }()
	if o.Size() != size {
		return fmt.Errorf("%w: %d bytes instead of %d", errDiffers, o.Size(), size)
	}
	target := newDigestReader(o)
	if _, err := io.Copy(io.Discard, target); err != nil {
		return err
	}
	if !bytes.Equal(target.hash.Sum(nil), source.hash.Sum(nil)) {
		return errDiffers
	}
	return nil
}

func (c *Copier) report(key string, err error) {
	c.failed.Add(1)
	c.reporting.Lock()
	defer c.reporting.Unlock()
	c.Problem(key, err)
}

// digestReader reads a blob and computes its SHA-256. err is the error of reading the blob, so that
// callers can distinguish it from an error of the store that receives the content.
type digestReader struct {
	r    io.Reader
	hash hash.Hash
	err  error
}

func newDigestReader(o Object) *digestReader {
	return &digestReader{r: io.NewSectionReader(o, 0, o.Size()), hash: sha256.New()}
}

func (d *digestReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.hash.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		d.err = fmt.Errorf("reading a file: %w", err)
		err = d.err
	}
	return n, err
}
