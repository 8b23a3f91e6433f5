//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

// outageUploads is the number of uploads that begin before or during an outage of the file store.
const outageUploads = 20

// inS3 returns the options of a vault with PostgreSQL and a file store in S3. The vault makes only one
// attempt to process a certificate, so the certificate fails if an outage counts as an attempt.
func inS3(t *testing.T, location string) vault.Options {
	t.Helper()
	secrets := t.TempDir()
	return vault.Options{Data: empty(t), Database: dbtest.MigratedURL(t), Args: unlimited([]string{"--process-attempts", "1"}), Env: []string{
		"CERTVAULT_BLOB=" + location, "CERTVAULT_MASTER_KEY_FILE=" + filepath.Join(secrets, "master.key"),
		"CERTVAULT_KEY_IDENTITY_FILE=" + filepath.Join(secrets, "identity.txt"),
	}}
}

// eachS3 runs a test with each S3 server whose program is present.
func eachS3(t *testing.T, test func(t *testing.T, server *blobtest.Process)) {
	t.Helper()
	for _, server := range blobtest.Servers() {
		t.Run(server.Name, func(t *testing.T) {
			t.Parallel()
			test(t, server.Start(t))
		})
	}
}

// TestFilesInS3 uploads, downloads and verifies a certificate with its files in S3. It downloads the
// certificate again after it deleted the files in the data folder. It also runs commands on the vault.
func TestFilesInS3(t *testing.T) {
	t.Parallel()
	eachS3(t, func(t *testing.T, server *blobtest.Process) {
		o := inS3(t, server.Location())
		f := startWith(t, o)
		c, file := f.uploadApproved(t, "Ada Obi")
		root := writeTemp(t, "root.pem", get(t, f.as(t, ""), "/.well-known/certvault/root.pem", http.StatusOK).Body)
		if code, out := runOffline(t, "verify", writeTemp(t, "diploma.pdf", file), "--root", root); code != 0 {
			t.Errorf("verify: exit code = %d, want 0: %s", code, out)
		}
		download := vault.CertificatesPath + "/" + c.UUID + "/download"
		original := len(sample("Ada Obi"))
		if !bytes.HasPrefix(file, sample("Ada Obi")) {
			t.Error("the verified PDF does not begin with the original")
		}
		// The original and the tail are two files in the store. The second range includes bytes of both.
		for _, r := range [][2]int{{0, 99}, {original - 50, original + 49}, {original, original}, {len(file) - 10, len(file) - 1}} {
			request, err := f.client.Request(t.Context(), http.MethodGet, download, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r[0], r[1]))
			a, err := f.client.Send(request)
			if err != nil || a.Status != http.StatusPartialContent || !bytes.Equal(a.Body, file[r[0]:r[1]+1]) {
				t.Errorf("the range %v: status = %d, %d bytes, %v; want 206 and the bytes of the file", r, a.Status, len(a.Body), err)
			}
		}
		removeScratch(t, o.Data)
		if a := get(t, f.client, download, http.StatusOK); !bytes.Equal(a.Body, file) {
			t.Error("the file differs after the data folder was deleted")
		}
		f.uploadApproved(t, "Grace Hopper")
		f.checkCommandsInS3(t, o, server)
	})
}

// removeScratch deletes everything in a data folder except the self-signed TLS certificate. All other
// files in the data folder of a vault with a file store in S3 are temporary.
func removeScratch(t *testing.T, data string) {
	t.Helper()
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "tls" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(data, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// checkCommandsInS3 checks doctor, a backup, a copy to a folder, and the start with another prefix.
func (f *fixture) checkCommandsInS3(t *testing.T, o vault.Options, server *blobtest.Process) {
	t.Helper()
	run := func(o vault.Options, code int, want string, args ...string) {
		t.Helper()
		r, err := vault.Run(t.Context(), o, "", args...)
		if err != nil || r.Code != code || !strings.Contains(r.Stdout+r.Stderr, want) {
			t.Errorf("certvault %s: exit code = %d, %v, want %d and %q: %s%s", args[0], r.Code, err, code, want, r.Stdout, r.Stderr)
		}
	}
	r, err := vault.Run(t.Context(), o, "", "doctor", "--files", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var findings []struct {
		Name, Detail string
		Good         bool
	}
	if err := json.Unmarshal([]byte(r.Stdout), &findings); err != nil {
		t.Fatalf("doctor: %v: %s%s", err, r.Stdout, r.Stderr)
	}
	good := map[string]bool{}
	for _, finding := range findings {
		good[finding.Name] = finding.Good
	}
	for _, name := range []string{"installation", "file store", "incomplete uploads", "stored files"} {
		if !good[name] {
			t.Errorf("doctor: the finding %s is not good: %s", name, r.Stdout)
		}
	}
	copied := filepath.Join(t.TempDir(), "files")
	location := strings.TrimPrefix(o.Env[0], "CERTVAULT_BLOB=")
	run(o, 0, "Files copied: ", "blob", "copy", location, copied)
	backup := filepath.Join(t.TempDir(), "backup")
	run(o, 0, "", "backup", backup)
	run(o, 0, "", "backup", "verify", backup)
	other := o
	other.Env = append([]string{"CERTVAULT_BLOB=" + server.Location()}, o.Env[1:]...)
	other.Data = empty(t)
	run(other, 1, "certvault.json does not exist; set --blob", "serve", "--listen", "localhost:0")
}

// TestOutageOfS3 kills the S3 server during uploads. Uploads that are not acknowledged get the status
// 503 with Retry-After. Acknowledged uploads are approved after the server runs again, and the outage does
// not count as an attempt.
func TestOutageOfS3(t *testing.T) {
	t.Parallel()
	eachS3(t, func(t *testing.T, server *blobtest.Process) {
		f := startWith(t, inS3(t, server.Location()))
		var mu sync.Mutex
		var acknowledged []string
		refused := 0
		var uploads sync.WaitGroup
		upload := func(i int) {
			defer uploads.Done()
			a, err := f.client.Upload(t.Context(), form(person(i)))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("upload %d: %v", i, err)
			case a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "":
				refused++
			case a.Status == http.StatusCreated:
				c, err := a.Certificate()
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged = append(acknowledged, c.UUID)
			default:
				t.Errorf("upload %d: status = %d, Retry-After = %q, want 201, or 503 with Retry-After: %s", i, a.Status, a.Header.Get("Retry-After"), a.Body)
			}
		}
		for i := range outageUploads {
			uploads.Add(1)
			if i == outageUploads/2 {
				eventually(t, approvalTime, "some uploads are acknowledged", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(acknowledged) >= 4
				})
				server.Stop()
			}
			go upload(i)
		}
		uploads.Wait()
		if refused < outageUploads/2 {
			t.Errorf("%d uploads were refused, want at least the %d that began during the outage", refused, outageUploads/2)
		}
		server.Continue()
		for i := outageUploads; i < outageUploads+2; i++ {
			uploads.Add(1)
			upload(i)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(acknowledged)+refused != outageUploads+2 || len(acknowledged) < 6 {
			t.Errorf("%d uploads were acknowledged and %d refused, want at least 6 acknowledged, and a response to each upload", len(acknowledged), refused)
		}
		t.Logf("%s: %d acknowledged, %d refused", t.Name(), len(acknowledged), refused)
		for _, uuid := range acknowledged {
			c, err := f.client.Await(t.Context(), uuid)
			if err != nil || c.Status.Value != "approved" {
				t.Errorf("acknowledged certificate %s: %+v, %v; want approved at the first attempt", uuid, c, err)
			}
		}
	})
}
