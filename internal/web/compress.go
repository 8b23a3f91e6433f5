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
	// compressFrom is the minimum size in bytes of a response that is compressed. A smaller response
	// fits into one network packet without compression.
	compressFrom = 1 << 10
	// padding is the maximum number of pseudo-random bytes added to a compressed response, so that
	// the length does not reveal the exact size of the compressed content.
	padding = 32
)

// compressible are the types of responses that compress well. PDF, PNG and JPEG are not in the
// list, because such files are already compressed.
var compressible = []string{"application/json", "text/html", "text/css", "text/javascript", "image/svg+xml"}

// Compress returns the middleware that compresses responses of the compressible types for clients
// that accept gzip (RFC 9110, 12.5.3). It does not compress a response with a range of a file.
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

// unsized writes the response to a HEAD request of a client that accepts gzip. If the response has a
// compressible type, unsized omits Content-Length, because the compressed response to GET may have a
// different length (RFC 9110, 8.6).
type unsized struct {
	http.ResponseWriter

	headerSent bool
}

func (w *unsized) WriteHeader(status int) {
	w.headerSent = true
	h := w.Header()
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if slices.Contains(compressible, kind) {
		h.Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write discards the body. A response to HEAD has no body, and net/http would compute
// Content-Length from the bytes written.
func (w *unsized) Write(p []byte) (int, error) {
	if !w.headerSent {
		w.WriteHeader(http.StatusOK)
	}
	return len(p), nil
}

// Unwrap returns the wrapped writer. It is for http.ResponseController.
func (w *unsized) Unwrap() http.ResponseWriter { return w.ResponseWriter }
