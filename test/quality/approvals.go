package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/certvault/certvault/test/vault"
)

var memberChoice = regexp.MustCompile(`<option value="([0-9a-f-]{36})"`)

// approvals adds the pages about signatories, approvals and the member's signature. It creates a template
// that names a signatory, and a certificate that waits for an approval.
func (f *fixture) approvals(ctx context.Context, v *vault.Vault, c *vault.Client, panel string) error {
	signed, err := f.template(ctx, c, panel, "Signed diploma", "guild")
	if err != nil {
		return err
	}
	a, err := c.Get(ctx, signed+"/signatories")
	if err != nil {
		return fmt.Errorf("reading the members: %w", err)
	}
	member := memberChoice.FindSubmatch(a.Body)
	if member == nil {
		return errors.New("the form of the signatories names no member")
	}
	for _, form := range []struct {
		path   string
		values url.Values
	}{
		{"/signatories", url.Values{"revision": {"1"}, "member": {string(member[1])}, "designation": {"Dean"}}},
		{"/design/publish", url.Values{"revision": {"2"}}},
		{"/issue", url.Values{"full_name": {"Amelia Hart"}, "applicant_email": {"amelia@example.org"}, "certificate_title": {"Bachelor of Arts"}}},
	} {
		if a, err = c.PostForm(ctx, signed+form.path, form.values); err != nil || a.Status != http.StatusSeeOther {
			return fmt.Errorf("preparing a certificate that waits, %s: %d: %w", form.path, a.Status, err)
		}
	}
	for name, path := range map[string]string{
		"approvals": panel + "/approvals", "approval": panel + "/approvals/single", "signature": panel + "/signature",
		"template-signatories": signed + "/signatories", "signatories": panel + "/signatories", "certificate-waiting": a.Header.Get("Location"),
	} {
		f.show(name, v.URL+path, http.StatusOK, c.Session)
	}
	return nil
}
