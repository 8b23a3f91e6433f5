package web_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web"
)

// typed returns a handler that sends a body with a media type.
func typed(mediaType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		if mediaType == "application/pdf" {
			_ = web.ServeContent(w, r, strings.NewReader(body), "digest")
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body)
	})
}

func TestCompressionDependsOnTypeSizeAndClient(t *testing.T) {
	t.Parallel()
	compress, err := web.Compress()
	if err != nil {
		t.Fatal(err)
	}
	long, short := strings.Repeat("certificate ", 500), strings.Repeat("x", 1000)
	for _, tc := range []struct {
		what, mediaType, body string
		header                http.Header
		compressed            bool
	}{
		{"JSON", "application/json", long, nil, true},
		{"a page", "text/html; charset=utf-8", long, nil, true},
		{"an SVG image", "image/svg+xml", long, nil, true},
		{"a style sheet", "text/css; charset=utf-8", long, nil, true},
		{"smaller than a packet", "application/json", short, nil, false},
		{"an empty body", "application/json", "", nil, false},
		{"a PDF", "application/pdf", long, nil, false},
		{"a PNG image", "image/png", long, nil, false},
		{"a part of a PDF", "application/pdf", long, http.Header{"Range": {"bytes=0-1999"}}, false},
		{"a client that refuses gzip", "application/json", long, http.Header{"Accept-Encoding": {"gzip;q=0, br"}}, false},
		{"a client without Accept-Encoding", "application/json", long, http.Header{"Accept-Encoding": nil}, false},
	} {
		r := secure(http.MethodGet, "/")
		r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
		maps.Copy(r.Header, tc.header)
		w, log := serve(web.Options{}, r, compress(typed(tc.mediaType, tc.body)))
		got := w.Header().Get("Content-Encoding") == "gzip"
		body := w.Body.Bytes()
		if got {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
			if w.Body.Len() > len(tc.body)/2 || w.Header().Get("Content-Length") == fmt.Sprint(len(tc.body)) {
				t.Errorf("%s: %d bytes were compressed to %d, want at most half and not the original Content-Length; header %v", tc.what, len(tc.body), w.Body.Len(), w.Header())
			}
		}
		want := tc.body
		if w.Code == http.StatusPartialContent {
			want = want[:2000]
		}
		if got != tc.compressed || string(body) != want || !strings.Contains(strings.Join(w.Header().Values("Vary"), ","), "Accept-Encoding") {
			t.Errorf("%s: compressed = %v, want %v; %d bytes, want %d; header %v, want Vary: Accept-Encoding", tc.what, got, tc.compressed, len(body), len(want), w.Header())
		}
		if !strings.Contains(log, fmt.Sprintf(`"bytes":%d`, w.Body.Len())) {
			t.Errorf("%s: the size in the log differs from the bytes sent: %s", tc.what, log)
		}
	}
}

// TestHeadOmitsCompressedLength checks that the response to HEAD has no length if the response to
// GET may be compressed (RFC 9110, 8.6).
func TestHeadOmitsCompressedLength(t *testing.T) {
	t.Parallel()
	compress, err := web.Compress()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("certificate ", 500)
	for _, tc := range []struct {
		mediaType, encoding string
		length              int64
	}{
		{"application/json", "gzip", -1},
		{"text/html; charset=utf-8", "br, gzip", -1},
		{"application/json", "identity", int64(len(long))},
		{"application/json", "", int64(len(long))},
		{"application/pdf", "gzip", int64(len(long))},
	} {
		server := httptest.NewServer(compress(typed(tc.mediaType, long)))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", tc.encoding)
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		server.Close()
		if res.StatusCode != http.StatusOK || res.ContentLength != tc.length || res.Header.Get("Content-Type") != tc.mediaType {
			t.Errorf("%s for %q: status = %d, want 200; length = %d, want %d; header %v", tc.mediaType, tc.encoding, res.StatusCode, res.ContentLength, tc.length, res.Header)
		}
	}
}

// TestCompressedLengthIsDeterministic checks that the same text always has the same compressed
// length. If the padding were different in each response, the average of many lengths would reveal the
// length without padding.
func TestCompressedLengthIsDeterministic(t *testing.T) {
	t.Parallel()
	compress, err := web.Compress()
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[int]bool{}
	for range 20 {
		r := secure(http.MethodGet, "/")
		r.Header.Set("Accept-Encoding", "gzip")
		w, _ := serve(web.Options{}, r, compress(typed("application/json", strings.Repeat("certificate ", 500))))
		sizes[w.Body.Len()] = true
	}
	if len(sizes) != 1 {
		t.Errorf("the compressed sizes of the same text are %v, want one size", sizes)
	}
}

func TestContentErrorsUseSurface(t *testing.T) {
	t.Parallel()
	h := web.Handler(web.WriteJSONError, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "application/pdf")
		w.Header().Set("Content-Disposition", "attachment")
		return web.ServeContent(w, r, strings.NewReader("0123456789"), "digest")
	})
	for _, tc := range []struct {
		header, value string
		status        int
		body          string
	}{
		{"Range", "bytes=2-4", 206, "234"},
		{"Range", "bytes=-3", 206, "789"},
		{"Range", "bytes=7-99", 206, "789"},
		{"Range", "bytes=10-", 416, ""},
		{"Range", "bytes=x", 416, ""},
		{"Range", "lines=1-2", 200, "0123456789"}, // RFC 9110, 14.2
		{"If-None-Match", `"digest"`, 304, ""},
		{"If-None-Match", `W/"digest"`, 304, ""},
		{"If-None-Match", "*", 304, ""},
		{"If-None-Match", `"other"`, 200, "0123456789"},
		{"If-Match", `"other"`, 412, ""},
	} {
		r := secure(http.MethodGet, "/")
		r.Header.Set(tc.header, tc.value)
		w, _ := serve(web.Options{}, r, h)
		if w.Code != tc.status || tc.body != "" && w.Body.String() != tc.body {
			t.Errorf("%s: %s: status = %d, want %d; body %q, want %q", tc.header, tc.value, w.Code, tc.status, w.Body, tc.body)
		}
		if w.Code >= 400 && (!json.Valid(w.Body.Bytes()) || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Content-Disposition") != "" ||
			tc.value == "bytes=10-" && w.Header().Get("Content-Range") != "bytes */10") {
			t.Errorf("%s: %s: the error must be JSON, without Content-Disposition and, for bytes=10-, with Content-Range; header %v, body %s", tc.header, tc.value, w.Header(), w.Body)
		}
	}
	for tag, status := range map[string]int{`"digest"`: 206, `"other"`: 200, `W/"digest"`: 200} {
		r := secure(http.MethodGet, "/")
		r.Header.Set("Range", "bytes=0-1")
		r.Header.Set("If-Range", tag)
		if w, _ := serve(web.Options{}, r, h); w.Code != status {
			t.Errorf("If-Range %s: status = %d, want %d", tag, w.Code, status)
		}
	}
}

func TestCORSAllowsListedOrigins(t *testing.T) {
	t.Parallel()
	const listed = "https://app.example.org"
	reached := false
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached = true
		w.WriteHeader(http.StatusUnauthorized)
	})
	for _, tc := range []struct {
		what, method, origin, requestMethod string
		allowed, preflight                  bool
	}{
		{"a listed origin", "GET", listed, "", true, false},
		{"a preflight of a listed origin", "OPTIONS", listed, "POST", true, true},
		{"OPTIONS without a requested method", "OPTIONS", listed, "", true, false},
		{"another origin", "GET", "https://app.example.org.evil.example", "", false, false},
		{"a preflight of another origin", "OPTIONS", "https://evil.example", "POST", false, false},
		{"another scheme", "GET", "http://app.example.org", "", false, false},
		{"another port", "GET", listed + ":8443", "", false, false},
		{"an opaque origin", "GET", "null", "", false, false},
		{"no origin", "GET", "", "", false, false},
	} {
		reached = false
		r := secure(tc.method, "/business/certificate-vault")
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		if tc.requestMethod != "" {
			r.Header.Set("Access-Control-Request-Method", tc.requestMethod)
		}
		w, _ := serve(web.Options{}, r, web.CORS([]string{"https://other.example", listed}, next))
		h := w.Header()
		if h.Get("Vary") != "Origin" || (h.Get("Access-Control-Allow-Origin") == listed) != tc.allowed || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: Vary, Access-Control-Allow-Origin or Access-Control-Allow-Credentials is wrong: %v", tc.what, h)
		}
		if reached == tc.preflight || (w.Code == http.StatusNoContent) != tc.preflight || (h.Get("Access-Control-Allow-Methods") != "") != tc.preflight {
			t.Errorf("%s: next was called: %v, status %d, header %v; want 204 without next for a preflight, and next for any other request", tc.what, reached, w.Code, h)
		}
		if tc.preflight && !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Idempotency-Key") {
			t.Errorf("%s: Access-Control-Allow-Headers lacks Idempotency-Key: %v", tc.what, h)
		}
		// Without origins, CORS sets no headers.
		w, _ = serve(web.Options{}, r, web.CORS(nil, next))
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control") || name == "Vary" {
				t.Errorf("%s, without origins: CORS set a header: %v", tc.what, w.Header())
			}
		}
	}
}

func TestThrottleHeaders(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	counter := limit.NewCounter(2, func() time.Time { return now })
	h := web.Handler(web.WriteJSONError, func(w http.ResponseWriter, _ *http.Request) error { return web.Throttle(w, counter, "key") })
	for _, want := range []struct {
		status          int
		remaining, wait string
	}{{200, "1", ""}, {200, "0", ""}, {429, "0", "60"}} {
		w, _ := serve(web.Options{}, secure(http.MethodGet, "/"), h)
		if w.Code != want.status || w.Header().Get("X-RateLimit-Limit") != "2" || w.Header().Get("X-RateLimit-Remaining") != want.remaining ||
			w.Header().Get("Retry-After") != want.wait {
			t.Errorf("status %d, header %v, want the limit 2 and %+v", w.Code, w.Header(), want)
		}
	}
}

func TestUnknownMethodIsNotLogged(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("GET /a", textHandler("a"))
	r := httptest.NewRequestWithContext(t.Context(), "SECRET-"+strings.Repeat("X", 1000), "/a", http.NoBody)
	r.TLS, r.RemoteAddr = secure(http.MethodGet, "/").TLS, "203.0.113.9:1"
	w, log := serve(web.Options{}, r, web.Routes(mux, web.WriteJSONError))
	if w.Code != http.StatusMethodNotAllowed || strings.Contains(log+w.Body.String(), "SECRET") {
		t.Errorf("status = %d, want 405; the method must not be in the body %s or the log %s", w.Code, w.Body, log)
	}
}

// TestFlushSendsDataBeforeHandlerReturns checks that flushed data reaches the client before the
// handler returns, with and without compression.
func TestFlushSendsDataBeforeHandlerReturns(t *testing.T) {
	t.Parallel()
	compress, err := web.Compress()
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan struct{})
	server := httptest.NewTLSServer(web.Wrap(web.Options{Log: slog.New(slog.DiscardHandler), Now: time.Now}, compress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, "data: 1\n\n"); err != nil {
			t.Error(err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		select {
		case <-received:
		case <-r.Context().Done():
			t.Error("the client received no data before it closed the connection")
		}
	}))))
	t.Cleanup(server.Close)
	for _, encoding := range []string{"identity", "gzip"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", encoding)
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatalf("%s: %v", encoding, err)
		}
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		if err != nil || line != "data: 1\n" {
			t.Errorf("%s: the first line is %q, want data: 1; error %v", encoding, line, err)
		}
		received <- struct{}{}
		cancel()
		_ = resp.Body.Close()
	}
}
