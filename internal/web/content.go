package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

// contentTime bounds how long an answer with a file may take to leave.
const contentTime = 10 * time.Minute

// ServeContent answers with a stored file, whose digest makes its ETag; ranges
// and conditions are net/http's (RFC 9110, 13 and 14). The headers that say what
// it is are the caller's. A range that lies outside the file is an error, so that
// its answer has the form of its surface.
func ServeContent(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, tag string) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(contentTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bounding the download's time: %w", err)
	}
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+tag+`"`)
	ranged := &rangeWriter{ResponseWriter: w}
	http.ServeContent(ranged, r, "", time.Time{}, content)
	if ranged.refused {
		// Content-Range, which says how long the file is, stays.
		h.Del("Content-Disposition")
		return fault.New(fault.OutOfRange, "The file does not have the range that was asked for.")
	}
	return nil
}

// rangeWriter keeps net/http's own words for a range outside the file back.
type rangeWriter struct {
	http.ResponseWriter

	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable {
		w.refused = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *rangeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Timestamp writes a time as every JSON answer has it: RFC 3339 in UTC; null for
// none.
func Timestamp(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := t.UTC().Format(time.RFC3339Nano)
	return &s
}
