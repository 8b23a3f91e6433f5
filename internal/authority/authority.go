// Package authority keeps the keys that sign verified PDFs: one root for the
// installation, apart from anything TLS, and one key for each institution, whose
// certificate the root issues.
//
// It owns the folder of keys, what its certificates say (RFC 5280, RFC 9336), and
// the ways to use a key: of its own making and encrypted at rest with age, brought
// along as PKCS #12 or PEM, or held by a program that signs. It does not own
// signatures on documents (package pades) or when a key is made.
//
// Several processes may use one folder. A file is made under another name, synced
// and linked into place, and never changed: of two processes that make the same one,
// one wins, and both read that. What replaces a key is a new file with the next
// number, so that the certificates of old signatures stay at hand.
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

// Options are how an Authority works.
type Options struct {
	// Now is the clock that certificates are dated by.
	Now func() time.Time
	// Passphrase encrypts the file that all keys are encrypted with. Without it that
	// file, readable by its owner alone, is what protects them.
	Passphrase string
	// WorkFactor is the logarithm of the scrypt work that the passphrase takes; 0 is the
	// default of age. Only tests use another one.
	WorkFactor int
	// Installation names the root, such as the host of the base URL.
	Installation string
	// ProgramTimeout ends a signer program; 0 is 10 seconds.
	ProgramTimeout time.Duration
}

// Authority has the keys of an installation. It is safe for concurrent use.
type Authority struct {
	dir     string
	options Options

	mu     sync.Mutex
	box    *box                     // set once it was needed
	opened map[string]opened        // by file
	keys   map[string]crypto.Signer // decrypted, by file
}

// opened is a key file that was read.
type opened struct {
	name  string
	chain []*x509.Certificate
	entry entry
}

// rootFolder and institutionFolder are where key files are within the folder.
const (
	rootFolder        = "root"
	institutionFolder = "institution"
)

// New uses the folder of keys, and reads nothing yet: a folder that is lost or damaged
// is a fault of what needs it, and passes when it is mended.
func New(dir string, o Options) *Authority {
	if o.ProgramTimeout == 0 {
		o.ProgramTimeout = 10 * time.Second
	}
	return &Authority{dir: dir, options: o, opened: map[string]opened{}, keys: map[string]crypto.Signer{}}
}

// MakeRoot makes the first root, and leaves one that is there alone. It is for a new
// installation: in an old one a root that is not there is lost, and to be restored.
func (a *Authority) MakeRoot() error {
	path := filepath.Join(a.dir, rootFolder)
	if numbers, err := generations(path); err != nil || len(numbers) > 0 {
		return err
	}
	e, err := a.newRoot()
	if err != nil {
		return err
	}
	// Where another process was faster, its root is the one.
	if err := add(path, 1, e); err != nil && !errors.Is(err, errTaken) {
		return err
	}
	return nil
}

// Roots returns the certificates of the roots, the current one first. Verified PDFs of
// old remain those of an old root. It makes nothing, and needs nothing that is secret. The
// error is a *Fault, with the code key_missing where there is no root.
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

// Fingerprint returns the SHA-256 of a certificate as people compare it, and as other
// programs write it: pairs of hexadecimal digits between colons.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return Pairs(hex.EncodeToString(sum[:]))
}

// Pairs writes hexadecimal digits as a fingerprint.
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

// RotateRoot makes a new root. Institutions keep theirs until they are rotated.
func (a *Authority) RotateRoot() error {
	e, err := a.newRoot()
	if err != nil {
		return err
	}
	return a.append(filepath.Join(a.dir, rootFolder), e)
}

// Kind is how a key is held.
type Kind string

// The kinds.
const (
	Issued  Kind = "issued"  // made here, its certificate issued by the root
	Brought Kind = "brought" // brought along with its certificates
	Program Kind = "program" // held by a program
)

// Certificate is a key's certificate, past or present.
type Certificate struct {
	Kind  Kind
	Chain []*x509.Certificate // the key's own first
}

// Certificates returns those an institution has and had, the current one first. The
// error is a *Fault with the code key_missing where it has none.
func (a *Authority) Certificates(institution string) ([]Certificate, error) {
	path, err := a.path(institution)
	if err != nil {
		return nil, err
	}
	return a.all(path)
}

// Anchors returns what vouches for the signatures of an institution, past and
// present: the roots, and the ends of the chains that it brought along.
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

// Create makes the first key of an institution, named name, and leaves one that is
// there alone.
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
	if err := add(path, 1, e); err != nil && !errors.Is(err, errTaken) {
		return err
	}
	return nil
}

// Rotate makes a new key for an institution, whichever kind it had.
func (a *Authority) Rotate(institution, name string) error {
	path, err := a.path(institution)
	if err != nil {
		return err
	}
	e, err := a.newLeaf(institution, name)
	if err != nil {
		return err
	}
	return a.append(path, e)
}

// Signer returns the current key of an institution and its certificates, its own
// first. The key of a program is good until ctx ends. The error, as that of the key,
// is a *Fault.
func (a *Authority) Signer(ctx context.Context, institution string) (crypto.Signer, []*x509.Certificate, error) {
	path, err := a.path(institution)
	if err != nil {
		return nil, nil, err
	}
	o, err := a.latest(path)
	if err != nil {
		return nil, nil, err
	}
	if o.entry.Kind == Program {
		return &programKey{
			ctx: ctx, command: o.entry.Command, public: o.chain[0].PublicKey, timeout: a.options.ProgramTimeout,
		}, o.chain, nil
	}
	key, err := a.private(o)
	return key, o.chain, err
}

// path returns the folder of an institution, whose id comes from outside.
func (a *Authority) path(institution string) (string, error) {
	if institution == "" || len(institution) > 64 {
		return "", &Fault{Code: CodeMissing, Err: fmt.Errorf("%q is no institution", institution)} //nolint:err113 // nobody tells it apart
	}
	for _, c := range institution {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return "", &Fault{Code: CodeMissing, Err: fmt.Errorf("%q is no institution", institution)} //nolint:err113 // nobody tells it apart
		}
	}
	return filepath.Join(a.dir, institutionFolder, institution), nil
}

// append adds an entry with the next number.
func (a *Authority) append(path string, e entry) error {
	for range 8 { // another process may take the number
		numbers, err := generations(path)
		if err != nil {
			return err
		}
		next := 1
		if n := len(numbers); n > 0 {
			next = numbers[n-1] + 1
		}
		if err := add(path, next, e); !errors.Is(err, errTaken) {
			return err
		}
	}
	return &Fault{Code: CodeStorage, Err: errTaken}
}

// latest reads the current key file of a folder.
func (a *Authority) latest(path string) (opened, error) {
	numbers, err := generations(path)
	if err != nil {
		return opened{}, err
	}
	if len(numbers) == 0 {
		return opened{}, &Fault{Code: CodeMissing, Err: fmt.Errorf("no key in %s", path)} //nolint:err113 // the code tells it apart
	}
	return a.read(file(path, numbers[len(numbers)-1]))
}

// all reads the certificates of a folder, the current one first.
func (a *Authority) all(path string) ([]Certificate, error) {
	numbers, err := generations(path)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		return nil, &Fault{Code: CodeMissing, Err: fmt.Errorf("no key in %s", path)} //nolint:err113 // the code tells it apart
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

// read reads a key file. Files never change, so each is read once.
func (a *Authority) read(name string) (opened, error) {
	a.mu.Lock()
	o, ok := a.opened[name]
	a.mu.Unlock()
	if ok {
		return o, nil
	}
	e, chain, err := readEntry(name)
	if err != nil {
		return opened{}, err
	}
	o = opened{name: name, chain: chain, entry: e}
	a.mu.Lock()
	a.opened[name] = o
	a.mu.Unlock()
	return o, nil
}
