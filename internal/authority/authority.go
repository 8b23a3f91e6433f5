// Package authority stores the signing keys: the root of the installation, which is unrelated to
// TLS, and one key for each institution, which signs verified PDFs.
//
// The package manages the tables of signing keys, the identity that decrypts the keys, and the
// contents of the certificates that the root issues (RFC 5280, RFC 9336). A key is generated here
// with a certificate issued by the root, imported as PKCS #12 or PEM, or used through a signer
// program. Generated and imported keys are encrypted at rest with age. The package does not sign
// documents (see package pades) and does not decide when a key is created.
//
// Several processes may use one database. A row of a key never changes: a new key is a new row with
// the next number, so that the certificates of old signatures remain available. If two processes
// create the same row, one of them succeeds and both use the key of that process. The identity is
// not in the database, so that no one can sign with a copy of the database alone.
package authority

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Options configures an Authority.
type Options struct {
	// Now is the clock for the validity of certificates.
	Now func() time.Time
	// Folder is the folder of the identity, and of the key files of earlier versions.
	Folder string
	// IdentityFile is the file of the identity, if it is not in Folder.
	IdentityFile string
	// Identity is the identity itself, if it is not in a file.
	Identity string
	// Passphrase encrypts the file of the identity. The identity encrypts all keys, so without a
	// passphrase only the permissions of this file protect the keys.
	Passphrase string
	// WorkFactor is the base-2 logarithm of the scrypt work for the passphrase; 0 means the default
	// of age. Only tests set another value.
	WorkFactor int
	// Installation is a name for the installation in the subject of the root, such as the host of
	// the base URL.
	Installation string
	// ReadOnly prevents the recipient of the identity from being stored in a database that lacks it. A
	// database lacks the recipient if an earlier version created the identity.
	ReadOnly bool
	// ProgramTimeout limits the run time of a signer program; 0 means 10 seconds.
	ProgramTimeout time.Duration
}

// Authority has the keys of an installation. It is safe for concurrent use.
type Authority struct {
	db      *db.DB
	options Options

	// opening is held while the identity is read, so that only one goroutine decrypts it.
	opening sync.Mutex

	mu      sync.Mutex
	box     *box // nil until first use
	records map[keyID]record
	keys    map[keyID]crypto.Signer // decrypted keys
	// credentialKeys are decrypted keys of credentials.
	credentialKeys map[credentialKeyID]crypto.Signer
}

// New returns an Authority for the keys in a database. It reads nothing, so that a missing or
// damaged identity affects only the operations that need the identity. These operations work again
// after the identity is restored.
func New(d *db.DB, o Options) *Authority {
	if o.ProgramTimeout == 0 {
		o.ProgramTimeout = 10 * time.Second
	}
	return &Authority{db: d, options: o, records: map[keyID]record{}, keys: map[keyID]crypto.Signer{}, credentialKeys: map[credentialKeyID]crypto.Signer{}}
}

// Record is called in the transaction that stores a key, for example to write to the audit log. It
// may be nil.
type Record func(tx *db.Tx) error

// MakeRoot creates the first root if there is none. It is only for a new installation: if the root
// of an existing installation is missing, it must be restored from a backup.
func (a *Authority) MakeRoot(ctx context.Context) error {
	roots, err := a.read(ctx, rootHolder)
	if err != nil || len(roots[rootHolder]) > 0 {
		return err
	}
	e, err := a.newRoot(ctx)
	if err != nil {
		return err
	}
	// If another process created the root first, that root is used.
	return a.addFirst(ctx, rootHolder, &e, nil)
}

// Roots returns the certificates of the roots, the current one first. Earlier roots are needed to
// verify PDFs that were signed under them. Roots creates nothing and needs no secret. The error is
// a *Fault; its code is CodeMissing if there is no root.
func (a *Authority) Roots(ctx context.Context) ([]*x509.Certificate, error) {
	list, err := a.read(ctx, rootHolder)
	if err != nil {
		return nil, err
	}
	return roots(list)
}

// roots returns the certificates of the roots in a list.
func roots(list map[string][]record) ([]*x509.Certificate, error) {
	found, err := existing(list, rootHolder)
	if err != nil {
		return nil, err
	}
	roots := make([]*x509.Certificate, 0, len(found))
	for _, r := range found {
		roots = append(roots, r.chain[0])
	}
	return roots, nil
}

// RootsPEM returns the certificates of the roots as PEM, the current one first.
func (a *Authority) RootsPEM(ctx context.Context) ([]byte, error) {
	roots, err := a.Roots(ctx)
	if err != nil {
		return nil, err
	}
	return encodePEM(roots), nil
}

func encodePEM(chain []*x509.Certificate) []byte {
	var out []byte
	for _, c := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// Fingerprint returns the SHA-256 of a certificate in the usual notation: pairs
// of hexadecimal digits separated by colons.
func Fingerprint(c *x509.Certificate) string {
	return Digest(c.Raw)
}

// Digest returns the SHA-256 of data in the form of Fingerprint.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return Pairs(hex.EncodeToString(sum[:]))
}

// Pairs formats hexadecimal digits as a fingerprint: upper-case pairs separated by colons.
func Pairs(digits string) string {
	var b strings.Builder
	for i, d := range strings.ToUpper(digits) {
		if i > 0 && i%2 == 0 {
			b.WriteByte(':')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// RotateRoot creates a new root. The certificates of institutions remain under the old root until
// the keys of the institutions are rotated.
func (a *Authority) RotateRoot(ctx context.Context, record Record) error {
	e, err := a.newRoot(ctx)
	if err != nil {
		return err
	}
	return a.add(ctx, rootHolder, e, record)
}

// Kind is the kind of a key.
type Kind string

// These are the kinds of keys.
const (
	Issued   Kind = "issued"  // generated here, with a certificate issued by the root
	Imported Kind = "brought" // imported with its certificates
	Program  Kind = "program" // held by a signer program
)

// Certificate is the certificate of a current or former key, with its chain.
type Certificate struct {
	Kind  Kind
	Chain []*x509.Certificate // the certificate of the key first
}

// Certificates returns the current and former certificates of an institution, the current one
// first. The error is a *Fault; its code is CodeMissing if there is no certificate.
func (a *Authority) Certificates(ctx context.Context, institution string) ([]Certificate, error) {
	if err := checkID(institution); err != nil {
		return nil, err
	}
	all, err := a.read(ctx, institution)
	if err != nil {
		return nil, err
	}
	found, err := existing(all, institution)
	if err != nil {
		return nil, err
	}
	list := make([]Certificate, 0, len(found))
	for _, r := range found {
		list = append(list, Certificate{Kind: r.entry.Kind, Chain: r.chain})
	}
	return list, nil
}

// Anchors returns the trust anchors for all signatures of an institution: the roots, and the last
// certificate of each chain that was not issued by a root.
func (a *Authority) Anchors(ctx context.Context, institution string) ([]*x509.Certificate, error) {
	if err := checkID(institution); err != nil {
		return nil, err
	}
	list, err := a.read(ctx, rootHolder, institution)
	if err != nil {
		return nil, err
	}
	return anchors(list, institution)
}

// anchors returns the trust anchors in a list.
func anchors(list map[string][]record, institution string) ([]*x509.Certificate, error) {
	anchors, err := roots(list)
	if err != nil {
		return nil, err
	}
	keys, err := existing(list, institution)
	if err != nil {
		return nil, err
	}
	for _, r := range keys {
		if r.entry.Kind != Issued {
			anchors = append(anchors, r.chain[len(r.chain)-1])
		}
	}
	return anchors, nil
}

// Create generates the first key of an institution if it has none. name is the common name in the
// subject of its certificate. Create calls record even if the institution has a key.
func (a *Authority) Create(ctx context.Context, institution, name string, record Record) error {
	if err := checkID(institution); err != nil {
		return err
	}
	keys, err := a.read(ctx, institution)
	if err != nil {
		return err
	}
	var first *entry
	if len(keys[institution]) == 0 {
		e, err := a.newLeaf(ctx, institution, name)
		if err != nil {
			return err
		}
		first = &e
	}
	return a.addFirst(ctx, institution, first, record)
}

// Rotate generates a new key for an institution, which replaces a key of any kind. name is the
// common name in the subject of its certificate.
func (a *Authority) Rotate(ctx context.Context, institution, name string, record Record) error {
	if err := checkID(institution); err != nil {
		return err
	}
	e, err := a.newLeaf(ctx, institution, name)
	if err != nil {
		return err
	}
	return a.add(ctx, institution, e, record)
}

// Signer is the current key of an institution.
type Signer struct {
	// Key can be used until the context of Authority.Signer ends. Errors of a signer program are a
	// *Fault.
	Key crypto.Signer
	// Chain has the certificate of the key first.
	Chain []*x509.Certificate
	// Anchors are the trust anchors that Authority.Anchors returns.
	Anchors []*x509.Certificate
}

// Signer returns the current key of an institution. Errors are a *Fault. The code is key_expired if
// a certificate of the chain has expired or expires within a day.
func (a *Authority) Signer(ctx context.Context, institution string) (*Signer, error) {
	if err := checkID(institution); err != nil {
		return nil, err
	}
	list, err := a.read(ctx, rootHolder, institution)
	if err != nil {
		return nil, err
	}
	keys, err := existing(list, institution)
	if err != nil {
		return nil, err
	}
	current := keys[0]
	s := &Signer{Chain: current.chain}
	if Expired(s.Chain, a.options.Now()) {
		err := fmt.Errorf("the certificate of the key expires on %s", Expiry(s.Chain).Format(time.DateOnly)) //nolint:err113 // callers distinguish it by its code
		return nil, &Fault{Code: CodeExpired, Err: err}
	}
	if s.Anchors, err = anchors(list, institution); err != nil {
		return nil, err
	}
	if current.entry.Kind == Program {
		s.Key = &programKey{ctx: ctx, command: current.entry.Command, public: s.Chain[0].PublicKey, timeout: a.options.ProgramTimeout}
		return s, nil
	}
	s.Key, err = a.private(ctx, current)
	return s, err
}

// checkID returns an error if an institution's id is empty, has more than 64 bytes, or has
// characters other than letters, digits and hyphens. The id may come from a request or from the
// name of a file.
func checkID(institution string) error {
	invalid := institution == "" || len(institution) > 64
	for _, c := range institution {
		invalid = invalid || (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
	}
	if invalid {
		return &Fault{Code: CodeMissing, Err: fmt.Errorf("invalid institution id %q", institution)} //nolint:err113 // no caller distinguishes it
	}
	return nil
}
