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
		taken, failed := o.upload(o.mine, "Ada Obi", "a.pdf"), o.upload(o.mine, "Ben Two", "refuse.pdf")
		o.upload(o.mine, "Cy Three", "c.pdf")
		o.settle()
		if _, err := o.panel.Certs.Revoke(t.Context(), o.mine.ID, taken.UUID, cert.Revocation{Reason: "Issued in error."}); err != nil {
			t.Fatal(err)
		}
		page := o.pathOf("settings/retention")
		kept := func() account.Retention {
			k, err := o.panel.Accounts.Retention(t.Context(), o.mine.ID)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		says(t, "first", o.get("admin", page), http.StatusOK, "Everything is kept for ever unless you say otherwise.")
		says(t, "too few", o.post("admin", page, url.Values{"keep_failed": {"29"}, "keep_mail": {"4000"}}), http.StatusUnprocessableEntity, "from 30 to 3653")
		says(t, "no number", o.post("admin", page, url.Values{"keep_failed": {"soon"}}), http.StatusUnprocessableEntity, "This must be a number of days")
		form := url.Values{"keep_failed": {"30"}, "keep_revoked": {"60"}, "keep_mail": {""}}
		o.Advance(31 * 24 * time.Hour)
		says(t, "asked", o.post("admin", page, form), http.StatusOK, "Let old data of Northern & Western University end?", "This would remove now, for good:",
			"1 failed certificate, older than 30 days", "No file of a revoked certificate now; later those of each after 60 days")
		form.Set("confirm", "northern")
		says(t, "wrong name", o.post("admin", page, form), http.StatusUnprocessableEntity, "Type the name of the institution")
		if kept() != (account.Retention{}) {
			t.Errorf("kept unconfirmed: %+v", kept())
		}
		form.Set("confirm", "Northern & Western University")
		says(t, "kept", o.redirects(t, "admin", o.post("admin", page, form), page), http.StatusOK, "The settings were kept.")
		if kept() != (account.Retention{Failed: 30, Revoked: 60}) || !o.recorded(audit.InstitutionChanged) {
			t.Errorf("kept %+v", kept())
		}
		// A change that shortens no retention period asks for no confirmation.
		o.redirects(t, "admin", o.post("admin", page, url.Values{"keep_failed": {"90"}, "keep_revoked": {"60"}}), page)
		o.redirects(t, "admin", o.post("admin", page, url.Values{"keep_revoked": {"60"}}), page)
		if kept() != (account.Retention{Revoked: 60}) {
			t.Errorf("kept %+v", kept())
		}
		o.Advance(30 * 24 * time.Hour)
		if err := o.panel.Certs.SweepExpired(t.Context()); err != nil {
			t.Fatal(err)
		}
		at := o.pathOf("certificates/" + taken.UUID)
		w := o.get("auditor", at)
		says(t, "ended", w, http.StatusOK, "The files ended", "The record and both digests stay", "Removed the files of a revoked certificate", "By Certvault", "Revoked on ")
		if hrefs := w.Body.String(); contains(hrefs, "/verified.pdf", "/original\"", "/page.png") {
			t.Error("files that have ended are offered")
		}
		for _, name := range []string{"/verified.pdf", "/original", "/page.png"} {
			says(t, name, o.get("auditor", at+name), http.StatusGone, "The files of this certificate have ended")
		}
		says(t, "failed stays", o.get("auditor", o.pathOf("certificates/"+failed.UUID)), http.StatusOK, "Ben Two")
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
