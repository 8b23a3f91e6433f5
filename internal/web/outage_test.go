package web_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

// TestOutageIsUnavailableWithRetryAfter checks that a temporary error of the database or the file store
// has the status 503, and that each response with the status 503 has the header Retry-After.
func TestOutageIsUnavailableWithRetryAfter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		status int
		retry  string
	}{
		"no space":             {&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, 503, "10"},
		"failed disk":          {fmt.Errorf("storing: %w", &fs.PathError{Op: "sync", Path: "/x", Err: syscall.EIO}), 503, "10"},
		"late database":        {fmt.Errorf("reading: %w", context.DeadlineExceeded), 503, "10"},
		"no file store":        {fmt.Errorf("opening: %w", blob.ErrUnavailable), 503, "10"},
		"unavailable":          {fault.New(fault.Unavailable, "Not now."), 503, "10"},
		"unavailable for long": {&fault.Error{Kind: fault.Unavailable, Message: "Not now.", RetryAfter: time.Minute}, 503, "60"},
		"late body":            {fault.Wrap(fault.TimedOut, "Late.", context.DeadlineExceeded), 408, ""},
		"missing file":         {fs.ErrNotExist, 500, ""},
		"internal":             {errors.New("boom"), 500, ""},
	} {
		w := httptest.NewRecorder()
		web.WriteJSONError(w, secure(http.MethodGet, "/"), tc.err)
		if w.Code != tc.status || w.Header().Get("Retry-After") != tc.retry || web.Status(tc.err) != tc.status {
			t.Errorf("%s: status = %d, Retry-After = %q, want %d and %q, and the same status from Status", name, w.Code, w.Header().Get("Retry-After"), tc.status, tc.retry)
		}
	}
}
