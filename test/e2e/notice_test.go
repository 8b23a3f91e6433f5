//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
)

// TestNotices checks the mail about an approval and about a revocation. Mail that is scheduled for a later
// time must be sent once and not earlier, even if the vault is killed.
func TestNotices(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		upload := func(email string, options ...client.Option) *client.VaultCertificate {
			t.Helper()
			n := certificate(t, form("Zoe Obi"))
			n.ApplicantEmail = email
			c, err := f.api(t).Upload(t.Context(), n, options...)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		told, quiet := upload("told@example.org"), upload("never@example.org", client.Notify(client.NotifyNever))
		at := time.Now().Add(2 * time.Second).UTC()
		late := upload("late@example.org", client.Notify(at.Format(time.RFC3339Nano)))
		f.await(t, late.UUID, "approved")
		if time.Now().Before(at) && slices.Contains(notified(t, f.Vault), "late@example.org") {
			t.Error("the mail was sent before its time")
		}
		f.await(t, told.UUID, "approved")
		f.await(t, quiet.UUID, "approved")
		f.Kill()
		f.restart(t)
		eventually(t, mailTime, "the mails at the approval and at the chosen time", func() bool {
			return slices.Equal(notified(t, f.Vault), []string{"late@example.org", "told@example.org"})
		})
		for _, c := range []*client.VaultCertificate{told, quiet} {
			for range 2 {
				if _, err := f.api(t).Revoke(t.Context(), c.UUID, "Issued in error", ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := f.api(t).Revoke(t.Context(), late.UUID, "Issued in error", "", client.Notify(client.NotifyNever)); err != nil {
			t.Fatal(err)
		}
		eventually(t, mailTime, "the mail about the revocation", func() bool {
			return slices.Equal(notified(t, f.Vault), []string{"late@example.org", "told@example.org", "told@example.org"})
		})
		for _, l := range letters(t, f.Vault) {
			if revoked := strings.Contains(l.Subject, "was revoked"); revoked != strings.Contains(l.Text, "Issued in error") {
				t.Errorf("text of the mail %q = %s, want the reason only in mail about a revocation", l.Subject, l.Text)
			}
		}
	})
}
