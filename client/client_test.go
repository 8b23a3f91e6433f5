package client

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// stub is a fake vault whose responses a test defines, and a client of it. The client records each
// wait and does not sleep.
type stub struct {
	*testing.T

	client *Client
	mu     sync.Mutex
	waits  []time.Duration
	seen   []*seen
}

type seen struct {
	*http.Request

	body []byte
}

func newStub(t *testing.T, response func(w http.ResponseWriter, r *seen, attempt int)) *stub {
	t.Helper()
	s := &stub{T: t}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // some tests interrupt the client
		got := &seen{r, body}
		s.mu.Lock()
		s.seen = append(s.seen, got)
		attempt := len(s.seen)
		s.mu.Unlock()
		response(w, got, attempt)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	var err error
	if s.client, err = New(Config{URL: server.URL + "/", Token: "cvt_secret", RootCAs: roots}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	s.client.sleep = func(ctx context.Context, d time.Duration) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waits = append(s.waits, d)
		return ctx.Err()
	}
	return s
}

func (s *stub) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func respond(w http.ResponseWriter, status int, body string, header ...string) {
	for i := 0; i < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

const record = `{"message": "ok", "data": {"id": 7, "uuid": "u", "status": {"value": "processing", "label": "Processing", "description": "Being made."}, "created_at": "2026-06-30T09:41:07.204118Z"}}`

func TestNewRejectsInvalidConfigurations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"plain HTTP":             {URL: "http://vault.example.org"},
		"no scheme":              {URL: "vault.example.org"},
		"no host":                {URL: "https:///a"},
		"a query":                {URL: "https://vault.example.org?x=1"},
		"a password":             {URL: "https://user:secret@vault.example.org"},
		"a token with a newline": {URL: "https://vault.example.org", Token: "cvt_x\n"},
		"a token with a header":  {URL: "https://vault.example.org", Token: "x\r\nHost: y"},
	} {
		_, err := New(c)
		if err == nil {
			t.Errorf("New accepts %s, want an error", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error = %v, want no password in it", name, err)
		}
	}
}

func TestCallsAreRetried(t *testing.T) {
	t.Parallel()
	drop := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	status := func(code int, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { respond(w, code, `{"message": "No."}`, header...) }
	}
	half := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, record[:50])
		panic(http.ErrAbortHandler)
	}
	for name, tc := range map[string]struct {
		faults   []func(http.ResponseWriter)
		attempts int
		err      error
		// atLeast is the minimum length of the first wait.
		atLeast time.Duration
	}{
		"no fault":                  {nil, 1, nil, 0},
		"no response":               {[]func(http.ResponseWriter){drop, drop}, 3, nil, 0},
		"an incomplete response":    {[]func(http.ResponseWriter){half}, 2, nil, 0},
		"500":                       {[]func(http.ResponseWriter){status(500)}, 2, nil, 0},
		"502, 503, 504":             {[]func(http.ResponseWriter){status(502), status(503), status(504)}, 4, nil, 0},
		"429 with seconds":          {[]func(http.ResponseWriter){status(429, "Retry-After", "7")}, 2, nil, 7 * time.Second},
		"409":                       {[]func(http.ResponseWriter){status(409, "Retry-After", "1")}, 2, nil, time.Second},
		"a wait that is too long":   {[]func(http.ResponseWriter){status(429, "Retry-After", "86400")}, 1, ErrTooManyRequests, 0},
		"more faults than attempts": {slices.Repeat([]func(http.ResponseWriter){status(503)}, 9), DefaultRetry.Attempts, ErrUnavailable, 0},
		"an invalid request":        {[]func(http.ResponseWriter){status(422)}, 1, ErrInvalid, 0},
		"an unauthorized request":   {[]func(http.ResponseWriter){status(401)}, 1, ErrUnauthorized, 0},
		"a redirect":                {[]func(http.ResponseWriter){status(307, "Location", "https://elsewhere.example.org/")}, 1, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for method, call := range map[string]func(c *Client) error{
				"GET": func(c *Client) error { _, err := c.VaultCertificate(t.Context(), "u"); return err },
				"POST": func(c *Client) error {
					_, err := c.Revoke(t.Context(), "u", "Issued in error.", "")
					return err
				},
			} {
				s := newStub(t, func(w http.ResponseWriter, _ *seen, attempt int) {
					if attempt <= len(tc.faults) {
						tc.faults[attempt-1](w)
						return
					}
					respond(w, 200, record)
				})
				err := call(s.client)
				wantError := tc.err != nil || name == "a redirect"
				if (err != nil) != wantError || tc.err != nil && !errors.Is(err, tc.err) {
					t.Errorf("%s: error = %v, want %v, or any error after a redirect", method, err, tc.err)
				}
				if len(s.seen) != tc.attempts || len(s.waits) != tc.attempts-1 {
					t.Fatalf("%s: %d attempts with waits %v, want %d attempts", method, len(s.seen), s.waits, tc.attempts)
				}
				if tc.atLeast > 0 && s.waits[0] < tc.atLeast {
					t.Errorf("%s: waited %v, want at least %v", method, s.waits[0], tc.atLeast)
				}
				for i, r := range s.seen {
					key := r.Header.Get("Idempotency-Key")
					if (method == "POST") != (key != "") || key != s.seen[0].Header.Get("Idempotency-Key") || !bytes.Equal(r.body, s.seen[0].body) {
						t.Errorf("%s: attempt %d has key %q and body %q, want the key and the body of attempt 1, and a key only for POST", method, i+1, key, r.body)
					}
					if r.Header.Get("Authorization") != "Bearer cvt_secret" || r.Header.Get("Accept") != "application/json" {
						t.Errorf("%s: headers = %v, want the token and Accept: application/json", method, r.Header)
					}
				}
			}
		})
	}
}

func TestWaitsGrowAndDiffer(t *testing.T) {
	t.Parallel()
	r := Retry{Attempts: 100, Wait: time.Second, MaxWait: 10 * time.Second}
	seen := map[time.Duration]bool{}
	for attempt := 1; attempt < 80; attempt++ {
		full := min(time.Second<<min(attempt-1, 20), 10*time.Second)
		wait, again := r.after(&temporary{io.ErrUnexpectedEOF}, attempt)
		if !again || wait < full/2 || wait > full {
			t.Errorf("attempt %d: after = %v, %v, want a wait between %v and %v", attempt, wait, again, full/2, full)
		}
		seen[wait] = true
	}
	if len(seen) < 40 {
		t.Errorf("%d of 79 waits are different, want at least 40", len(seen))
	}
}

func TestRetryDefaults(t *testing.T) {
	t.Parallel()
	for given, want := range map[Retry]Retry{
		{}:                     DefaultRetry,
		{Attempts: 3}:          {3, DefaultRetry.Wait, DefaultRetry.MaxWait},
		{Wait: time.Second}:    {DefaultRetry.Attempts, time.Second, DefaultRetry.MaxWait},
		{MaxWait: time.Minute}: {DefaultRetry.Attempts, DefaultRetry.Wait, time.Minute},
	} {
		c, err := New(Config{URL: "https://vault.example.org", Retry: given})
		if err != nil || c.retry != want {
			t.Errorf("New with %+v: retry = %+v, %v, want %+v", given, c.retry, err, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": 0, "-7": 0, "": 0, "soon": 0, "99999999999999999999": 0,
		"Tue, 30 Jun 2026 12:01:30 GMT": 90 * time.Second, "Tue, 30 Jun 2026 11:59:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", value, got, want)
		}
	}
}

// TestRetriesAreReported checks that each wait is reported before it begins, with its reason and the
// longest total of this and all later waits.
func TestRetriesAreReported(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { respond(w, 503, "{}") })
	var reports []Retrying
	s.client.retry = Retry{Attempts: 4, Wait: time.Second, MaxWait: 3 * time.Second}
	s.client.onRetry = func(r Retrying) {
		if len(s.waits) != len(reports) {
			t.Errorf("report %d came after %d waits, want one wait fewer than the number of the report", len(reports)+1, len(s.waits))
		}
		reports = append(reports, r)
	}
	if _, err := s.client.VaultCertificate(t.Context(), "u"); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("error = %v, want ErrUnavailable", err)
	}
	if len(reports) != 3 {
		t.Fatalf("%d reports, want 3", len(reports))
	}
	for i, later := range []time.Duration{5 * time.Second, 3 * time.Second, 0} {
		r := reports[i]
		if !errors.Is(r.Err, ErrUnavailable) || r.Attempt != i+1 || r.Attempts != 4 || r.Wait != s.waits[i] || r.Rest != r.Wait+later {
			t.Errorf("report %d = %+v, want Wait = %v and a Rest that is %v longer", i+1, r, s.waits[i], later)
		}
	}
}

func TestCancelledContextEndsCall(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { respond(w, 503, "{}") })
	ctx, cancel := context.WithCancel(t.Context())
	s.client.sleep = func(ctx context.Context, _ time.Duration) error { cancel(); return sleep(ctx, time.Hour) }
	if _, err := s.client.VaultCertificate(ctx, "u"); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("error = %v, want context.Canceled and ErrUnavailable", err)
	}
	if len(s.seen) != 1 {
		t.Errorf("%d attempts, want 1", len(s.seen))
	}
}

func TestUntrustedCertificateIsRejected(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { respond(w, 200, record) })
	strict, err := New(Config{URL: s.client.base, Token: "cvt_secret"})
	s.must(err)
	strict.sleep = s.client.sleep
	if _, err := strict.VaultCertificate(t.Context(), "u"); err == nil || len(s.waits) != 0 || len(s.seen) != 0 {
		t.Errorf("error = %v after %d waits and %d requests, want an error and no request", err, len(s.waits), len(s.seen))
	}
}

func TestErrorsHaveTypes(t *testing.T) {
	t.Parallel()
	const existing = "0197f2b4-6d86-7b87-a9c1-df3ec7b3834f"
	for name, tc := range map[string]struct {
		status int
		body   string
		is     []error
		text   string
	}{
		"duplicate": {422, `{"message": "The certificate already exists.", "errors": {"applicant_email": ["The certificate already exists."], "existing_uuid": ["` + existing + `"]}}`, []error{ErrInvalid, ErrDuplicate}, "The certificate already exists. (422, request the-request-id)"},
		"fields":    {422, `{"message": "First.", "errors": {"b": ["First.", "Second."], "a": ["Third."]}}`, []error{ErrInvalid}, "First. (422, request the-request-id)"},
		"unknown":   {404, `{"message": "No such certificate."}`, []error{ErrNotFound}, "No such certificate. (404, request the-request-id)"},
		"a proxy":   {403, "<html>Forbidden</html>", []error{ErrForbidden}, "Forbidden (403, request the-request-id)"},
		"no body":   {413, "", []error{ErrTooLarge}, "Request Entity Too Large (413, request the-request-id)"},
		"teapot":    {418, "{}", nil, "I'm a teapot (418, request the-request-id)"},
	} {
		s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
			respond(w, tc.status, tc.body, "X-Request-Id", "the-request-id")
		})
		_, err := s.client.VaultCertificate(t.Context(), "u")
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Status != tc.status || e.Error() != tc.text {
			t.Errorf("%s: error = %v, want status %d and text %q", name, err, tc.status, tc.text)
			continue
		}
		for _, kind := range []error{ErrInvalidOperation, ErrUnauthorized, ErrForbidden, ErrNotFound, ErrConflict, ErrTooLarge, ErrInvalid, ErrDuplicate, ErrTooManyRequests, ErrUnavailable} {
			if errors.Is(err, kind) != slices.Contains(tc.is, kind) {
				t.Errorf("%s: errors.Is(err, %v) = %v, want the opposite", name, kind, errors.Is(err, kind))
			}
		}
		switch name {
		case "duplicate":
			if e.Existing() != existing {
				t.Errorf("Existing() = %q, want %q", e.Existing(), existing)
			}
			if want := "The certificate already exists: " + existing; e.Detail() != want {
				t.Errorf("Detail() = %q, want %q", e.Detail(), want)
			}
		case "fields":
			if e.Detail() != "a: Third.; b: First. Second." {
				t.Errorf("Detail() = %q, want the messages of field a, then those of field b", e.Detail())
			}
		}
	}
}

func TestPathsAreEscaped(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { respond(w, 404, `{"message": "No."}`) })
	_, err := s.client.VaultCertificate(t.Context(), "../../admin?x=1")
	if !errors.Is(err, ErrNotFound) || s.seen[0].URL.EscapedPath() != "/business/certificate-vault/..%2F..%2Fadmin%3Fx=1" {
		t.Errorf("error = %v, path = %s, want ErrNotFound and an escaped UUID in the path", err, s.seen[0].URL.EscapedPath())
	}
}

// TestStandardLibraryAlone checks that the package depends only on the standard library.
func TestStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, []string{"github.com/certvault/certvault/client"}) {
		t.Errorf("non-standard packages = %v, want only the package itself", got)
	}
}
