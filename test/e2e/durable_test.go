//go:build e2e

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/test/vault"
)

// TestUploadIsDurableBeforeTheResponse checks the order of the system calls of an upload. The vault must
// sync the file, its folder and the record before it sends the response.
func TestUploadIsDurableBeforeTheResponse(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "strace.log")
	tool(t, "strace")
	if err := vault.CanTrace(t.Context()); err != nil {
		t.Skipf("this system does not allow strace: %v", err)
	}
	tracer := []string{"strace", "-D", "-f", "-y", "-s", "32", "-e", "signal=none", "-e", "trace=fsync,fdatasync,write", "-o", log}
	f := startWith(t, vault.Options{Data: warm(t), Args: unlimited(nil), Proxy: true, Tracer: tracer})
	f.client.HTTP.Transport = asProxy{}
	if a, err := f.client.Upload(t.Context(), form("Durable")); err != nil || a.Status != http.StatusCreated {
		t.Fatalf("uploading: %+v, %v; want 201", a, err)
	}
	var calls []string
	eventually(t, approvalTime, "strace has written the response", func() bool {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		calls = completed(string(text))
		return slices.ContainsFunc(calls, func(c string) bool { return strings.Contains(c, "HTTP/1.1 201") })
	})
	last := -1
	for _, step := range []struct{ what, call string }{
		{"the file is synced", `^fsync\(.*/files/incoming/`},
		{"the folder of the file is synced", `^fsync\(.*/files/blobs/`},
		{"the record is synced", `^f(data)?sync\(.*/certvault\.db-wal`},
		{"the response is sent", `^write\(.*"HTTP/1\.1 201`},
	} {
		pattern := regexp.MustCompile(step.call)
		next := slices.IndexFunc(calls[last+1:], pattern.MatchString)
		if next < 0 {
			t.Fatalf("no system call after the previous step shows that %s:\n%s", step.what, strings.Join(calls, "\n"))
		}
		last += 1 + next
	}
}

// asProxy sends requests without TLS, like a proxy that terminates TLS, so that strace shows the
// responses.
type asProxy struct{}

func (asProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Forwarded-For", "127.0.0.1")
	return http.DefaultTransport.RoundTrip(r)
}

// completed returns the system calls in a log of strace, in the order in which they returned. But an
// unfinished write is at the place where it began.
func completed(log string) (calls []string) {
	begun := map[string]string{} // by thread
	for line := range strings.Lines(log) {
		thread, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		switch {
		case strings.Contains(call, "resumed>"):
			calls = append(calls, begun[thread])
			delete(begun, thread)
		case strings.HasSuffix(call, "<unfinished ...>") && !strings.HasPrefix(call, "write("):
			begun[thread] = call
		default:
			calls = append(calls, call)
		}
	}
	return calls
}
