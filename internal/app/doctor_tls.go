package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/acme"
	"github.com/certvault/certvault/internal/config"
)

const (
	// tlsEndsSoon is the remaining lifetime of a TLS certificate below which ExamineTLS reports a
	// problem. ACME certificates and the vault's own certificate are renewed 30 days before their
	// expiry.
	tlsEndsSoon = 14 * 24 * time.Hour
	// tlsEndsShare is for certificates with a short lifetime: ExamineTLS reports a problem if less than
	// a sixth of the lifetime remains. ACME renews such a certificate when a third of its lifetime
	// remains.
	tlsEndsShare = 6
)

// ExamineTLS checks the server's TLS certificate: the one of --tls-cert, the one of --acme-domain, or
// otherwise the one in the data folder. If the data folder has no certificate, ExamineTLS does not
// report a problem, because a proxy may terminate TLS. ExamineTLS also checks --acme-eab-kid and its key,
// if one of them is set.
func ExamineTLS(ctx context.Context, s config.Storage, t config.TLS, now time.Time) []Finding {
	list := examineACMEAccount(t)
	where, leaf, err := serverLeaf(ctx, s, t)
	if errors.Is(err, os.ErrNotExist) && t.TLSCert == "" {
		return withRemedies(list)
	}
	detail := ""
	if err == nil {
		left := leaf.NotAfter.Sub(now)
		switch {
		case now.Before(leaf.NotBefore):
			err = fmt.Errorf("%s is valid only from %s", where, leaf.NotBefore.Format(time.RFC3339))
		case left <= 0:
			err = fmt.Errorf("%s expired on %s", where, leaf.NotAfter.Format(time.DateOnly))
		case left < min(tlsEndsSoon, leaf.NotAfter.Sub(leaf.NotBefore)/tlsEndsShare):
			err = fmt.Errorf("%s expires on %s", where, leaf.NotAfter.Format(time.DateOnly))
		default:
			detail = "valid until " + leaf.NotAfter.Format(time.DateOnly)
		}
	}
	return withRemedies(append(list, finding("TLS certificate", detail, err)))
}

// examineACMEAccount checks --acme-eab-kid and its key. It returns no finding if neither is set.
func examineACMEAccount(t config.TLS) []Finding {
	account, err := t.ExternalAccount()
	if account == nil && err == nil {
		return nil
	}
	detail := ""
	if err == nil {
		detail = fmt.Sprintf("bound to the key id %q at the certificate authority; the key can be read", account.KeyID)
		err = examineSecretFiles(t.ACMEKeyFile)
	}
	return []Finding{finding("ACME account", detail, err)}
}

// serverLeaf returns the server's TLS certificate, and where it is stored.
func serverLeaf(ctx context.Context, s config.Storage, t config.TLS) (where string, leaf *x509.Certificate, err error) {
	switch {
	case t.TLSCert != "" && t.TLSKey != "":
		pair, err := tls.LoadX509KeyPair(t.TLSCert, t.TLSKey)
		if err != nil {
			return "", nil, fmt.Errorf("%s and %s cannot be used; a running server continues with the certificate that it read before: %w", t.TLSCert, t.TLSKey, err)
		}
		return t.TLSCert, pair.Leaf, nil
	case t.ACMEDomain != "":
		leaf, err := acmeLeaf(ctx, s, t)
		return "the certificate of ACME", leaf, err
	case t.TLSCert != "":
		where = t.TLSCert
	default:
		where = filepath.Join(s.Data, "tls", ownCertificateFile)
	}
	leaf, err = readLeaf(where)
	return where, leaf, err
}

// acmeLeaf returns the ACME certificate that is stored in the database.
func acmeLeaf(ctx context.Context, s config.Storage, t config.TLS) (_ *x509.Certificate, err error) {
	b, err := OpenBase(ctx, s, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.DB.Close()) }()
	pair, err := b.acmeManager(s, t, nil).Load(ctx)
	if errors.Is(err, acme.ErrNoCertificate) {
		return nil, fmt.Errorf("%w for %s; the log of the server shows why", err, t.ACMEDomain)
	}
	return pair.Leaf, err
}

// readLeaf returns the first certificate in a PEM file.
func readLeaf(name string) (*x509.Certificate, error) {
	rest, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("%s: the file contains no certificate", name)
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}
