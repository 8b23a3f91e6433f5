package blob

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

// fullRetry is when an upload may be tried again that the store had no room for.
const fullRetry = time.Minute

// Receive stores r under key. Then it calls check, which may read the blob, and
// use, which makes the record that refers to it.
//
// Receive deletes the blob again if check returns an error, or if use returns an
// error of another kind than fault.Internal: then nothing refers to the blob.
// After fault.Internal it keeps the blob, because a commit whose answer was lost
// may have been made. If it was not, the sweep of files deletes the blob.
//
// An error of r is returned as it is. A store that is full is fault.Unavailable.
func Receive(ctx context.Context, s Store, key string, r io.Reader, check func(size int64) error, use func() error) error {
	size, err := s.Put(ctx, key, r)
	if errors.Is(err, ErrFull) {
		return &fault.Error{Kind: fault.Unavailable, Message: "The vault has no room for more files at the moment.", RetryAfter: fullRetry, Err: err}
	}
	if err != nil {
		return err
	}
	if err = check(size); err == nil {
		if err = use(); err == nil || fault.KindOf(err) == fault.Internal {
			return err
		}
	}
	// The client may be gone, and its context with it.
	return errors.Join(err, s.Delete(context.WithoutCancel(ctx), key))
}
