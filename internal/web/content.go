package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

// contentTime is the time limit for sending a response with a file.
const contentTime = 10 * time.Minute

// FilePolicy is the content security policy of files. If a browser opens a file, the policy prevents the
// file from running code in the origin of the vault.
const FilePolicy = "default-src 'none'; sandbox"

// StyledFilePolicy is FilePolicy for files that may contain styles, such as SVG.
const StyledFilePolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// ServeContent sends a file with tag as its ETag. Different files must have different tags. Package
// net/http handles ranges and conditions (RFC 9110, 13 and 14). The caller sets the headers that describe
// the file.
//
// If the range is invalid or outside the file, ServeContent returns fault.OutOfRange. If If-Match fails,
// it returns fault.PreconditionFailed. In both cases it sends nothing.
func ServeContent(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, tag string) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(contentTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("setting the download's deadline: %w", err)
	}
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+tag+`"`)
	if unit, _, _ := strings.Cut(r.Header.Get("Range"), "="); unit != "" && unit != "bytes" {
		// A server ignores a Range with an unknown unit (RFC 9110, 14.2).
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	ranged := &rangeWriter{ResponseWriter: w}
	http.ServeContent(ranged, r, "", time.Time{}, content)
	switch ranged.refused {
	case http.StatusRequestedRangeNotSatisfiable:
		// The header Content-Range remains, because it contains the length of the file.
		h.Del("Content-Disposition")
		return fault.New(fault.OutOfRange, "The file does not have the requested range.")
	case http.StatusPreconditionFailed:
		h.Del("Content-Disposition")
		return fault.New(fault.PreconditionFailed, "The file is not the one that If-Match names.")
	}
	return nil
}

// rangeWriter suppresses the response of net/http to an invalid range or to a failed If-Match.
type rangeWriter struct {
	http.ResponseWriter

	// refused is the status of the suppressed response, or 0.
	refused int
}

func (w *rangeWriter) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable || status == http.StatusPreconditionFailed {
		w.refused = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused != 0 {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the wrapped writer. It is for http.ResponseController.
func (w *rangeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Timestamp returns a time in the format of JSON responses: RFC 3339 in UTC, or nil for nil.
func Timestamp(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := t.UTC().Format(time.RFC3339Nano)
	return &s
}
