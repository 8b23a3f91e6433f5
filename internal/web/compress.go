package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

const (
	// compressFrom is the size in bytes from which compressing pays: what fits in
	// a packet takes as long either way.
	compressFrom = 1 << 10
	// padding is by how many bytes at most a compressed answer is longer than it
	// need be, so that its length does not tell what is in it.
	padding = 32
)

// compressible are the types of answers that compress well. A file that somebody
// uploaded is none of them: PDF, PNG and JPEG are compressed already.
var compressible = []string{"application/json", "text/html", "text/css", "text/javascript", "image/svg+xml"}

// Compress gives the middleware that compresses answers, for clients that take
// gzip (RFC 9110, 12.5.3). A part of a file is never compressed.
func Compress() (func(http.Handler) http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.EnableZstd(false), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.MinSize(compressFrom), gzhttp.ContentTypes(compressible),
		gzhttp.RandomJitter(padding, 0, false),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing compression: %w", err)
	}
	return func(next http.Handler) http.Handler {
		compressed := wrap(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				w = &unsized{ResponseWriter: w}
			}
			compressed.ServeHTTP(w, r)
		})
	}, nil
}

// unsized answers a HEAD whose GET may be compressed: it does not tell the length
// that the GET would not have (RFC 9110, 8.6).
type unsized struct {
	http.ResponseWriter

	told bool
}

func (w *unsized) WriteHeader(status int) {
	w.told = true
	h := w.Header()
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if slices.Contains(compressible, kind) {
		h.Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write takes the body that a HEAD does not have, and by which its length would be
// told.
func (w *unsized) Write(p []byte) (int, error) {
	if !w.told {
		w.WriteHeader(http.StatusOK)
	}
	return len(p), nil
}

// Unwrap lets http.ResponseController reach the connection.
func (w *unsized) Unwrap() http.ResponseWriter { return w.ResponseWriter }
