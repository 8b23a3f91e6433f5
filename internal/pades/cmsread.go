package pades

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // identifies a certificate in the attribute of RFC 2634
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
)

// Limits of a CMS object.
const (
	maxCMS          = 1 << 20 // in bytes
	maxCertificates = 32
	maxAttributes   = 64
	maxRSA          = 8192 // in bits; the time of a check grows with the square of the size
)

// signedData is a CMS object with one signer (RFC 5652, 5).
type signedData struct {
	contentType  asn1.ObjectIdentifier
	content      []byte // nil if detached
	certificates []*x509.Certificate
	signer       signerInfo

	// unauthenticated lists parts that no signature covers and that nothing else
	// authenticates.
	unauthenticated []string
}

// signerInfo is a SignerInfo (RFC 5652, 5.3).
type signerInfo struct {
	issuer     []byte // set together with serial; otherwise keyID is set
	serial     *big.Int
	keyID      []byte
	digest     algorithmIdentifier
	hash       crypto.Hash
	attributes []byte // in the form that is signed, with the tag of a SET
	signed     []attribute
	algorithm  algorithmIdentifier
	signature  []byte
	unsigned   []attribute
}

// attribute is an Attribute. value is the content of its SET of values.
type attribute struct {
	id    asn1.ObjectIdentifier
	value der
}

// parseSignedData parses a ContentInfo with SignedData. It accepts no trailing
// bytes.
func parseSignedData(data []byte) (*signedData, error) {
	if len(data) > maxCMS {
		return nil, fmt.Errorf("%w: the object has %d bytes", errDER, len(data))
	}
	d := der(data)
	info, err := d.next(tagSequence)
	if err != nil || d.end() != nil {
		return nil, errors.Join(err, d.end())
	}
	id, err := info.oid()
	if err != nil {
		return nil, err
	}
	if !oidSignedData.Equal(id) {
		return nil, fmt.Errorf("%w: the content type is %v", errDER, id)
	}
	explicit, err := info.next(tagContextCons)
	if err != nil || info.end() != nil {
		return nil, errors.Join(err, info.end())
	}
	body, err := explicit.next(tagSequence)
	if err != nil || explicit.end() != nil {
		return nil, errors.Join(err, explicit.end())
	}
	s := &signedData{}
	if err := s.parse(body); err != nil {
		return nil, err
	}
	return s, nil
}

// parse parses the content of SignedData (RFC 5652, 5.1).
func (s *signedData) parse(body der) error {
	version, err := body.small()
	if err != nil {
		return err
	}
	digests, err := body.next(tagSet)
	if err != nil {
		return err
	}
	if err := s.parseContent(&body); err != nil {
		return err
	}
	other, err := s.parseCertificates(&body)
	if err != nil {
		return err
	}
	if body.is(tagContextCons | 1) {
		if _, err := body.whole(tagContextCons | 1); err != nil {
			return err
		}
		s.unauthenticated = append(s.unauthenticated, "revocation information")
	}
	signers, err := body.next(tagSet)
	if err != nil || body.end() != nil {
		return errors.Join(err, body.end())
	}
	signer, err := signers.next(tagSequence)
	if err != nil {
		return err
	}
	if err := signers.end(); err != nil {
		return fmt.Errorf("there is more than one signer: %w", err)
	}
	if err := s.signer.parse(signer); err != nil {
		return err
	}
	// Parts that no signature covers are unauthenticated unless they have the
	// value that the standard requires.
	want := 1
	if s.signer.keyID != nil || !oidData.Equal(s.contentType) {
		want = 3
	}
	if version != want && !other {
		s.unauthenticated = append(s.unauthenticated, fmt.Sprintf("version %d instead of %d", version, want))
	}
	if a, err := digests.algorithm(tagSequence); err != nil || len(digests) > 0 || !bytes.Equal(a.raw, s.signer.digest.raw) {
		s.unauthenticated = append(s.unauthenticated, "digest algorithms")
	}
	return nil
}

// parseContent parses EncapsulatedContentInfo (RFC 5652, 5.2).
func (s *signedData) parseContent(body *der) error {
	encapsulated, err := body.next(tagSequence)
	if err != nil {
		return err
	}
	if s.contentType, err = encapsulated.oid(); err != nil {
		return err
	}
	if len(encapsulated) == 0 {
		return nil
	}
	explicit, err := encapsulated.next(tagContextCons)
	if err != nil || encapsulated.end() != nil {
		return errors.Join(err, encapsulated.end())
	}
	content, err := explicit.next(tagOctetString)
	s.content = content
	return errors.Join(err, explicit.end())
}

// parseCertificates parses CertificateSet (RFC 5652, 10.2.3). other reports
// whether the set has certificates in a format other than X.509.
func (s *signedData) parseCertificates(body *der) (other bool, err error) {
	if !body.is(tagContextCons) {
		return false, nil
	}
	set, err := body.next(tagContextCons)
	if err != nil {
		return false, err
	}
	for n := 0; len(set) > 0; n++ {
		tag, _, full, err := set.element()
		if err != nil || n >= maxCertificates {
			return false, errors.Join(errDER, err)
		}
		if tag != tagSequence {
			s.unauthenticated = append(s.unauthenticated, "certificate of another format")
			other = true
			continue
		}
		c, err := x509.ParseCertificate(full)
		if err != nil {
			return false, fmt.Errorf("%w: a certificate: %w", errUnsupported, err)
		}
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
			return false, fmt.Errorf("%w: an RSA key of %d bits", errUnsupported, key.N.BitLen())
		}
		s.certificates = append(s.certificates, c)
	}
	return other, nil
}

// parse parses the content of SignerInfo.
func (s *signerInfo) parse(body der) error {
	version, err := body.small()
	if err != nil {
		return err
	}
	switch {
	case version == 1 && body.is(tagSequence):
		name, err := body.next(tagSequence)
		if err != nil {
			return err
		}
		if s.issuer, err = name.whole(tagSequence); err != nil {
			return err
		}
		if s.serial, err = name.integer(); err != nil || name.end() != nil {
			return errors.Join(err, name.end())
		}
	case version == 3 && body.is(tagContext):
		if s.keyID, err = body.next(tagContext); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: SignerInfo has the version %d", errDER, version)
	}
	if s.digest, err = body.algorithm(tagSequence); err != nil {
		return err
	}
	if body.is(tagContextCons) {
		full, err := body.whole(tagContextCons)
		if err != nil {
			return err
		}
		s.attributes = retag(full, tagSet) // the form that is signed (RFC 5652, 5.4)
		set := der(s.attributes)
		list, err := set.next(tagSet)
		if err != nil {
			return err
		}
		if s.signed, err = parseAttributes(list); err != nil {
			return err
		}
	}
	if s.algorithm, err = body.algorithm(tagSequence); err != nil {
		return err
	}
	value, err := body.next(tagOctetString)
	if err != nil {
		return err
	}
	s.signature = value
	if body.is(tagContextCons | 1) {
		list, err := body.next(tagContextCons | 1)
		if err != nil {
			return err
		}
		if s.unsigned, err = parseAttributes(list); err != nil {
			return err
		}
	}
	if err := body.end(); err != nil {
		return err
	}
	s.hash, err = s.digest.digest()
	return err
}

// parseAttributes parses a SET OF Attribute. An attribute must not occur twice (RFC 5652, 11).
// parseAttributes does not check the number of values of an attribute.
func parseAttributes(list der) ([]attribute, error) {
	var out []attribute
	for len(list) > 0 {
		body, err := list.next(tagSequence)
		if err != nil {
			return nil, err
		}
		var a attribute
		if a.id, err = body.oid(); err != nil {
			return nil, err
		}
		if a.value, err = body.next(tagSet); err != nil || body.end() != nil {
			return nil, errors.Join(err, body.end())
		}
		for _, b := range out {
			if b.id.Equal(a.id) {
				return nil, fmt.Errorf("%w: the attribute %v occurs twice", errDER, a.id)
			}
		}
		if out = append(out, a); len(out) > maxAttributes {
			return nil, fmt.Errorf("%w: too many attributes", errDER)
		}
	}
	return out, nil
}

// find returns the value of an attribute, and reports whether list has the
// attribute.
func find(list []attribute, id asn1.ObjectIdentifier) (der, bool) {
	for _, a := range list {
		if a.id.Equal(id) {
			return a.value, true
		}
	}
	return nil, false
}

// certificate returns the certificate that the SignerInfo identifies, or nil if
// it is missing.
func (s *signedData) certificate() *x509.Certificate {
	for _, c := range s.certificates {
		switch {
		case s.signer.keyID != nil && bytes.Equal(c.SubjectKeyId, s.signer.keyID),
			s.signer.serial != nil && c.SerialNumber.Cmp(s.signer.serial) == 0 && bytes.Equal(c.RawIssuer, s.signer.issuer):
			return c
		}
	}
	return nil
}

// signatureCheck is the result of checking the signature of a CMS object.
type signatureCheck struct {
	digest error // nil if the content matches the signed digest and the signed content type
	// signature is nil if the certificate's key made the signature, and no signed attribute names another
	// certificate or algorithm.
	signature error
	bound     bool // the signed attributes identify the certificate
}

// check checks the signature of content with the given digest. The digest must be computed with the
// hash of the SignerInfo (RFC 5652, 5.4 and 5.6).
func (s *signedData) check(digest []byte) signatureCheck {
	leaf := s.certificate()
	if leaf == nil {
		err := fmt.Errorf("%w: the signer's certificate is missing", errUnsupported)
		return signatureCheck{err, err, false}
	}
	if s.signer.attributes == nil {
		// The signature covers the content directly, which baseline signatures
		// do not allow; see EN 319 122-1, 5.1.
		err := fmt.Errorf("%w: the signed attributes are missing", errUnsupported)
		return signatureCheck{err, err, false}
	}
	var p signatureCheck
	if kind, ok := find(s.signer.signed, oidContentType); !ok || !bytes.Equal(kind, derOID(s.contentType)) {
		p.digest = fmt.Errorf("%w: the content type differs", errMismatch)
	}
	if want, ok := find(s.signer.signed, oidMessageDigest); !ok || !bytes.Equal(want, tlv(tagOctetString, digest)) {
		p.digest = fmt.Errorf("%w: the digest of the content differs", errMismatch)
	}
	p.signature = checkSignature(leaf.PublicKey, s.signer.algorithm, s.signer.hash, s.signer.attributes, s.signer.signature)
	if p.signature == nil {
		p.signature = s.signer.checkAlgorithms()
	}
	if p.signature == nil {
		p.bound, p.signature = s.signer.identifiesCertificate(leaf)
	}
	return p
}

// checkAlgorithms compares the algorithms of the SignerInfo with the algorithms in
// CMSAlgorithmProtection (RFC 6211, 2), if that attribute is present.
func (s *signerInfo) checkAlgorithms() error {
	value, ok := find(s.signed, oidAlgorithmProtection)
	if !ok {
		return nil
	}
	body, err := value.next(tagSequence)
	if err != nil || value.end() != nil {
		return errors.Join(err, value.end())
	}
	digest, err := body.algorithm(tagSequence)
	if err != nil {
		return err
	}
	signature, err := body.algorithm(tagContextCons | 1)
	if err != nil {
		return err
	}
	return mismatchUnless(bytes.Equal(digest.raw, s.digest.raw) && bytes.Equal(signature.raw, s.algorithm.raw) && len(body) == 0)
}

// identifiesCertificate reports whether a signing-certificate attribute is
// present. It returns an error if the attribute does not identify leaf (RFC
// 5035, 3; RFC 2634, 5.4).
func (s *signerInfo) identifiesCertificate(leaf *x509.Certificate) (bool, error) {
	value, v2 := find(s.signed, oidSigningCertificateV2)
	if !v2 {
		var v1 bool
		if value, v1 = find(s.signed, oidSigningCertificate); !v1 {
			return false, nil
		}
	}
	attribute, err := value.next(tagSequence)
	if err != nil {
		return false, err
	}
	ids, err := attribute.next(tagSequence)
	if err != nil {
		return false, err
	}
	first, err := ids.next(tagSequence)
	if err != nil {
		return false, err
	}
	hash := crypto.SHA256
	if v2 && first.is(tagSequence) {
		a, err := first.algorithm(tagSequence)
		if err != nil {
			return false, err
		}
		if hash, err = a.digest(); err != nil {
			return false, err
		}
	}
	want, err := first.next(tagOctetString)
	if err != nil {
		return false, err
	}
	if !v2 {
		sum := sha1.Sum(leaf.Raw) //nolint:gosec // required by the attribute
		return true, mismatchUnless(bytes.Equal(want, sum[:]))
	}
	h := hash.New()
	h.Write(leaf.Raw)
	return true, mismatchUnless(bytes.Equal(want, h.Sum(nil)))
}
