package resolver_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/resolver"
	"github.com/certvault/certvault/internal/safehttp"
)

func TestFetch(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/did.json":
			_, _ = io.WriteString(w, "{}"+r.Header.Get("Accept"))
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("a", credential.MaxFetch+1))
		case "/redirect":
			http.Redirect(w, r, "/did.json", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "{}")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	allowed := resolver.New(safehttp.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots})
	if body, err := allowed.Fetch(t.Context(), server.URL+"/did.json", "application/json"); err != nil || string(body) != "{}application/json" {
		t.Errorf("Fetch = %q, %v, want {}application/json", body, err)
	}
	for _, path := range []string{"/large", "/redirect", "/cut", "/missing"} {
		if _, err := allowed.Fetch(t.Context(), server.URL+path, ""); err == nil {
			t.Errorf("%s: error = nil, want an error", path)
		}
	}
	if _, err := resolver.New(safehttp.Options{Roots: roots}).Fetch(t.Context(), server.URL+"/did.json", ""); !errors.Is(err, safehttp.ErrBlocked) {
		t.Errorf("a loopback address: error = %v, want ErrBlocked", err)
	}
	if _, err := allowed.Fetch(t.Context(), "http://192.31.196.1/did.json", ""); !errors.Is(err, safehttp.ErrBlocked) {
		t.Errorf("plain http to a public address: error = %v, want ErrBlocked", err)
	}
}

// TestSilentServer checks that Fetch waits 10 s if the server never answers.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r := resolver.NewWithTransport(silent{})
		start := time.Now()
		if _, err := r.Fetch(ctx, "https://vault.example/did.json", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want DeadlineExceeded", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("Fetch took %v, want 10s", took)
		}
	})
}

// silent is a transport to a server that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
