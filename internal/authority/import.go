package authority

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/certvault/certvault/internal/pades"
)

// UsePKCS12 imports the key of a PKCS #12 file (RFC 7292), which becomes the current key of the
// institution. Signatures include the certificates in the file that lead from the certificate of
// the key to a root.
func (a *Authority) UsePKCS12(ctx context.Context, institution string, data []byte, password string, record Record) error {
	if len(data) > maxFile {
		return refused(errTooLarge)
	}
	key, leaf, others, err := pkcs12.DecodeChain(data, password)
	if err != nil {
		return refused(fmt.Errorf("reading PKCS #12: %w", err))
	}
	return a.importKey(ctx, institution, key, append([]*x509.Certificate{leaf}, others...), record)
}

// UsePEM imports a private key, which becomes the current key of the institution. The certificates
// must include that of the key; their order does not matter. The private key must be unencrypted,
// in PKCS #8, SEC 1 or PKCS #1.
func (a *Authority) UsePEM(ctx context.Context, institution string, certificates, key []byte, record Record) error {
	if len(certificates) > maxFile || len(key) > maxFile {
		return refused(errTooLarge)
	}
	chain, err := parseChain(certificates)
	if err != nil {
		return refused(err)
	}
	private, err := parseKey(key)
	if err != nil {
		return refused(err)
	}
	return a.importKey(ctx, institution, private, chain, record)
}

// UseProgram makes the key of a signer program the current key of the institution; see programKey
// for the protocol. The first of the certificates must be that of the key. UseProgram accepts the
// program only if it produces a valid signature.
func (a *Authority) UseProgram(ctx context.Context, institution string, certificates []byte, command []string, record Record) error {
	if err := checkID(institution); err != nil {
		return err
	}
	if len(certificates) > maxFile {
		return refused(errTooLarge)
	}
	if len(command) == 0 || !filepath.IsAbs(command[0]) {
		return refused(errors.New("the program must be named with its full path")) //nolint:err113 // no caller distinguishes it
	}
	chain, err := parseChain(certificates)
	if err != nil {
		return refused(err)
	}
	key := &programKey{ctx: ctx, command: command, public: chain[0].PublicKey, timeout: a.options.ProgramTimeout}
	if chain, err = a.check(key, chain); err != nil {
		return err
	}
	trial := make([]byte, crypto.SHA256.Size())
	if _, err := rand.Read(trial); err != nil {
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("testing the program: %w", err)}
	}
	if _, err := key.Sign(rand.Reader, trial, crypto.SHA256); err != nil {
		return err
	}
	return a.add(ctx, institution, entry{Kind: Program, Certificates: string(encodePEM(chain)), Command: command}, record)
}

// importKey checks and stores a private key with its certificates, which may be in any order.
func (a *Authority) importKey(ctx context.Context, institution string, private crypto.PrivateKey, chain []*x509.Certificate, record Record) error {
	if err := checkID(institution); err != nil {
		return err
	}
	key, ok := private.(crypto.Signer)
	if !ok {
		return refused(errCannotSign)
	}
	chain, err := a.check(key, chain)
	if err != nil {
		return err
	}
	e, err := a.seal(ctx, Imported, key, chain)
	if err != nil {
		return err
	}
	return a.add(ctx, institution, e, record)
}

// check returns the chain of a key in order. The error is a *Fault if the key cannot sign documents
// with the chain, or if a certificate has expired or expires within a day.
func (a *Authority) check(key crypto.Signer, chain []*x509.Certificate) ([]*x509.Certificate, error) {
	chain, err := orderChain(key, chain)
	if err != nil {
		return nil, refused(err)
	}
	if err := (&pades.Signer{Key: key, Chain: chain}).Check(a.options.Now()); err != nil {
		return nil, refused(err)
	}
	if Expired(chain, a.options.Now()) {
		return nil, refused(errExpired)
	}
	return chain, nil
}

func refused(err error) error { return &Fault{Code: CodeRefused, Err: err} }

var (
	errTooLarge   = errors.New("the file is too large")
	errCannotSign = errors.New("keys of this type cannot sign")
	errExpired    = errors.New("a certificate of the key has expired or expires within a day")
)

// orderChain returns the certificate of a key followed by its issuers up to a root, as far as the
// list contains them, at most maxChain certificates. It omits other certificates.
func orderChain(key crypto.Signer, list []*x509.Certificate) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for _, c := range list {
		if matches(key, c.PublicKey) {
			chain = append(chain, c)
			break
		}
	}
	if len(chain) == 0 {
		return nil, errOtherKey
	}
	for len(chain) < maxChain {
		last := chain[len(chain)-1]
		if bytes.Equal(last.RawIssuer, last.RawSubject) {
			break
		}
		n := len(chain)
		for _, c := range list {
			if bytes.Equal(c.RawSubject, last.RawIssuer) && last.CheckSignatureFrom(c) == nil {
				chain = append(chain, c)
				break
			}
		}
		if len(chain) == n {
			break
		}
	}
	return chain, nil
}

// parseKey returns the first private key of a PEM text.
func parseKey(text []byte) (crypto.PrivateKey, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "PRIVATE KEY":
			return x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			return x509.ParsePKCS1PrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the private key is encrypted: decrypt it, or import it as PKCS #12") //nolint:err113 // no caller distinguishes it
		}
	}
	return nil, errors.New("the file contains no private key in PEM") //nolint:err113 // no caller distinguishes it
}
