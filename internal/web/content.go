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

// contentTime bounds how long an answer with a file may take to leave.
const contentTime = 10 * time.Minute

// ServeContent answers with a stored file, whose digest makes its ETag; ranges
// and conditions are net/http's (RFC 9110, 13 and 14). The headers that say what
// it is are the caller's. A range that lies outside the file, and a condition that
// does not hold, are errors, so that their answers have the form of their surface.
func ServeContent(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, tag string) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(contentTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bounding the download's time: %w", err)
	}
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+tag+`"`)
	if unit, _, _ := strings.Cut(r.Header.Get("Range"), "="); unit != "" && unit != "bytes" {
		// A unit that is not known asks for nothing (RFC 9110, 14.2).
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	ranged := &rangeWriter{ResponseWriter: w}
	http.ServeContent(ranged, r, "", time.Time{}, content)
	switch ranged.refused {
	case http.StatusRequestedRangeNotSatisfiable:
		// Content-Range, which says how long the file is, stays.
		h.Del("Content-Disposition")
		return fault.New(fault.OutOfRange, "The file does not have the range that was asked for.")
	case http.StatusPreconditionFailed:
		h.Del("Content-Disposition")
		return fault.New(fault.Unmet, "The file is not the one that If-Match names.")
	}
	return nil
}

// rangeWriter keeps net/http's own words for what it refuses back.
type rangeWriter struct {
	http.ResponseWriter

	// refused is the status of the refusal, 0 for none.
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
