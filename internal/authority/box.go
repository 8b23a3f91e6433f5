package authority

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// box encrypts the private keys at rest with an X25519 identity of age. The identity is in a file
// of the folder, which is encrypted if there is a passphrase.
type box struct{ identity *age.X25519Identity }

const (
	plainFile     = "identity.txt"     // the identity, mode 0600
	encryptedFile = "identity.txt.age" // the identity, encrypted with the passphrase
)

// open returns the box. It creates the identity if there is neither an identity file nor a root.
func (a *Authority) open() (*box, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.box != nil {
		return a.box, nil
	}
	name := filepath.Join(a.dir, plainFile)
	if a.options.Passphrase != "" {
		name = filepath.Join(a.dir, encryptedFile)
	}
	text, err := readFile(name)
	if f, ok := errors.AsType[*Fault](err); ok && f.Code == CodeMissing {
		if err := a.makeIdentity(name); err != nil {
			return nil, err
		}
		text, err = readFile(name)
	}
	if err != nil {
		return nil, err
	}
	if a.options.Passphrase != "" {
		if text, err = a.unwrap(text); err != nil {
			return nil, err
		}
	}
	identity, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, &Fault{Code: CodeBroken, Err: fmt.Errorf("reading %s: %w", name, err)}
	}
	a.box = &box{identity: identity}
	return a.box, nil
}

var (
	errNotProtected = errors.New("a passphrase is set, but the keys are not protected with it: run certvault key protect")
	errNoIdentity   = errors.New("the file is missing: restore it from a backup, or set the passphrase that protects it")
)

// makeIdentity creates the identity file. It fails if there is already a root, because a new
// identity cannot decrypt the existing keys.
func (a *Authority) makeIdentity(name string) error {
	if numbers, err := generations(filepath.Join(a.dir, rootFolder)); err != nil || len(numbers) > 0 {
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(a.dir, plainFile)); err == nil {
			return &Fault{Code: CodeLocked, Err: errNotProtected}
		}
		return &Fault{Code: CodeLocked, Err: fmt.Errorf("%s: %w", name, errNoIdentity)}
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("generating the identity: %w", err)}
	}
	text := []byte(identity.String() + "\n")
	if a.options.Passphrase != "" {
		err = a.createEncrypted(name, text)
	} else {
		err = createFile(name, text)
	}
	if err != nil && !errors.Is(err, errExists) {
		return err
	}
	return nil
}

// Protect encrypts the identity with the passphrase and then removes the unencrypted file. It
// changes nothing if the identity is already encrypted. An interruption between the two steps loses
// no data.
func (a *Authority) Protect() error {
	if a.options.Passphrase == "" {
		return refused(errors.New("no passphrase is set")) //nolint:err113 // no caller distinguishes it
	}
	plain := filepath.Join(a.dir, plainFile)
	text, err := readFile(plain)
	if f, ok := errors.AsType[*Fault](err); ok && f.Code == CodeMissing {
		_, err := a.open()
		return err
	}
	if err != nil {
		return err
	}
	if _, err := age.ParseX25519Identity(strings.TrimSpace(string(text))); err != nil {
		return &Fault{Code: CodeBroken, Err: fmt.Errorf("reading %s: %w", plain, err)}
	}
	if err := a.createEncrypted(filepath.Join(a.dir, encryptedFile), text); err != nil && !errors.Is(err, errExists) {
		return err
	}
	// Check that the encrypted copy can be read before the only other copy is
	// removed.
	b, err := a.open()
	if err != nil {
		return err
	}
	if b.identity.String() != strings.TrimSpace(string(text)) {
		return &Fault{Code: CodeBroken, Err: fmt.Errorf("%s belongs to other keys", encryptedFile)} //nolint:err113 // callers distinguish it by its code
	}
	if err := os.Remove(plain); err != nil {
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("removing the unencrypted identity: %w", err)}
	}
	if err := syncFolder(a.dir); err != nil {
		return &Fault{Code: CodeStorage, Err: err}
	}
	return nil
}

func (a *Authority) createEncrypted(name string, text []byte) error {
	recipient, err := age.NewScryptRecipient(a.options.Passphrase)
	if err != nil {
		return &Fault{Code: CodeLocked, Err: fmt.Errorf("using the passphrase: %w", err)}
	}
	if a.options.WorkFactor > 0 {
		recipient.SetWorkFactor(a.options.WorkFactor)
	}
	if text, err = encrypt(text, recipient); err != nil {
		return err
	}
	return createFile(name, text)
}

func (a *Authority) unwrap(text []byte) ([]byte, error) {
	identity, err := age.NewScryptIdentity(a.options.Passphrase)
	if err != nil {
		return nil, &Fault{Code: CodeLocked, Err: fmt.Errorf("using the passphrase: %w", err)}
	}
	return decrypt(text, identity)
}

// encrypt returns data encrypted for a recipient, in armored form.
func encrypt(data []byte, to age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, to)
	if err == nil {
		_, err = w.Write(data)
		err = errors.Join(err, w.Close(), text.Close())
	}
	if err != nil {
		return nil, &Fault{Code: CodeStorage, Err: fmt.Errorf("encrypting a key: %w", err)}
	}
	return out.Bytes(), nil
}

func decrypt(text []byte, identity age.Identity) ([]byte, error) {
	r, err := age.Decrypt(armor.NewReader(bytes.NewReader(text)), identity)
	if err != nil {
		return nil, &Fault{Code: CodeLocked, Err: fmt.Errorf("decrypting a key: %w", err)}
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return nil, &Fault{Code: CodeLocked, Err: fmt.Errorf("decrypting a key: %w", err)}
	}
	return data, nil
}

// seal encrypts a private key and returns the content of its key file.
func (a *Authority) seal(kind Kind, key crypto.Signer, chain []*x509.Certificate) (entry, error) {
	b, err := a.open()
	if err != nil {
		return entry{}, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return entry{}, &Fault{Code: CodeRefused, Err: fmt.Errorf("encoding a key: %w", err)}
	}
	text, err := encrypt(raw, b.identity.Recipient())
	if err != nil {
		return entry{}, err
	}
	return entry{Kind: kind, Certificates: string(encodePEM(chain)), Key: string(text)}, nil
}

// private returns the private key of a key file. It caches decrypted keys.
func (a *Authority) private(o loaded) (crypto.Signer, error) {
	a.mu.Lock()
	known, ok := a.keys[o.name]
	a.mu.Unlock()
	if ok {
		return known, nil
	}
	b, err := a.open()
	if err != nil {
		return nil, err
	}
	raw, err := decrypt([]byte(o.entry.Key), b.identity)
	if err != nil {
		a.mu.Lock()
		a.box = nil // the right identity file may be restored
		a.mu.Unlock()
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(raw)
	if err != nil {
		return nil, &Fault{Code: CodeBroken, Err: fmt.Errorf("reading a key: %w", err)}
	}
	key, ok := parsed.(crypto.Signer)
	if !ok || !matches(key, o.chain[0]) {
		return nil, &Fault{Code: CodeBroken, Err: errOtherKey}
	}
	a.mu.Lock()
	a.keys[o.name] = key
	a.mu.Unlock()
	return key, nil
}

// errOtherKey means that a certificate belongs to another key.
var errOtherKey = errors.New("the certificate belongs to another key")

func matches(key crypto.Signer, c *x509.Certificate) bool {
	public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}
