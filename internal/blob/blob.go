// Package blob keeps files: originals, tails of verified PDFs, rendered
// images. A blob is written once, whole and durable, under a key its owner
// chose, and never changed. The package knows nothing of what is in a file or
// who refers to it.
package blob

import (
	"context"
	"errors"
	"io"
	"time"
)

var (
	// ErrNotFound is a key that has no blob.
	ErrNotFound = errors.New("no such blob")
	// ErrFull is a store without the room to take another blob safely.
	ErrFull = errors.New("the store is nearly full")
	// ErrKey is a key outside the shape that every store can hold.
	ErrKey = errors.New("malformed blob key")
)

// Store keeps blobs. Keys are segments of a-z, 0-9, "-", "_" and "." joined by
// "/"; a segment does not begin with ".".
type Store interface {
	// Put reads r to its end and keeps it under key. It returns only when the
	// blob would survive a power cut; when it fails, nothing is left under the
	// key. An error of r is returned as it is.
	Put(ctx context.Context, key string, r io.Reader) (size int64, err error)
	// Open opens a blob for reading at any place.
	Open(ctx context.Context, key string) (Object, error)
	// Delete removes a blob; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// Walk calls f for each blob in no particular order.
	Walk(ctx context.Context, f func(Info) error) error
	// Clean removes what unfinished Puts from before a time left behind.
	Clean(ctx context.Context, before time.Time) error
}

// Object is an open blob.
type Object interface {
	io.ReaderAt
	io.Closer
	// Size is the blob's length in bytes.
	Size() int64
}

// Info describes a blob in a Walk.
type Info struct {
	Key      string
	Size     int64
	Modified time.Time
}

// maxKey bounds a key's length in bytes; S3 takes 1,024.
const maxKey = 512

// checkKey tells whether a key has the shape every store can hold, which also
// keeps it inside the folder.
func checkKey(key string) error {
	if key == "" || len(key) > maxKey {
		return ErrKey
	}
	start := true
	for i := range len(key) {
		c := key[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			start = false
		case c == '-' || c == '_' || c == '.':
			if start {
				return ErrKey
			}
		case c == '/':
			if start {
				return ErrKey
			}
			start = true
		default:
			return ErrKey
		}
	}
	if start {
		return ErrKey
	}
	return nil
}
