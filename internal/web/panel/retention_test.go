package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		revoked, failed := o.upload(o.inst, "Ada Obi", "a.pdf"), o.upload(o.inst, "Ben Two", "refuse.pdf")
		o.upload(o.inst, "Cy Three", "c.pdf")
		o.processAll()
		if _, err := o.panel.Certs.Revoke(t.Context(), o.inst.ID, revoked.UUID, cert.Revocation{Reason: "Issued in error."}); err != nil {
			t.Fatal(err)
		}
		page := o.pathOf("settings/retention")
		saved := func() account.Retention {
			k, err := o.panel.Accounts.Retention(t.Context(), o.inst.ID)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		checkPage(t, "the initial settings", o.get("admin", page), http.StatusOK, "Data is kept indefinitely by default.")
		checkPage(t, "values outside the limits", o.post("admin", page, url.Values{"keep_failed": {"29"}, "keep_mail": {"4000"}}), http.StatusUnprocessableEntity, "from 30 to 3653")
		checkPage(t, "an invalid number", o.post("admin", page, url.Values{"keep_failed": {"soon"}}), http.StatusUnprocessableEntity, "Enter a number of days")
		form := url.Values{"keep_failed": {"30"}, "keep_revoked": {"60"}, "keep_mail": {""}}
		o.Advance(31 * 24 * time.Hour)
		checkPage(t, "the page that asks for confirmation", o.post("admin", page, form), http.StatusOK, "Delete old data of “ Northern & Western University ”?", "This data will be deleted permanently:",
			"Certificates whose last attempt failed more than 30 days ago 1", "Certificates revoked more than 60 days ago (only their files are deleted) 0")
		form.Set("confirm", "northern")
		checkPage(t, "a wrong confirmation", o.post("admin", page, form), http.StatusUnprocessableEntity, "Enter the name of the institution")
		if saved() != (account.Retention{}) {
			t.Errorf("saved retention periods = %+v, want none before the confirmation", saved())
		}
		form.Set("confirm", "Northern & Western University")
		checkPage(t, "saved settings", o.followRedirect(t, "admin", o.post("admin", page, form), page), http.StatusOK, "The settings were saved.")
		if saved() != (account.Retention{Failed: 30, Revoked: 60}) || !o.hasAuditEntry(audit.InstitutionChanged) {
			t.Errorf("saved retention periods = %+v, want 30 days for Failed, 60 days for Revoked, and an entry in the audit log", saved())
		}
		// A change that shortens no retention period needs no confirmation.
		o.followRedirect(t, "admin", o.post("admin", page, url.Values{"keep_failed": {"90"}, "keep_revoked": {"60"}}), page)
		o.followRedirect(t, "admin", o.post("admin", page, url.Values{"keep_revoked": {"60"}}), page)
		if saved() != (account.Retention{Revoked: 60}) {
			t.Errorf("saved retention periods = %+v, want only 60 days for Revoked", saved())
		}
		o.Advance(30 * 24 * time.Hour)
		if err := o.panel.Certs.SweepExpired(t.Context()); err != nil {
			t.Fatal(err)
		}
		at := o.pathOf("certificates/" + revoked.UUID)
		w := o.get("auditor", at)
		checkPage(t, "a certificate whose files were deleted", w, http.StatusOK, "The files were deleted", "The record and the SHA-256 fingerprints of both files remain", "Files deleted after their retention period", "By Certvault", "Revoked on ")
		if body := w.Body.String(); contains(body, "/verified.pdf", "/original\"", "/page.png") {
			t.Error("the page links to deleted files")
		}
		for _, name := range []string{"/verified.pdf", "/original", "/page.png"} {
			checkPage(t, name, o.get("auditor", at+name), http.StatusGone, "The files of this certificate are no longer available")
		}
		checkPage(t, "a failed certificate", o.get("auditor", o.pathOf("certificates/"+failed.UUID)), http.StatusOK, "Ben Two")
	})
}

// contains reports whether a text contains any of the parts.
func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
