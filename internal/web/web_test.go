package web_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/web"
)

// serve sends one request through the middleware and returns the response and the log.
func serve(o web.Options, r *http.Request, next http.Handler) (*httptest.ResponseRecorder, string) {
	var log bytes.Buffer
	o.Log, o.Now = slog.New(slog.NewJSONHandler(&log, nil)), time.Now
	w := httptest.NewRecorder()
	web.Wrap(o, next).ServeHTTP(w, r)
	return w, log.String()
}

func secure(method, target string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, target, http.NoBody)
	r.TLS = &tls.ConnectionState{}
	r.RemoteAddr = "203.0.113.9:4711"
	return r
}

func textHandler(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text) })
}

func TestRequestIDIsReusedIfSafe(t *testing.T) {
	t.Parallel()
	for given, reused := range map[string]bool{
		"trace-0123456789": true, "": false, "short": false, "with space 12": false, "a\nb12345678": false, strings.Repeat("a", 65): false,
	} {
		r := secure(http.MethodGet, "/")
		r.Header["X-Request-Id"] = []string{given}
		w, log := serve(web.Options{}, r, textHandler("ok"))
		id := w.Header().Get("X-Request-Id")
		if (id == given) != reused || len(id) < 8 {
			t.Errorf("request id %q, response id %q", given, id)
		}
		if !strings.Contains(log, `"request_id":"`+id+`"`) {
			t.Errorf("the log lacks the request id %q: %s", id, log)
		}
	}
}

func TestPlainHTTPIsRefused(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, tc := range map[string]struct {
		proxies []netip.Prefix
		tls     bool
		from    string
		header  http.Header
		status  int
		client  string
	}{
		"TLS":                 {nil, true, "203.0.113.9:1", nil, 200, "203.0.113.9"},
		"no TLS":              {nil, false, "203.0.113.9:1", nil, 400, ""},
		"forged header":       {nil, false, "203.0.113.9:1", http.Header{"X-Forwarded-Proto": {"https"}}, 400, ""},
		"trusted proxy":       {proxies, false, "10.1.2.3:1", http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-For": {"198.51.100.7"}}, 200, "198.51.100.7"},
		"proxy without proto": {proxies, false, "10.1.2.3:1", http.Header{"X-Forwarded-For": {"198.51.100.7"}}, 400, ""},
		"proxy with http":     {proxies, false, "10.1.2.3:1", http.Header{"X-Forwarded-Proto": {"http"}}, 400, ""},
		"untrusted proxy":     {proxies, false, "203.0.113.9:1", http.Header{"X-Forwarded-Proto": {"https"}}, 400, ""},
		"forged hop":          {proxies, false, "10.1.2.3:1", http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-For": {"192.0.2.1, 198.51.100.7, 10.9.9.9"}}, 200, "198.51.100.7"},
		"invalid hop":         {proxies, false, "10.1.2.3:1", http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-For": {"192.0.2.1, unknown"}}, 200, "10.1.2.3"},
	} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
		if tc.tls {
			r.TLS = &tls.ConnectionState{}
		}
		r.RemoteAddr = tc.from
		maps.Copy(r.Header, tc.header)
		var client string
		w, _ := serve(web.Options{Proxies: tc.proxies}, r, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { client = web.Client(r).String() }))
		if w.Code != tc.status || client != tc.client {
			t.Errorf("%s: status %d, client %q; want %d, %q", name, w.Code, client, tc.status, tc.client)
		}
	}
}

func TestPanicIsServerErrorAndIsLogged(t *testing.T) {
	t.Parallel()
	w, log := serve(web.Options{}, secure(http.MethodGet, "/"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("nil map")
	}))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "nil map") || !strings.Contains(w.Body.String(), "Server Error") {
		t.Fatalf("status = %d, want 500; body %s", w.Code, w.Body)
	}
	if !strings.Contains(log, "nil map") {
		t.Fatalf("the log lacks the value of the panic: %s", log)
	}
}

func TestLogContainsPatternNotPath(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("GET /files/{uuid}", textHandler("ok"))
	_, log := serve(web.Options{}, secure(http.MethodGet, "/files/secret-uuid?signature=secret-mac"), mux)
	if !strings.Contains(log, "/files/{uuid}") || strings.Contains(log, "secret") {
		t.Fatalf("the log lacks the pattern or contains the path: %s", log)
	}
}

func TestErrorAsJSON(t *testing.T) {
	t.Parallel()
	many := &fault.Fields{}
	for i := range 1500 {
		many.Add(fmt.Sprintf("entries.%d.applicant_email", i), "Bad.")
	}
	one := fault.OfField("full_name", "The full name field is required.")
	two := &fault.Error{Kind: fault.Invalid, Fields: []fault.Field{{Name: "b", Messages: []string{"First."}}, {Name: "a", Messages: []string{"Second."}}}}
	for name, tc := range map[string]struct {
		err    error
		status int
		body   string
	}{
		"not found":             {fault.New(fault.NotFound, "No such certificate."), 404, `{"message":"No such certificate."}`},
		"internal error":        {fmt.Errorf("reading: %w", errors.New("disk failure")), 500, `{"message":"Server Error"}`},
		"one field":             {fmt.Errorf("upload: %w", one), 422, `{"message":"The full name field is required.","errors":{"full_name":["The full name field is required."]}}`},
		"two fields":            {two, 422, `{"message":"First. (and 1 more error)","errors":{"b":["First."],"a":["Second."]}}`},
		"fields with a message": {&fault.Error{Kind: fault.Invalid, Message: "Exists", Fields: two.Fields}, 422, `{"message":"Exists","errors":{"b":["First."],"a":["Second."]}}`},
	} {
		w := httptest.NewRecorder()
		web.WriteJSONError(w, secure(http.MethodGet, "/"), tc.err)
		if w.Code != tc.status || strings.TrimSpace(w.Body.String()) != tc.body || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: status = %d, want %d; body %s, want %s", name, w.Code, tc.status, w.Body, tc.body)
		}
	}
	w := httptest.NewRecorder()
	web.WriteJSONError(w, secure(http.MethodGet, "/"), many.Err())
	var body struct {
		Message string
		Errors  map[string][]string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || len(body.Errors) != 1000 || body.Message != "Bad. (and 1499 more errors)" {
		t.Errorf("got %d errors, want 1000; message %q, %v", len(body.Errors), body.Message, err)
	}
	w = httptest.NewRecorder()
	web.WriteJSONError(w, secure(http.MethodGet, "/"), &fault.Error{Kind: fault.TooMany, Message: "Too Many Requests", RetryAfter: 1500 * time.Millisecond})
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" {
		t.Errorf("status = %d, want 429; Retry-After = %q, want it rounded up to 2", w.Code, w.Header().Get("Retry-After"))
	}
}

func TestUnknownRoutesUseSurface(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("GET /a", textHandler("a"))
	mux.Handle("POST /a", textHandler("a"))
	routes := web.Routes(mux, web.WriteJSONError)
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodGet, "/a", 200, ""}, {http.MethodHead, "/a", 200, ""}, {http.MethodDelete, "/a", 405, "GET, HEAD, POST"}, {"FETCH", "/a", 405, "GET, HEAD, POST"}, {http.MethodGet, "/b", 404, ""},
	} {
		w, _ := serve(web.Options{}, secure(tc.method, tc.path), routes)
		if w.Code != tc.status || w.Header().Get("Allow") != tc.allow {
			t.Errorf("%s %s: status = %d, want %d; Allow = %q, want %q", tc.method, tc.path, w.Code, tc.status, w.Header().Get("Allow"), tc.allow)
		}
		if tc.status >= 400 && (!json.Valid(w.Body.Bytes()) || strings.Contains(w.Body.String(), "(other)")) {
			t.Errorf("%s %s: the body is %s", tc.method, tc.path, w.Body)
		}
	}
}

func TestCapabilityURLIsValidForOneFileAndOneDay(t *testing.T) {
	t.Parallel()
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	links := web.NewLinks("https://vault.example.org", ring, func() time.Time { return now })
	const uuid = "01a1fc5e-6d86-7b87-a9c1-df3ec7b3834f"
	link, err := links.File(uuid, web.PDFFile)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(link)
	if err != nil || u.Host != "vault.example.org" || u.Path != "/files/"+uuid+"/pdf" {
		t.Fatalf("the link is %s, %v", link, err)
	}
	allowed := func(uuid, kind string, q url.Values) bool {
		t.Helper()
		ok, err := links.FileAllowed(uuid, kind, q)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	later := url.Values{"expires": {"1999999999"}, "signature": {u.Query().Get("signature")}}
	for name, ok := range map[string]bool{
		"another file":   allowed("01a1fc5e-6d86-7b87-a9c1-df3ec7b38350", "pdf", u.Query()),
		"another kind":   allowed(uuid, "image", u.Query()),
		"a later expiry": allowed(uuid, "pdf", later),
		"no signature":   allowed(uuid, "pdf", url.Values{"expires": u.Query()["expires"]}),
		"no parameters":  allowed(uuid, "pdf", nil),
	} {
		if ok {
			t.Errorf("%s is allowed", name)
		}
	}
	now = now.Add(24*time.Hour - time.Second)
	if !allowed(uuid, "pdf", u.Query()) {
		t.Error("the link is not valid until the end of the day")
	}
	now = now.Add(time.Second)
	if allowed(uuid, "pdf", u.Query()) {
		t.Error("the link is still valid after one day")
	}
}
