package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/certvault/certvault/test/vault"
)

var (
	codeSecret = regexp.MustCompile(`<code dir="ltr">([A-Z2-7]{32})</code>`)
	memberLink = regexp.MustCompile(`/members/[0-9a-f-]{36}`)
	revokeLink = regexp.MustCompile(`/invitations/[0-9a-f-]{36}/revoke`)
)

// forms adds pages that are responses to forms with and without problems.
func (f *fixture) forms(v *vault.Vault, slug, session string, made map[string]*vault.Certificate) {
	panel := "/panel/" + slug
	for _, one := range []struct {
		name, path string
		status     int
		form       url.Values
	}{
		{"retention-confirm", "/settings/retention", http.StatusOK, url.Values{"keep_failed": {"30"}, "keep_revoked": {"30"}, "keep_mail": {"90"}}},
		{"retention-problem", "/settings/retention", http.StatusUnprocessableEntity, url.Values{"keep_failed": {"1"}, "keep_revoked": {"soon"}}},
		{"revoke-many", "/certificates/revoke", http.StatusOK, url.Values{"selected": {made["valid"].UUID, made["long"].UUID}}},
		{"revoke-all", "/certificates/revoke", http.StatusOK, url.Values{"which": {"all"}}},
		{"token-made", "/tokens", http.StatusOK, url.Values{"name": {"Campus system"}, "end": {"never"}, "permissions": {"certificate:list"}}},
		{"token-problem", "/tokens", http.StatusUnprocessableEntity, url.Values{"end": {"date"}, "date": {"soon"}}},
		{"webhook-secret", "/webhooks", http.StatusOK, url.Values{"url": {"https://hooks.example.org/another"}}},
		{"webhook-problem", "/webhooks", http.StatusUnprocessableEntity, url.Values{"url": {"http://10.0.0.1/"}, "which": {"some"}}},
		{"invite-problem", "/members/invite", http.StatusUnprocessableEntity, url.Values{"email": {"invalid"}}},
	} {
		f.show("panel-"+one.name, v.URL+panel+one.path, one.status, session).Form = one.form
	}
	for _, one := range []struct {
		name, path string
		form       url.Values
	}{
		{"reset-problem", "/reset", url.Values{"email": {"invalid"}}},
		{"sign-up-problem", "/sign-up", url.Values{"email": {"invalid"}}},
	} {
		f.add(one.name, v.URL+one.path, http.StatusUnprocessableEntity).Form = one.form
	}
}

// member adds pages about a member of two institutions who signs in with a code. Some of the pages have
// the session of the first institution's owner, and the others have the session of the member.
func (f *fixture) member(ctx context.Context, v *vault.Vault, slug, session string) error {
	if _, err := v.CreateInstitution(ctx, "Southern College", "SOC"); err != nil {
		return err
	}
	email := "owner@soc.example"
	res, err := vault.Run(ctx, v.Options, "", "member", "add", "--institution", slug, "--email", email, "--name", "Dana Dean", "--role", "issuer")
	if err != nil || res.Code != 0 {
		return fmt.Errorf("member add: %s%s: %w", res.Stdout, res.Stderr, err)
	}
	show := func(name, path, session string) *page { return f.show(name, v.URL+path, http.StatusOK, session) }
	owner, err := v.Client("")
	if err != nil {
		return err
	}
	owner.Session = session
	panel := "/panel/" + slug
	members, err := owner.Get(ctx, panel+"/members")
	if err != nil {
		return err
	}
	member, invitation := memberLink.FindString(string(members.Body)), revokeLink.FindString(string(members.Body))
	if member == "" || invitation == "" {
		return fmt.Errorf("the page of the members (status %d) has no link to a member or an invitation", members.Status)
	}
	show("member", panel+member, session)
	show("member-remove", panel+member+"/remove", session)
	show("invitation-revoke", panel+invitation, session)

	person, err := v.Client("")
	if err != nil {
		return err
	}
	if person.Session, err = v.SignIn(ctx, email, vault.OwnerPassword); err != nil {
		return err
	}
	show("institutions", "/panel", person.Session)
	if err := requestMail(ctx, person, "/account/security/address", "dean@soc.example"); err != nil {
		return err
	}
	link, err := awaitLink(ctx, v, "dean@soc.example", "/account/address/")
	if err != nil {
		return err
	}
	show("address", strings.TrimPrefix(link, v.URL), person.Session)
	if err := secondFactor(ctx, person); err != nil {
		return err
	}
	show("recovery", "/account/security/codes/recovery", person.Session).Form = url.Values{"again": {"1"}}
	half, err := v.SignIn(ctx, email, vault.OwnerPassword)
	if err != nil {
		return err
	}
	show("sign-in-code", "/sign-in/code", half)
	return nil
}

// secondFactor turns on the second factor of the person who is signed in with a client.
func secondFactor(ctx context.Context, c *vault.Client) error {
	if _, err := c.PostForm(ctx, "/account/security/codes/begin", url.Values{}); err != nil {
		return err
	}
	a, err := c.Get(ctx, "/account/security/codes")
	if err != nil {
		return err
	}
	secret := codeSecret.FindSubmatch(a.Body)
	if secret == nil {
		return fmt.Errorf("the page (status %d) shows no secret", a.Status)
	}
	code, err := totp.GenerateCode(string(secret[1]), time.Now())
	if err != nil {
		return fmt.Errorf("generating a code: %w", err)
	}
	if a, err = c.PostForm(ctx, "/account/security/codes", url.Values{"code": {code}}); err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("submitting the code: status %d", a.Status)
	}
	return err
}

// requestMail requests a mail with a link. It submits email to the form at path.
func requestMail(ctx context.Context, c *vault.Client, path, email string) error {
	a, err := c.PostForm(ctx, path, url.Values{"email": {email}})
	if err == nil && a.Status != http.StatusSeeOther {
		err = fmt.Errorf("requesting a link at %s: status %d", path, a.Status)
	}
	return err
}

// requestLink requests a mail with a link, and returns the link.
func requestLink(ctx context.Context, v *vault.Vault, c *vault.Client, path, email string) (string, error) {
	if err := requestMail(ctx, c, path, email); err != nil {
		return "", err
	}
	return awaitLink(ctx, v, email, path+"/")
}

// links adds the pages of the mailed links for signing in and for a new password.
func (f *fixture) links(ctx context.Context, v *vault.Vault) error {
	c, err := v.Client("")
	if err != nil {
		return err
	}
	for name, path := range map[string]string{"sign-in-link": "/sign-in/link", "reset-link": "/reset"} {
		link, err := requestLink(ctx, v, c, path, "owner@soc.example")
		if err != nil {
			return err
		}
		f.add(name, link, http.StatusOK)
	}
	return nil
}

// bundle creates two certificates of one person in one batch. The person gets one link to both
// certificates.
func (f *fixture) bundle(ctx context.Context, v *vault.Vault) error {
	const email = "both@example.org"
	var entries []vault.Entry
	for i, title := range []string{"Advanced Mathematics", "Advanced Mechanics"} {
		id, err := f.client.Stage(ctx, "diploma.pdf", f.sample)
		if err != nil {
			return err
		}
		entries = append(entries, vault.Entry{Index: i, Title: title, FullName: "Bo Both", Email: email, FileID: id})
	}
	a, err := f.client.Bulk(ctx, entries)
	if err != nil {
		return err
	}
	batch, err := a.Batch()
	if err != nil {
		return err
	}
	if _, err := f.client.AwaitBatch(ctx, batch.BatchID); err != nil {
		return err
	}
	link, err := awaitLink(ctx, v, email, "/c/")
	f.both = strings.TrimPrefix(link, v.URL)
	return err
}
