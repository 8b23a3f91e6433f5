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
	"github.com/certvault/certvault/internal/limit"
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
			t.Errorf("request id %q, response id %q; a safe id must be reused, and any other id replaced", given, id)
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
		"invalid hop":         {proxies, false, "10.1.2.3:1", http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-For": {"192.0.2.1, unknown"}}, 200, "invalid IP"},
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

// TestUnknownForwardedAddressIsNotLoopback checks that a client does not get the rights of a loopback
// address if a proxy on this machine does not report the client's address.
func TestUnknownForwardedAddressIsNotLoopback(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")}
	for _, tc := range []struct {
		name      string
		forwarded []string
		want      string
	}{
		{"no header", nil, ""},
		{"an empty header", []string{""}, ""},
		{"an empty entry", []string{"198.51.100.7,"}, ""},
		{"a word", []string{"unknown"}, ""},
		{"a word before the proxy's address", []string{"unknown, 127.0.0.1"}, ""},
		{"a host name with a port", []string{"localhost:80"}, ""},
		{"an IPv4 address with a port", []string{"198.51.100.7:4711"}, "198.51.100.7"},
		{"an IPv6 address", []string{"2001:db8::7"}, "2001:db8::7"},
		{"an IPv6 address in brackets", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"an IPv6 address with a port", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		{"two headers", []string{"192.0.2.1", "198.51.100.7:1, [::1]:2"}, "198.51.100.7"},
		{"a client on this machine", []string{"127.0.0.1"}, "127.0.0.1"},
	} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = "127.0.0.1:9"
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header["X-Forwarded-For"] = tc.forwarded
		var client netip.Addr
		w, log := serve(web.Options{Proxies: proxies}, r, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { client = web.Client(r) }))
		var want netip.Addr
		if tc.want != "" {
			want = netip.MustParseAddr(tc.want)
		}
		if w.Code != http.StatusOK || client != want || client.IsLoopback() != (tc.want == "127.0.0.1") {
			t.Errorf("%s: status %d, client %s, want 200 and %q", tc.name, w.Code, client, tc.want)
		}
		if warned := strings.Contains(log, "misconfiguration"); warned != !want.IsValid() {
			t.Errorf("%s: the log must report a misconfiguration only if the client is unknown; reported: %t, log %s", tc.name, warned, log)
		}
		if limit.AddressKey(client) == limit.AddressKey(netip.MustParseAddr("127.0.0.1")) != (tc.want == "127.0.0.1") {
			t.Errorf("%s: a client must share a limit with the proxy only if both have the same address", tc.name)
		}
	}
}

// TestMisconfiguredProxyIsLoggedOnce checks that the log reports a misconfigured proxy at most once an
// hour.
func TestMisconfiguredProxyIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(1000, 0)
	handler := web.Wrap(web.Options{
		Log: slog.New(slog.NewJSONHandler(&log, nil)), Now: func() time.Time { return now }, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { web.Client(r) }))
	for i, want := range []int{1, 1, 2} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = "10.1.2.3:1"
		r.Header.Set("X-Forwarded-Proto", "https")
		handler.ServeHTTP(httptest.NewRecorder(), r)
		if n := strings.Count(log.String(), "misconfiguration"); n != want {
			t.Errorf("after request %d, the log reports the misconfiguration %d times, want %d", i+1, n, want)
		}
		now = now.Add(40 * time.Minute)
	}
}

func TestPanicIsServerErrorAndIsLogged(t *testing.T) {
	t.Parallel()
	w, log := serve(web.Options{}, secure(http.MethodGet, "/"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("nil map")
	}))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "nil map") || !strings.Contains(w.Body.String(), "Server Error") {
		t.Fatalf("status = %d, want 500; body %s, want Server Error without the value of the panic", w.Code, w.Body)
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
			t.Errorf("%s: status = %d, want %d; body %s, want %s as application/json", name, w.Code, tc.status, w.Body, tc.body)
		}
	}
	w := httptest.NewRecorder()
	web.WriteJSONError(w, secure(http.MethodGet, "/"), many.Err())
	var body struct {
		Message string
		Errors  map[string][]string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || len(body.Errors) != 1000 || body.Message != "Bad. (and 1499 more errors)" {
		t.Errorf("got %d fields, want 1000; message %q, want the number 1499 of further errors; error %v", len(body.Errors), body.Message, err)
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
			t.Errorf("%s %s: the body must be JSON, without the name of unknown methods in logs, (other): %s", tc.method, tc.path, w.Body)
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
		t.Fatalf("the link is %s, want the address of the PDF at vault.example.org; error %v", link, err)
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
			t.Errorf("%s is allowed, want it refused", name)
		}
	}
	now = now.Add(24*time.Hour - time.Second)
	if !allowed(uuid, "pdf", u.Query()) {
		t.Error("the link is not valid one second before it expires")
	}
	now = now.Add(time.Second)
	if allowed(uuid, "pdf", u.Query()) {
		t.Error("the link is still valid after one day")
	}
}
