//go:build e2e

package e2e

import (
	"bytes"
	"crypto/x509"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/contract"
	"github.com/certvault/certvault/test/vault"
)

// program returns a client.Client with the given token. The client checks each exchange against the
// OpenAPI document of the vault.
func (f *fixture) program(t *testing.T, token string) *client.Client {
	t.Helper()
	transport, err := f.Transport()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	checker, err := contract.New(t.Context(), get(t, f.as(t, ""), "/openapi.json", http.StatusOK).Body)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URL: f.URL, Token: token, HTTP: &http.Client{Transport: checker.Wrap(transport, func(err error) { t.Error(err) })}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClient uploads, downloads, verifies and revokes a certificate with package client.
func TestClient(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		ctx := t.Context()
		c := f.program(t, f.token(t, "", vault.Permissions...))
		original := sample("Ada Lovelace")
		file, err := client.SeekFile("diploma.pdf", bytes.NewReader(original))
		if err != nil {
			t.Fatal(err)
		}
		n := client.NewCertificate{CertificateTitle: "Diploma", FullName: "Ada Lovelace", ApplicantEmail: "ada@example.org", Details: "With distinction", File: file}
		var sent int64
		made, err := c.Upload(ctx, n, client.Progress(func(done, _ int64) { sent = done }))
		if err != nil || sent != int64(len(original)) {
			t.Fatalf("Upload sent %d of %d bytes, %v; want all bytes", sent, len(original), err)
		}
		_, err = c.Upload(ctx, n)
		if refused, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, client.ErrDuplicate) || refused.Existing() != made.UUID || refused.RequestID == "" {
			t.Errorf("uploading the same certificate again: got %v, want ErrDuplicate with the existing UUID and a request id", err)
		}
		approved, err := c.Await(ctx, made.UUID)
		if err != nil || approved.Status.Value != client.Approved {
			t.Fatalf("got %+v, %v; want an approved certificate", approved, err)
		}
		var pdf bytes.Buffer
		if err := c.Download(ctx, made.UUID, &pdf); err != nil || !bytes.HasPrefix(pdf.Bytes(), original) {
			t.Errorf("Download wrote %d bytes, %v; want the verified PDF, which begins with the original", pdf.Len(), err)
		}
		run(t, "qpdf", "--check", writeTemp(t, "verified.pdf", pdf.Bytes()))
		page, err := c.VaultCertificatePage(ctx, client.VaultFilter{Search: "lovelace"}, 1, 10)
		if err != nil || len(page.Data) != 1 || *page.Data[0].Details != "With distinction" {
			t.Errorf("list = %+v, %v; want the certificate", page, err)
		}
		if valid, err := c.Verify(ctx, made.ReferenceID); err != nil || valid.Status != "valid" {
			t.Errorf("verification = %+v, %v; want valid", valid, err)
		}
		if _, err := c.Revoke(ctx, made.UUID, "Issued in error.", ""); err != nil {
			t.Error(err)
		}
		if revoked, err := c.Verify(ctx, made.ReferenceID); err != nil || revoked.Status != "revoked" || *revoked.Reason != "Issued in error." {
			t.Errorf("verification after the revocation = %+v, %v; want revoked", revoked, err)
		}
	})
}

// command runs a command of the binary with the URL of the vault and a token.
func (f *fixture) command(t *testing.T, token string, args ...string) vault.Result {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := vault.Run(t.Context(), vault.Options{}, "", append(args, "--url", f.URL, "--ca", filepath.Join(f.Data, "tls", "cert.pem"), "--token-file", path)...)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestUploadCommand uploads a certificate with the command upload, and tests three errors.
func TestUploadCommand(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	token := f.token(t, "", "certificate-vault:create", "certificate-vault:view")
	upload := []string{"upload", writeTemp(t, "diploma.pdf", sample("Ada Lovelace")), "--title", "Diploma", "--name", "Ada Lovelace", "--email", "ada@example.org", "--wait"}
	res := f.command(t, token, upload...)
	if res.Code != 0 || !strings.Contains(res.Stdout, " approved\n"+f.URL+"/verify/NWU-") || res.Stderr != "" {
		t.Fatalf("upload: got %+v, want approved", res)
	}
	if res = f.command(t, token, upload...); res.Code != 1 || !strings.Contains(res.Stderr, "already exists") {
		t.Errorf("uploading the same certificate again: got %+v, want exit code 1", res)
	}
	if res = f.command(t, "cvt_wrong", upload...); res.Code != 1 || !strings.Contains(res.Stderr, "Unauthorized - Invalid API token") {
		t.Errorf("upload with an invalid token: got %+v, want exit code 1", res)
	}
	if res = f.command(t, token, upload[:2]...); res.Code != 2 {
		t.Errorf("upload without a title: got %+v, want exit code 2", res)
	}
}

// TestBulkCommand uploads a list with the command bulk, twice. Two of its rows are not approved.
func TestBulkCommand(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		dir := t.TempDir()
		var list strings.Builder
		list.WriteString("\uFEFFTitle;Full Name;E-Mail;File\r\n")
		const rows = 40
		for i := range rows {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.pdf", i)), sample(person(i)), 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&list, "Diploma;%s;%s;%d.pdf\r\n", person(i), mailbox(person(i)), i)
		}
		list.WriteString("Diploma;Duplicate;" + mailbox(person(0)) + ";1.pdf\r\nDiploma;Unknown;n@example.org;none.pdf\r\n")
		path := filepath.Join(dir, "class.csv")
		if err := os.WriteFile(path, []byte(list.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		token := f.token(t, "", "certificate-vault:create", "certificate-vault:view")
		for run := range 2 {
			res := f.command(t, token, "bulk", path)
			if res.Code != 1 || !strings.HasPrefix(res.Stdout, "40 approved, 1 rejected, 1 refused of 42 rows\n") {
				t.Fatalf("run %d: got %+v, want exit code 1 with 40 approved, 1 rejected and 1 refused of 42 rows", run, res)
			}
		}
		file, err := os.Open(filepath.Join(dir, "class.results.csv"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		results, err := csv.NewReader(file).ReadAll()
		if err != nil || len(results) != rows+3 {
			t.Fatalf("the results have %d rows, error %v; want %d rows", len(results), err, rows+3)
		}
		public := f.as(t, "")
		for _, r := range results[1 : rows+1] {
			if v, err := public.Verify(t.Context(), f.URL+"/verify/"+r[3]); err != nil || v.Status != "valid" {
				t.Errorf("row %s: verification of %s = %+v, %v; want valid", r[0], r[3], v, err)
			}
		}
		if n := count(t, f.database(t), `SELECT count(*) FROM certificates`); n != rows {
			t.Errorf("got %d certificates, want %d", n, rows)
		}
	})
}

// TestUntrustedCertificate checks that the client rejects the self-signed certificate of a vault, unless
// the certificate is in RootCAs.
func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	c, err := client.New(client.Config{URL: f.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Verify(t.Context(), "NWU-0000000000000000"); err == nil || errors.Is(err, client.ErrNotFound) {
		t.Errorf("Verify with an unknown self-signed certificate: error = %v, want a TLS error", err)
	}
	pem, err := os.ReadFile(filepath.Join(f.Data, "tls", "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	if c, err = client.New(client.Config{URL: f.URL, RootCAs: roots}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Verify(t.Context(), "NWU-0000000000000000"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("Verify with the configured certificate: error = %v, want ErrNotFound", err)
	}
}
