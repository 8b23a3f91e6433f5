package vault_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/typeset"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// tool runs a program and returns its standard output. Except in CI, it skips the test if the program is not
// installed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") != "true" {
		t.Skip(name + " is not installed")
	}
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// Other programs can read the verified PDF of a certificate from a template: its name and reference id, its
// QR code, and a signature that covers the whole file.
func TestIssuedCertificateInOtherPrograms(t *testing.T) {
	t.Parallel()
	cache, err := os.UserCacheDir()
	ok(t, err)
	renderer, err := pdfium.New(t.Context(), pdfium.Options{CacheDir: filepath.Join(cache, "certvault-test", "pdfium")})
	ok(t, err)
	fonts, err := typeset.New()
	ok(t, err)
	v := vaulttest.New(t, dbtest.SQLite(t), func(d *vault.Deps) {
		d.Sealer, d.Verify, d.Now = seal.New(renderer, fonts), pades.Verify, time.Now
	})
	inst := v.Institution("NWU", "Northern & Western University")
	b := v.Issue(inst, "Ada Obi", "Bo Ek")
	v.Until("the certificates are approved", func() bool {
		got, err := v.Batches.ByUUID(t.Context(), inst.ID, b.UUID, "")
		return err == nil && got.Approved == 2
	})
	entries, err := v.Batches.AllEntries(t.Context(), b)
	ok(t, err)
	for i, name := range []string{"Ada Obi", "Bo Ek"} {
		c, err := v.Certs.ByUUID(t.Context(), inst.ID, entries[i].UUID)
		ok(t, err)
		content, err := v.Certs.OpenVerified(t.Context(), c)
		ok(t, err)
		data, err := io.ReadAll(content)
		ok(t, errors.Join(err, content.Close()))
		path := filepath.Join(t.TempDir(), "certificate.pdf")
		ok(t, os.WriteFile(path, data, 0o600))
		if text := tool(t, "pdftotext", path, "-"); !strings.Contains(text, name+" "+c.ReferenceID) || strings.Count(text, "NWU-") != 1 {
			t.Errorf("the text is %q, want the name and one reference id", text)
		}
		if out := tool(t, "pdfsig", "-nocert", path); !strings.Contains(out, "Signature is Valid") || !strings.Contains(out, "Total document signed") {
			t.Errorf("pdfsig reports %s, want a valid signature of the total document", out)
		}
		if out := tool(t, "qpdf", "--check", path); strings.Contains(out, "WARNING") {
			t.Errorf("qpdf reports %s, want no warning", out)
		}
		picture := strings.TrimSuffix(path, ".pdf")
		tool(t, "pdftoppm", "-r", "150", "-png", "-singlefile", path, picture)
		if out := tool(t, "zbarimg", "-q", "--raw", "-Sdisable", "-Sqrcode.enable", picture+".png"); strings.TrimSpace(out) != v.Links.Verify(c.ReferenceID) {
			t.Errorf("zbarimg reads %q, want the address of the certificate's public page", out)
		}
		if tail := c.Verified.Size - int64(len(vaulttest.Base)); tail > 8000 {
			t.Errorf("%d bytes are stored in addition to the base, want at most 8,000", tail)
		} else {
			t.Logf("%d bytes are stored in addition to the base, of which %d are the fields tail", tail, c.Template.FieldsSize)
		}
	}
}
