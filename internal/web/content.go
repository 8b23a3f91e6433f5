package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// contentTime bounds how long an answer with a file may take to leave.
const contentTime = 10 * time.Minute

// ServeContent answers with a stored file, whose digest makes its ETag; ranges
// and conditions are net/http's. The headers that say what it is are the
// caller's.
func ServeContent(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, tag string) error {
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(contentTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bounding the download's time: %w", err)
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, content)
	return nil
}

// Timestamp writes a time as every JSON answer has it: RFC 3339 in UTC; null for
// none.
func Timestamp(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := t.UTC().Format(time.RFC3339Nano)
	return &s
}
