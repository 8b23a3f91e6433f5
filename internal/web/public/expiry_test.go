package public

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestExpiredCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.setPublic(account.Public{AllowImage: true, AllowDownload: true})
		set := func(c *cert.Certificate, days int) string {
			day := v.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly)
			v.Exec(`UPDATE certificates SET expires_on = $1 WHERE id = $2`, day, c.ID)
			return day
		}
		past, last, withdrawn := v.upload("Past", "Ada Obi", "diploma.pdf"), v.upload("Last", "Ada Obi", "diploma.pdf"), v.upload("Withdrawn", "Ada Obi", "diploma.pdf")
		v.Work(3)
		v.revoke(withdrawn, "Issued by mistake")
		yesterday, today := set(past, -1), set(last, 0)
		set(withdrawn, -1)
		status := func(c *cert.Certificate) (status, expires string) {
			var body struct{ Data map[string]any }
			if err := json.Unmarshal(v.getJSON("/verify/"+c.ReferenceID).Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			status, _ = body.Data["status"].(string)
			expires, _ = body.Data["expires_on"].(string)
			return status, expires
		}
		for c, want := range map[*cert.Certificate][2]string{past: {"expired", yesterday}, last: {"valid", today}, withdrawn: {"revoked", yesterday}} {
			if s, expires := status(c); s != want[0] || expires != want[1] {
				t.Errorf("%s: status = %s, expires_on = %s, want %v", c.Title, s, expires, want)
			}
		}
		day, err := time.Parse(time.DateOnly, yesterday)
		if err != nil {
			t.Fatal(err)
		}
		w := v.get("/verify/" + past.ReferenceID)
		checkPage(t, "expired", w, http.StatusOK, "Expired on "+day.Format("2 January 2006"), "It was valid through that day (UTC) and has not been revoked.", "Valid through", "Download", "Issuer’s record : not revoked")
		if text := textOf(t, w); strings.Contains(text, "This certificate is valid") || !strings.Contains(w.Body.String(), `class="verdict expired"`) {
			t.Errorf("the page of an expired certificate says that it is valid, or does not have the class of the verdict expired: %s", text)
		}
		checkPage(t, "the last day", v.get("/verify/"+last.ReferenceID), http.StatusOK, "This certificate is valid", "Valid through", "Issuer’s record : valid")
		checkPage(t, "revoked", v.get("/verify/"+withdrawn.ReferenceID), http.StatusOK, "Revoked on", "Issued by mistake")
		checkPage(t, "in German", v.get("/verify/"+past.ReferenceID+"?lang=de"), http.StatusOK, "Abgelaufen am", "Gültig bis")
		for _, path := range []string{"/certificate.pdf", "/image.png", "/card.png"} {
			if w := v.get("/verify/" + past.ReferenceID + path); w.Code != http.StatusOK {
				t.Errorf("%s of an expired certificate: status = %d, want 200", path, w.Code)
			}
		}
	})
}
