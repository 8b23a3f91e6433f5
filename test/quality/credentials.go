package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/test/vault"
)

// credentials adds the pages that show the result of checking a credential. The credential of another
// issuer is neither valid nor invalid, because the vault cannot fetch the documents of that issuer.
func (f *fixture) credentials(ctx context.Context, base string, valid *vault.Certificate) error {
	own, err := f.client.Get(ctx, "/business/certificates/"+valid.UUID+"/credential")
	if err != nil || own.Status != http.StatusOK {
		return fmt.Errorf("requesting a credential: %+v: %w", own, err)
	}
	f.Credential = filepath.Join(f.dir, "credential.json")
	if err := os.WriteFile(f.Credential, own.Body, 0o600); err != nil {
		return fmt.Errorf("storing a credential: %w", err)
	}
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
		{"credential-valid", string(own.Body), http.StatusOK},
		{"credential-unknown", string(signed), http.StatusOK},
		{"credential-invalid", `{"type": "VerifiableCredential"}`, http.StatusOK},
		{"credential-problem", "hello", http.StatusUnprocessableEntity},
	} {
		p := f.add(one.name, base+"/verify", one.status)
		p.Form, p.Multipart = url.Values{"credential": {one.text}}, true
	}
	return nil
}
