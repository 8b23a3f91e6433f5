package web

import (
	"errors"
	"io/fs"
	"net/http"
	"syscall"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// outageRetry is the default Retry-After of a response with the status 503. A restart of the database
	// takes a few seconds.
	outageRetry   = 10 * time.Second
	outageMessage = "The vault cannot answer now. Please try again in a moment."
)

// fileOutages are the errors of a file system that cannot be used at the moment.
var fileOutages = []error{
	syscall.EIO, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENODEV, syscall.ESTALE,
	syscall.ETIMEDOUT, fs.ErrPermission,
}

// IsOutage reports whether err was caused by a database or a file store that cannot be used at the moment.
// It returns false for a fault with a kind other than Internal. Domain packages usually return the error of
// an outage without a kind, because they cannot determine whether a transaction was committed before the
// connection broke. The HTTP status of an error without a kind is also 503 if it is an outage.
func IsOutage(err error) bool {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return false
	}
	if errors.Is(err, blob.ErrUnavailable) {
		return true
	}
	for _, known := range fileOutages {
		if errors.Is(err, known) {
			return true
		}
	}
	return db.IsOutage(err)
}

// Status returns the HTTP status of an error.
func Status(err error) int {
	if IsOutage(err) {
		return http.StatusServiceUnavailable
	}
	return statuses[fault.KindOf(err)]
}

// withOutage returns an error of the kind Unavailable with the cause err if err is an outage. Otherwise it
// returns err.
func withOutage(err error) error {
	if !IsOutage(err) {
		return err
	}
	return fault.Wrap(fault.Unavailable, outageMessage, err)
}
