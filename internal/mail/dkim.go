package mail

import (
	"crypto"
	"crypto/rsa"
	"fmt"
	"os"
	"strings"

	"github.com/emersion/go-msgauth/dkim"
	gomail "github.com/wneessen/go-mail"
)

// Signer signs messages for a domain (DKIM, RFC 6376).
type Signer struct {
	domain, selector string
	key              crypto.Signer
}

// minRSA is the minimum size of an RSA key in bits (RFC 8301, 3.2).
const minRSA = 1024

// NewSigner returns a signer with an RSA or Ed25519 (RFC 8463) private key from a PEM file. The
// public key must be in DNS at selector._domainkey.domain.
func NewSigner(domain, selector, file string) (*Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the DKIM key: %w", err)
	}
	key, err := gomail.PrivKeyFromPEM(text)
	if err != nil {
		return nil, fmt.Errorf("the DKIM key must be a private key in PEM, RSA or Ed25519: %w", err)
	}
	if k, ok := key.(*rsa.PrivateKey); ok && k.N.BitLen() < minRSA {
		return nil, fmt.Errorf("the DKIM key is too short: an RSA key must have %d bits or more", minRSA)
	}
	return &Signer{domain: domain, selector: selector, key: key}, nil
}

// covered are the headers that a signature covers. From, To, Subject and Reply-To are listed twice, so
// that a second header of the same name makes the signature invalid (RFC 6376, 8.15). The headers for
// unsubscribing are included, because mail programs accept them only if they are signed (RFC 8058, 4).
var covered = []string{
	"From", "From", "To", "To", "Subject", "Subject", "Reply-To", "Reply-To", "Date", "Message-ID", "MIME-Version", "Content-Type", "Auto-Submitted",
	"List-Unsubscribe", "List-Unsubscribe-Post",
}

// sign adds a signature to a complete message. If s is nil, sign does nothing. The first call of WriteTo
// sets the MIME boundaries of the message, so the bytes that are sent later are the signed bytes.
func (s *Signer) sign(m *gomail.Msg) error {
	if s == nil {
		return nil
	}
	d, err := dkim.NewSigner(&dkim.SignOptions{
		Domain: s.domain, Selector: s.selector, Signer: s.key, Hash: crypto.SHA256,
		HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed, HeaderKeys: covered,
	})
	if err != nil {
		return fmt.Errorf("signing a message: %w", err)
	}
	_, err = m.WriteTo(d)
	// Close must be called even after an error, because Close ends the goroutine of the signer.
	if e := d.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("signing a message: %w", err)
	}
	name, value, _ := strings.Cut(strings.TrimSpace(d.Signature()), ": ")
	m.SetGenHeaderPreformatted(gomail.Header(name), value)
	return nil
}
