package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// mailTime is the maximum wait for a mail.
const mailTime = 10 * time.Second

// people adds the pages for signing in and signing up, the pages about the security of an account,
// and the pages that access adds.
func (f *fixture) people(ctx context.Context, v *vault.Vault) error {
	for _, name := range []string{"sign-in", "sign-up", "reset"} {
		p := f.add(name, v.URL+"/"+name, http.StatusOK)
		p.Scored, p.Heavy = true, true
	}
	f.add("sign-in-sent", v.URL+"/sign-in/sent", http.StatusOK)
	f.add("sign-in-stale", v.URL+"/sign-in/link/none", http.StatusNotFound)
	link, err := f.signUpLink(ctx, v)
	if err != nil {
		return err
	}
	f.add("sign-up-link", link, http.StatusOK)
	session, err := v.SignIn(ctx, "owner@nwu.example", vault.OwnerPassword)
	if err != nil {
		return err
	}
	client, err := v.Client("")
	if err != nil {
		return err
	}
	client.Session = session
	a, err := client.PostForm(ctx, "/account/security/codes/begin", url.Values{})
	if err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("setting up codes: %+v: %w", a, err)
	}
	if err := f.furtherAddress(ctx, v, client); err != nil {
		return err
	}
	for name, path := range map[string]string{"security": "/account/security", "codes": "/account/security/codes", "confirm": "/account/confirm"} {
		f.show(name, v.URL+path, http.StatusOK, session)
	}
	return f.access(ctx, v, client)
}

// furtherAddress adds a further address to the account of a client. It requests a link for a second
// further address, and adds the page of this link.
func (f *fixture) furtherAddress(ctx context.Context, v *vault.Vault, client *vault.Client) error {
	for _, address := range []string{"olga@work.example", "olga@home.example"} {
		a, err := client.PostForm(ctx, "/account/security/addresses", url.Values{"further": {address}})
		if err != nil || a.Status != http.StatusSeeOther {
			return fmt.Errorf("requesting a further address: %+v: %w", a, err)
		}
		link, err := awaitLink(ctx, v, address, "/account/addresses/")
		if err != nil {
			return err
		}
		if address == "olga@home.example" {
			f.show("address-link", link, http.StatusOK, client.Session)
			return nil
		}
		if a, err = client.PostForm(ctx, strings.TrimPrefix(link, v.URL), url.Values{}); err != nil || a.Status != http.StatusSeeOther {
			return fmt.Errorf("adding a further address: %+v: %w", a, err)
		}
	}
	return nil
}

// signUpLink requests a link to sign up, and returns the link in the mail.
func (f *fixture) signUpLink(ctx context.Context, v *vault.Vault) (string, error) {
	client, err := v.Client("")
	if err != nil {
		return "", err
	}
	return requestLink(ctx, v, client, "/sign-up", "new@example.org")
}

// awaitLink waits until the outbox has a mail to an address with a link below a path, and returns
// the link.
func awaitLink(ctx context.Context, v *vault.Vault, email, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		files, err := filepath.Glob(filepath.Join(v.Data, "outbox", "*.eml"))
		if err != nil {
			return "", fmt.Errorf("listing the mails: %w", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("reading a mail: %w", err)
			}
			// The encoding quoted-printable breaks long lines with = (RFC 2045, 6.7).
			whole := strings.ReplaceAll(string(text), "=\r\n", "")
			if _, after, ok := strings.Cut(whole, v.URL+path); ok && strings.Contains(whole, "<"+email+">") {
				return v.URL + path + strings.Fields(after)[0], nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for a mail to %s: %w", email, ctx.Err())
		}
	}
}
