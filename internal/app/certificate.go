package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	xacme "golang.org/x/crypto/acme"

	"github.com/certvault/certvault/internal/acme"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
)

// checkCertificateEvery is the interval at which the TLS certificate is read again. The files are
// small, so their content is compared. This detects a renewal regardless of how the files are
// replaced.
const checkCertificateEvery = 10 * time.Second

const (
	// firstCertificateTime is the maximum time for which a handshake waits for the first certificate of
	// ACME or for the answer to a challenge. firstCertificatePoll is the interval at which a handshake
	// checks whether the first certificate is loaded.
	firstCertificateTime = 10 * time.Second
	firstCertificatePoll = time.Second
)

// errNotValidNow means that a new certificate has expired or is not valid yet, while the current
// certificate is valid.
var errNotValidNow = errors.New("the new certificate is not valid now")

// serverCertificate is the TLS certificate of the server, which can be replaced while it is in use.
type serverCertificate struct {
	load func(ctx context.Context, now time.Time) (tls.Certificate, error)
	// challenge returns the certificate that answers a challenge of ACME. It is nil without ACME.
	challenge func(ctx context.Context) (tls.Certificate, error)
	// loading is locked while the certificate is loaded, because loading may create files.
	loading sync.Mutex
	current atomic.Pointer[tls.Certificate]
}

// newServerCertificate returns a serverCertificate that has loaded its certificate.
func newServerCertificate(ctx context.Context, load func(ctx context.Context, now time.Time) (tls.Certificate, error)) (*serverCertificate, error) {
	s := &serverCertificate{load: load}
	_, err := s.reload(ctx, time.Now())
	return s, err
}

// reload loads the certificate and reports whether it has changed. If reload returns an error, the current
// certificate stays in use, for example while only one of two files has been replaced.
func (s *serverCertificate) reload(ctx context.Context, now time.Time) (changed bool, err error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	loaded, err := s.load(ctx, now)
	if err != nil {
		return false, err
	}
	current := s.current.Load()
	if current != nil && slices.EqualFunc(current.Certificate, loaded.Certificate, bytes.Equal) {
		return false, nil
	}
	if current != nil && !validAt(loaded.Leaf, now) && validAt(current.Leaf, now) {
		return false, fmt.Errorf("%w: it is valid from %s to %s", errNotValidNow, loaded.Leaf.NotBefore.Format(time.RFC3339), loaded.Leaf.NotAfter.Format(time.RFC3339))
	}
	s.current.Store(&loaded)
	return true, nil
}

func validAt(leaf *x509.Certificate, now time.Time) bool {
	return !now.Before(leaf.NotBefore) && now.Before(leaf.NotAfter)
}

// get returns the certificate for a connection.
func (s *serverCertificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	// Only a certificate authority that checks a challenge offers the protocol acme-tls/1, and it offers no
	// other protocol (RFC 8737, 3 and 4).
	if s.challenge != nil && slices.Equal(hello.SupportedProtos, []string{xacme.ALPNProto}) {
		ctx, cancel := context.WithTimeout(hello.Context(), firstCertificateTime)
		defer cancel()
		answer, err := s.challenge(ctx)
		if err != nil {
			return nil, err
		}
		return &answer, nil
	}
	if current := s.current.Load(); current != nil {
		return current, nil
	}
	return s.first(hello.Context())
}

// first waits for the first certificate of ACME.
func (s *serverCertificate) first(ctx context.Context) (*tls.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, firstCertificateTime)
	defer cancel()
	poll := time.NewTicker(firstCertificatePoll)
	defer poll.Stop()
	for {
		if current := s.current.Load(); current != nil {
			return current, nil
		}
		select {
		case <-ctx.Done():
			return nil, acme.ErrNoCertificate
		case <-poll.C:
		}
	}
}

// aeadSuites are the cipher suites of TLS 1.2 with forward secrecy and authenticated encryption.
// Go's default also contains suites with CBC and SHA-1. In TLS 1.3, all suites have authenticated
// encryption (RFC 8446, B.4).
func aeadSuites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

// tlsConfig returns the TLS configuration, or nil behind a proxy.
func (a *App) tlsConfig(ctx context.Context) (*tls.Config, error) {
	if len(a.cfg.BehindProxy) > 0 {
		return nil, nil //nolint:nilnil // nil means that the server does not use TLS
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: aeadSuites()}
	if a.cfg.ACMEDomain != "" {
		c.NextProtos = []string{"h2", "http/1.1", xacme.ALPNProto}
		a.certificate = a.acmeCertificate()
	} else if err := a.openCertificate(ctx); err != nil {
		return nil, err
	}
	c.GetCertificate = a.certificate.get
	return c, nil
}

// openCertificate loads the certificate of --tls-cert, or the self-signed certificate, which is
// renewed before it expires.
func (a *App) openCertificate(ctx context.Context) (err error) {
	if a.cfg.TLSCert != "" {
		a.certificate, err = newServerCertificate(ctx, func(context.Context, time.Time) (tls.Certificate, error) {
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
	a.certificate, err = newServerCertificate(ctx, func(_ context.Context, now time.Time) (tls.Certificate, error) {
		return selfSignedCertificate(filepath.Join(a.cfg.Data, "tls"), base.Hostname(), now)
	})
	return err
}

// acmeCertificate returns the certificate of ACME, which is in the database. The public port is opened
// before the database, so connections may have to wait for the certificate.
func (a *App) acmeCertificate() *serverCertificate {
	a.acme = &lateManager{opened: make(chan struct{})}
	return &serverCertificate{
		load: func(ctx context.Context, _ time.Time) (tls.Certificate, error) {
			m, err := a.acme.wait(ctx)
			if err != nil {
				return tls.Certificate{}, err
			}
			return m.Load(ctx)
		},
		challenge: func(ctx context.Context) (tls.Certificate, error) {
			m, err := a.acme.wait(ctx)
			if err != nil {
				return tls.Certificate{}, err
			}
			return m.Challenge(ctx)
		},
	}
}

// openACME makes the manager of ACME available and loads the certificate. The database must be open.
func (a *App) openACME(ctx context.Context) error {
	if a.acme == nil {
		return nil
	}
	account, err := a.cfg.ExternalAccount()
	if err != nil {
		return err
	}
	var binding *xacme.ExternalAccountBinding
	if account != nil {
		binding = &xacme.ExternalAccountBinding{KID: account.KeyID, Key: account.Key}
	}
	a.acme.open(a.acmeManager(a.cfg.Storage, a.cfg.TLS, binding))
	return a.reloadCertificate(ctx)
}

// acmeManager returns the manager of the TLS certificate in the database. binding is needed only for the
// registration of the account, and may be nil.
func (s *Storage) acmeManager(c config.Storage, t config.TLS, binding *xacme.ExternalAccountBinding) *acme.Manager {
	return acme.NewManager(acme.Options{
		Cache: acme.NewCache(s.DB, s.Keyring, acmeFolder(c)), Domain: t.ACMEDomain, Directory: t.ACMEDirectory, Binding: binding, Now: time.Now,
	})
}

// acmeFolder returns the folder in which earlier releases stored the values of ACME. They are now in the
// database.
func acmeFolder(s config.Storage) string { return filepath.Join(s.Data, "tls", "acme") }

// renewCertificate obtains or renews the certificate by ACME, if necessary. The other servers load the new
// certificate from the database.
func (a *App) renewCertificate(ctx context.Context) error {
	m, err := a.acme.wait(ctx)
	if err != nil {
		return err
	}
	renewed, err := m.Renew(ctx)
	if err != nil || !renewed {
		return err
	}
	return a.reloadCertificate(ctx)
}

// lateManager is a manager of ACME that is available only after the database was opened.
type lateManager struct {
	opened  chan struct{}
	manager *acme.Manager
}

func (l *lateManager) open(m *acme.Manager) {
	l.manager = m
	close(l.opened)
}

// wait waits until the manager is available, and returns it.
func (l *lateManager) wait(ctx context.Context) (*acme.Manager, error) {
	select {
	case <-l.opened:
		return l.manager, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// certificateHint returns a text that explains how to trust the certificate that the vault created, or ""
// if the vault uses another certificate.
func (a *App) certificateHint() string {
	if a.ownCertificate() == "" || a.certificate == nil {
		return ""
	}
	return fmt.Sprintf(`
Your browser will warn that the connection is not private, because the vault
created its own TLS certificate. Choose "Advanced" and continue to the page.
  SHA-256 fingerprint:  %s
  Trust it in programs: %s (certvault upload --ca, curl --cacert)
  For other people:     use --tls-cert or --acme-domain

`, authority.Digest(a.certificate.current.Load().Leaf.Raw), filepath.Join(a.cfg.Data, "tls", "cert.pem"))
}

// reloadCertificate reads the certificate again and uses it if it has changed. If a proxy provides TLS,
// or ACME has not obtained a certificate yet, reloadCertificate does nothing.
func (a *App) reloadCertificate(ctx context.Context) error {
	if a.certificate == nil {
		return nil
	}
	first := a.certificate.current.Load() == nil
	changed, err := a.certificate.reload(ctx, time.Now())
	if errors.Is(err, acme.ErrNoCertificate) && first {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the new TLS certificate; the current one stays in use: %w", err)
	}
	if changed {
		a.log.InfoContext(ctx, "the TLS certificate was replaced", slog.Bool("first", first), slog.Time("valid_until", a.certificate.current.Load().Leaf.NotAfter))
	}
	return nil
}

// Reload reads the TLS certificate again at once. A periodic task does the same at intervals.
func (a *App) Reload(ctx context.Context) {
	a.log.InfoContext(ctx, "reloading")
	if err := a.reloadCertificate(ctx); err != nil {
		a.log.ErrorContext(ctx, "reloading failed", slog.Any("error", err))
	}
}
