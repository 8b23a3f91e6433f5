package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// counting is a file that records the size of the largest buffer passed to Read.
type counting struct {
	io.ReadSeeker

	largest int
}

func (c *counting) Read(p []byte) (int, error) {
	c.largest = max(c.largest, len(p))
	return c.ReadSeeker.Read(p)
}

func TestUploadStreamsAndRewinds(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB
	s := newStub(t, func(w http.ResponseWriter, _ *seen, attempt int) {
		if attempt < 3 {
			panic(http.ErrAbortHandler)
		}
		respond(w, 201, record)
	})
	source := &counting{ReadSeeker: bytes.NewReader(content)}
	file, err := SeekFile("a \"quoted\" näme.pdf", source)
	s.must(err)
	var mu sync.Mutex
	var reported []int64
	starts := 0
	created, err := s.client.Upload(t.Context(), NewCertificate{CertificateTitle: "BSc", FullName: "Ada", ApplicantEmail: "ada@example.org", File: file}, Progress(func(sent, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if total != int64(len(content)) || sent > total {
			t.Errorf("progress = %d of %d, want a total of %d", sent, total, len(content))
		}
		if len(reported) == 0 || sent < reported[len(reported)-1] {
			starts++
		}
		reported = append(reported, sent)
	}), IdempotencyKey("a-key"))
	s.must(err)
	if created.ID != 7 || created.Status.Value != Processing || created.CreatedAt.IsZero() {
		t.Errorf("Upload = %+v, want certificate 7 with the status processing and a creation time", created)
	}
	if len(s.seen) != 3 || reported[len(reported)-1] != int64(len(content)) || starts != 3 || source.largest > 1<<20 {
		t.Errorf("%d attempts, %d starts of the progress, its end at %d, largest read %d bytes; want 3, 3, the size of the file, at most 1 MiB", len(s.seen), starts, reported[len(reported)-1], source.largest)
	}
	last := s.seen[2]
	last.Body = io.NopCloser(bytes.NewReader(last.body))
	if err := last.ParseMultipartForm(16 << 20); err != nil {
		t.Fatal(err)
	}
	if v := last.MultipartForm.Value; len(v) != 3 || v["certificate_title"][0] != "BSc" || last.Header.Get("Idempotency-Key") != "a-key" {
		t.Errorf("fields = %v, key = %q, want the 3 fields with values and the key a-key", v, last.Header.Get("Idempotency-Key"))
	}
	part := last.MultipartForm.File["certificate_file"][0]
	opened, err := part.Open()
	s.must(err)
	got, err := io.ReadAll(opened)
	s.must(err)
	if !bytes.Equal(got, content) || part.Filename != "a \"quoted\" näme.pdf" || last.ContentLength != int64(len(last.body)) {
		t.Errorf("received %d bytes of %q, Content-Length = %d, want the whole file with its name, and the length of the form", len(got), part.Filename, last.ContentLength)
	}
}

func TestUploadOfAFileThatFails(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("x"), 100_000)
	broken := errors.New("input/output error")
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
				t.Errorf("a file that %s: the client sent a complete form, want an incomplete body", name)
			}
			respond(w, 201, record)
		})
		_, err := s.client.UploadFile(t.Context(), file)
		if err == nil || len(s.waits) != 0 || strings.HasPrefix(name, "cannot") && !errors.Is(err, broken) {
			t.Errorf("a file that %s: error = %v after %d waits, want an error of the file and no wait", name, err, len(s.waits))
		}
	}
	s := newStub(t, func(http.ResponseWriter, *seen, int) {})
	if _, err := s.client.UploadFile(t.Context(), nil); err == nil {
		t.Error("UploadFile accepts a nil file, want an error")
	}
	if _, err := OpenFile(t.TempDir()); err == nil {
		t.Error("OpenFile accepts a folder, want an error")
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
		t.Fatalf("OpenFile = %+v, %v, want diploma.pdf with 4 bytes", f, err)
	}
	s := newStub(t, func(w http.ResponseWriter, _ *seen, _ int) {
		respond(w, 201, `{"data": {"file_id": "f", "file_name": "diploma.pdf", "mime_type": "application/pdf", "size": 4, "expires_at": "2026-07-01T09:41:07Z"}}`)
	})
	stored, err := s.client.UploadFile(t.Context(), f)
	if err != nil || *stored != (UploadedFile{"f", "diploma.pdf", "application/pdf", 4, time.Date(2026, 7, 1, 9, 41, 7, 0, time.UTC)}) {
		t.Errorf("UploadFile = %+v, %v, want the file of the response", stored, err)
	}
}

// TestUploadIsRefusedEarly uses a vault that responds without reading the file.
func TestUploadIsRefusedEarly(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, 401, `{"message": "Unauthorized - Invalid API token"}`)
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
		t.Errorf("error = %v, want ErrUnauthorized", err)
	}
}
