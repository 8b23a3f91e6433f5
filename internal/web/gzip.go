package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// worthCompressing is from how many bytes on compression saves a packet.
const worthCompressing = 1024

var compressors = sync.Pool{New: func() any { return new(gzip.Writer) }}

// AcceptsGzip tells whether a client takes gzip (RFC 9110, 12.5.3). One that
// gives it a weight of zero does not.
func AcceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight = strings.TrimSpace(weight)
			return !strings.HasPrefix(weight, "q=0") || strings.Trim(weight, "q=0.") != ""
		}
	}
	return false
}

// Gzip compresses a body.
func Gzip(body []byte, level int) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// WriteBody answers with a text whose type the caller has set, compressed where
// the client takes that.
func WriteBody(w http.ResponseWriter, r *http.Request, status int, body []byte) error {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(body) >= worthCompressing && AcceptsGzip(r) {
		var b bytes.Buffer
		z, _ := compressors.Get().(*gzip.Writer)
		z.Reset(&b)
		_, err := z.Write(body)
		if err == nil {
			err = z.Close()
		}
		compressors.Put(z)
		if err != nil {
			return err
		}
		h.Set("Content-Encoding", "gzip")
		body = b.Bytes()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return nil //nolint:nilerr // the client is gone; there is nobody to tell
	}
	return nil
}
