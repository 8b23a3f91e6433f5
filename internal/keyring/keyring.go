// Package keyring reads the installation's master key and derives a key from it for each use, such as
// signing links and encrypting stored secrets. It does not manage the signing keys of institutions.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keySize is the length of the master key and of every derived key in bytes.
const keySize = 32

// fileName is the name of the file of the master key in a folder.
const fileName = "master.key"

// Use is the purpose of a derived key. Two uses never share a key.
type Use string

const (
	// CapabilityURL signs links to files. These links are valid without a token or a sign-in.
	CapabilityURL Use = "capability url"
	// WebhookSecret encrypts the signing secrets of webhook endpoints.
	WebhookSecret Use = "webhook secret"
	// ListCursor signs the cursors of lists.
	ListCursor Use = "list cursor"
	// WebhookHeaders encrypts the headers that an institution adds to deliveries.
	WebhookHeaders Use = "webhook headers"
	// MailMessage encrypts queued messages.
	MailMessage Use = "mail message"
	// BounceAddress signs the addresses to which mail servers report undelivered mail.
	BounceAddress Use = "bounce address"
	// CodeSecret encrypts the secrets of one-time passwords.
	CodeSecret Use = "one-time password secret"
	// RegisterDigest is the key of the digests in registers.
	RegisterDigest Use = "register digest"
	// ACMECache encrypts the TLS certificates of ACME and their keys.
	ACMECache Use = "acme cache"
	// WalletNonce signs the nonces that wallets sign (OpenID4VCI 1.0, 7).
	WalletNonce Use = "wallet nonce"
	// WalletCode is the key of the digests of the mailed codes of wallet offers.
	WalletCode Use = "wallet code"
	// StatusList derives the ids of status lists and the positions of certificates in them.
	StatusList Use = "status list"
	// BackupManifest signs the manifests of backups.
	BackupManifest Use = "backup manifest"
	// Check identifies a master key without revealing it.
	Check Use = "check"
)

// Ring derives keys from the master key.
type Ring struct{ master []byte }

var (
	// ErrMissing means that the file of the master key does not exist.
	ErrMissing = errors.New("the master key is missing")
	// ErrOther means that a file has another master key.
	ErrOther = errors.New("the file has another master key")
)

// Open calls OpenFile for the file master.key in a folder.
func Open(dir string) (*Ring, error) { return OpenFile(filepath.Join(dir, fileName)) }

// OpenFile reads the master key from a file with 64 hexadecimal digits. If the file does not exist,
// OpenFile creates the folder and a file with a new key, which only the owner can read.
func OpenFile(file string) (*Ring, error) {
	r, err := OpenExisting(file)
	if !errors.Is(err, ErrMissing) {
		return r, err
	}
	master := make([]byte, keySize)
	if _, err := rand.Read(master); err != nil {
		return nil, fmt.Errorf("generating the master key: %w", err)
	}
	if err := create(file, master); err != nil {
		return nil, err
	}
	return OpenExisting(file)
}

// OpenExisting is like OpenFile, but it creates no key. The error is ErrMissing if the file does not
// exist. OpenExisting is for an installation whose database was already used with a key: another
// key could not decrypt the secrets in the database.
func OpenExisting(file string) (*Ring, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s does not exist", ErrMissing, file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the master key: %w", err)
	}
	return Parse(string(text), file)
}

// Parse reads the master key from a text. place is the file or other origin of the text, for error
// messages.
func Parse(text, place string) (*Ring, error) {
	master, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(master) != keySize {
		return nil, fmt.Errorf("the master key %s must be %d hexadecimal digits: restore it from a backup or a recovery sheet", place, 2*keySize)
	}
	return &Ring{master: master}, nil
}

// Text returns the master key in the format that Parse reads, for a recovery sheet.
func (r *Ring) Text() string { return hex.EncodeToString(r.master) }

// Equal reports whether two keyrings have the same master key.
func (r *Ring) Equal(other *Ring) bool { return hmac.Equal(r.master, other.master) }

// Restore creates the file of a lost master key. It never changes an existing file. The error is
// ErrOther if the file has another key.
func (r *Ring) Restore(file string) error {
	if err := create(file, r.master); err != nil {
		return err
	}
	stored, err := OpenExisting(file)
	if err != nil {
		return err
	}
	if !stored.Equal(r) {
		return fmt.Errorf("%w: %s; move the file to another folder first", ErrOther, file)
	}
	return nil
}

// create writes a key to a temporary file and links it to its final name, so that two processes
// that start at the same time read the same key. It does not change an existing file.
func create(file string, master []byte) (err error) {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the key folder: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".master-*")
	if err != nil {
		return fmt.Errorf("writing the master key: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(tmp.Name())) }()
	_, err = tmp.WriteString(hex.EncodeToString(master) + "\n")
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("writing the master key: %w", err)
	}
	if err := os.Link(tmp.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("writing the master key: %w", err)
	}
	return nil
}

// key derives the key for a use (RFC 5869).
func (r *Ring) key(use Use) ([]byte, error) {
	k, err := hkdf.Key(sha256.New, r.master, nil, "certvault "+string(use), keySize)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	return k, nil
}

// MAC returns the HMAC-SHA256 of data under the key of a use.
func (r *Ring) MAC(use Use, data []byte) ([]byte, error) {
	k, err := r.key(use)
	if err != nil {
		return nil, err
	}
	m := hmac.New(sha256.New, k)
	m.Write(data)
	return m.Sum(nil), nil
}

// Hash returns a hash that computes the HMAC-SHA256 of the data that is written to it, under the key
// of a use. It is for data that is too large for MAC.
func (r *Ring) Hash(use Use) (hash.Hash, error) {
	k, err := r.key(use)
	if err != nil {
		return nil, err
	}
	return hmac.New(sha256.New, k), nil
}

func (r *Ring) aead(use Use) (cipher.AEAD, error) {
	k, err := r.key(use)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, fmt.Errorf("preparing a cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("preparing a cipher: %w", err)
	}
	return aead, nil
}

// Seal encrypts a secret. Ring.Open needs the same use and context, so that the sealed secret of
// one record cannot be used in another record.
func (r *Ring) Seal(use Use, secret, context []byte) ([]byte, error) {
	aead, err := r.aead(use)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, secret, context), nil //nolint:gosec // the cipher generates a random nonce itself
}

// Open decrypts the result of Seal with the same use and context.
func (r *Ring) Open(use Use, sealed, context []byte) ([]byte, error) {
	aead, err := r.aead(use)
	if err != nil {
		return nil, err
	}
	secret, err := aead.Open(nil, nil, sealed, context)
	if err != nil {
		return nil, fmt.Errorf("decrypting a secret, possibly with another master key: %w", err)
	}
	return secret, nil
}
