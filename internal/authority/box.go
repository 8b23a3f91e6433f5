package authority

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// box encrypts the private keys at rest with an X25519 identity of age.
type box struct{ identity *age.X25519Identity }

// open returns the box. The first call reads the identity and checks that the identity belongs to
// the database.
func (a *Authority) open(ctx context.Context) (*box, error) {
	a.opening.Lock()
	defer a.opening.Unlock()
	a.mu.Lock()
	b := a.box
	a.mu.Unlock()
	if b != nil {
		return b, nil
	}
	identity, err := a.readIdentity()
	if err != nil {
		return nil, err
	}
	if err := a.compareIdentity(ctx, identity); err != nil {
		return nil, err
	}
	b = &box{identity: identity}
	a.mu.Lock()
	a.box = b
	a.mu.Unlock()
	return b, nil
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

// seal encrypts a private key and returns its entry.
func (a *Authority) seal(ctx context.Context, kind Kind, key crypto.Signer, chain []*x509.Certificate) (entry, error) {
	b, err := a.open(ctx)
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

// private returns the private key of a record. It caches decrypted keys.
func (a *Authority) private(ctx context.Context, r record) (crypto.Signer, error) {
	a.mu.Lock()
	known, ok := a.keys[r.keyID]
	a.mu.Unlock()
	if ok {
		return known, nil
	}
	b, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := decrypt([]byte(r.entry.Key), b.identity)
	if err != nil {
		a.mu.Lock()
		a.box = nil // the right identity may be restored
		a.mu.Unlock()
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(raw)
	if err != nil {
		return nil, &Fault{Code: CodeBroken, Err: fmt.Errorf("reading a key: %w", err)}
	}
	key, ok := parsed.(crypto.Signer)
	if !ok || !matches(key, r.chain[0]) {
		return nil, &Fault{Code: CodeBroken, Err: errOtherKey}
	}
	a.mu.Lock()
	a.keys[r.keyID] = key
	a.mu.Unlock()
	return key, nil
}

// errOtherKey means that a certificate belongs to another key.
var errOtherKey = errors.New("the certificate belongs to another key")

func matches(key crypto.Signer, c *x509.Certificate) bool {
	public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public())
}
