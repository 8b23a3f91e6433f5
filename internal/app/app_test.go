package app

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/pdfium"
	"github.com/certvault/certvault/test/vault"
)

// With the default cost, hashing passwords would take a fifth of the time of the tests.
func TestMain(m *testing.M) {
	account.DefaultCost = certtest.Cost
	os.Exit(m.Run())
}

func settings(t *testing.T, dir string) *config.Serve {
	t.Helper()
	c := &config.Serve{Storage: config.Storage{Data: dir}, Listen: "127.0.0.1:0", ProcessAttempts: 1, FileCheckRate: 10}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	return c
}

// warmFolder returns a data folder with a compiled PDF renderer and a migrated database. Compiling the
// renderer takes about a minute with the race detector.
func warmFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	dbtest.CopyTemplate(t, dir)
	if err := vault.Warm(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// createBase calls CreateBase with a migrated database.
func createBase(t *testing.T, s config.Storage, baseURL string) (*Base, error) {
	t.Helper()
	if s.Database == "" {
		dbtest.CopyTemplate(t, s.Data)
	}
	return CreateBase(t.Context(), s, baseURL)
}

// newApp creates a vault. If the PDF renderer is missing, newApp skips the test, or fails it in CI. make
// downloads the renderer.
func newApp(t *testing.T, dir string, stdout *bytes.Buffer, change ...func(*config.Serve)) *App {
	t.Helper()
	cfg := settings(t, dir)
	for _, f := range change {
		f(cfg)
	}
	a, err := New(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})), stdout)
	if errors.Is(err, pdfium.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skipf("%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOneServerPerDataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out bytes.Buffer
	first := newApp(t, dir, &out)
	if _, err := New(t.Context(), settings(t, dir), slog.New(slog.DiscardHandler), &out); !errors.Is(err, ErrRunning) {
		t.Fatalf("a second server on the folder: error = %v, want ErrRunning", err)
	}
	if err := first.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := newApp(t, dir, &out)
	if err := second.close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSetUpLinkIsPrintedAndNotLogged checks that a vault without an owner prints a set-up link with
// the actual port, and never logs the link, which is only for the operator.
func TestSetUpLinkIsPrintedAndNotLogged(t *testing.T) {
	t.Parallel()
	var out, log bytes.Buffer
	a, err := New(t.Context(), settings(t, warmFolder(t)), slog.New(slog.NewJSONHandler(&log, nil)), &out)
	if errors.Is(err, pdfium.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skipf("%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := a.start(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := a.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), ":0/") {
		t.Fatalf("the link does not have the actual port: %q", out.String())
	}
	_, secret, found := strings.Cut(out.String(), "/setup?token=")
	if !found || len(strings.TrimSpace(secret)) < 26 {
		t.Fatalf("the output %q has no set-up link", out.String())
	}
	// The browser warns about the self-signed certificate. The output contains the digest of the certificate,
	// so that the operator can compare it with the digest in the browser.
	text, err := os.ReadFile(filepath.Join(a.cfg.Data, "tls", "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	for _, want := range []string{"Your browser will warn", authority.Digest(block.Bytes), filepath.Join(a.cfg.Data, "tls", "cert.pem"), "--tls-cert"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output %q does not contain %q", out.String(), want)
		}
	}
	a.cfg.TLSCert = "cert.pem"
	if hint := a.certificateHint(); hint != "" {
		t.Errorf("certificateHint with --tls-cert = %q, want none", hint)
	}
	if strings.Contains(log.String(), strings.TrimSpace(secret)) || strings.Contains(log.String(), "/setup") {
		t.Fatalf("the log contains the set-up link: %s", log.String())
	}
}

func TestSelfSignedCertificateIsRenewedBeforeExpiry(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tls")
	now := time.Now()
	serial := func(host string, now time.Time) string {
		t.Helper()
		pair, err := selfSignedCertificate(dir, host, now)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"localhost", "127.0.0.1", "::1", host} {
			if err := leaf.VerifyHostname(name); err != nil {
				t.Error(err)
			}
		}
		return leaf.SerialNumber.String()
	}
	first := serial("vault.example.org", now)
	if serial("vault.example.org", now.Add(300*24*time.Hour)) != first {
		t.Error("the certificate was renewed too early")
	}
	if serial("vault.example.org", now.Add(370*24*time.Hour)) == first {
		t.Error("the certificate was not renewed before its expiry")
	}
	second := serial("vault.example.org", now)
	if serial("other.example.org", now) == second {
		t.Error("the certificate was not renewed for another host")
	}
	info, err := os.Stat(filepath.Join(dir, "key.pem"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key = %v, %v, want 0600", info.Mode(), err)
	}
}

func TestExamineReportsProblems(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	base, err := createBase(t, config.Storage{Data: dir}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := base.DB.Close(); err != nil {
		t.Fatal(err)
	}
	finding := func(name string) Finding {
		t.Helper()
		for _, f := range Examine(t.Context(), config.Storage{Data: dir}) {
			if f.Name == name {
				return f
			}
		}
		t.Fatalf("Examine has no finding %s", name)
		return Finding{}
	}
	for _, name := range []string{"data folder", "master key", "file store", "database", "schema", "certificates", "counts"} {
		if f := finding(name); !f.Good {
			t.Errorf("the finding %s is not good: %s", name, f.Detail)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if f := finding("data folder"); f.Good || !strings.Contains(f.Detail, "chmod 700") {
		t.Errorf("a folder that other users can read: finding = %+v, want a problem that names chmod 700", f)
	}
	if base, err = OpenBase(t.Context(), config.Storage{Data: dir}, ""); err != nil {
		t.Fatal(err)
	}
	_, err = base.DB.Writer().ExecContext(t.Context(), `INSERT INTO certificate_counts (institution_id, source, status, n) VALUES (1, 'vault', 'failed', 3)`)
	if err := errors.Join(err, base.DB.Close()); err != nil {
		t.Fatal(err)
	}
	if f := finding("counts"); f.Good || !strings.Contains(f.Detail, "differ from the certificates by 3") {
		t.Errorf("wrong counts: finding = %+v, want a difference of 3", f)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys", "master.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := finding("master key"); f.Good {
		t.Errorf("an invalid master key: finding = %+v, want a problem", f)
	}
}

func TestOtherMasterKeyIsRejected(t *testing.T) {
	t.Parallel()
	database := dbtest.MigratedURL(t)
	storage := config.Storage{Data: t.TempDir(), Database: database}
	for range 2 {
		base, err := createBase(t, storage, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := base.DB.Close(); err != nil {
			t.Fatal(err)
		}
	}
	other := config.Storage{Data: t.TempDir(), Database: database}
	if _, err := keyring.Open(filepath.Join(other.Data, "keys")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBase(t.Context(), other, ""); !errors.Is(err, errOtherMasterKey) {
		t.Fatalf("the key of another data folder: error = %v, want errOtherMasterKey", err)
	}
}
