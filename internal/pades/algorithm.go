package pades

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // registers crypto.SHA256
	_ "crypto/sha512" // registers crypto.SHA384 and crypto.SHA512
	"encoding/asn1"
	"errors"
	"fmt"
)

// Errors about keys and algorithms.
var (
	// ErrKey reports that a key cannot be used to sign. The key or its certificate is missing, not
	// supported, not valid at the signing time, or not for signing documents. ErrKey also reports that
	// the key does not belong to the certificate, or made a wrong signature.
	ErrKey = errors.New("the key cannot be used to sign")

	// errUnsupported reports a signature that this package cannot check, because the signature uses an
	// unsupported algorithm, such as SHA-1, lacks required data, or exceeds a limit.
	errUnsupported = errors.New("not supported")
	// errMismatch reports that the key did not sign the data.
	errMismatch = errors.New("the signature does not match")
)

// algorithmIdentifier is an AlgorithmIdentifier (RFC 5280, 4.1.1.2).
type algorithmIdentifier struct {
	id     asn1.ObjectIdentifier
	params []byte // the whole element; nil if absent
	raw    []byte // the content of the SEQUENCE
}

// algorithm reads an AlgorithmIdentifier with the tag, which is tagSequence unless the element is
// implicitly tagged.
func (d *der) algorithm(tag byte) (a algorithmIdentifier, err error) {
	body, err := d.next(tag)
	if err != nil {
		return a, err
	}
	a.raw = body
	if a.id, err = body.oid(); err != nil {
		return a, err
	}
	if len(body) > 0 {
		if _, _, a.params, err = body.element(); err != nil {
			return a, err
		}
	}
	return a, body.end()
}

// noParameters reports whether the parameters are absent or NULL.
func (a algorithmIdentifier) noParameters() bool {
	return a.params == nil || bytes.Equal(a.params, []byte{tagNull, 0})
}

// derAlgorithm encodes an AlgorithmIdentifier.
func derAlgorithm(id asn1.ObjectIdentifier, params ...byte) []byte {
	return tlv(tagSequence, derOID(id), params)
}

// digest returns the hash of a digest algorithm.
func (a algorithmIdentifier) digest() (crypto.Hash, error) {
	switch {
	case !a.noParameters():
	case oidSHA256.Equal(a.id):
		return crypto.SHA256, nil
	case oidSHA384.Equal(a.id):
		return crypto.SHA384, nil
	case oidSHA512.Equal(a.id):
		return crypto.SHA512, nil
	case oidSHA1.Equal(a.id):
		return 0, fmt.Errorf("%w: SHA-1 is not secure", errUnsupported)
	}
	return 0, fmt.Errorf("%w: the digest algorithm %v", errUnsupported, a.id)
}

// scheme is the signature algorithm of a key.
type scheme struct {
	identifier []byte // AlgorithmIdentifier of the signature algorithm
	size       int    // maximum length of a signature in bytes
}

// schemeOf returns the signature algorithm with SHA-256 for a public key. All keys use SHA-256, because
// BaseFile.State, the saved hash state of the file, is a state of SHA-256.
func schemeOf(public crypto.PublicKey) (scheme, error) {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return scheme{}, fmt.Errorf("%w: the curve %s is not supported", ErrKey, key.Params().Name)
		}
		n := (key.Params().BitSize + 7) / 8
		return scheme{derAlgorithm(oidECDSASHA256), 2*(n+3) + 3}, nil // two INTEGERs in a SEQUENCE
	case *rsa.PublicKey:
		if key.N.BitLen() < 2048 {
			return scheme{}, fmt.Errorf("%w: an RSA key of %d bits is too short", ErrKey, key.N.BitLen())
		}
		return scheme{derAlgorithm(oidSHA256WithRSA, tagNull, 0), key.Size()}, nil
	}
	return scheme{}, fmt.Errorf("%w: keys of the type %T are not supported", ErrKey, public)
}

// checkSignature checks the signature of a message, which is the DER encoding of the signed attributes.
// hash is the digestAlgorithm of the SignerInfo. The signature algorithm must use the same hash.
func checkSignature(public crypto.PublicKey, a algorithmIdentifier, hash crypto.Hash, message, signature []byte) error {
	if oidEd25519.Equal(a.id) {
		key, ok := public.(ed25519.PublicKey)
		if !ok || a.params != nil || hash != crypto.SHA512 { // RFC 8419, 3.1
			return errMismatch
		}
		return mismatchUnless(ed25519.Verify(key, message, signature))
	}
	h := hash.New()
	h.Write(message)
	digest := h.Sum(nil)
	named, pss, err := signatureHash(a, hash)
	if err != nil {
		return err
	}
	if named != hash {
		return fmt.Errorf("%w: the signature uses two digest algorithms", errUnsupported)
	}
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return mismatchUnless(a.isECDSA() && ecdsa.VerifyASN1(key, digest, signature))
	case *rsa.PublicKey:
		if a.isECDSA() {
			return errMismatch
		}
		if pss != nil {
			return mismatchUnless(rsa.VerifyPSS(key, hash, digest, signature, pss) == nil)
		}
		return mismatchUnless(rsa.VerifyPKCS1v15(key, hash, digest, signature) == nil)
	}
	return fmt.Errorf("%w: a key of the type %T", errUnsupported, public)
}

func (a algorithmIdentifier) isECDSA() bool {
	return oidECDSASHA256.Equal(a.id) || oidECDSASHA384.Equal(a.id) || oidECDSASHA512.Equal(a.id)
}

func mismatchUnless(ok bool) error {
	if !ok {
		return errMismatch
	}
	return nil
}

// signatureHash returns the hash of a signature algorithm and the options of PSS. If the algorithm
// does not determine the hash, signatureHash returns the parameter hash.
func signatureHash(a algorithmIdentifier, hash crypto.Hash) (crypto.Hash, *rsa.PSSOptions, error) {
	if oidRSAPSS.Equal(a.id) {
		return pssParams(a.params)
	}
	if !a.noParameters() {
		return 0, nil, fmt.Errorf("%w: the parameters of the algorithm %v", errUnsupported, a.id)
	}
	for _, known := range []struct {
		id   asn1.ObjectIdentifier
		hash crypto.Hash
	}{
		{oidRSA, hash}, // RFC 3370, 3.2
		{oidSHA256WithRSA, crypto.SHA256},
		{oidSHA384WithRSA, crypto.SHA384},
		{oidSHA512WithRSA, crypto.SHA512},
		{oidECDSASHA256, crypto.SHA256},
		{oidECDSASHA384, crypto.SHA384},
		{oidECDSASHA512, crypto.SHA512},
	} {
		if known.id.Equal(a.id) {
			return known.hash, nil, nil
		}
	}
	return 0, nil, fmt.Errorf("%w: the signature algorithm %v", errUnsupported, a.id)
}

// pssParams reads RSASSA-PSS-params (RFC 8017, A.2.3). The hash and the mask generation function
// are required, because their defaults use SHA-1. Both must use the same digest algorithm.
func pssParams(params []byte) (crypto.Hash, *rsa.PSSOptions, error) {
	fail := func(err error) (crypto.Hash, *rsa.PSSOptions, error) {
		return 0, nil, fmt.Errorf("%w: PSS parameters: %w", errUnsupported, err)
	}
	d := der(params)
	body, err := d.next(tagSequence)
	if err != nil {
		return fail(err)
	}
	tagged, err := body.next(tagContextCons)
	if err != nil {
		return fail(err)
	}
	digest, err := tagged.algorithm(tagSequence)
	if err = errors.Join(err, tagged.end()); err != nil {
		return fail(err)
	}
	hash, err := digest.digest()
	if err != nil {
		return fail(err)
	}
	if tagged, err = body.next(tagContextCons | 1); err != nil {
		return fail(err)
	}
	mgf, err := tagged.algorithm(tagSequence)
	if err != nil || tagged.end() != nil || !oidMGF1.Equal(mgf.id) {
		return fail(fmt.Errorf("%w: invalid mask generation function", errDER))
	}
	inner := der(mgf.params)
	mask, err := inner.algorithm(tagSequence)
	if err != nil || inner.end() != nil || !mask.id.Equal(digest.id) {
		return fail(fmt.Errorf("%w: invalid mask generation function", errDER))
	}
	salt := 20
	if body.is(tagContextCons | 2) {
		if tagged, err = body.next(tagContextCons | 2); err != nil {
			return fail(err)
		}
		salt, err = tagged.small()
		if err = errors.Join(err, tagged.end()); err != nil {
			return fail(err)
		}
	}
	// The trailer field [3] can only have the default value, which DER omits.
	if err := body.end(); err != nil {
		return fail(err)
	}
	if salt == 0 { // salt length 0 means auto in crypto/rsa
		return fail(fmt.Errorf("%w: the salt is missing", errDER))
	}
	return hash, &rsa.PSSOptions{SaltLength: salt, Hash: hash}, nil
}
