package pades

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Signer signs documents with one key.
type Signer struct {
	// Key signs SHA-256 digests with ECDSA on P-256 or P-384, or with RSA and
	// PKCS #1 v1.5.
	Key crypto.Signer
	// Chain is the certificate of the key followed by its issuers. The root may
	// be omitted, because it is not embedded in the file.
	Chain []*x509.Certificate
	// TimeStamps is the time-stamp authority. If it is nil, the signature has level
	// B-B.
	TimeStamps *TimeStampAuthority
}

// Check returns an error if the key cannot sign documents at the given time.
// The error wraps ErrKey.
func (s *Signer) Check(at time.Time) error {
	if _, err := s.check(); err != nil {
		return err
	}
	leaf := s.Chain[0]
	switch {
	case !maySign(leaf):
		return fmt.Errorf("%w: the certificate is not for signing documents", ErrKey)
	case at.Before(leaf.NotBefore):
		return fmt.Errorf("%w: the certificate is not valid before %s", ErrKey, leaf.NotBefore.Format(time.DateOnly))
	case at.After(leaf.NotAfter):
		return fmt.Errorf("%w: the certificate expired on %s", ErrKey, leaf.NotAfter.Format(time.DateOnly))
	}
	return nil
}

// check returns the signature scheme of the key. It returns an error if the key
// or the certificate is missing, the certificate belongs to another key, or the
// key is not supported.
func (s *Signer) check() (scheme, error) {
	if s.Key == nil || len(s.Chain) == 0 {
		return scheme{}, fmt.Errorf("%w: the key or the certificate is missing", ErrKey)
	}
	public, ok := s.Chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(s.Key.Public()) {
		return scheme{}, fmt.Errorf("%w: the certificate belongs to another key", ErrKey)
	}
	return schemeOf(s.Key.Public())
}

// certificates returns the content of CertificateSet (RFC 5652, 10.2.3): the
// chain without its root, because verifiers do not trust a root from the file.
func (s *Signer) certificates() []byte {
	set := make([][]byte, 0, len(s.Chain))
	for i, c := range s.Chain {
		if i == 0 || !bytes.Equal(c.RawIssuer, c.RawSubject) {
			set = append(set, c.Raw)
		}
	}
	slices.SortFunc(set, bytes.Compare) // DER sorts a SET OF (X.690, 11.6)
	return slices.Concat(set...)
}

// derAttribute encodes an Attribute with one value (RFC 5652, 5.3).
func derAttribute(id, value []byte) []byte {
	return tlv(tagSequence, id, tlv(tagSet, value))
}

// signedAttributes returns the signed attributes of a baseline signature (EN 319
// 142-1, 6.3). The signing time is not an attribute; it is /M of the signature
// dictionary. CMSAlgorithmProtection contains copies of the algorithm identifiers
// of the SignerInfo, which the signature does not cover otherwise (RFC 6211, 1).
func (s *Signer) signedAttributes(digest []byte, scheme scheme) []byte {
	certificate := sha256.Sum256(s.Chain[0].Raw)
	sha := derAlgorithm(oidSHA256)
	attributes := [][]byte{
		derAttribute(derOID(oidContentType), derOID(oidData)),
		derAttribute(derOID(oidMessageDigest), tlv(tagOctetString, digest)),
		// ESSCertIDv2: the default hash algorithm is SHA-256, and the hash is
		// sufficient to identify the certificate (RFC 5035, 4).
		derAttribute(derOID(oidSigningCertificateV2),
			tlv(tagSequence, tlv(tagSequence, tlv(tagSequence, tlv(tagOctetString, certificate[:]))))),
		derAttribute(derOID(oidAlgorithmProtection),
			tlv(tagSequence, sha, retag(scheme.identifier, tagContextCons|1))),
	}
	slices.SortFunc(attributes, bytes.Compare)
	return tlv(tagSet, attributes...)
}

// retag returns a copy of an element with another tag.
func retag(element []byte, tag byte) []byte {
	out := bytes.Clone(element)
	out[0] = tag
	return out
}

// encode returns the CMS object (RFC 5652, 5.1 and 5.3). token is nil for a
// signature without a time stamp.
func (s *Signer) encode(scheme scheme, attributes, signature, token []byte) []byte {
	var unsigned []byte
	if token != nil {
		unsigned = tlv(tagContextCons|1, derAttribute(derOID(oidTimeStampToken), token))
	}
	one := []byte{tagInteger, 1, 1}
	leaf := s.Chain[0]
	signer := tlv(tagSequence,
		one,
		tlv(tagSequence, leaf.RawIssuer, derInteger(leaf.SerialNumber)),
		derAlgorithm(oidSHA256),
		retag(attributes, tagContextCons),
		scheme.identifier,
		tlv(tagOctetString, signature),
		unsigned,
	)
	signed := tlv(tagSequence,
		one,
		tlv(tagSet, derAlgorithm(oidSHA256)),
		tlv(tagSequence, derOID(oidData)), // no content: the signature is detached
		tlv(tagContextCons, s.certificates()),
		tlv(tagSet, signer),
	)
	return tlv(tagSequence, derOID(oidSignedData), tlv(tagContextCons, signed))
}

// reserve returns the length to reserve for the CMS object. A time-stamp token
// may need more space; see ErrReserve.
func (s *Signer) reserve(scheme scheme) int {
	attributes := s.signedAttributes(make([]byte, sha256.Size), scheme)
	var token []byte
	if s.TimeStamps != nil {
		token = make([]byte, s.TimeStamps.reserve())
	}
	return len(s.encode(scheme, attributes, make([]byte, scheme.size), token))
}

// sign returns the CMS object for a document with the given SHA-256 digest. It verifies the
// signature that Key returned, because an external program may have made the signature.
func (s *Signer) sign(ctx context.Context, digest []byte) ([]byte, error) {
	scheme, err := s.check()
	if err != nil {
		return nil, err
	}
	attributes := s.signedAttributes(digest, scheme)
	sum := sha256.Sum256(attributes)
	signature, err := s.Key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("signing the attributes: %w", err)
	}
	d := der(scheme.identifier)
	identifier, err := d.algorithm(tagSequence)
	if err == nil {
		err = checkSignature(s.Chain[0].PublicKey, identifier, crypto.SHA256, attributes, signature)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	var token []byte
	if s.TimeStamps != nil {
		if token, err = s.TimeStamps.stamp(ctx, signature); err != nil {
			return nil, err
		}
	}
	return s.encode(scheme, attributes, signature, token), nil
}
