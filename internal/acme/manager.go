package acme

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
)

const (
	// CheckInterval is the interval at which one server should call [Manager.Renew].
	CheckInterval = 10 * time.Second
	// A certificate is renewed when its remaining lifetime is at most renewBefore, or at most a third of
	// its whole lifetime if that is shorter.
	renewBefore = 30 * 24 * time.Hour
	// orderTime is the time limit of an order, and requestTime is that of each request of the order.
	orderTime   = 5 * time.Minute
	requestTime = 30 * time.Second
	// firstPause is the pause after the first failed order. Each further pause is twice as long as the
	// one before, and at most longestPause. Certificate authorities accept few failures an hour.
	firstPause   = time.Minute
	longestPause = time.Hour
	// accountKey is the name of the key of the account, and tokenSuffix is the suffix of the name of the
	// answer to a challenge. Earlier releases used the same names and formats.
	accountKey  = "acme_account+key"
	tokenSuffix = "+token"

	// bindingRequired is the type of the error for a missing external account binding (RFC 8555, 6.7).
	bindingRequired = "urn:ietf:params:acme:error:externalAccountRequired"

	privateKeyType  = "EC PRIVATE KEY"
	certificateType = "CERTIFICATE"
)

// ErrNoCertificate means that no certificate of ACME has been obtained yet.
var ErrNoCertificate = errors.New("no certificate has been obtained by ACME yet")

// Options are the settings of a [Manager].
type Options struct {
	Cache *Cache
	// Domain is the host name of the certificate.
	Domain string
	// Directory is the URL of the directory of the certificate authority (RFC 8555, 7.1.1). The
	// default is the directory of Let's Encrypt.
	Directory string
	// Binding is the account at the certificate authority to which the registration binds the account of
	// ACME (RFC 8555, 7.3.4). It is nil if the authority does not require such an account.
	Binding *acme.ExternalAccountBinding
	Now     func() time.Time
}

// Manager obtains and renews the TLS certificate of one host name, by the challenge tls-alpn-01 (RFC
// 8737). All servers on one database share the certificate and the challenges. The caller must make
// sure that only one server calls Renew at a time.
type Manager struct {
	Options

	mu sync.Mutex
	// failed is the error of the last order, or nil. pause is the pause after a failed order, which the
	// certificate authority may extend, and next is the end of the pause.
	failed error
	pause  time.Duration
	next   time.Time
}

// NewManager returns a manager.
func NewManager(o Options) *Manager {
	if o.Directory == "" {
		o.Directory = acme.LetsEncryptURL
	}
	return &Manager{Options: o}
}

// name returns the name under which a value of this certificate authority is stored. After a change of
// the directory, the certificate of another authority, such as a test environment, is therefore not used.
func (m *Manager) name(value string) string {
	if m.Directory == acme.LetsEncryptURL {
		return value
	}
	return value + "@" + m.Directory
}

// Load returns the stored certificate. The error is [ErrNoCertificate] if there is none.
func (m *Manager) Load(ctx context.Context) (tls.Certificate, error) {
	return m.load(ctx, m.name(m.Domain))
}

// Challenge returns the certificate that answers the current challenge. The error is
// [ErrNoCertificate] if there is no challenge.
func (m *Manager) Challenge(ctx context.Context) (tls.Certificate, error) {
	return m.load(ctx, m.Domain+tokenSuffix)
}

func (m *Manager) load(ctx context.Context, name string) (tls.Certificate, error) {
	value, err := m.Cache.Get(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return tls.Certificate{}, ErrNoCertificate
	}
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(value, value)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading the stored certificate of ACME: %w", err)
	}
	return pair, nil
}

// Renew obtains a certificate if there is none, or if the remaining lifetime of the stored certificate is
// short. It reports whether it stored a new certificate. After a failure, Renew returns the same error
// until the next order is due.
func (m *Manager) Renew(ctx context.Context) (renewed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	current, err := m.Load(ctx)
	if err != nil && !errors.Is(err, ErrNoCertificate) {
		return false, err
	}
	now := m.Now()
	if err == nil && now.Before(renewAt(current.Leaf)) {
		m.failed, m.pause = nil, 0
		return false, nil
	}
	if m.failed != nil && now.Before(m.next) {
		return false, m.failed
	}
	if err := m.renew(ctx); err != nil {
		m.postpone(err)
		return false, m.failed
	}
	m.failed, m.pause = nil, 0
	return true, nil
}

// renewAt returns the time from which a certificate is renewed.
func renewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-min(renewBefore, leaf.NotAfter.Sub(leaf.NotBefore)/3))
}

// postpone sets failed, pause and next after a failure. The certificate authority may demand a longer
// pause (RFC 8555, 6.6).
func (m *Manager) postpone(cause error) {
	m.pause = min(max(firstPause, 2*m.pause), longestPause)
	pause := m.pause
	if demanded, limited := acme.RateLimit(cause); limited {
		pause = max(pause, demanded)
	}
	m.next = m.Now().Add(pause)
	m.failed = fmt.Errorf("obtaining a TLS certificate for %s from %s; the next attempt is at %s: %w",
		m.Domain, m.Directory, m.next.UTC().Format(time.RFC3339), cause)
}

// renew obtains a certificate with a new key, and stores both.
func (m *Manager) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	client, err := m.account(ctx)
	if err != nil {
		return err
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(m.Domain))
	if err != nil {
		return err
	}
	for _, url := range order.AuthzURLs {
		if err := m.authorize(ctx, client, url); err != nil {
			return err
		}
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{m.Domain}}, key)
	if err != nil {
		return err
	}
	chain, _, err := client.CreateCertFromOrder(ctx, order, request, true)
	if err != nil {
		return err
	}
	value, err := encode(key, chain)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(value, value)
	if err != nil {
		return err
	}
	if err := pair.Leaf.VerifyHostname(m.Domain); err != nil {
		return err
	}
	return m.Cache.Put(ctx, m.name(m.Domain), value)
}

// account returns a client for the account. If there is no account, it registers one.
func (m *Manager) account(ctx context.Context) (*acme.Client, error) {
	name := m.name(accountKey)
	value, err := m.Cache.Get(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	var key crypto.Signer
	stored := err == nil
	if stored {
		block, _ := pem.Decode(value)
		if block == nil {
			return nil, errors.New("the stored key of the account is not PEM")
		}
		key, err = x509.ParseECPrivateKey(block.Bytes)
	} else {
		key, err = m.createAccountKey(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("the key of the account: %w", err)
	}
	client := &acme.Client{Key: key, DirectoryURL: m.Directory, UserAgent: "certvault", HTTPClient: &http.Client{Timeout: requestTime}}
	if stored {
		account, err := client.GetReg(ctx, "")
		if err == nil {
			client.KID = acme.KeyID(account.URI)
			return client, nil
		}
		if !errors.Is(err, acme.ErrNoAccount) {
			return nil, fmt.Errorf("finding the account: %w", err)
		}
	}
	return client, m.register(ctx, client)
}

// errBindingRequired means that the certificate authority requires a binding, and Options.Binding is nil.
var errBindingRequired = errors.New("the certificate authority registers only accounts that are bound to an account on its website; " +
	"create a key for external account binding (EAB) there, and set --acme-eab-kid to its id and --acme-eab-key-file to a file with it")

// register registers the account at the certificate authority. Later orders find the account by its key
// and do not register it again, because some authorities accept the key of a binding only once.
func (m *Manager) register(ctx context.Context, client *acme.Client) error {
	directory, err := client.Discover(ctx)
	if err != nil {
		return fmt.Errorf("reading the directory: %w", err)
	}
	if directory.ExternalAccountRequired && m.Binding == nil {
		return errBindingRequired
	}
	_, err = client.Register(ctx, &acme.Account{ExternalAccountBinding: m.Binding}, acme.AcceptTOS)
	switch refusal, ok := errors.AsType[*acme.Error](err); {
	case err == nil, errors.Is(err, acme.ErrAccountAlreadyExists):
		return nil
	case ok && m.Binding == nil && refusal.ProblemType == bindingRequired:
		return fmt.Errorf("%w: %w", errBindingRequired, err)
	case m.Binding != nil:
		return fmt.Errorf("registering an account with the key of the id %q in --acme-eab-kid: %w", m.Binding.KID, err)
	}
	return fmt.Errorf("registering an account: %w", err)
}

func (m *Manager) createAccountKey(ctx context.Context, name string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	value, err := encode(key, nil)
	if err != nil {
		return nil, err
	}
	return key, m.Cache.Put(ctx, name, value)
}

// authorize proves that the vault controls the host name. The certificate authority may connect to any
// of the servers, so authorize stores the answer in the database before it accepts the challenge.
func (m *Manager) authorize(ctx context.Context, client *acme.Client, url string) (err error) {
	authorization, err := client.GetAuthorization(ctx, url)
	if err != nil {
		return err
	}
	if authorization.Status == acme.StatusValid {
		return nil
	}
	var challenge *acme.Challenge
	for _, c := range authorization.Challenges {
		if c.Type == "tls-alpn-01" {
			challenge = c
		}
	}
	if challenge == nil {
		return errors.New("the certificate authority does not offer the challenge tls-alpn-01")
	}
	answer, err := client.TLSALPN01ChallengeCert(challenge.Token, m.Domain)
	if err != nil {
		return err
	}
	value, err := encode(answer.PrivateKey, answer.Certificate)
	if err != nil {
		return err
	}
	if err := m.Cache.Put(ctx, m.Domain+tokenSuffix, value); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Cache.Delete(context.WithoutCancel(ctx), m.Domain+tokenSuffix)) }()
	if _, err := client.Accept(ctx, challenge); err != nil {
		return err
	}
	_, err = client.WaitAuthorization(ctx, url)
	return err
}

// encode returns a private key and a certificate chain, which may be empty, as PEM.
func encode(private crypto.PrivateKey, chain [][]byte) ([]byte, error) {
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of the type %T", private)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = pem.Encode(&b, &pem.Block{Type: privateKeyType, Bytes: der})
	for _, c := range chain {
		err = errors.Join(err, pem.Encode(&b, &pem.Block{Type: certificateType, Bytes: c}))
	}
	return b.Bytes(), err
}
