package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestGate checks that, before the start, health checks get a response at once and other requests wait.
func TestGate(t *testing.T) {
	t.Parallel()
	g := newStartGate()
	g.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusTeapot, "started\n") })
	request := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w
	}
	expect := func(path string, status int, body string) {
		t.Helper()
		if got := request(path); got.Code != status || body != "" && got.Body.String() != body || status == 503 && got.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status = %d, body = %q, headers = %v; want %d, %q", path, got.Code, got.Body, got.Header(), status, body)
		}
	}
	expect("/healthz", 200, "ok\n")
	expect("/readyz", 503, "migrating\n")
	g.phase.Store(starting)
	expect("/readyz", 503, "starting\n")
	waiting := make(chan *httptest.ResponseRecorder)
	go func() { waiting <- request("/verify") }()
	select {
	case got := <-waiting:
		t.Fatalf("a request before the start: status = %d, want no response yet", got.Code)
	default:
	}
	g.open()
	if got := <-waiting; got.Code != http.StatusTeapot {
		t.Errorf("the request that waited for the start: status = %d, want 418", got.Code)
	}
	expect("/readyz", http.StatusTeapot, "started\n")

	g = newStartGate()
	g.wait = time.Nanosecond
	expect("/verify", 503, "migrating\n")
	expect("/business/certificate-vault", 503, "")

	g = newStartGate()
	go func() { waiting <- request("/verify") }()
	g.close()
	if got := <-waiting; got.Code != 503 {
		t.Errorf("a request that waits while the vault stops: status = %d, want 503", got.Code)
	}
}
