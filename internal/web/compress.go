package web

import (
	"fmt"
	"net/http"

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
	return func(next http.Handler) http.Handler { return wrap(next) }, nil
}
