//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// corpus returns the folder of the shared corpus and the paths of its files. If all is false, it
// returns only the files that the vault must accept. If the corpus is missing, corpus skips the
// test, or fails the test if the environment variable CI is true.
func corpus(t *testing.T, all bool) (root string, files []string) {
	t.Helper()
	repository, err := vault.Root()
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(repository, "..", "shared", "corpus")
	manifest, err := os.ReadFile(filepath.Join(root, "MANIFEST.tsv"))
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("the corpus is not in ../shared")
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(manifest)) {
		if fields := strings.Split(line, "\t"); len(fields) > 1 && fields[0] != "path" && (all || fields[1] == "accept") {
			files = append(files, fields[0])
		}
	}
	return root, files
}

// validations returns the lines that pdfsig prints about the validity of signatures, one for each
// signature.
func validations(t *testing.T, file []byte) (list []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "pdfsig", "-nocert", writeTemp(t, "signatures.pdf", file)).Output()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "Signature Validation:") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	if err != nil && !strings.Contains(string(out), "does not contain any signatures") {
		t.Fatalf("pdfsig cannot read the signatures: %v: %s", err, out)
	}
	return list
}

// TestCorpusSigned uploads each file that the vault must accept. pdfsig and openssl verify the
// vault's signature with the public root. If the verified PDF begins with the original, pdfsig must print
// the same results for the signatures of the original as without the vault's signature.
func TestCorpusSigned(t *testing.T) {
	t.Parallel()
	tool(t, "pdfsig")
	dir, files := corpus(t, false)
	f := start(t, "")
	root := writeTemp(t, "root.pem", get(t, f.as(t, ""), "/.well-known/certvault/root.pem", http.StatusOK).Body)
	store := trust(t, root)
	made := map[string]string{}
	for i, path := range files {
		made[path] = f.upload(t, vault.NewForm(path, person(i), mailbox(person(i)), filepath.Base(path), read(t, filepath.Join(dir, path)))).UUID
	}
	for path, uuid := range made {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			c := f.await(t, uuid, "approved")
			if n := count(t, f.database(t), `SELECT count(*) FROM certificate_checks WHERE certificate_id = $1 AND name = 'signature' AND result = 'passed'`, c.ID); n != 1 {
				t.Error("the check of the signature is not stored as passed")
			}
			file := f.verified(t, uuid)
			out := run(t, "pdfsig", "-nssdir", store, writeTemp(t, "signed.pdf", file))
			// The vault's signature is the last signature.
			last := out[strings.LastIndex(out, "Signature #"):]
			for _, want := range []string{"ETSI.CAdES.detached", "Total document signed", "Signature is Valid", "Certificate is Trusted"} {
				if !strings.Contains(last, want) {
					t.Errorf("pdfsig does not print %q for the signature of the vault: %s", want, out)
				}
			}
			checkCMS(t, root, file)
			var before []string
			original := read(t, filepath.Join(dir, path))
			if strings.HasSuffix(path, ".pdf") && bytes.HasPrefix(file, original) {
				before = validations(t, original)
			}
			after := validations(t, file)
			if len(after) != len(before)+1 {
				t.Fatalf("signatures of the original: %v, of the verified PDF: %v; want one more in the verified PDF", before, after)
			}
			for i, validation := range before {
				if after[i] != validation {
					t.Errorf("signature %d: pdfsig prints %q, want %q as for the original", i+1, after[i], validation)
				}
			}
		})
	}
}

// TestCorpusMemory uploads all files of the corpus, four at a time, and checks the peak memory of the
// vault. Some of the files are intended to exhaust memory.
func TestCorpusMemory(t *testing.T) {
	dir, files := corpus(t, true)
	f := startIn(t, t.TempDir(), "")
	api := f.api(t)
	before := peak(t, f.PID())
	next := make(chan string)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for path := range next {
				_, err := api.Upload(t.Context(), certificate(t, form(path).WithFile(filepath.Base(path), read(t, filepath.Join(dir, path)))))
				if err != nil && !errors.Is(err, client.ErrInvalid) {
					t.Errorf("uploading %s: %v, want no error or ErrInvalid", path, err)
				}
			}
		})
	}
	for _, path := range files {
		next <- path
	}
	close(next)
	wg.Wait()
	eventually(t, approvalTime, "no certificate is in processing", func() bool {
		return count(t, f.database(t), `SELECT count(*) FROM certificates WHERE status = 'processing'`) == 0
	})
	after := peak(t, f.PID())
	t.Logf("peak resident memory: %d MB before the uploads, %d MB when %d files were processed", before>>10, after>>10, len(files))
	if after > maxResident {
		t.Errorf("peak resident memory = %d MB, want at most %d MB", after>>10, maxResident>>10)
	}
}
