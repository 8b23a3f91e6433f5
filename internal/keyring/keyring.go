// Package keyring has the installation's master key and derives a key from it for each use, such as
// signing capability URLs and encrypting stored secrets. It does not have the signing keys of
// institutions.
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

// fileName is the name of the file of the master key.
const fileName = "master.key"

// Use is the purpose of a derived key. Two uses never share a key.
type Use string

const (
	// CapabilityURL signs links that need no token.
	CapabilityURL Use = "capability url"
	// WebhookSecret encrypts the signing secrets of webhook endpoints.
	WebhookSecret Use = "webhook secret"
	// ListCursor signs the cursors of lists.
	ListCursor Use = "list cursor"
	// WebhookHeaders encrypts the headers that an institution adds to deliveries.
	WebhookHeaders Use = "webhook headers"
	// MailMessage encrypts queued messages.
	MailMessage Use = "mail message"
	// BounceAddress signs the addresses to which failed deliveries are reported.
	BounceAddress Use = "bounce address"
	// CodeSecret encrypts the secrets of one-time passwords.
	CodeSecret Use = "one-time password secret"
	// BackupManifest signs the manifests of backups.
	BackupManifest Use = "backup manifest"
	// Check identifies a master key without revealing it.
	Check Use = "check"
)

// Ring derives keys from the master key.
type Ring struct{ master []byte }

// ErrMissing means that the file of the master key does not exist.
var ErrMissing = errors.New("the master key is missing")

// Open reads the master key from dir/master.key. If the file does not exist, Open creates the
// folder and a key. The file has 64 hexadecimal digits. Only the owner can read a file that Open
// created.
func Open(dir string) (*Ring, error) {
	r, err := OpenExisting(dir)
	if !errors.Is(err, ErrMissing) {
		return r, err
	}
	if err := create(dir, filepath.Join(dir, fileName)); err != nil {
		return nil, err
	}
	return OpenExisting(dir)
}

// OpenExisting is like Open, but it creates no key. The error is ErrMissing if the file does not
// exist. OpenExisting is for an installation whose database was already used with a key: another
// key could not decrypt the secrets in the database.
func OpenExisting(dir string) (*Ring, error) {
	file := filepath.Join(dir, fileName)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s does not exist", ErrMissing, file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the master key: %w", err)
	}
	master, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(master) != keySize {
		return nil, fmt.Errorf("the master key %s must be %d hexadecimal digits: restore the file from a backup", file, 2*keySize)
	}
	return &Ring{master: master}, nil
}

// create writes a new key to a temporary file and links it to its final name, so that two processes
// that start at the same time read the same key.
func create(dir, file string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the key folder: %w", err)
	}
	master := make([]byte, keySize)
	if _, err := rand.Read(master); err != nil {
		return fmt.Errorf("generating the master key: %w", err)
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
