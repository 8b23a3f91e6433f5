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
	// outageRetry is the Retry-After of responses during an outage. A database that restarts needs
	// a few seconds.
	outageRetry   = 10 * time.Second
	outageMessage = "The vault cannot answer now. Please try again in a moment."
)

// fileOutages are the errors of a file system that cannot work at the moment.
var fileOutages = []error{
	syscall.EIO, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENODEV, syscall.ESTALE,
	syscall.ETIMEDOUT, fs.ErrPermission,
}

// IsOutage reports whether the cause of an error is that the database or the file store cannot work
// at the moment. Such an error has no kind, because a domain package cannot determine whether a
// transaction was committed before the connection broke. The response still has the status 503.
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

// withOutage returns fault.Unavailable with the cause err if err is an outage, and any other error
// unchanged.
func withOutage(err error) error {
	if !IsOutage(err) {
		return err
	}
	return fault.Wrap(fault.Unavailable, outageMessage, err)
}
