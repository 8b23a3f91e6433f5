//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// TestUnusualNames uploads certificates with unusual names. Invalid names must be rejected. Each other
// certificate must have the name without surrounding spaces, and its page must not contain HTML from the
// name.
func TestUnusualNames(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		public := f.as(t, "")
		var made []*client.VaultCertificate
		for i, name := range names(t) {
			upload := form("Jane Doe").With("certificate_title", name).With("full_name", name).With("details", name).
				With("applicant_email", fmt.Sprintf("n%d@example.org", i)).WithFile(fileNameOf(name), sample("Jane Doe"))
			valid := utf8.ValidString(name) && !strings.ContainsRune(name, 0)
			trimmed := strings.TrimSpace(name)
			if !valid || trimmed == "" || utf8.RuneCountInString(trimmed) > 255 {
				uploadInvalid(t, f, upload, "full_name")
				continue
			}
			c := f.upload(t, upload)
			if c.FullName != trimmed || c.CertificateTitle != trimmed {
				t.Errorf("stored name = %q, stored title = %q; want %q for both", c.FullName, c.CertificateTitle, trimmed)
			}
			made = append(made, c)
		}
		for _, c := range made {
			f.await(t, c.UUID, "approved")
			v, err := public.Verify(t.Context(), c.VerificationURL)
			if err != nil || v.Status != "valid" || v.FullName != c.FullName {
				t.Errorf("verification of %q = %+v, %v; want valid", c.FullName, v, err)
			}
			req, err := public.Request(t.Context(), "GET", c.VerificationURL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", "text/html")
			page, err := public.Send(req)
			if err != nil || page.Status != 200 || bytes.Contains(page.Body, []byte("<img src=x")) || bytes.Contains(page.Body, []byte("<script>alert")) {
				t.Errorf("page of %q: error = %v; want status 200 and no HTML from the name", c.FullName, err)
			}
		}
		t.Logf("%d names", len(made))
	})
}

// fileNameOf returns a valid file name for a person's name.
func fileNameOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
			return -1
		}
		return r
	}, name) + ".pdf"
}

// names returns unusual names, and the names of the corpus in ../shared if the corpus exists.
func names(t *testing.T) []string {
	t.Helper()
	list := []string{
		"O", "محمد Smith עלי", "John\u202eeoD\u202c", "👩‍👩‍👧‍👦 Family", "𠮷野家 太郎", "Z" + strings.Repeat("\u0335\u0351", 100), "<img src=x onerror=alert(1)>",
		"<script>alert(1)</script>", "(unbalanced \\) ) (", "a\r\nb\tc", "a\x01b", "\ufffe", "a\x00b", "\xed\xa0\x80", "\xff", "   ", strings.Repeat("𝕎", 255), strings.Repeat("𝕎", 256),
	}
	root, err := vault.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "..", "shared", "corpus", "recipients", "names-tricky.json"))
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Log("the corpus is not in ../shared: its names are not tested")
		return list
	}
	if err != nil {
		t.Fatal(err)
	}
	var corpus []struct{ Name string }
	if err := json.Unmarshal(content, &corpus); err != nil {
		t.Fatal(err)
	}
	for _, c := range corpus {
		list = append(list, c.Name)
	}
	return list
}
