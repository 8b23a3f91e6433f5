// Package authority stores the keys that sign verified PDFs: the root of the installation, which is
// unrelated to TLS, and one key for each institution.
//
// The package owns the key folder, the contents of the certificates that the root issues (RFC 5280,
// RFC 9336), and the three kinds of keys: generated here with a certificate issued by the root and
// encrypted at rest with age, imported as PKCS #12 or PEM, or used through a signer program. It
// does not own document signatures (package pades) and does not decide when a key is created.
//
// Several processes may use one folder. A file is written under a temporary name, synced and linked
// to its final name, and never changed: if two processes create the same file, one of them succeeds
// and both read its file. A new key is a new file with the next number, so that the certificates of
// old signatures remain available.
package authority

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configures an Authority.
type Options struct {
	// Now is the clock for the validity of certificates.
	Now func() time.Time
	// Passphrase encrypts the file of the identity, which encrypts all keys. Without a passphrase
	// only the permissions of this file protect the keys.
	Passphrase string
	// WorkFactor is the base-2 logarithm of the scrypt work for the passphrase; 0 means the default
	// of age. Only tests set another value.
	WorkFactor int
	// Installation is a name for the installation in the subject of the root, such as the host of
	// the base URL.
	Installation string
	// ProgramTimeout limits the run time of a signer program; 0 means 10 seconds.
	ProgramTimeout time.Duration
}

// Authority has the keys of an installation. It is safe for concurrent use.
type Authority struct {
	dir     string
	options Options

	mu    sync.Mutex
	box   *box                     // nil until first use
	files map[string]loaded        // by file name
	keys  map[string]crypto.Signer // decrypted keys, by file name
}

// loaded is a key file in memory.
type loaded struct {
	name  string
	chain []*x509.Certificate
	entry entry
}

// rootFolder and institutionFolder are the subfolders of key files.
const (
	rootFolder        = "root"
	institutionFolder = "institution"
)

// New returns an Authority for a key folder. It reads nothing, so that a missing or damaged folder
// fails only the operations that need the folder. These operations work again after the folder is
// restored.
func New(dir string, o Options) *Authority {
	if o.ProgramTimeout == 0 {
		o.ProgramTimeout = 10 * time.Second
	}
	return &Authority{dir: dir, options: o, files: map[string]loaded{}, keys: map[string]crypto.Signer{}}
}

// MakeRoot creates the first root if there is none. It is only for a new installation: if the root
// of an existing installation is missing, it must be restored from a backup.
func (a *Authority) MakeRoot() error {
	path := filepath.Join(a.dir, rootFolder)
	if numbers, err := generations(path); err != nil || len(numbers) > 0 {
		return err
	}
	e, err := a.newRoot()
	if err != nil {
		return err
	}
	// If another process created the root first, that root is used.
	if err := addEntry(path, 1, e); err != nil && !errors.Is(err, errExists) {
		return err
	}
	return nil
}

// Roots returns the certificates of the roots, the current one first. Earlier roots are needed to
// verify PDFs that were signed under them. Roots creates nothing and needs no secret. The error is
// a *Fault; its code is CodeMissing if there is no root.
func (a *Authority) Roots() ([]*x509.Certificate, error) {
	list, err := a.all(filepath.Join(a.dir, rootFolder))
	if err != nil {
		return nil, err
	}
	roots := make([]*x509.Certificate, 0, len(list))
	for _, e := range list {
		roots = append(roots, e.Chain[0])
	}
	return roots, nil
}

// RootsPEM returns the certificates of the roots as PEM, the current one first.
func (a *Authority) RootsPEM() ([]byte, error) {
	roots, err := a.Roots()
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
	sum := sha256.Sum256(c.Raw)
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
func (a *Authority) RotateRoot() error {
	e, err := a.newRoot()
	if err != nil {
		return err
	}
	return a.appendEntry(filepath.Join(a.dir, rootFolder), e)
}

// Kind is the kind of a key.
type Kind string

// These are the kinds of keys.
const (
	Issued   Kind = "issued"  // generated here, with a certificate issued by the root
	Imported Kind = "brought" // imported with its certificates
	Program  Kind = "program" // held by a signer program
)

// Certificate is a current or former certificate of a key.
type Certificate struct {
	Kind  Kind
	Chain []*x509.Certificate // the certificate of the key first
}

// Certificates returns the current and former certificates of an institution, the current one
// first. The error is a *Fault; its code is CodeMissing if there is no certificate.
func (a *Authority) Certificates(institution string) ([]Certificate, error) {
	path, err := a.path(institution)
	if err != nil {
		return nil, err
	}
	return a.all(path)
}

// Anchors returns the trust anchors for all signatures of an institution: the roots, and the last
// certificate of each chain that was not issued by a root.
func (a *Authority) Anchors(institution string) ([]*x509.Certificate, error) {
	anchors, err := a.Roots()
	if err != nil {
		return nil, err
	}
	list, err := a.Certificates(institution)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		if c.Kind != Issued {
			anchors = append(anchors, c.Chain[len(c.Chain)-1])
		}
	}
	return anchors, nil
}

// Create generates the first key of an institution if it has none. name is the common name in the
// subject of its certificate.
func (a *Authority) Create(institution, name string) error {
	path, err := a.path(institution)
	if err != nil {
		return err
	}
	if numbers, err := generations(path); err != nil || len(numbers) > 0 {
		return err
	}
	e, err := a.newLeaf(institution, name)
	if err != nil {
		return err
	}
	if err := addEntry(path, 1, e); err != nil && !errors.Is(err, errExists) {
		return err
	}
	return nil
}

// Rotate generates a new key for an institution, which replaces a key of any kind. name is the
// common name in the subject of its certificate.
func (a *Authority) Rotate(institution, name string) error {
	path, err := a.path(institution)
	if err != nil {
		return err
	}
	e, err := a.newLeaf(institution, name)
	if err != nil {
		return err
	}
	return a.appendEntry(path, e)
}

// Signer returns the current key of an institution and its chain, the certificate of the key first.
// A key of kind Program can be used until ctx ends. Errors, including those of the key, are a
// *Fault. The code is key_expired if a certificate of the chain has expired or expires within a day.
func (a *Authority) Signer(ctx context.Context, institution string) (crypto.Signer, []*x509.Certificate, error) {
	path, err := a.path(institution)
	if err != nil {
		return nil, nil, err
	}
	o, err := a.latest(path)
	if err != nil {
		return nil, nil, err
	}
	if Expired(o.chain, a.options.Now()) {
		err := fmt.Errorf("the certificate of the key expires on %s", Expiry(o.chain).Format(time.DateOnly)) //nolint:err113 // callers distinguish it by its code
		return nil, nil, &Fault{Code: CodeExpired, Err: err}
	}
	if o.entry.Kind == Program {
		return &programKey{
			ctx: ctx, command: o.entry.Command, public: o.chain[0].PublicKey, timeout: a.options.ProgramTimeout,
		}, o.chain, nil
	}
	key, err := a.private(o)
	return key, o.chain, err
}

// path returns the folder of an institution. It refuses an id with other characters than letters,
// digits and hyphens, because the id may come from a request.
func (a *Authority) path(institution string) (string, error) {
	if institution == "" || len(institution) > 64 {
		return "", &Fault{Code: CodeMissing, Err: fmt.Errorf("invalid institution id %q", institution)} //nolint:err113 // no caller distinguishes it
	}
	for _, c := range institution {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return "", &Fault{Code: CodeMissing, Err: fmt.Errorf("invalid institution id %q", institution)} //nolint:err113 // no caller distinguishes it
		}
	}
	return filepath.Join(a.dir, institutionFolder, institution), nil
}

// appendEntry adds an entry with the next number. If other processes add entries at the same time,
// appendEntry tries at most eight numbers.
func (a *Authority) appendEntry(path string, e entry) error {
	for range 8 { // another process may use the number first
		numbers, err := generations(path)
		if err != nil {
			return err
		}
		next := 1
		if n := len(numbers); n > 0 {
			next = numbers[n-1] + 1
		}
		if err := addEntry(path, next, e); !errors.Is(err, errExists) {
			return err
		}
	}
	return &Fault{Code: CodeStorage, Err: errExists}
}

// latest reads the current key file of a folder. The error has the code CodeMissing if there is
// none.
func (a *Authority) latest(path string) (loaded, error) {
	numbers, err := generations(path)
	if err != nil {
		return loaded{}, err
	}
	if len(numbers) == 0 {
		return loaded{}, &Fault{Code: CodeMissing, Err: fmt.Errorf("no key in %s", path)} //nolint:err113 // callers distinguish it by its code
	}
	return a.read(file(path, numbers[len(numbers)-1]))
}

// all reads the certificates of a folder, the current one first. The error has the code CodeMissing
// if there is none.
func (a *Authority) all(path string) ([]Certificate, error) {
	numbers, err := generations(path)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		return nil, &Fault{Code: CodeMissing, Err: fmt.Errorf("no key in %s", path)} //nolint:err113 // callers distinguish it by its code
	}
	list := make([]Certificate, 0, len(numbers))
	for _, number := range slices.Backward(numbers) {
		o, err := a.read(file(path, number))
		if err != nil {
			return nil, err
		}
		list = append(list, Certificate{Kind: o.entry.Kind, Chain: o.chain})
	}
	return list, nil
}

// read returns a key file. Files never change, so that each file is read from disk only once.
func (a *Authority) read(name string) (loaded, error) {
	a.mu.Lock()
	o, ok := a.files[name]
	a.mu.Unlock()
	if ok {
		return o, nil
	}
	e, chain, err := readEntry(name)
	if err != nil {
		return loaded{}, err
	}
	o = loaded{name: name, chain: chain, entry: e}
	a.mu.Lock()
	a.files[name] = o
	a.mu.Unlock()
	return o, nil
}
