package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	xacme "golang.org/x/crypto/acme"

	"github.com/certvault/certvault/internal/acme"
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
	a := &App{cfg: &config.Serve{TLS: config.TLS{TLSCert: file("used", "cert.pem"), TLSKey: file("used", "key.pem")}}, log: slog.New(slog.NewTextHandler(&log, nil))}
	c, err := a.tlsConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check := func(name, folder string) {
		t.Helper()
		want, err := tls.LoadX509KeyPair(file(folder, "cert.pem"), file(folder, "key.pem"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil || !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
			t.Errorf("%s: error = %v, want the certificate in the folder %s", name, err, folder)
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
	for name, broken := range map[string]string{"an empty file": "", "a file that is not PEM": "no certificate", "a certificate without its end": "-----BEGIN CERTIFICATE-----\nMIIB"} {
		kept, err := os.ReadFile(file("used", "cert.pem"))
		if err := errors.Join(err, os.WriteFile(file("used", "cert.pem"), []byte(broken), 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := a.reloadCertificate(t.Context()); err == nil {
			t.Errorf("reloading %s: error = nil, want an error", name)
		}
		check(name, "old")
		if err := os.WriteFile(file("used", "cert.pem"), kept, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("cert.pem")
	if err := a.reloadCertificate(t.Context()); err == nil {
		t.Error("reloading a certificate with another key: error = nil, want an error")
	}
	check("a certificate with another key", "old")
	replace("key.pem")
	a.Reload(t.Context())
	check("renewed", "new")
	if n := strings.Count(log.String(), "the TLS certificate was replaced"); n != 1 {
		t.Errorf("the log reports %d replacements, want 1: %s", n, log.String())
	}
}

// TestExpiredCertificateDoesNotReplaceAValidOne checks that an expired certificate, such as one from a
// backup, replaces the current certificate only if the current certificate has expired too.
func TestExpiredCertificateDoesNotReplaceAValidOne(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var next tls.Certificate
	create := func(at time.Time) tls.Certificate {
		t.Helper()
		pair, err := selfSignedCertificate(t.TempDir(), "vault.example.org", at)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	expired, valid := create(now.AddDate(-2, 0, 0)), create(now)
	next = valid
	s, err := newServerCertificate(t.Context(), func(context.Context, time.Time) (tls.Certificate, error) { return next, nil })
	if err != nil {
		t.Fatal(err)
	}
	next = expired
	if changed, err := s.reload(t.Context(), now); changed || !errors.Is(err, errNotValidNow) || s.current.Load().Leaf != valid.Leaf {
		t.Errorf("an expired certificate: changed = %v, error = %v, want false, errNotValidNow and the valid certificate", changed, err)
	}
	if changed, err := s.reload(t.Context(), valid.Leaf.NotAfter.Add(time.Second)); !changed || err != nil {
		t.Errorf("when both have expired: changed = %v, error = %v, want true and no error", changed, err)
	}
}

// TestServerAcceptsOnlyAEAD checks that the server accepts only cipher suites with forward secrecy and
// authenticated encryption, and no version before TLS 1.2. Each handshake offers one suite or one version.
func TestServerAcceptsOnlyAEAD(t *testing.T) {
	t.Parallel()
	a := &App{cfg: &config.Serve{BaseURL: "https://localhost:8443", Storage: config.Storage{Data: t.TempDir()}}}
	c, err := a.tlsConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	accepts := func(client *tls.Config) bool {
		_, err := handshake(t, c, client)
		return err == nil
	}
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Equal(suite.SupportedVersions, []uint16{tls.VersionTLS13}) {
			continue
		}
		// The server's certificate has an ECDSA key, so it cannot use suites with RSA.
		want := strings.HasPrefix(suite.Name, "TLS_ECDHE_ECDSA_") && (strings.Contains(suite.Name, "_GCM_") || strings.Contains(suite.Name, "_POLY1305_"))
		if got := accepts(&tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}}); got != want {
			t.Errorf("TLS 1.2 with %s: accepted = %v, want %v", suite.Name, got, want)
		}
	}
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		if got := accepts(&tls.Config{MinVersion: version, MaxVersion: version}); got != want {
			t.Errorf("%s: accepted = %v, want %v", tls.VersionName(version), got, want)
		}
	}
}

// TestACMECertificate checks that the server starts without a certificate of ACME, uses a certificate that
// another server has stored, and answers a challenge only on a connection with the protocol acme-tls/1
// (RFC 8737).
func TestACMECertificate(t *testing.T) {
	t.Parallel()
	const domain = "vault.example.org"
	b, err := CreateBase(t.Context(), config.Storage{Data: t.TempDir()}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.DB.Close()
	a := &App{Storage: b.Storage, log: slog.New(slog.DiscardHandler), cfg: &config.Serve{TLS: config.TLS{ACMEDomain: domain}, Storage: config.Storage{Data: t.TempDir()}}}
	c, err := a.tlsConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.openACME(t.Context()); err != nil || !a.certificateExpiry().IsZero() {
		t.Fatalf("without a certificate: error = %v, expiry = %v, want none", err, a.certificateExpiry())
	}
	cache := acme.NewCache(b.DB, b.Keyring, t.TempDir())
	own, answer := storeACME(t, cache, domain, domain), storeACME(t, cache, domain+"+token", domain)
	if err := a.reloadCertificate(t.Context()); err != nil || !a.certificateExpiry().Equal(own.NotAfter) {
		t.Fatalf("after another server stored a certificate: error = %v, expiry = %v, want %v", err, a.certificateExpiry(), own.NotAfter)
	}
	for protocol, want := range map[string]*x509.Certificate{"h2": own, xacme.ALPNProto: answer} {
		got, err := handshake(t, c, &tls.Config{ServerName: domain, NextProtos: []string{protocol}})
		if err != nil || !got.Equal(want) {
			t.Errorf("a connection with %s: error = %v, want the certificate %v", protocol, err, want.SerialNumber)
		}
	}
	if err := cache.Delete(t.Context(), domain+"+token"); err != nil {
		t.Fatal(err)
	}
	if _, err := handshake(t, c, &tls.Config{ServerName: domain, NextProtos: []string{xacme.ALPNProto}}); err == nil {
		t.Error("a connection with acme-tls/1 without a challenge: error = nil, want an error")
	}
}

// handshake connects a client and a server, and returns the certificate of the server.
func handshake(t *testing.T, server, client *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	client.InsecureSkipVerify = true // the tests compare certificates and suites
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		_ = tls.Server(there, server).HandshakeContext(t.Context()) // the handshake of the client fails too
		_ = there.Close()
	}()
	conn := tls.Client(here, client)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// storeACME stores a new certificate under a name in the format of package acme.
func storeACME(t *testing.T, cache *acme.Cache, name, domain string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{domain}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	value := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err := cache.Put(t.Context(), name, value); err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// TestSelfMadeCertificateIsRenewedWhileServing checks that the server renews its own certificate 30
// days before it expires, without a restart.
func TestSelfMadeCertificateIsRenewedWhileServing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	dir := t.TempDir()
	s, err := newServerCertificate(t.Context(), func(_ context.Context, at time.Time) (tls.Certificate, error) {
		return selfSignedCertificate(dir, "localhost", at)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		days    int
		changed bool
	}{{1, false}, {366, false}, {368, true}, {369, false}, {368 + 368, true}} {
		at := now.AddDate(0, 0, step.days)
		changed, err := s.reload(t.Context(), at)
		got, e := s.get(&tls.ClientHelloInfo{})
		if err := errors.Join(err, e); err != nil || changed != step.changed || got.Leaf.NotAfter.Before(at.Add(selfSignedRenewal)) {
			t.Errorf("after %d days: changed = %v, error = %v, want %v; valid until %v", step.days, changed, err, step.changed, got.Leaf.NotAfter)
		}
	}
}
