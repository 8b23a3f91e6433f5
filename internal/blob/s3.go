package blob

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"
)

// S3 is a Store in a bucket of an S3 server. Put first writes the content to a temporary file on this
// machine, because the request that stores it contains its size and digest, and can be repeated. The
// server refuses content that does not match the digest, and keys that exist.
type S3 struct {
	core           s3Requests
	bucket, prefix string
	sse            encrypt.ServerSide
	scratch        string
	cache          *cache // nil if there is none
	buffers        sync.Pool
	transit
	// free returns the share of free space on the disk of scratch. Tests replace it.
	free func() (float64, error)
}

var _ FileStore = (*S3)(nil)

// OpenS3 returns the store at a location in the form s3Form. It sends no request to the store. The error
// is ErrLocation if the location is not valid. The credentials come from the environment, a file of
// credentials, or the role of the machine.
func OpenS3(location string, o S3Options) (*S3, error) {
	l, err := parseS3(location)
	if err != nil {
		return nil, err
	}
	core, err := l.client(o.Observe)
	if err != nil {
		return nil, err
	}
	s := &S3{
		core: core, bucket: l.bucket, prefix: l.prefix, sse: l.sse, scratch: o.Scratch,
		buffers: sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }},
	}
	s.free = func() (float64, error) { return FreeShare(s.scratch) }
	if o.Cache > 0 {
		s.cache = newCache(filepath.Join(o.Scratch, cacheDir), o.Cache)
	}
	if err := s.makeScratch(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *S3) makeScratch() error {
	if err := os.MkdirAll(filepath.Join(s.scratch, incomingDir), 0o700); err != nil {
		return fmt.Errorf("creating the folder for files in transit: %w", err)
	}
	return nil
}

// name returns the name of a blob in the bucket.
func (s *S3) name(key string) string { return s.prefix + blobsDir + "/" + key }

// Put writes the content to a file of this machine, and stores this file with one request.
func (s *S3) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	return s.put(ctx, key, r, minFree)
}

// PutReserved is like Put, but may also use the reserve of this machine's disk.
func (s *S3) PutReserved(ctx context.Context, key string, r io.Reader) (int64, error) {
	return s.put(ctx, key, r, minReserve)
}

func (s *S3) put(ctx context.Context, key string, r io.Reader, least float64) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if err := s.checkFree(least); err != nil {
		return 0, err
	}
	file, err := s.scratchFile()
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // closing deletes the file, so an error does not matter
	in := s.begin(file)
	defer in.end()
	buffer := s.buffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has only *[]byte
	defer s.buffers.Put(buffer)
	sum := sha256.New()
	size, err := fill(ctx, in, io.TeeReader(r, sum), *buffer)
	if err != nil {
		return 0, err
	}
	if err := s.store(ctx, s.name(key), file, size, sum.Sum(nil)); err != nil {
		return 0, err
	}
	return size, nil
}

// scratchFile returns a new file without a name. The system deletes it when it is closed or the process
// ends.
func (s *S3) scratchFile() (*os.File, error) {
	file, err := os.CreateTemp(filepath.Join(s.scratch, incomingDir), "")
	if errors.Is(err, fs.ErrNotExist) { // the folder was deleted
		if err = s.makeScratch(); err == nil {
			file, err = os.CreateTemp(filepath.Join(s.scratch, incomingDir), "")
		}
	}
	if err != nil {
		return nil, storeError(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(storeError(err), file.Close())
	}
	return file, nil
}

// store stores the content of r under a name in the bucket. It returns ErrExists if the bucket has an
// object with this name and different content. After a failed request, store compares the object in the
// bucket with r, because the response to a successful attempt may have been lost.
func (s *S3) store(ctx context.Context, name string, r io.ReaderAt, size int64, sum []byte) error {
	checksum := base64.StdEncoding.EncodeToString(sum)
	options := minio.PutObjectOptions{
		ContentType: "application/octet-stream", ServerSideEncryption: s.sse,
		// The server compares the checksum with the bytes that it stores.
		UserMetadata: map[string]string{"x-amz-checksum-sha256": checksum},
	}
	options.SetMatchETagExcept("*")
	limited, cancel := transferTime(ctx, size)
	defer cancel()
	_, err := s.core.PutObject(limited, s.bucket, name, io.NewSectionReader(r, 0, size), size, "", hex.EncodeToString(sum), options)
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	err = s.failure(ctx, "storing a file", err)
	same, lookErr := s.stored(context.WithoutCancel(ctx), name, size, checksum)
	switch {
	case lookErr == nil && same:
		return nil // an attempt was successful, and its response was lost
	case lookErr == nil:
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	return err
}

// stored reports whether the object with a name has the given size and checksum. It returns an error if
// there is no object.
func (s *S3) stored(ctx context.Context, name string, size int64, checksum string) (same bool, err error) {
	limited, cancel := transferTime(ctx, 0)
	defer cancel()
	info, err := s.core.StatObject(limited, s.bucket, name, minio.StatObjectOptions{Checksum: true})
	switch {
	case err != nil:
		return false, s.failure(ctx, "comparing a file", err)
	case info.Size != size:
		return false, nil
	case info.ChecksumSHA256 != "":
		return info.ChecksumSHA256 == checksum, nil
	}
	// The server does not return checksums, so the content must be read.
	limited, cancel = transferTime(ctx, size)
	defer cancel()
	body, _, _, err := s.core.GetObject(limited, s.bucket, name, minio.GetObjectOptions{})
	if err != nil {
		return false, s.failure(ctx, "comparing a file", err)
	}
	hash := sha256.New()
	_, err = io.Copy(hash, body)
	if err := errors.Join(err, body.Close()); err != nil {
		return false, s.failure(ctx, "comparing a file", err)
	}
	return base64.StdEncoding.EncodeToString(hash.Sum(nil)) == checksum, nil
}

// isMissing reports whether a response means that there is no object.
func isMissing(err error) bool { return minio.ToErrorResponse(err).Code == minio.NoSuchKey }

// failure returns the error of a request: the error of a canceled context, or ErrUnavailable. It does
// not wrap err, because callers interpret io.ErrUnexpectedEOF as an interrupted upload or a damaged file,
// and a lost connection to the store can cause this error too.
func (s *S3) failure(ctx context.Context, doing string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	why := err.Error()
	response := minio.ToErrorResponse(err)
	if response.Code != "" && !strings.Contains(why, response.Code) {
		why = response.Code + ": " + why
	}
	return fmt.Errorf("%s: %w: s3://%s: %s", doing, ErrUnavailable, s.bucket, why)
}

// Delete removes a blob from the bucket and from the cache.
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	s.cache.remove(key)
	ctx, cancel := transferTime(ctx, 0)
	defer cancel()
	if err := s.core.RemoveObject(ctx, s.bucket, s.name(key), minio.RemoveObjectOptions{}); err != nil && !isMissing(err) {
		return s.failure(ctx, "removing a file", err)
	}
	return nil
}

// Walk calls visit for each blob whose key is greater than after, in the order of the keys, until visit
// returns an error. Each request lists up to 1,000 blobs.
func (s *S3) Walk(ctx context.Context, after string, visit func(Info) error) error {
	prefix := s.name("")
	options := minio.ListObjectsOptions{Prefix: prefix, Recursive: true}
	if after != "" {
		options.StartAfter = prefix + after
	}
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range s.core.ListObjectsIter(listing, s.bucket, options) {
		if o.Err != nil {
			return s.failure(ctx, "listing files", o.Err)
		}
		if strings.HasSuffix(o.Key, "/") {
			continue // some programs create such an object for each folder
		}
		if err := visit(Info{Key: strings.TrimPrefix(o.Key, prefix), Size: o.Size, Modified: o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Clean does nothing, because an interrupted Put leaves no temporary file.
func (s *S3) Clean(context.Context, time.Time) error { return nil }

// CheckReserve returns ErrFull if the disk of this machine has too little space for a file in transit.
func (s *S3) CheckReserve(context.Context) error { return s.checkFree(minReserve) }

func (s *S3) checkFree(least float64) error {
	share, err := s.free()
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.makeScratch(); err == nil {
			share, err = s.free()
		}
	}
	if err != nil {
		return fmt.Errorf("checking the free disk space: %w", err)
	}
	if share < least {
		return ErrFull
	}
	return nil
}
