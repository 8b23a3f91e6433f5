package main

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/certvault/certvault/test/vault"
)

var planLink = regexp.MustCompile(`/mail/[0-9a-f-]{36}`)

// waitingMail adds the pages about mail that waits for a chosen time. at is the URL of the institution in
// the panel.
func (f *fixture) waitingMail(ctx context.Context, v *vault.Vault, at, session string) error {
	c, err := v.Client("")
	if err != nil {
		return err
	}
	c.Session = session
	path := at[len(v.URL):]
	file := vault.Sample{Institution: "Northern & Western University", Title: "Results", Name: "Lina Haddad", Date: "30 June 2026"}.PDF()
	form := vault.NewForm("Results", "Lina Haddad", "results@example.org", "diploma.pdf", file).With("notify", time.Now().AddDate(0, 1, 0).UTC().Format(time.RFC3339))
	a, err := f.client.Upload(ctx, form)
	if err != nil {
		return err
	}
	made, err := a.Certificate()
	if err != nil {
		return err
	}
	list, err := c.Get(ctx, path+"/mail")
	if err != nil {
		return err
	}
	plan := planLink.FindString(string(list.Body))
	if plan == "" {
		return errors.New("the page of the waiting mail has no link to change the time")
	}
	f.show("mail", at+"/mail", http.StatusOK, session)
	f.show("mail-change", at+plan, http.StatusOK, session)
	f.show("certificate-mail", at+"/certificates/"+made.UUID, http.StatusOK, session)
	return nil
}
