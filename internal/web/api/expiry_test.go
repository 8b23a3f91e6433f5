package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// uploadExpiring uploads a certificate with a last day of validity, and returns its record.
func (v *vault) uploadExpiring(title, expiresOn string) map[string]any {
	v.tb.Helper()
	parts := []part{
		text("certificate_title", title), text("full_name", "Ada Obi"), text("applicant_email", "ada@example.org"), text("issue_date", "2020-01-31"),
		text("expires_on", expiresOn), pdfFile(samplePDF(0)),
	}
	a := v.post(form(v.tb, parts...))
	if a.Status != http.StatusCreated {
		v.tb.Fatalf("upload with the last day %s: status = %d, want 201; body %s", expiresOn, a.Status, a.Body)
	}
	return data(v.tb, a)
}

// listed returns the titles of the records of a list, sorted and separated by spaces.
func (v *vault) listed(path string) string {
	v.tb.Helper()
	var list []string
	for _, item := range v.get(path).json(v.tb)["data"].([]any) {
		list = append(list, item.(map[string]any)["certificate_title"].(string))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
		yesterday, today, tomorrow := day(-1), day(0), day(1)
		for title, expires := range map[string]string{"past": yesterday, "last": today, "soon": tomorrow, "late": "2119-01-01"} {
			made := v.uploadExpiring(title, expires)
			if made["expires_on"] != expires || made["expired"] != (title == "past") {
				t.Errorf("%s: expires_on = %v, expired = %v, want %s and %t", title, made["expires_on"], made["expired"], expires, title == "past")
			}
			general := data(t, v.get(fmt.Sprint("/business/certificates/", made["uuid"])))
			if general["expires_on"] != expires || general["expired"] != made["expired"] {
				t.Errorf("%s: in the general record, expires_on = %v, expired = %v, want the values of the vault record", title, general["expires_on"], general["expired"])
			}
		}
		if never := v.upload("diploma.pdf"); never["expires_on"] != nil || never["expired"] != false {
			t.Errorf("without a last day: expires_on = %v, expired = %v, want null and false", never["expires_on"], never["expired"])
		}
		for query, want := range map[string]string{
			"expired=true": "past", "expired=false": "BSc Physics 1 last late soon", "expires_from=" + today: "last late soon", "expires_to=" + today: "last past",
			"expires_from=" + today + "&expires_to=" + tomorrow: "last soon", "expired=true&expires_from=" + today: "", "expired=false&expires_to=" + tomorrow: "last soon", "expired=": "BSc Physics 1 last late past soon",
		} {
			for _, list := range []string{"/business/certificate-vault", "/business/certificates"} {
				if got := v.listed(list + "?" + query); got != want {
					t.Errorf("%s?%s: titles = %q, want %q", list, query, got, want)
				}
			}
		}
		for query, field := range map[string]string{"expired=yes": "expired", "expired=1": "expired", "expires_from=tomorrow": "expires_from", "expires_to=2026-02-30": "expires_to"} {
			for _, list := range []string{"/business/certificate-vault", "/business/certificates"} {
				if a := v.get(list + "?" + query); a.Status != http.StatusUnprocessableEntity || a.fields(t) != field {
					t.Errorf("%s?%s: status = %d, body %s, want 422 for %s", list, query, a.Status, a.Body, field)
				}
			}
		}
	})
}
