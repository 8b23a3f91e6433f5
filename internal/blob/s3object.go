package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// wholeSize is the maximum size in bytes of a blob that Open copies to this machine with one
	// request. Certificates are smaller, ZIPs may be larger.
	wholeSize = 32 << 20
	// window is the number of bytes that one request reads of a larger blob. windows is the number of
	// parts that are kept in memory: a ZIP is read at its end and at two other places.
	window  = 1 << 20
	windows = 4
	// sequential is the number of windows that one request reads if the blob is read sequentially.
	sequential = 4
	// openAttempts is the maximum number of attempts to read a complete body.
	openAttempts = 3
)

// uncached is the key of the value that WithoutCache adds to a context.
type uncached struct{}

// WithoutCache returns a context with which Open reads from the store, even if this machine has a
// copy, and keeps no copy. It is for checks of the store, and for reading all blobs.
func WithoutCache(ctx context.Context) context.Context {
	return context.WithValue(ctx, uncached{}, true)
}

// Open opens a blob. It copies a blob of up to wholeSize bytes to this machine, unless the cache has it.
func (s *S3) Open(ctx context.Context, key string) (Object, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	c := s.cache
	if ctx.Value(uncached{}) != nil {
		c.remove(key)
		c = nil
	}
	if o := c.open(key); o != nil {
		return o, nil
	}
	var o Object
	err := retryCut(func() (err error) {
		o, err = s.get(ctx, key, c)
		return err
	})
	return o, err
}

// errCutBody means that the body of a response ended early.
var errCutBody = errors.New("the response of the store is incomplete")

// retryCut calls the function get until its error is not errCutBody, at most openAttempts times.
func retryCut(get func() error) (err error) {
	for range openAttempts {
		if err = get(); !errors.Is(err, errCutBody) {
			return err
		}
	}
	return err
}

// get requests a blob. It adds a blob of up to wholeSize bytes to the cache, unless its checksum
// differs.
func (s *S3) get(ctx context.Context, key string, c *cache) (_ Object, err error) {
	// The time limit is extended when the size is known.
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.AfterFunc(transferLimit(0), cancel)
	defer limit.Stop()
	var options minio.GetObjectOptions
	options.Set("x-amz-checksum-mode", "ENABLED")
	body, info, header, err := s.core.GetObject(limited, s.bucket, s.name(key), options)
	if isMissing(err) {
		return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, s.failure(ctx, "opening a file", err)
	}
	defer func() { _ = body.Close() }() // it was only read
	v := versionOf(info)
	if info.Size > wholeSize {
		return &largeObject{store: s, ctx: context.WithoutCancel(ctx), key: key, version: v}, nil
	}
	limit.Reset(transferLimit(info.Size))
	file, err := s.scratchFile()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	sum := sha256.New()
	buffer := s.buffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has only *[]byte
	defer s.buffers.Put(buffer)
	received := &bodyReader{r: body}
	size, err := fill(ctx, file, io.TeeReader(received, sum), *buffer)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	case received.err != nil, ctx.Err() != nil, err == nil && size != info.Size:
		return nil, fmt.Errorf("%w: %w", s.failure(ctx, "opening a file", errCutBody), errCutBody)
	case err != nil:
		return nil, err
	}
	// The caller detects damaged content. The cache does not keep it, because a repaired blob must be
	// read from the store.
	if stored := header.Get("X-Amz-Checksum-Sha256"); stored == "" || stored == base64.StdEncoding.EncodeToString(sum.Sum(nil)) {
		c.add(key, file, v)
	}
	return &wholeObject{File: file, version: v}, nil
}

// bodyReader records the error of a body, so that it is distinguished from an error of the disk.
type bodyReader struct {
	r   io.Reader
	err error
}

// Read implements [io.Reader].
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// versionOf returns the version of an object. The ETag changes with the content.
func versionOf(info minio.ObjectInfo) Version {
	tag := sha256.Sum256([]byte(info.ETag + " " + info.VersionID))
	return Version{Inode: binary.BigEndian.Uint64(tag[:]), Size: info.Size, Modified: info.LastModified.UnixNano()}
}

// wholeObject is a blob that was copied to this machine.
type wholeObject struct {
	*os.File

	version Version
}

// Size implements Object.
func (o *wholeObject) Size() int64 { return o.version.Size }

// Version implements Object.
func (o *wholeObject) Version() (Version, error) { return o.version, nil }

// largeObject reads a blob in parts, and keeps the parts that were read last in memory.
type largeObject struct {
	store *S3
	// ctx is the context of Open without its cancellation, because an object is usable until it is
	// closed.
	ctx     context.Context //nolint:containedctx // io.ReaderAt has no context
	key     string
	version Version

	mu    sync.Mutex
	parts [windows]part
	next  int
}

// part is the end of a blob's content, which begins at the offset in the field at.
type part struct {
	at   int64
	data []byte
}

// Size implements Object.
func (o *largeObject) Size() int64 { return o.version.Size }

// Version implements Object.
func (o *largeObject) Version() (Version, error) { return o.version, nil }

// Close implements Object.
func (o *largeObject) Close() error { return nil }

// ReadAt implements [io.ReaderAt].
func (o *largeObject) ReadAt(p []byte, off int64) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n < len(p) && off < o.version.Size {
		if m := o.copyPart(p[n:], off); m > 0 {
			n, off = n+m, off+int64(m)
			continue
		}
		from, length := off-off%window, int64(window)
		if off == from && o.hasEnd(off) {
			length *= sequential
		}
		if err := o.fetch(from, min(length, o.version.Size-from)); err != nil {
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// copyPart copies bytes at an offset from a part in memory. It returns 0 if no part has them.
func (o *largeObject) copyPart(p []byte, off int64) int {
	for _, part := range o.parts {
		if off >= part.at && off < part.at+int64(len(part.data)) {
			return copy(p, part.data[off-part.at:])
		}
	}
	return 0
}

// hasEnd reports whether a part in memory ends at an offset, which means that the caller reads
// sequentially.
func (o *largeObject) hasEnd(off int64) bool {
	for _, part := range o.parts {
		if len(part.data) > 0 && part.at+int64(len(part.data)) == off {
			return true
		}
	}
	return false
}

// fetch reads length bytes at an offset into memory.
func (o *largeObject) fetch(at, length int64) error {
	var data []byte
	if err := retryCut(func() (err error) {
		data, err = o.store.getRange(o.ctx, o.key, at, length)
		return err
	}); err != nil {
		return err
	}
	o.parts[o.next] = part{at: at, data: data}
	o.next = (o.next + 1) % len(o.parts)
	return nil
}

// getRange requests length bytes of a blob at an offset.
func (s *S3) getRange(ctx context.Context, key string, at, length int64) ([]byte, error) {
	var options minio.GetObjectOptions
	if err := options.SetRange(at, at+length-1); err != nil {
		return nil, fmt.Errorf("reading a file: %w", err)
	}
	limited, cancel := transferTime(ctx, length)
	defer cancel()
	body, _, header, err := s.core.GetObject(limited, s.bucket, s.name(key), options)
	if isMissing(err) {
		return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, s.failure(ctx, "reading a file", err)
	}
	defer func() { _ = body.Close() }() // it was only read
	if !strings.HasPrefix(header.Get("Content-Range"), fmt.Sprintf("bytes %d-", at)) {
		return nil, s.failure(ctx, "reading a file", errors.New("the store does not support ranges"))
	}
	data := bytes.NewBuffer(make([]byte, 0, length))
	if n, err := io.Copy(data, io.LimitReader(body, length)); err != nil || n < length {
		return nil, fmt.Errorf("%w: %w", s.failure(ctx, "reading a file", errCutBody), errCutBody)
	}
	return data.Bytes(), nil
}
