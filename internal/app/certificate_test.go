package app

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/config"
)

// TestRenewedCertificateIsServed checks that the server uses a renewed --tls-cert without a
// restart, and that it uses the old certificate while only one of the two files is new.
func TestRenewedCertificateIsServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(folder, name string) string { return filepath.Join(dir, folder, name) }
	now := time.Now()
	for folder, at := range map[string]time.Time{"old": now.AddDate(-2, 0, 0), "new": now} {
		if _, err := selfSignedCertificate(filepath.Join(dir, folder), "vault.example.org", at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "used"), os.DirFS(filepath.Join(dir, "old"))); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a := &App{cfg: &config.Serve{TLSCert: file("used", "cert.pem"), TLSKey: file("used", "key.pem")}, log: slog.New(slog.NewTextHandler(&log, nil))}
	c, err := a.tlsConfig()
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, folder string) {
		t.Helper()
		want, err := tls.LoadX509KeyPair(file(folder, "cert.pem"), file(folder, "key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.GetCertificate(nil)
		if err != nil || !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
			t.Errorf("%s: the server does not use the %s certificate: %v", name, folder, err)
		}
	}
	replace := func(name string) {
		t.Helper()
		content, err := os.ReadFile(file("new", name))
		if err := errors.Join(err, os.WriteFile(file("used", name), content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	check("at first", "old")
	if err := a.reloadCertificate(t.Context()); err != nil {
		t.Error(err)
	}
	check("unchanged files", "old")
	replace("cert.pem")
	if err := a.reloadCertificate(t.Context()); err == nil {
		t.Error("a certificate with another key was accepted")
	}
	check("a certificate with another key", "old")
	replace("key.pem")
	a.Reload(t.Context())
	check("renewed", "new")
	if n := strings.Count(log.String(), "the TLS certificate was replaced"); n != 1 {
		t.Errorf("the log reports %d replacements, want 1: %s", n, log.String())
	}
}

// TestSelfMadeCertificateIsRenewedWhileServing checks that the server renews its own certificate 30
// days before it expires, without a restart.
func TestSelfMadeCertificateIsRenewedWhileServing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	dir := t.TempDir()
	s, err := newServerCertificate(func(at time.Time) (tls.Certificate, error) { return selfSignedCertificate(dir, "localhost", at) })
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		days    int
		changed bool
	}{{1, false}, {366, false}, {368, true}, {369, false}, {368 + 368, true}} {
		at := now.AddDate(0, 0, step.days)
		changed, err := s.reload(at)
		got, e := s.get(nil)
		if err := errors.Join(err, e); err != nil || changed != step.changed || got.Leaf.NotAfter.Before(at.Add(selfSignedRenewal)) {
			t.Errorf("after %d days: changed = %v, %v, want %v; valid until %v", step.days, changed, err, step.changed, got.Leaf.NotAfter)
		}
	}
}
