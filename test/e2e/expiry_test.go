//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// expiryTime is the maximum wait for the periodic task that finds expired certificates.
const expiryTime = 75 * time.Second

// TestExpiry uploads a certificate that has expired, one that expires soon, and one that expires later.
// Each event is created once, even if the vault is killed and restarted. Only the recipient of the
// certificate that expires soon gets a reminder.
func TestExpiry(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database, "--webhook-allow", "127.0.0.1")
		r := receive(t, func(w http.ResponseWriter, _ *vault.Delivered) { _, _ = fmt.Fprint(w, "thank you") })
		f.endpoint(t, r)
		day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
		past := f.upload(t, form("Past Person").With("issue_date", "2020-01-31").With("expires_on", day(-1)))
		soon := f.upload(t, form("Soon Person").With("expires_on", day(10)))
		late := f.upload(t, form("Late Person").With("expires_on", day(100)))
		for _, c := range []*client.VaultCertificate{past, soon, late} {
			f.await(t, c.UUID, "approved")
		}
		has := func(c *client.VaultCertificate, name string) bool { return events(t, r, c.UUID)[name] != nil }
		eventually(t, expiryTime, "both events have arrived", func() bool { return has(past, "expired") && has(soon, "expiring") })
		eventually(t, expiryTime, "the reminder is in the outbox", func() bool { return reminders(t, f) == mailbox("Soon Person") })
		f.Kill()
		f.restart(t)
		seen, err := f.api(t).Verify(t.Context(), past.ReferenceID)
		if err != nil || seen.Status != "expired" || seen.ExpiresOn == nil || *seen.ExpiresOn != day(-1) {
			t.Errorf("public record = %+v, error %v; want the status expired and expires_on = %s", seen, err, day(-1))
		}
		for c, want := range map[*client.VaultCertificate]string{past: "Expired on ", soon: "This certificate is valid"} {
			if status, _, page := visit(t, f, http.MethodGet, "/verify/"+c.ReferenceID, ""); status != http.StatusOK || !bytes.Contains(page, []byte(want)) {
				t.Errorf("page of %s: status = %d, want 200 and a page with %q", c.FullName, status, want)
			}
		}
		var expired []string
		for c, err := range f.api(t).VaultCertificates(t.Context(), client.VaultFilter{Expired: "true"}) {
			if err != nil {
				t.Fatal(err)
			}
			if expired = append(expired, c.FullName); !c.Expired || c.Status.Value != client.Approved {
				t.Errorf("record of %s: expired = %t, status = %s; want true and approved", c.FullName, c.Expired, c.Status.Value)
			}
		}
		if strings.Join(expired, ", ") != "Past Person" {
			t.Errorf("people with expired certificates = %v, want only Past Person", expired)
		}
		if has(past, "expiring") || has(soon, "expired") || has(late, "expiring") || has(late, "expired") {
			t.Error("an event about an expiry was sent before it was due")
		}
		d := f.database(t)
		if n := count(t, d, `SELECT count(*) FROM webhook_events WHERE name IN ('certificate_application.expiring', 'certificate_application.expired')`); n != 2 {
			t.Errorf("got %d events about expiries, want 2", n)
		}
	})
}

// reminders returns the addresses of the reminders in the outbox.
func reminders(t *testing.T, f *fixture) string {
	t.Helper()
	var to []string
	for _, l := range letters(t, f.Vault) {
		if strings.Contains(l.Subject, "expires on") {
			to = append(to, l.To)
		}
	}
	return strings.Join(to, " ")
}
