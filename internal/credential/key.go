package credential

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// The signing keys are Ed25519 for Data Integrity proofs, and P-256 for JWTs.

var (
	errKeyType   = errors.New("the key has a type or size that is not supported")
	errKey       = errors.New("the key is damaged")
	errSignature = errors.New("the signature is not valid")
)

// The prefixes of public keys in Multikey (CID, 2.2.2).
var (
	prefixEd25519 = []byte{0xed, 0x01}
	prefixP256    = []byte{0x80, 0x24}
)

// multikey returns a public key as a Multikey value (CID, 2.2.2).
func multikey(key crypto.PublicKey) (string, error) {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return "z" + base58Encode(slices.Concat(prefixEd25519, key)), nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			point, err := key.Bytes()
			if err != nil {
				return "", fmt.Errorf("%w: %w", errKey, err)
			}
			compressed := append([]byte{2 + point[64]&1}, point[1:33]...) // SEC 1, 2.3.3
			return "z" + base58Encode(slices.Concat(prefixP256, compressed)), nil
		}
	}
	return "", errKeyType
}

// parseMultikey returns the key of a Multikey value.
func parseMultikey(s string) (crypto.PublicKey, error) {
	encoded, ok := strings.CutPrefix(s, "z")
	if !ok {
		return nil, errKey
	}
	data, err := base58Decode(encoded)
	if err != nil {
		return nil, err
	}
	switch {
	case len(data) == 2+ed25519.PublicKeySize && bytes.HasPrefix(data, prefixEd25519):
		return ed25519.PublicKey(data[2:]), nil
	case len(data) == 2+33 && bytes.HasPrefix(data, prefixP256):
		x, y := elliptic.UnmarshalCompressed(elliptic.P256(), data[2:])
		if x == nil {
			return nil, errKey
		}
		return point(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32)))
	}
	return nil, errKeyType
}

func point(x, y []byte) (crypto.PublicKey, error) {
	if len(x) != 32 || len(y) != 32 {
		return nil, errKey
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKey, err)
	}
	return key, nil
}

// jwk is a public key as a JSON Web Key (RFC 7517; RFC 8037 for Ed25519). The members have the order that
// a thumbprint requires (RFC 7638, 3).
type jwk struct {
	Alg string `json:"alg,omitempty"`
	Crv string `json:"crv"`
	Kid string `json:"kid,omitempty"`
	Kty string `json:"kty"`
	X   string `json:"x"`
	Y   string `json:"y,omitempty"`
}

func newJWK(key crypto.PublicKey) (jwk, error) {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return jwk{Kty: "OKP", Crv: "Ed25519", X: base64url(key)}, nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			data, err := key.Bytes()
			if err != nil {
				return jwk{}, fmt.Errorf("%w: %w", errKey, err)
			}
			return jwk{Kty: "EC", Crv: "P-256", X: base64url(data[1:33]), Y: base64url(data[33:])}, nil
		}
	}
	return jwk{}, errKeyType
}

// parseJWK returns the key of a JSON Web Key.
func parseJWK(object map[string]any) (crypto.PublicKey, error) {
	if text(object, "kty") == "RSA" {
		return parseRSA(object)
	}
	x, err := unbase64url(text(object, "x"))
	if err != nil {
		return nil, errKey
	}
	switch text(object, "kty") + " " + text(object, "crv") {
	case "OKP Ed25519":
		if len(x) != ed25519.PublicKeySize {
			return nil, errKey
		}
		return ed25519.PublicKey(x), nil
	case "EC P-256":
		y, err := unbase64url(text(object, "y"))
		if err != nil {
			return nil, errKey
		}
		return point(x, y)
	}
	return nil, errKeyType
}

// The limits of the size of an RSA modulus, in bytes. Larger keys take too much time.
const (
	minRSA = 256
	maxRSA = 1024
)

// parseRSA returns an RSA key (RFC 7518, 6.3.1). This package verifies RS256 signatures, as Open Badges
// requires (OB, 8.2.2), but does not create them.
func parseRSA(object map[string]any) (crypto.PublicKey, error) {
	n, err := unbase64url(text(object, "n"))
	if err != nil || len(n) < minRSA || len(n) > maxRSA || text(object, "e") != "AQAB" {
		return nil, errKeyType
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}, nil
}

// thumbprint returns the SHA-256 thumbprint of a key (RFC 7638, 3).
func (k jwk) thumbprint() (string, error) {
	k.Alg, k.Kid = "", ""
	data, err := marshal(k)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return base64url(sum[:]), nil
}

// fragment returns the name of a key in the DID document: the Multikey value, or for P-256 the JWK
// thumbprint. The name depends only on the key, so it never denotes another key.
func fragment(key crypto.PublicKey) (string, error) {
	if _, ok := key.(ed25519.PublicKey); ok {
		return multikey(key)
	}
	k, err := newJWK(key)
	if err != nil {
		return "", err
	}
	return k.thumbprint()
}

// MethodID returns the id of a key's verification method in the document of a DID (DID, 5.2).
func MethodID(did string, key crypto.PublicKey) (string, error) {
	name, err := fragment(key)
	if err != nil {
		return "", err
	}
	return did + "#" + name, nil
}

// signEd25519 signs a message with Ed25519 (RFC 8032).
func signEd25519(key crypto.Signer, message []byte) ([]byte, error) {
	if _, ok := key.Public().(ed25519.PublicKey); !ok {
		return nil, fmt.Errorf("%w: a Data Integrity proof needs Ed25519", errKeyType)
	}
	return key.Sign(rand.Reader, message, crypto.Hash(0))
}

// signES256 signs a message with ES256: the signature is R and S with 32 bytes each (RFC 7518, 3.4).
func signES256(key crypto.Signer, message []byte) ([]byte, error) {
	public, ok := key.Public().(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%w: ES256 needs P-256", errKeyType)
	}
	digest := sha256.Sum256(message)
	der, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var s struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &s); err != nil || len(rest) > 0 || s.R.Sign() <= 0 || s.S.Sign() <= 0 || s.R.BitLen() > 256 || s.S.BitLen() > 256 {
		return nil, errSignature
	}
	out := make([]byte, 64)
	s.R.FillBytes(out[:32])
	s.S.FillBytes(out[32:])
	return out, nil
}

// verifySignature verifies a signature. The type of the key determines the algorithm, so that a
// header cannot choose another algorithm (RFC 8725, 3.1).
func verifySignature(key crypto.PublicKey, message, signature []byte) error {
	valid := false
	switch key := key.(type) {
	case ed25519.PublicKey:
		valid = ed25519.Verify(key, message, signature)
	case *ecdsa.PublicKey:
		if len(signature) == 64 {
			digest := sha256.Sum256(message)
			valid = ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
		}
	case *rsa.PublicKey:
		digest := sha256.Sum256(message)
		valid = rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil
	default:
		return errKeyType
	}
	if !valid {
		return errSignature
	}
	return nil
}

func base64url(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// unbase64url decodes base64url without padding (RFC 7515, 2). It rejects line breaks, which package base64
// ignores, and unused bits that are not zero. So a value has only one encoding.
func unbase64url(s string) ([]byte, error) {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}
