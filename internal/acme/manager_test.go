package acme_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/acme"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// A certificate authority that requires a binding declares this in its directory (RFC 8555, 7.1.1), or
// refuses the registration. The error names the option of the binding.
func TestBindingIsRequired(t *testing.T) {
	t.Parallel()
	for name, announced := range map[string]bool{"in the directory": true, "when it registers": false} {
		registrations := 0
		mux := http.NewServeMux()
		authority := httptest.NewServer(mux)
		t.Cleanup(authority.Close)
		mux.HandleFunc("/dir", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"newNonce": "%[1]s/nonce", "newAccount": "%[1]s/account", "newOrder": "%[1]s/order", "meta": {"externalAccountRequired": %t}}`, authority.URL, announced)
		})
		mux.HandleFunc("/nonce", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Replay-Nonce", "1") })
		mux.HandleFunc("/account", func(w http.ResponseWriter, _ *http.Request) {
			registrations++
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"type": "urn:ietf:params:acme:error:externalAccountRequired", "detail": "no binding"}`)
		})
		m := acme.NewManager(acme.Options{
			Cache: acme.NewCache(dbtest.SQLite(t), newRing(t), t.TempDir()), Domain: "vault.example.org", Directory: authority.URL + "/dir", Now: time.Now,
		})
		if _, err := m.Renew(t.Context()); err == nil || !strings.Contains(err.Error(), "--acme-eab-kid") || (registrations == 0) != announced {
			t.Errorf("%s: error = %v after %d registrations, want an error that names --acme-eab-kid; 0 registrations expected: %v", name, err, registrations, announced)
		}
	}
}

// The pauses after failures grow to an hour. During a pause, the certificate authority gets no request.
func TestPausesAfterFailures(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer authority.Close()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := acme.NewManager(acme.Options{
		Cache: acme.NewCache(dbtest.SQLite(t), newRing(t), t.TempDir()), Domain: "vault.example.org", Directory: authority.URL,
		Now: func() time.Time { return now },
	})
	for n, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		before := requests.Load()
		next := now.Add(time.Duration(minutes) * time.Minute)
		renewed, err := m.Renew(t.Context())
		if renewed || err == nil || !strings.Contains(err.Error(), "the next attempt is at "+next.Format(time.RFC3339)) {
			t.Fatalf("failure %d: renewed = %v, error = %v, want false and an error with the time %s", n+1, renewed, err, next)
		}
		asked := requests.Load()
		if asked == before {
			t.Fatalf("failure %d: the authority got no request, want at least one", n+1)
		}
		now = next.Add(-time.Second)
		if _, again := m.Renew(t.Context()); again == nil || again.Error() != err.Error() || requests.Load() != asked {
			t.Fatalf("during the pause %d: error = %v, %d further requests, want the same error and 0", n+1, again, requests.Load()-asked)
		}
		now = next
	}
}
