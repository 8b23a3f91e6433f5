package mail

import (
	"crypto"
	"fmt"
	"os"

	gomail "github.com/wneessen/go-mail"
)

// Signer signs messages for a domain (DKIM, RFC 6376).
type Signer struct {
	domain, selector string
	key              crypto.Signer
}

// minRSA is the least an RSA key may have (RFC 8301, 3.2).
const minRSA = 1024 / 8

// NewSigner reads a private key in PEM, RSA or Ed25519 (RFC 8463). The public one
// is in DNS, at selector._domainkey.domain.
func NewSigner(domain, selector, file string) (*Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the DKIM key: %w", err)
	}
	key, err := gomail.PrivKeyFromPEM(text)
	if err != nil {
		return nil, fmt.Errorf("the DKIM key must be a private key in PEM, RSA or Ed25519: %w", err)
	}
	if k, ok := key.Public().(interface{ Size() int }); ok && k.Size() < minRSA {
		return nil, fmt.Errorf("the DKIM key is too short: an RSA key must have %d bits or more", minRSA*8)
	}
	return &Signer{domain: domain, selector: selector, key: key}, nil
}

// signed are the headers that a signature covers, each of which must not be
// added to either (RFC 6376, 8.15). Those to unsubscribe by are among them, since
// a receiver takes them for ours only then (RFC 8058, 4).
var signed = []string{
	"From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type", "Auto-Submitted", "List-Unsubscribe", "List-Unsubscribe-Post",
}

// sign has a message signed when it is written; a nil signer leaves it.
func (s *Signer) sign(m *gomail.Msg) {
	if s == nil {
		return
	}
	d := gomail.NewDKIMSigner(s.domain, s.selector, s.key)
	d.SignHeaders(signed...)
	d.OversignHeaders("From", "To", "Subject")
	m.SetDKIM(d)
}
