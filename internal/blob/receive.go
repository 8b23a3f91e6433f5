package blob

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

// fullRetry is the time after which a client may repeat an upload that was refused because the
// store was full.
const fullRetry = time.Minute

// Receive stores r under key. Then it calls check, which may read the blob. If check succeeds,
// Receive calls use, which creates the record that refers to the blob.
//
// Receive deletes the blob if check returns an error, or if use returns an error of a kind other
// than fault.Internal. No record refers to the blob in these cases. If use returns fault.Internal,
// Receive does not delete the blob, because the commit may have succeeded although the response of
// the database was lost. If the commit failed, the sweep of files deletes the blob after the time of
// --blob-keep.
//
// An error of reading r is wrapped in the returned error. If the store is full, the error is a
// fault of kind Unavailable with a RetryAfter.
func Receive(ctx context.Context, s Store, key string, r io.Reader, check func(size int64) error, use func() error) error {
	size, err := s.Put(ctx, key, r)
	if errors.Is(err, ErrFull) {
		const message = "The vault has no room for more files at the moment. Inform the operator of this vault."
		return &fault.Error{Kind: fault.Unavailable, Message: message, RetryAfter: fullRetry, Err: err}
	}
	if err != nil {
		return err
	}
	if err = check(size); err == nil {
		if err = use(); err == nil || fault.KindOf(err) == fault.Internal {
			return err
		}
	}
	// The deletion must run even if the client disconnected, which ends ctx.
	return errors.Join(err, s.Delete(context.WithoutCancel(ctx), key))
}
