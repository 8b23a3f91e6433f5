//go:build e2e

package e2e

import (
	"net/http"
	"testing"

	"github.com/certvault/certvault/test/vault"
)

// TestCertificatesInBrowser searches for a certificate, corrects the address of its recipient, previews the
// public text of a revocation and revokes the certificate. The browser runs no scripts. The public page then
// shows the text of the preview.
func TestCertificatesInBrowser(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		c, _ := f.uploadApproved(t, "ada")
		b := f.signInOwner(t)
		b.scriptless()
		at := "/panel/" + f.institution.Slug
		// The path / redirects a member to the dashboard of the institution.
		b.open("/")
		b.at(at)
		b.see("Dashboard", "1 Approved", "Show as a table", "Nothing needs your attention")
		b.screenshot("dashboard")
		b.press("Certificates")
		b.at(at + "/certificates")
		b.fill("q", c.ReferenceID)
		b.press("Search")
		b.see("Clear filters", "All 1", c.ReferenceID)
		b.open(at + "/certificates/" + c.UUID)
		b.see("Activity")
		b.press("All checks passed")
		b.see("This certificate is valid")
		b.screenshot("certificate")
		b.press("Check the signature")
		b.see("Signed by", "Signer is trusted Yes")
		b.press("More")
		b.press("Correct the address")
		b.fill("applicant_email", "corrected@example.net")
		b.press("Save address")
		b.see("The address was corrected.", "corrected@example.net")
		b.press("More")
		b.press("Revoke")
		b.fill("reason", "The thesis was withdrawn.")
		b.press("Refresh preview")
		b.see("has revoked this certificate. It is no longer valid.", "The thesis was withdrawn.")
		b.screenshot("revoke")
		b.press("Revoke the certificate of")
		b.see("The certificate was revoked, and the public page shows it.", "By Owner")
		b.open("/verify/" + c.ReferenceID)
		b.see("has revoked this certificate. It is no longer valid.", "The thesis was withdrawn.")
	})
}

// TestSettingsInBrowser changes settings that the public page shows, and creates a new signing key. The
// browser runs no scripts.
func TestSettingsInBrowser(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	b := f.signInOwner(t)
	b.scriptless()
	at := "/panel/" + f.institution.Slug + "/settings"
	b.open(at)
	b.fill("name", "Northern Lights University")
	b.press("Save changes")
	b.see("The settings were saved.")
	b.press("Public page")
	b.fill("contact", "registry@nwu.example")
	b.press("Save changes")
	b.see("The settings were saved.")
	b.press("Signing key")
	b.see("Current signing key", "Download root.pem")
	b.press("Create new signing key")
	b.see("This cannot be undone")
	b.press("Create new signing key")
	b.see("The new signing key is in use.", "Earlier keys")
	c, _ := f.uploadApproved(t, "ada")
	b.open("/verify/" + c.ReferenceID)
	b.see("This certificate is valid", "Northern Lights University", "registry@nwu.example")
	a, err := f.as(t, "").Get(t.Context(), vault.CertificatesPath)
	if err != nil || a.Status != http.StatusUnauthorized {
		t.Errorf("listing certificates without a token: got %+v, %v; want 401", a, err)
	}
}
