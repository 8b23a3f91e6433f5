package panel

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestExpiryInPanel(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		day := func(n int) string { return o.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
		set := func(name string, n int) *cert.Certificate {
			c := o.upload(o.inst, name, "a.pdf")
			o.Exec(`UPDATE certificates SET expires_on = $1 WHERE id = $2`, day(n), c.ID)
			return c
		}
		past, today, soon := set("Past Person", -1), set("Today Person", 0), set("Soon Person", 30)
		set("Late Person", 31)
		o.upload(o.inst, "Never Person", "a.pdf")
		list := o.pathOf("certificates")
		checkPage(t, "before the approval", o.get("issuer", o.pathOf("certificates/"+past.UUID)), http.StatusOK, "Processing", "Valid through")
		o.processAll()

		w := o.get("issuer", strings.TrimSuffix(o.pathOf(""), "/"))
		checkPage(t, "the dashboard", w, http.StatusOK, "2 certificates expire in the next 30 days")
		names := func(query string) (found string) {
			text := visibleText(t, o.get("issuer", list+query))
			for _, name := range []string{"Past", "Today", "Soon", "Late", "Never"} {
				if strings.Contains(text, name+" Person") {
					found += name + " "
				}
			}
			return strings.TrimSpace(found)
		}
		linked := html.UnescapeString(o.linkTo(w, "2 certificates expire in the next 30 days"))
		for query, want := range map[string]string{
			strings.TrimPrefix(linked, list): "Today Soon", "?expired=true": "Past", "?expired=false": "Today Soon Late Never", "?expires_from=" + day(30): "Soon Late", "?expires_to=" + day(30): "Past Today Soon",
			"?expired=perhaps": "Past Today Soon Late Never",
		} {
			if got := names(query); got != want {
				t.Errorf("the list %s shows %q, want %q", query, got, want)
			}
		}
		checkPage(t, "a date that does not exist", o.get("issuer", list+"?expires_from=2026-02-30"), http.StatusUnprocessableEntity, "date")
		checkPage(t, "the filters", o.get("issuer", list+"?expired=true&expires_to="+day(5)), http.StatusOK, "Expiry: Expired", "Expires on or before: "+day(5), "Past Person")
		checkPage(t, "an expired certificate", o.get("issuer", o.pathOf("certificates/"+past.UUID)), http.StatusOK, "Approved", "Expired", "Its public page says that it has expired.", "Expired on", "Certificate is not revoked Yes")
		for _, c := range []*cert.Certificate{today, soon} {
			checkPage(t, "a certificate that expires soon", o.get("issuer", o.pathOf("certificates/"+c.UUID)), http.StatusOK, "After that day, its public page says that it has expired.")
		}
		w = o.get("issuer", list+"?layout=1&rows=25&columns=expires")
		if body := o.followRedirect(t, "issuer", w, list).Body.String(); !strings.Contains(body, `<td class="c-expires"><time datetime="`+day(31)+`">`) {
			t.Error("the column of the expiry does not show the last day of validity of Late Person")
		}
	})
}

func TestExpirySettings(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	page, form := o.pathOf("settings/mail"), o.pathOf("settings/mail/expiry")
	checkPage(t, "the initial settings", o.get("admin", page), http.StatusOK, "Certificates that expire", "Days before the expiry")
	for _, bad := range []string{"0", "366", "soon", ""} {
		checkPage(t, "the days "+bad, o.post("admin", form, url.Values{"expiry_days": {bad}}), http.StatusUnprocessableEntity, "number of days")
	}
	o.followRedirect(t, "admin", o.post("admin", form, url.Values{"expiry_days": {"45"}}), page)
	if e, err := o.Accounts.Expiry(t.Context(), o.inst.ID); err != nil || e != (account.Expiry{ExpiryDays: 45}) {
		t.Errorf("settings = %+v, error %v; want 45 days without mail", e, err)
	}
	if body := o.get("admin", page).Body.String(); !strings.Contains(body, `value="45"`) || strings.Contains(body, `name="expiry_mail" value="1" checked`) {
		t.Error("the page does not show the saved settings, which are 45 days without mail")
	}
}
