package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/mail"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// owner is the address of the institution's owner, who is also a recipient.
const owner = "owner@nwu.example"

var (
	mailLink        = regexp.MustCompile(`/c/[A-Z2-7]{26}`)
	unsubscribeLink = regexp.MustCompile(`/unsubscribe/[A-Z2-7]{26}`)
	shareCookie     = regexp.MustCompile(`__Host-share=([A-Z2-7]{26})`)
)

// recipients adds the pages that recipients open with mailed links, the pages of share links, and
// the page after the deletion of an account.
func (f *fixture) recipients(ctx context.Context, base, data string, made map[string]*vault.Certificate) error {
	for page, name := range map[string]string{"mail-link": "valid", "mail-link-revoked": "revoked", "mail-link-long": "long", "mail-link-arabic": "arabic"} {
		text, err := awaitMail(ctx, data, made[name].CertificateTitle)
		if err != nil {
			return err
		}
		link := base + mailLink.FindString(text)
		f.add(page, link, http.StatusOK)
		if page != "mail-link" {
			continue
		}
		f.Pages[len(f.Pages)-1].Scored = true
		f.add("unsubscribe", base+unsubscribeLink.FindString(text), http.StatusOK)
		if err := f.share(ctx, base, link+"/"+made[name].UUID); err != nil {
			return err
		}
	}
	f.add("link-nothing", base+"/c/ABCDEFGHIJKLMNOPQRSTUVWXYZ", http.StatusNotFound)
	f.add("account-deleted", base+"/account/deleted", http.StatusOK)
	return nil
}

// uploadOwned uploads certificates whose recipient is the institution's owner.
func (f *fixture) uploadOwned(ctx context.Context) error {
	for _, title := range []string{"Bachelor of Laws", "Certificate of Completion of the Advanced Professional Training Programme"} {
		a, err := f.client.Upload(ctx, vault.NewForm(title, "Olga Owner", owner, "diploma.pdf", f.sample))
		if err != nil || a.Status != http.StatusCreated {
			return fmt.Errorf("uploading a certificate: %+v: %w", a, err)
		}
		made, err := a.Certificate()
		if err != nil {
			return err
		}
		if _, err := f.client.Await(ctx, made.UUID); err != nil {
			return err
		}
	}
	return nil
}

// accountPages adds the pages of an account with certificates.
func (f *fixture) accountPages(ctx context.Context, v *vault.Vault) error {
	session, err := v.SignIn(ctx, owner, vault.OwnerPassword)
	if err != nil {
		return err
	}
	// A person who signs in with a sign-in link verifies the address, and claims its certificates.
	client, err := v.Client("")
	if err != nil {
		return err
	}
	link, err := requestLink(ctx, v, client, "/sign-in/link", owner)
	if err != nil {
		return err
	}
	if a, err := client.PostForm(ctx, strings.TrimPrefix(link, v.URL), url.Values{}); err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("submitting a sign-in link: %+v: %w", a, err)
	}
	for name, path := range map[string]string{
		"wallet": "/account", "wallet-none": "/account?search=none", "export": "/account/export", "delete": "/account/delete",
	} {
		f.show(name, v.URL+path, http.StatusOK, session)
	}
	return f.portfolio(ctx, v, session)
}

// certificateLink matches the path of a certificate in an account.
var certificateLink = regexp.MustCompile(`/account/certificates/([0-9a-f-]{36})`)

// portfolio creates a portfolio with the certificates of an account. It adds the pages of one certificate,
// and the pages of the portfolio.
func (f *fixture) portfolio(ctx context.Context, v *vault.Vault, session string) error {
	const path, slug = "/account/portfolio", "olga-owner"
	client, err := v.Client("")
	if err != nil {
		return err
	}
	client.Session = session
	a, err := client.Get(ctx, "/account")
	if err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("reading the certificates of an account: %+v: %w", a, err)
	}
	certificates := certificateLink.FindAllStringSubmatch(string(a.Body), -1)
	f.show("wallet-certificate", v.URL+certificates[0][0], http.StatusOK, session)
	f.show("wallet-add", v.URL+certificates[0][0]+"/wallet", http.StatusOK, session)
	f.show("portfolio-problem", v.URL+path, http.StatusUnprocessableEntity, session).Form = url.Values{"display_name": {""}, "slug": {"a"}}
	forms := []string{path}
	for _, c := range certificates {
		forms = append(forms, path+"/"+c[1]+"/add")
	}
	for _, form := range forms {
		values := url.Values{"display_name": {"Olga Owner"}, "slug": {slug}, "visible": {"1"}, "listed": {"1"}}
		if a, err := client.PostForm(ctx, form, values); err != nil || a.Status != http.StatusSeeOther {
			return fmt.Errorf("changing a portfolio: %+v: %w", a, err)
		}
	}
	f.show("portfolio-edit", v.URL+path, http.StatusOK, session)
	page := f.add("portfolio", v.URL+"/p/"+slug, http.StatusOK)
	page.Scored, page.Indexed = true, true
	return nil
}

// share creates an unlisted share link and a public share link, and adds their pages. page is the URL of a
// certificate below a mailed link.
func (f *fixture) share(ctx context.Context, base, page string) error {
	for _, one := range []struct{ name, listed string }{{"share", "unlisted"}, {"share-public", "public"}} {
		a, err := f.client.PostForm(ctx, strings.TrimPrefix(page, base)+"/shares", url.Values{"label": {"Application"}, "listed": {one.listed}})
		if err != nil || a.Status != http.StatusSeeOther {
			return fmt.Errorf("creating a share link: %+v: %w", a, err)
		}
		f.add(one.name, base+"/s/"+shareCookie.FindStringSubmatch(a.Header.Get("Set-Cookie"))[1], http.StatusOK).Scored = one.listed == "unlisted"
	}
	return nil
}

// awaitMail waits for a mail whose text contains a title, and returns the text.
func awaitMail(ctx context.Context, data, title string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		files, err := filepath.Glob(filepath.Join(data, "outbox", "*.eml"))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := mailText(file)
			if err != nil {
				return "", err
			}
			if strings.Contains(text, title) {
				return text, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("no mail contains the title %s", title)
		}
	}
}

// mailText returns the first part of the mail in a file, which is the plain text.
func mailText(file string) (text string, err error) {
	content, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	m, err := mail.ReadMessage(content)
	if err != nil {
		return "", err
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return "", err
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	part, err := parts.NextPart()
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(part)
	return string(body), err
}
