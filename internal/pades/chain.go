package pades

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// chainResult is the result of validating a certificate.
type chainResult struct {
	result Result
	reason string // empty if the result is Passed
}

// trustAnchors holds the trust anchors for one role, and counts the checks of
// certificates.
type trustAnchors struct {
	load func() *x509.CertPool // returns the roots; nil if there are none, or if pool has them
	pool *x509.CertPool        // nil if there are no roots
	list []*x509.Certificate
	role string // the role in the text of results, such as "the signer"

	validated, checked int // number of validated chains and of checked certificate signatures
}

// Limits on the work that a hostile file can cause: checking a certificate
// takes up to several milliseconds, and all certificates of a signature can
// name each other as issuer.
const (
	maxValidated = 32
	maxChecked   = 512
)

// roots returns the roots, or nil if there are none. It loads them at the first call.
func (a *trustAnchors) roots() *x509.CertPool {
	if a.load != nil {
		a.pool, a.load = a.load(), nil
	}
	return a.pool
}

// validate validates a certificate against the roots. proven is a time at which
// the signature is proven to have existed, or zero.
func (a *trustAnchors) validate(leaf *x509.Certificate, pool []*x509.Certificate, proven, now time.Time) chainResult {
	if a.roots() == nil {
		return chainResult{NotRun, "No trusted root was given for " + a.role + "."}
	}
	if a.validated >= maxValidated {
		return chainResult{NotRun, "The file has too many signatures to check all certificates."}
	}
	a.validated++
	at := now
	if !proven.IsZero() {
		at = proven
	}
	intermediates := x509.NewCertPool()
	for _, c := range pool {
		intermediates.AddCert(c)
	}
	options := x509.VerifyOptions{
		Roots: a.pool, Intermediates: intermediates, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // maySign and mayTimeStamp check the usage
	}
	_, err := leaf.Verify(options)
	if err == nil {
		return chainResult{result: Passed}
	}
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		options.CurrentTime = leaf.NotBefore.Add(time.Second)
		if _, within := leaf.Verify(options); within == nil {
			if at.Before(leaf.NotBefore) {
				return chainResult{Failed, fmt.Sprintf("The certificate of %s is not valid yet.", a.role)}
			}
			return chainResult{NotRun, fmt.Sprintf("The certificate of %s has expired, and no time stamp proves that it was still valid when it was used.", a.role)}
		}
	}
	return chainResult{Failed, fmt.Sprintf("The certificate of %s was not issued under any of the given roots.", a.role)}
}

// unauthenticated lists the certificates in s whose change would not be detected: the signature
// does not identify them, and neither a root nor a certificate in s has signed them. If maxChecked
// is reached, the remaining certificates are listed too. bound reports whether the signature
// identifies the certificate of its signer.
func (a *trustAnchors) unauthenticated(s *signedData, bound bool, now time.Time) []string {
	var out []string
	leaf := s.certificate()
	for _, c := range s.certificates {
		if bound && c.Equal(leaf) || a.authenticated(c, s.certificates, now) {
			continue
		}
		out = append(out, fmt.Sprintf("the certificate of %q", commonName(c)))
	}
	return out
}

// authenticated reports whether a certificate in others or a root has signed c.
// It reports false if maxChecked is reached.
func (a *trustAnchors) authenticated(c *x509.Certificate, others []*x509.Certificate, now time.Time) bool {
	for _, parent := range slices.Concat(others, a.list) {
		if !bytes.Equal(parent.RawSubject, c.RawIssuer) {
			continue
		}
		if !a.countCheck() {
			return false
		}
		if c.CheckSignatureFrom(parent) == nil {
			return true
		}
	}
	if a.roots() == nil || !a.countCheck() {
		return false
	}
	_, err := c.Verify(x509.VerifyOptions{Roots: a.pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// countCheck counts a check of a certificate signature, and reports whether
// maxChecked permits the check.
func (a *trustAnchors) countCheck() bool {
	if a.checked >= maxChecked {
		return false
	}
	a.checked++
	return true
}

// commonName returns the common name of the subject, for display. If the subject
// has no common name, it returns the whole subject.
func commonName(c *x509.Certificate) string {
	if c.Subject.CommonName != "" {
		return printable([]byte(c.Subject.CommonName))
	}
	return printable([]byte(c.Subject.String()))
}

// maySign reports whether a certificate may sign documents according to its key
// usage, if present (RFC 5280, 4.2.1.3), and its extended key usage, if present
// (RFC 9336, 3).
func maySign(c *x509.Certificate) bool {
	if c.KeyUsage != 0 && c.KeyUsage&(x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment) == 0 {
		return false
	}
	if len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0 {
		return true
	}
	if slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageEmailProtection) {
		return true
	}
	for _, id := range c.UnknownExtKeyUsage {
		if id.Equal(oidDocumentSigning) || id.Equal(oidDocumentSigningMicrosoft) || id.Equal(oidDocumentSigningAdobe) {
			return true
		}
	}
	return false
}
