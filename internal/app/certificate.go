package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// checkCertificateEvery is the interval at which the TLS certificate is read again. The files are
// small, so their content is compared. This detects a renewal regardless of how the files are
// replaced.
const checkCertificateEvery = 10 * time.Second

// serverCertificate is the TLS certificate of the server, which can be replaced while it is in use.
type serverCertificate struct {
	load func(now time.Time) (tls.Certificate, error)
	// loading is locked while the certificate is loaded, because loading may create files.
	loading sync.Mutex
	current atomic.Pointer[tls.Certificate]
}

// newServerCertificate loads the certificate for the first time.
func newServerCertificate(load func(now time.Time) (tls.Certificate, error)) (*serverCertificate, error) {
	s := &serverCertificate{load: load}
	_, err := s.reload(time.Now())
	return s, err
}

// reload loads the certificate and reports whether it has changed. If the certificate cannot be
// loaded, for example because only one of two files has been replaced, the current certificate
// stays in use.
func (s *serverCertificate) reload(now time.Time) (changed bool, err error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	loaded, err := s.load(now)
	if err != nil {
		return false, err
	}
	if current := s.current.Load(); current != nil && slices.EqualFunc(current.Certificate, loaded.Certificate, bytes.Equal) {
		return false, nil
	}
	s.current.Store(&loaded)
	return true, nil
}

// get returns the certificate for a connection.
func (s *serverCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.current.Load(), nil
}

// openCertificate loads the certificate of --tls-cert, or the self-signed certificate, which is
// renewed before it expires.
func (a *App) openCertificate() (err error) {
	if a.cfg.TLSCert != "" {
		a.certificate, err = newServerCertificate(func(time.Time) (tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(a.cfg.TLSCert, a.cfg.TLSKey)
			if err != nil {
				return tls.Certificate{}, fmt.Errorf("--tls-cert and --tls-key: %w", err)
			}
			return pair, nil
		})
		return err
	}
	base, err := url.Parse(a.cfg.BaseURL)
	if err != nil {
		return fmt.Errorf("--base-url: %w", err)
	}
	a.certificate, err = newServerCertificate(func(now time.Time) (tls.Certificate, error) {
		return selfSignedCertificate(filepath.Join(a.cfg.Data, "tls"), base.Hostname(), now)
	})
	return err
}

// certificateHint returns a text that explains how to trust a self-signed certificate, or "" for any
// other certificate.
func (a *App) certificateHint() string {
	if a.certificate == nil || a.cfg.TLSCert != "" {
		return ""
	}
	return fmt.Sprintf(`
Your browser will warn that the connection is not private, because the vault
created its own TLS certificate. Choose "Advanced" and continue to the page.
  SHA-256 fingerprint:  %s
  Trust it in programs: %s (certvault upload --ca, curl --cacert)
  For other people:     use --tls-cert or --acme-domain

`, fingerprint(a.certificate.current.Load().Leaf.Raw), filepath.Join(a.cfg.Data, "tls", "cert.pem"))
}

// fingerprint returns the SHA-256 fingerprint of a certificate as browsers show it.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// reloadCertificate reads the certificate again and uses it if it has changed. If a proxy or ACME
// provides TLS, reloadCertificate does nothing.
func (a *App) reloadCertificate(ctx context.Context) error {
	if a.certificate == nil { // a proxy or ACME provides TLS
		return nil
	}
	changed, err := a.certificate.reload(time.Now())
	if err != nil {
		return fmt.Errorf("reading the new TLS certificate; the current one stays in use: %w", err)
	}
	if changed {
		a.log.InfoContext(ctx, "the TLS certificate was replaced", slog.Time("valid_until", a.certificate.current.Load().Leaf.NotAfter))
	}
	return nil
}

// Reload reads the TLS certificate again, without waiting for the periodic task that does the same.
func (a *App) Reload(ctx context.Context) {
	a.log.InfoContext(ctx, "reloading")
	if err := a.reloadCertificate(ctx); err != nil {
		a.log.ErrorContext(ctx, "reloading failed", slog.Any("error", err))
	}
}
