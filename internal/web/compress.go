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
	// compressFrom is the minimum size in bytes of a compressed answer. A smaller one fits into one
	// packet anyway.
	compressFrom = 1 << 10
	// padding is the maximum number of random bytes added to a compressed answer, so that its length
	// reveals nothing about its content.
	padding = 32
)

// compressible are the types of answers that compress well. Uploaded files are not among them: PDF,
// PNG and JPEG are already compressed.
var compressible = []string{"application/json", "text/html", "text/css", "text/javascript", "image/svg+xml"}

// Compress returns the middleware that compresses answers for clients that accept gzip (RFC 9110,
// 12.5.3). It never compresses a part of a file.
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

// unsized answers a HEAD request whose GET may be compressed. It omits the length, because the GET
// would have another one (RFC 9110, 8.6).
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

// Write discards the body, which a HEAD answer does not have, and from which net/http would compute
// the length.
func (w *unsized) Write(p []byte) (int, error) {
	if !w.headerSent {
		w.WriteHeader(http.StatusOK)
	}
	return len(p), nil
}

// Unwrap is for http.ResponseController.
func (w *unsized) Unwrap() http.ResponseWriter { return w.ResponseWriter }
