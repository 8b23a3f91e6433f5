package pades

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// trust is what is known of a certificate's origin.
type trust struct {
	result Result
	reason string // when it did not pass
}

// anchors are the roots that are trusted.
type anchors struct {
	pool *x509.CertPool // nil when none was given
	list []*x509.Certificate
	role string // what they vouch for

	judged, checked int // so far
}

// What a hostile file can have done with certificates: a check of one takes up to
// milliseconds, and those of a signature can all name each other.
const (
	maxJudged  = 32
	maxChecked = 512
)

// judge tells whether a root vouches for a certificate. proven is a time at which the
// signature is known to have existed, zero when none is.
func (a *anchors) judge(leaf *x509.Certificate, bag []*x509.Certificate, proven, now time.Time) trust {
	if a.pool == nil {
		return trust{NotRun, "No root was given to hold " + a.role + " against."}
	}
	if a.judged >= maxJudged {
		return trust{NotRun, "The file has too many signatures for all certificates to be judged."}
	}
	a.judged++
	at := now
	if !proven.IsZero() {
		at = proven
	}
	intermediates := x509.NewCertPool()
	for _, c := range bag {
		intermediates.AddCert(c)
	}
	options := x509.VerifyOptions{
		Roots: a.pool, Intermediates: intermediates, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // judged by maySign and mayTimeStamp
	}
	_, err := leaf.Verify(options)
	if err == nil {
		return trust{result: Passed}
	}
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		options.CurrentTime = leaf.NotBefore.Add(time.Second)
		if _, within := leaf.Verify(options); within == nil {
			if at.Before(leaf.NotBefore) {
				return trust{Failed, fmt.Sprintf("The certificate of %s is not valid yet.", a.role)}
			}
			return trust{NotRun, fmt.Sprintf("The certificate of %s has expired, and no time stamp proves that it had not when it was used.", a.role)}
		}
	}
	return trust{Failed, fmt.Sprintf("No root that was given vouches for %s.", a.role)}
}

// unvouched lists the certificates of a bag that nothing accounts for: the signature
// does not name them, and no other certificate or root signs them. They could have been
// altered without a trace.
func (a *anchors) unvouched(s *signedData, bound bool, now time.Time) []string {
	var out []string
	leaf := s.certificate()
	for _, c := range s.certificates {
		if bound && c.Equal(leaf) || a.vouched(c, s.certificates, now) {
			continue
		}
		out = append(out, fmt.Sprintf("the certificate of %q", commonName(c)))
	}
	return out
}

func (a *anchors) vouched(c *x509.Certificate, bag []*x509.Certificate, now time.Time) bool {
	for _, parent := range slices.Concat(bag, a.list) {
		if !bytes.Equal(parent.RawSubject, c.RawIssuer) {
			continue
		}
		if !a.mayCheck() {
			return false
		}
		if c.CheckSignatureFrom(parent) == nil {
			return true
		}
	}
	if a.pool == nil || !a.mayCheck() {
		return false
	}
	_, err := c.Verify(x509.VerifyOptions{Roots: a.pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// mayCheck counts a check of a certificate by another.
func (a *anchors) mayCheck() bool {
	if a.checked >= maxChecked {
		return false
	}
	a.checked++
	return true
}

// commonName is a name for people.
func commonName(c *x509.Certificate) string {
	if c.Subject.CommonName != "" {
		return printable([]byte(c.Subject.CommonName))
	}
	return printable([]byte(c.Subject.String()))
}

// maySign tells whether a certificate is meant for signatures on documents: its key
// usage, where it has that (RFC 5280, 4.2.1.3), and its extended key usage, where
// it has that (RFC 9336, 3).
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
