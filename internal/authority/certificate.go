package authority

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

const (
	// rootYears is the validity of a root in years.
	rootYears = 40
	// leafYears is the validity of a key's certificate in years. The validity is much longer than
	// the use of the key, because without a time stamp a signature can be verified only while its
	// certificate is valid.
	leafYears = 20
	// ExpiresSoon is the time before the expiry of a key's certificates at which warnings begin. In
	// this time the institution can obtain a certificate from an authority outside the vault.
	ExpiresSoon = 90 * 24 * time.Hour
	// lastDay is the time before the expiry in which a key signs nothing: without a time stamp, the
	// signature could be verified for less than a day.
	lastDay = 24 * time.Hour
	// skew is the tolerated difference between clocks.
	skew = time.Hour
)

// Expiry returns the earliest expiry of the certificates in a chain. After this time, a signature of
// the key is valid only with a time stamp.
func Expiry(chain []*x509.Certificate) time.Time {
	first := chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	return first.UTC()
}

// Expired reports whether a key with a chain must not sign at a time, because a certificate has
// expired or expires within a day.
func Expired(chain []*x509.Certificate, at time.Time) bool {
	return Expiry(chain).Before(at.Add(lastDay))
}

// oidDocumentSigning is id-kp-documentSigning (RFC 9336, 3.1).
var oidDocumentSigning = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 36}

// newRoot generates a key and a self-signed root. The root issues only certificates for signing
// documents, and has their extended key usages. Its name constraints (RFC 5280, 4.2.1.10) exclude all
// host names, IP addresses and mail addresses, so that the root cannot issue a valid certificate for a
// server or a mailbox.
func (a *Authority) newRoot(ctx context.Context) (entry, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return entry{}, &Fault{Code: CodeStorage, Err: fmt.Errorf("generating the root: %w", err)}
	}
	template, err := a.template(strings.TrimSpace("Certvault document signing "+a.options.Installation), key.Public())
	if err != nil {
		return entry{}, err
	}
	template.NotAfter = template.NotBefore.AddDate(rootYears, 0, 0)
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	template.PermittedDNSDomainsCritical = true // applies to all name constraints
	template.ExcludedDNSDomains = []string{""}
	template.ExcludedEmailAddresses = []string{""}
	template.ExcludedIPRanges = []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 8*net.IPv4len)},
		{IP: net.IPv6zero, Mask: net.CIDRMask(0, 8*net.IPv6len)},
	}
	root, err := issue(template, template, key.Public(), key)
	if err != nil {
		return entry{}, err
	}
	return a.seal(ctx, Issued, key, []*x509.Certificate{root})
}

// newLeaf generates a key and its certificate, which the current root issues. Names of institutions
// are not unique and can change. Therefore the serial number of the subject is the institution's
// id, which distinguishes institutions with the same name (ITU-T X.520, 6.2.9).
func (a *Authority) newLeaf(ctx context.Context, institution, name string) (entry, error) {
	list, err := a.read(ctx, rootHolder)
	if err != nil {
		return entry{}, err
	}
	roots, err := existing(list, rootHolder)
	if err != nil {
		return entry{}, err
	}
	rootKey, err := a.private(ctx, roots[0])
	if err != nil {
		return entry{}, err
	}
	root := roots[0].chain[0]
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return entry{}, &Fault{Code: CodeStorage, Err: fmt.Errorf("generating a key: %w", err)}
	}
	template, err := a.template(name, key.Public())
	if err != nil {
		return entry{}, err
	}
	template.NotAfter = template.NotBefore.AddDate(leafYears, 0, 0)
	if template.NotAfter.After(root.NotAfter) {
		template.NotAfter = root.NotAfter
	}
	template.Subject.SerialNumber = institution
	template.BasicConstraintsValid = true // not a CA
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment
	leaf, err := issue(template, root, key.Public(), rootKey)
	if err != nil {
		return entry{}, err
	}
	return a.seal(ctx, Issued, key, []*x509.Certificate{leaf, root})
}

// template returns the fields that all certificates have in common.
func (a *Authority) template(name string, public crypto.PublicKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, &Fault{Code: CodeStorage, Err: fmt.Errorf("generating a serial number: %w", err)}
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, &Fault{Code: CodeRefused, Err: fmt.Errorf("encoding a key: %w", err)}
	}
	id := sha256.Sum256(der)
	return &x509.Certificate{
		SerialNumber:       serial.Add(serial, big.NewInt(1)),
		Subject:            pkix.Name{CommonName: commonName(name)},
		SubjectKeyId:       id[:20],
		NotBefore:          a.options.Now().Add(-skew).UTC().Truncate(time.Second),
		UnknownExtKeyUsage: []asn1.ObjectIdentifier{oidDocumentSigning},
		// Viewers based on NSS, such as pdfsig, check document signatures in the same way as mail
		// signatures, and trust no certificate without this usage.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection},
	}, nil
}

// commonName truncates a name to 64 characters (ub-common-name in RFC 5280, A.1).
func commonName(name string) string {
	if runes := []rune(name); len(runes) > 64 {
		name = string(runes[:63]) + "…"
	}
	return name
}

func issue(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, &Fault{Code: CodeRefused, Err: fmt.Errorf("issuing a certificate: %w", err)}
	}
	c, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, &Fault{Code: CodeRefused, Err: fmt.Errorf("issuing a certificate: %w", err)}
	}
	return c, nil
}
