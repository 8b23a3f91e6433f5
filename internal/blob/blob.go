// Package blob stores files, such as originals, tails of verified PDFs and rendered images. A blob is
// written once under a key that the caller chooses, and it never changes. The package does not
// depend on the content of a file or on the records that refer to it.
package blob

import (
	"context"
	"errors"
	"io"
	"time"
)

var (
	// ErrNotFound reports that there is no blob under the key.
	ErrNotFound = errors.New("no such blob")
	// ErrFull reports that the store has too little free space for another blob.
	ErrFull = errors.New("the store is nearly full")
	// ErrExists reports that there is a blob under the key already. Keys are never used again.
	ErrExists = errors.New("the blob exists already")
	// ErrKey reports that a key is invalid.
	ErrKey = errors.New("invalid blob key")
	// ErrUnavailable reports that a store on the network cannot be used at the moment. It is not a
	// fault.Error. The function web.IsOutage recognizes it.
	ErrUnavailable = errors.New("the file store is not available")
)

// Store stores blobs. A key has at most 512 bytes. It consists of segments of a-z, 0-9, "-", "_"
// and ".", which are joined by "/". Each segment begins with a letter or a digit.
type Store interface {
	// Put reads r to its end and stores the content under key. It returns after the blob is
	// durable. It returns ErrFull if the store has too little free space besides the reserve, and
	// ErrExists if there is a blob under the key. An S3 returns no error if this blob has the same
	// content. After ErrUnavailable or context.Canceled, the blob may exist, because the response of
	// the store may have been lost. After any other error, Put has stored nothing. If reading from r
	// fails, the error wraps the error of r.
	Put(ctx context.Context, key string, r io.Reader) (size int64, err error)
	// PutReserved is like Put, but may also use the reserve. The reserve is free space that Put
	// does not use. PutReserved is for the files that the vault makes from accepted uploads.
	PutReserved(ctx context.Context, key string, r io.Reader) (size int64, err error)
	// CheckReserve returns ErrFull if PutReserved has too little free space for another blob.
	CheckReserve(ctx context.Context) error
	// Open opens a blob for reading at any offset. It returns ErrNotFound if the blob does not
	// exist.
	Open(ctx context.Context, key string) (Object, error)
	// Delete removes a blob. It returns no error if the blob does not exist.
	Delete(ctx context.Context, key string) error
	// Walk calls f for each blob whose key is greater than after, in the order of the keys, until f
	// returns an error. With after = "", it calls f for all blobs.
	Walk(ctx context.Context, after string, f func(Info) error) error
	// Clean removes the files of unfinished calls of Put and PutReserved that were last written
	// before the given time.
	Clean(ctx context.Context, before time.Time) error
}

// FileStore is the file store of a vault: a Folder or an S3.
type FileStore interface { //nolint:interfacebloat // the server and the commands use one store in many ways
	Store
	// Location returns the location of the store for messages, as OpenURL accepts it.
	Location() string
	// InstallationPath returns the location of the file that contains the Installation, for messages.
	InstallationPath() string
	// Installation returns the installation to which the store belongs, and changes nothing. The error
	// is ErrNoInstallation if the store, or the file in it, does not exist.
	Installation(ctx context.Context) (Installation, error)
	// SetInstallation stores the installation durably, unless the store has one.
	SetInstallation(ctx context.Context, i Installation) error
	// Transit returns the number of bytes received so far for files that are not stored yet.
	Transit() int64
	// Probe returns an error if the store cannot be used at the moment. It is called every few seconds.
	Probe(ctx context.Context) error
	// Test writes a file and removes it. It returns an error if the store lacks a function that the
	// vault needs.
	Test(ctx context.Context) error

	// exists returns an error if there is no store at the location.
	exists(ctx context.Context) error
	// createNew creates the store if it does not exist. A Folder returns an error if the folder
	// contains something else.
	createNew() error
	// contains reports whether other is this store or is inside this store.
	contains(other FileStore) (bool, error)
}

// Object is an open blob.
type Object interface {
	io.ReaderAt
	io.Closer
	// Size is the blob's length in bytes.
	Size() int64
	// Version identifies the stored bytes. The version changes if the file is replaced or written
	// to.
	Version() (Version, error)
}

// Version identifies the bytes of a blob. Two versions can be compared with ==. Times are in
// nanoseconds.
type Version struct {
	// Inode is the number of the inode. In S3, Inode is a part of a digest of the object's ETag and
	// version id.
	Inode uint64
	Size  int64
	// Modified is the time of the last write, and Changed is the time of the last change of the
	// inode, which programs cannot set. In S3, Changed is 0.
	Modified, Changed int64
}

// FullWait is the time after which a job runs again if the store was full.
const FullWait = 30 * time.Second

// UnavailableWait is the time after which a job runs again if the store was not available.
const UnavailableWait = 10 * time.Second

// Wait returns the time after which a job runs again if err means that the store was full or not
// available. The failed attempt does not count. For other errors, Wait returns false.
func Wait(err error) (wait time.Duration, ok bool) {
	switch {
	case errors.Is(err, ErrFull):
		return FullWait, true
	case errors.Is(err, ErrUnavailable):
		return UnavailableWait, true
	}
	return 0, false
}

// Info describes a blob in Walk.
type Info struct {
	Key      string
	Size     int64
	Modified time.Time
}

// maxKey is the maximum length of a key in bytes; S3 allows 1,024.
const maxKey = 512

// checkKey returns ErrKey unless the key is valid in every store. A valid key cannot refer to a
// file outside the folder.
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
