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

// box has the X25519 identity of age. Its recipient encrypts the private keys at rest.
type box struct{ identity *age.X25519Identity }

// open returns the box. If there is none yet, open reads the identity and checks that the identity
// belongs to the database.
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
	text, err := a.sealKey(ctx, key)
	return entry{Kind: kind, Certificates: string(encodePEM(chain)), Key: text}, err
}

// sealKey returns a private key in PKCS #8, encrypted and in armored form.
func (a *Authority) sealKey(ctx context.Context, key crypto.Signer) (string, error) {
	b, err := a.open(ctx)
	if err != nil {
		return "", err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", &Fault{Code: CodeRefused, Err: fmt.Errorf("encoding a key: %w", err)}
	}
	text, err := encrypt(raw, b.identity.Recipient())
	return string(text), err
}

// private returns the private key of a record. It caches decrypted keys.
func (a *Authority) private(ctx context.Context, r record) (crypto.Signer, error) {
	return unsealOnce(ctx, a, a.keys, r.keyID, r.entry.Key, r.chain[0].PublicKey)
}

// unsealOnce returns the private key that sealKey encrypted. It reads and fills cache, which a.mu
// protects.
func unsealOnce[K comparable](ctx context.Context, a *Authority, cache map[K]crypto.Signer, id K, text string, public crypto.PublicKey) (crypto.Signer, error) {
	a.mu.Lock()
	known, ok := cache[id]
	a.mu.Unlock()
	if ok {
		return known, nil
	}
	b, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := decrypt([]byte(text), b.identity)
	if err != nil {
		a.mu.Lock()
		a.box = nil // the next call reads the identity again, because it may have been restored
		a.mu.Unlock()
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(raw)
	if err != nil {
		return nil, &Fault{Code: CodeBroken, Err: fmt.Errorf("reading a key: %w", err)}
	}
	key, ok := parsed.(crypto.Signer)
	if !ok || !matches(key, public) {
		return nil, &Fault{Code: CodeBroken, Err: errOtherKey}
	}
	a.mu.Lock()
	cache[id] = key
	a.mu.Unlock()
	return key, nil
}

// errOtherKey means that a certificate or a public key belongs to another private key.
var errOtherKey = errors.New("the certificate belongs to another key")

// matches reports whether a public key belongs to a private key.
func matches(key crypto.Signer, public crypto.PublicKey) bool {
	p, ok := public.(interface{ Equal(crypto.PublicKey) bool })
	return ok && p.Equal(key.Public())
}
