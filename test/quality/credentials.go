package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"net/http"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/credential"
)

// credentials adds the pages that show the check of a credential. No issuer is reached, so there is no
// page of a valid one; it has the same template.
func (f *fixture) credentials(base string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	c, err := credential.New(credential.Input{
		ID: "7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a11", Title: "Bachelor of Science in Computer Science",
		Issuer:      credential.Issuer{DID: "did:web:localhost:institutions:7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a12", Name: "Northwest University"},
		Recipient:   credential.Recipient{Name: "فاطمة الزهراء"},
		IssuedOn:    time.Date(2026, 6, 30, 0, 0, 0, 0, time.UTC),
		ExpiresOn:   time.Date(2096, 6, 30, 0, 0, 0, 0, time.UTC),
		Achievement: credential.Achievement{ID: "urn:uuid:7f1c2c0e-6a0c-4d2e-9f43-3e1f8f7d9a13", Name: "A first degree", Description: "A degree.", Criteria: "180 credits."},
	})
	if err != nil {
		return err
	}
	signed, err := c.SignDataIntegrity(key, time.Now())
	if err != nil {
		return err
	}
	for _, one := range []struct {
		name, text string
		status     int
	}{
		{"credential-unknown", string(signed), http.StatusOK},
		{"credential-invalid", `{"type": "VerifiableCredential"}`, http.StatusOK},
		{"credential-problem", "hello", http.StatusUnprocessableEntity},
	} {
		p := f.add(one.name, base+"/verify", one.status)
		p.Form, p.Multipart = url.Values{"credential": {one.text}}, true
	}
	return nil
}
