package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// stub is a vault that answers as a test says, and a client of it whose waits
// are noted and take no time.
type stub struct {
	*testing.T

	client *Client
	mu     sync.Mutex
	waits  []time.Duration
	// seen are the requests, read whole.
	seen []*seen
}

type seen struct {
	*http.Request

	body []byte
}

func newStub(t *testing.T, answer func(w http.ResponseWriter, r *seen, attempt int)) *stub {
	t.Helper()
	s := &stub{T: t}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a client that breaks off is part of the test
		got := &seen{r, body}
		s.mu.Lock()
		s.seen = append(s.seen, got)
		attempt := len(s.seen)
		s.mu.Unlock()
		answer(w, got, attempt)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
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

func say(w http.ResponseWriter, status int, body string, header ...string) {
	for i := 0; i < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

const record = `{"message": "ok", "data": {"id": 7, "uuid": "u", "status": {"value": "processing", "label": "Processing", "description": "Being made."}, "created_at": "2026-06-30T09:41:07.204118Z"}}`

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"plain HTTP":             {URL: "http://vault.example.org"},
		"no scheme":              {URL: "vault.example.org"},
		"no host":                {URL: "https:///a"},
		"a query":                {URL: "https://vault.example.org?x=1"},
		"a password":             {URL: "https://user:secret@vault.example.org"},
		"a token with its line":  {URL: "https://vault.example.org", Token: "cvt_x\n"},
		"a token that is header": {URL: "https://vault.example.org", Token: "x\r\nHost: y"},
	} {
		_, err := New(c)
		if err == nil {
			t.Errorf("%s is taken", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has the password: %v", name, err)
		}
	}
}

func TestCallsAreTriedAgain(t *testing.T) {
	t.Parallel()
	drop := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	status := func(code int, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { say(w, code, `{"message": "No."}`, header...) }
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
		// atLeast is how long the first wait must be.
		atLeast time.Duration
	}{
		"no fault":               {nil, 1, nil, 0},
		"no answer":              {[]func(http.ResponseWriter){drop, drop}, 3, nil, 0},
		"half an answer":         {[]func(http.ResponseWriter){half}, 2, nil, 0},
		"500":                    {[]func(http.ResponseWriter){status(500)}, 2, nil, 0},
		"502, 503, 504":          {[]func(http.ResponseWriter){status(502), status(503), status(504)}, 4, nil, 0},
		"429 with seconds":       {[]func(http.ResponseWriter){status(429, "Retry-After", "7")}, 2, nil, 7 * time.Second},
		"503 with a date":        {[]func(http.ResponseWriter){status(503, "Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))}, 2, nil, 55 * time.Second},
		"409":                    {[]func(http.ResponseWriter){status(409, "Retry-After", "1")}, 2, nil, time.Second},
		"too long a wait":        {[]func(http.ResponseWriter){status(429, "Retry-After", "86400")}, 1, ErrTooManyRequests, 0},
		"more than is tried":     {slices.Repeat([]func(http.ResponseWriter){status(503)}, 9), DefaultRetry.Attempts, ErrUnavailable, 0},
		"what does not pass":     {[]func(http.ResponseWriter){status(422)}, 1, ErrInvalid, 0},
		"what is not allowed":    {[]func(http.ResponseWriter){status(401)}, 1, ErrUnauthorized, 0},
		"a redirect is no place": {[]func(http.ResponseWriter){status(307, "Location", "https://elsewhere.example.org/")}, 1, nil, 0},
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
					say(w, 200, record)
				})
				err := call(s.client)
				wantsError := tc.err != nil || name == "a redirect is no place"
				if (err != nil) != wantsError || tc.err != nil && !errors.Is(err, tc.err) {
					t.Errorf("%s: %v", method, err)
				}
				if len(s.seen) != tc.attempts || len(s.waits) != tc.attempts-1 {
					t.Fatalf("%s: %d attempts, waits %v", method, len(s.seen), s.waits)
				}
				if tc.atLeast > 0 && s.waits[0] < tc.atLeast {
					t.Errorf("%s: waited %v", method, s.waits[0])
				}
				for i, r := range s.seen {
					key := r.Header.Get("Idempotency-Key")
					if (method == "POST") != (key != "") || key != s.seen[0].Header.Get("Idempotency-Key") || !bytes.Equal(r.body, s.seen[0].body) {
						t.Errorf("%s: attempt %d has key %q and body %q", method, i+1, key, r.body)
					}
					if r.Header.Get("Authorization") != "Bearer cvt_secret" || r.Header.Get("Accept") != "application/json" {
						t.Errorf("%s: %v", method, r.Header)
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
		wait, again := r.after(&passing{io.ErrUnexpectedEOF}, attempt)
		if !again || wait < full/2 || wait > full {
			t.Errorf("attempt %d: %v, %v", attempt, wait, again)
		}
		seen[wait] = true
	}
	if len(seen) < 40 {
		t.Errorf("of 79 waits %d differ", len(seen))
	}
}

func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { say(w, 503, "{}") })
	ctx, cancel := context.WithCancel(t.Context())
	s.client.sleep = func(ctx context.Context, _ time.Duration) error { cancel(); return sleep(ctx, time.Hour) }
	if _, err := s.client.VaultCertificate(ctx, "u"); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v: both the end and its reason must be told", err)
	}
	if len(s.seen) != 1 {
		t.Errorf("%d attempts", len(s.seen))
	}
}

func TestOwnCertificateMustBeTrusted(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { say(w, 200, record) })
	strict, err := New(Config{URL: s.client.base, Token: "cvt_secret"})
	s.must(err)
	strict.sleep = s.client.sleep
	if _, err := strict.VaultCertificate(t.Context(), "u"); err == nil || len(s.waits) != 0 || len(s.seen) != 0 {
		t.Errorf("%v, %d waits, %d requests", err, len(s.waits), len(s.seen))
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
		"duplicate": {422, `{"message": "There is one.", "errors": {"applicant_email": ["There is one."], "existing_uuid": ["` + existing + `"]}}`, []error{ErrInvalid, ErrDuplicate}, "There is one. (422, request the-request-id)"},
		"fields":    {422, `{"message": "First.", "errors": {"b": ["First.", "Second."], "a": ["Third."]}}`, []error{ErrInvalid}, "First. (422, request the-request-id)"},
		"unknown":   {404, `{"message": "No such certificate."}`, []error{ErrNotFound}, "No such certificate. (404, request the-request-id)"},
		"a proxy":   {403, "<html>Forbidden</html>", []error{ErrForbidden}, "Forbidden (403, request the-request-id)"},
		"no body":   {413, "", []error{ErrTooLarge}, "Request Entity Too Large (413, request the-request-id)"},
		"teapot":    {418, "{}", nil, "I'm a teapot (418, request the-request-id)"},
	} {
		s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
			say(w, tc.status, tc.body, "X-Request-Id", "the-request-id")
		})
		_, err := s.client.VaultCertificate(t.Context(), "u")
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Status != tc.status || e.Error() != tc.text {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, kind := range []error{ErrInvalidOperation, ErrUnauthorized, ErrForbidden, ErrNotFound, ErrConflict, ErrTooLarge, ErrInvalid, ErrDuplicate, ErrTooManyRequests, ErrUnavailable} {
			if errors.Is(err, kind) != slices.Contains(tc.is, kind) {
				t.Errorf("%s is %v: %v", name, kind, errors.Is(err, kind))
			}
		}
		switch name {
		case "duplicate":
			if e.Existing() != existing {
				t.Errorf("existing %q", e.Existing())
			}
		case "fields":
			if e.Detail() != "a: Third.; b: First. Second." {
				t.Errorf("detail %q", e.Detail())
			}
		}
	}
}

// counting is a file whose reader notes how it is read.
type counting struct {
	io.ReadSeeker

	most int
}

func (c *counting) Read(p []byte) (int, error) {
	c.most = max(c.most, len(p))
	return c.ReadSeeker.Read(p)
}

func TestUploadStreamsAndRewinds(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB
	s := newStub(t, func(w http.ResponseWriter, _ *seen, attempt int) {
		if attempt < 3 {
			panic(http.ErrAbortHandler)
		}
		say(w, 201, record)
	})
	source := &counting{ReadSeeker: bytes.NewReader(content)}
	file, err := SeekFile("a \"quoted\" näme.pdf", source)
	s.must(err)
	var mu sync.Mutex
	var told []int64
	begun := 0
	made, err := s.client.Upload(t.Context(), NewCertificate{CertificateTitle: "BSc", FullName: "Ada", ApplicantEmail: "ada@example.org", File: file}, Progress(func(sent, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if total != int64(len(content)) || sent > total {
			t.Errorf("told %d of %d", sent, total)
		}
		if len(told) == 0 || sent < told[len(told)-1] {
			begun++
		}
		told = append(told, sent)
	}), IdempotencyKey("a-key"))
	s.must(err)
	if made.ID != 7 || made.Status.Value != Processing || made.CreatedAt.IsZero() {
		t.Errorf("made %+v", made)
	}
	if len(s.seen) != 3 || told[len(told)-1] != int64(len(content)) || begun != 3 || source.most > 1<<20 {
		t.Errorf("%d attempts, progress began %d times and ended at %d, read %d at once", len(s.seen), begun, told[len(told)-1], source.most)
	}
	last := s.seen[2]
	last.Body = io.NopCloser(bytes.NewReader(last.body))
	if err := last.ParseMultipartForm(16 << 20); err != nil {
		t.Fatal(err)
	}
	if v := last.MultipartForm.Value; len(v) != 3 || v["certificate_title"][0] != "BSc" || last.Header.Get("Idempotency-Key") != "a-key" {
		t.Errorf("fields %v, key %q", v, last.Header.Get("Idempotency-Key"))
	}
	part := last.MultipartForm.File["certificate_file"][0]
	opened, err := part.Open()
	s.must(err)
	got, err := io.ReadAll(opened)
	s.must(err)
	if !bytes.Equal(got, content) || part.Filename != "a \"quoted\" näme.pdf" || last.ContentLength != int64(len(last.body)) {
		t.Errorf("%d bytes of %q, length %d", len(got), part.Filename, last.ContentLength)
	}
}

func TestUploadOfAFileThatFails(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("x"), 100_000)
	broken := errors.New("the disk is gone")
	for name, file := range map[string]*File{
		"cannot be opened": {Name: "a.pdf", Size: 10, Open: func() (io.ReadCloser, error) { return nil, broken }},
		"cannot be read": {Name: "a.pdf", Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(content[:50_000]), errReader{broken})), nil
		}},
		"is shorter": {Name: "a.pdf", Size: int64(len(content)) + 1, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }},
		"is longer":  {Name: "a.pdf", Size: int64(len(content)) - 1, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }},
	} {
		s := newStub(t, func(w http.ResponseWriter, r *seen, _ int) {
			if strings.Contains(string(r.body), "xx\r\n--") {
				t.Errorf("%s: the vault was sent a whole form", name)
			}
			say(w, 201, record)
		})
		_, err := s.client.UploadFile(t.Context(), file)
		if err == nil || len(s.waits) != 0 || strings.HasPrefix(name, "cannot") && !errors.Is(err, broken) {
			t.Errorf("%s: %v after %d waits", name, err, len(s.waits))
		}
	}
	s := newStub(t, func(http.ResponseWriter, *seen, int) {})
	if _, err := s.client.UploadFile(t.Context(), nil); err == nil {
		t.Error("no file is taken")
	}
	if _, err := OpenFile(t.TempDir()); err == nil {
		t.Error("a folder is taken for a file")
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestOpenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "diploma.pdf")
	if err := os.WriteFile(path, []byte("%PDF"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path)
	if err != nil || f.Name != "diploma.pdf" || f.Size != 4 {
		t.Fatalf("%+v, %v", f, err)
	}
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
		say(w, 201, `{"data": {"file_id": "f", "file_name": "diploma.pdf", "mime_type": "application/pdf", "size": 4}}`)
	})
	stored, err := s.client.UploadFile(t.Context(), f)
	if err != nil || *stored != (UploadedFile{"f", "diploma.pdf", "application/pdf", 4}) {
		t.Errorf("%+v, %v", stored, err)
	}
}

// TestUploadIsRefusedEarly has the vault answer before it has read the file.
func TestUploadIsRefusedEarly(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		say(w, 401, `{"message": "Unauthorized - Invalid API token"}`)
	}))
	t.Cleanup(server.Close)
	c, err := New(Config{URL: server.URL, HTTP: server.Client(), Retry: Retry{Attempts: 1}})
	if err != nil {
		t.Fatal(err)
	}
	file, err := SeekFile("a.pdf", bytes.NewReader(make([]byte, 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.UploadFile(t.Context(), file); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("%v", err)
	}
}

func TestDownloadGoesOnWhereItBroke(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("certificate "), 50_000)
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:]) + `"`
	serve := func(w http.ResponseWriter, r *seen, part []byte) {
		w.Header().Set("ETag", tag)
		if from := r.Header.Get("Range"); from != "" {
			if r.Header.Get("If-Range") != tag {
				t.Errorf("If-Range %q", r.Header.Get("If-Range"))
			}
			start, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(from, "bytes="), "-"))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, len(content)-1, len(content)))
			w.Header().Set("Content-Length", strconv.Itoa(len(content)-start))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(part[start:])
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(part)
	}
	s := newStub(t, func(w http.ResponseWriter, r *seen, attempt int) {
		if r.Header.Get("Accept") != "application/pdf" {
			t.Errorf("Accept %q", r.Header.Get("Accept"))
		}
		switch attempt {
		case 1:
			say(w, 503, "{}")
		case 2:
			serve(w, r, content[:200_000])
			panic(http.ErrAbortHandler)
		case 3:
			serve(w, r, content[:400_000])
			panic(http.ErrAbortHandler)
		default:
			serve(w, r, content)
		}
	})
	var got bytes.Buffer
	s.must(s.client.Download(t.Context(), "u", &got))
	if !bytes.Equal(got.Bytes(), content) || len(s.seen) != 4 {
		t.Errorf("%d of %d bytes in %d attempts", got.Len(), len(content), len(s.seen))
	}

	for name, second := range map[string]func(w http.ResponseWriter){
		"another file":      func(w http.ResponseWriter) { say(w, 200, "another", "ETag", `"another"`) },
		"from the start":    func(w http.ResponseWriter) { say(w, 200, string(content), "ETag", tag) },
		"from a wrong byte": func(w http.ResponseWriter) { say(w, 206, "x", "ETag", tag, "Content-Range", "bytes 1-2/600000") },
	} {
		s := newStub(t, func(w http.ResponseWriter, r *seen, attempt int) {
			if attempt > 1 {
				second(w)
				return
			}
			serve(w, r, content[:200_000])
			panic(http.ErrAbortHandler)
		})
		var got bytes.Buffer
		if err := s.client.Download(t.Context(), "u", &got); err == nil {
			t.Errorf("%s: %d bytes passed for a download", name, got.Len())
		}
	}
	s = newStub(t, func(w http.ResponseWriter, r *seen, _ int) { serve(w, r, content) })
	full := errors.New("no room")
	if err := s.client.Download(t.Context(), "u", errWriter{full}); !errors.Is(err, full) || len(s.seen) != 1 {
		t.Errorf("a full disk: %v after %d attempts", err, len(s.seen))
	}
}

type errWriter struct{ err error }

func (e errWriter) Write([]byte) (int, error) { return 0, e.err }

func TestFetchKeepsTheTokenToItself(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, r *seen, _ int) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a public link was sent the token")
		}
		say(w, 200, "<svg/>")
	})
	var got bytes.Buffer
	s.must(s.client.Fetch(t.Context(), s.client.base+"/verify/NWU-1/qrcode.svg", &got))
	if got.String() != "<svg/>" {
		t.Errorf("%q", got.String())
	}
	if err := s.client.Fetch(t.Context(), "http://vault.example.org/x", io.Discard); err == nil {
		t.Error("a link without TLS is followed")
	}
	if _, err := s.client.Verify(t.Context(), "NWU-1"); err == nil {
		t.Error("a drawing passed for a verification")
	}
}

func TestListsGoByCursor(t *testing.T) {
	t.Parallel()
	page := func(first, n int, next string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(`{"id": %d}`, first+i)
		}
		link, cursor := "null", "null"
		if next != "" {
			link, cursor = `"https://elsewhere.example.org/next"`, strconv.Quote(next)
		}
		return fmt.Sprintf(`{"data": [%s], "links": {"next": %s}, "meta": {"per_page": 100, "total": null, "next_cursor": %s}}`, strings.Join(items, ","), link, cursor)
	}
	s := newStub(t, func(w http.ResponseWriter, r *seen, _ int) {
		q := r.URL.Query()
		if q.Get("per_page") != "100" || q.Get("status") != "failed" || q.Get("search") != "a&b" || !q.Has("cursor") || q.Has("page") {
			t.Errorf("query %v", q)
		}
		switch q.Get("cursor") {
		case "":
			say(w, 200, page(0, 100, "one"))
		case "one":
			say(w, 200, page(100, 0, "two")) // a page may be empty
		case "two":
			say(w, 200, page(100, 20, ""))
		}
	})
	var ids []int64
	for c, err := range s.client.VaultCertificates(t.Context(), VaultFilter{Status: Failed, Search: "a&b"}) {
		s.must(err)
		ids = append(ids, c.ID)
	}
	if len(ids) != 120 || ids[0] != 0 || ids[119] != 119 || len(s.seen) != 3 {
		t.Errorf("%d records, %d requests", len(ids), len(s.seen))
	}
	for range s.client.VaultCertificates(t.Context(), VaultFilter{Status: Failed, Search: "a&b"}) {
		break
	}
	if len(s.seen) != 4 {
		t.Error("an iterator that was left goes on")
	}
	for name, body := range map[string]string{"a cursor that stands still": page(0, 1, "same"), "no cursor and a next page": strings.Replace(page(0, 1, "x"), `"next_cursor": "x"`, `"next_cursor": null`, 1)} {
		n, failed := 0, false
		s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { say(w, 200, body) })
		for _, err := range s.client.Batches(t.Context()) {
			if n++; err != nil {
				failed = true
			}
			if n > 10 {
				break
			}
		}
		if !failed {
			t.Errorf("%s: no error in %d records", name, n)
		}
	}
	refused := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
		say(w, 403, `{"message": "Forbidden - Insufficient permissions"}`)
	})
	for c, err := range refused.client.Certificates(t.Context(), CertificateFilter{}) {
		if c != nil || !errors.Is(err, ErrForbidden) {
			t.Errorf("%v, %v", c, err)
		}
	}
}

func TestFilterIsSent(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
		say(w, 200, `{"data": [], "links": {"next": null}, "meta": {"total": 0}}`)
	})
	p, err := s.client.CertificatePage(t.Context(), CertificateFilter{
		Search: "x", Status: "generated", IssueDateFrom: "2026-01-01", IssueDateTo: "2026-02-01", GeneratedFrom: "2026-03-01", GeneratedTo: "2026-04-01",
		BatchID: "b", CustomerID: 7, SortField: "name", SortOrder: "asc",
	}, 2, 50)
	s.must(err)
	want := "/business/certificates?batch_id=b&customer_id=7&generated_at_from=2026-03-01&generated_at_to=2026-04-01&issue_date_from=2026-01-01&issue_date_to=2026-02-01&page=2&per_page=50&search=x&sort_field=name&sort_order=asc&status=generated"
	if got := s.seen[0].URL.String(); got != want || *p.Meta.Total != 0 {
		t.Errorf("%s", got)
	}
}

func TestPathsAreEscaped(t *testing.T) {
	t.Parallel()
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) { say(w, 404, `{"message": "No."}`) })
	_, err := s.client.VaultCertificate(t.Context(), "../../admin?x=1")
	if !errors.Is(err, ErrNotFound) || s.seen[0].URL.EscapedPath() != "/business/certificate-vault/..%2F..%2Fadmin%3Fx=1" {
		t.Errorf("%v, %s", err, s.seen[0].URL.EscapedPath())
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	states := []string{"processing", "processing", "completed_with_errors"}
	looks := 0
	s := newStub(t, func(w http.ResponseWriter, r *seen, _ int) {
		switch {
		case r.Method == http.MethodPost:
			r.Body = io.NopCloser(bytes.NewReader(r.body))
			if err := r.ParseMultipartForm(1 << 20); err != nil {
				t.Error(err)
			}
			f := r.MultipartForm.Value
			if f["entries[7][full_name]"][0] != "Ada" || f["entries[999999][file_id]"][0] != "f2" || f["entries[7][details]"] != nil || len(f) != 9 {
				t.Errorf("form %v", f)
			}
			say(w, 202, `{"message": "ok", "data": {"batch_id": "b", "total": 2, "status": "processing"}}`)
		case r.URL.Query().Get("per_page") == "1":
			say(w, 200, fmt.Sprintf(`{"data": {"id": "b", "status": %q, "total": 2, "processing": %d, "entries": []}, "links": {"next": null}}`, states[looks], 2-looks))
			looks++
		case r.URL.Query().Get("page") == "1":
			say(w, 200, `{"data": {"entries": [{"index": 7, "status": "approved", "uuid": "u", "reference_id": "NWU-1", "error": null}]}, "links": {"next": "x"}}`)
		default:
			say(w, 200, `{"data": {"entries": [{"index": 999999, "status": "rejected", "uuid": null, "reference_id": null, "error": "There is one."}]}, "links": {"next": null}}`)
		}
	})
	accepted, err := s.client.SubmitBatch(t.Context(), []Entry{
		{Index: 7, CertificateTitle: "BSc", FullName: "Ada", ApplicantEmail: "ada@example.org", FileID: "f1"},
		{Index: 999999, CertificateTitle: "BSc", FullName: "Grace", ApplicantEmail: "grace@example.org", FileID: "f2", IssueDate: "2026-06-30"},
	})
	if err != nil || accepted.BatchID != "b" || accepted.Total != 2 {
		t.Fatalf("%+v, %v", accepted, err)
	}
	var processing []int
	done, err := s.client.AwaitBatch(t.Context(), "b", func(b *Batch) { processing = append(processing, b.Processing) })
	if err != nil || done.Status != BatchCompletedWithErrors || !slices.Equal(processing, []int{2, 1, 0}) || !slices.Equal(s.waits, []time.Duration{awaitFirst, 2 * awaitFirst}) {
		t.Errorf("%+v, %v, told %v, waits %v", done, err, processing, s.waits)
	}
	var got []string
	for e, err := range s.client.BatchEntries(t.Context(), "b") {
		s.must(err)
		got = append(got, fmt.Sprintf("%d %s", e.Index, e.Status))
	}
	if strings.Join(got, ", ") != "7 approved, 999999 rejected" {
		t.Errorf("entries %v", got)
	}
}

// TestStandardLibraryAlone keeps the package easy to take in.
func TestStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, []string{"github.com/certvault/certvault/client"}) {
		t.Errorf("the package needs %v", got)
	}
}
