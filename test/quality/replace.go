package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/certvault/certvault/test/vault"
)

// expired creates a certificate whose last day has passed.
func (f *fixture) expired(ctx context.Context) (*vault.Certificate, error) {
	file := vault.Sample{Institution: "Northern & Western University", Title: "First Aid", Name: "Amina Okafor", Date: "31 January 2020"}.PDF()
	form := vault.NewForm("First Aid", "Amina Okafor", "person@example.org", "diploma.pdf", file).With("issue_date", "2020-01-31").With("expires_on", "2022-01-31")
	a, err := f.client.Upload(ctx, form)
	if err != nil {
		return nil, err
	}
	made, err := a.Certificate()
	if err != nil {
		return nil, err
	}
	return f.client.Await(ctx, made.UUID)
}

// replace creates a certificate and the certificate that replaces it.
func (f *fixture) replace(ctx context.Context, made map[string]*vault.Certificate) (err error) {
	if made["replaced"], err = f.make(ctx, "Diploma in Botany", "Amina Okafor"); err != nil {
		return err
	}
	file := vault.Sample{Institution: "Northern & Western University", Title: "Diploma in Botany", Name: "Amina Okafor-Lind", Date: "30 June 2026", Emblem: 120}.PDF()
	form := vault.NewForm("Diploma in Botany", "Amina Okafor-Lind", "person@example.org", "diploma.pdf", file).With("issue_date", "2026-06-30")
	a, err := f.client.Replace(ctx, made["replaced"].UUID, form)
	if err != nil {
		return err
	}
	if a.Status != http.StatusCreated {
		return fmt.Errorf("replacing a certificate: status %d: %s", a.Status, a.Body)
	}
	if made["replacement"], err = a.Certificate(); err == nil {
		made["replacement"], err = f.client.Await(ctx, made["replacement"].UUID)
	}
	return err
}
