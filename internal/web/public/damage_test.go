package public

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
)

// A request for a damaged file fails, with a capability URL and with the link on the public page. The
// response to the first request states the reason. Then the public page shows that a check failed.
func TestDamagedFileIsNotSentToThePublic(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.setPublic(account.Public{AllowImage: true, AllowDownload: true})
		for i, part := range []string{"original", "tail"} {
			c := v.upload("BSc "+part, "Ada Obi", "diploma.pdf")
			v.Work(1)
			c, err := v.Certs.BySignedLink(t.Context(), c.UUID)
			if err != nil {
				t.Fatal(err)
			}
			capability, err := v.Links.File(c.UUID, web.PDFFile)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(capability)
			if err != nil {
				t.Fatal(err)
			}
			page := "/verify/" + c.ReferenceID
			public := page + "/certificate.pdf"
			for _, target := range []string{u.RequestURI(), public} {
				if w := v.get(target); w.Code != http.StatusOK || w.Body.String() != string(vaulttest.PDF)+tail {
					t.Fatalf("%s before the damage: status = %d, want 200 and the verified PDF", target, w.Code)
				}
			}
			key := c.File.Key
			if part == "tail" {
				key = c.Verified.TailKey
			}
			blobtest.Replace(t, v.Blobs, key, "another file")
			// The first request detects the damage. It uses the capability URL for the original, and the
			// public link for the tail.
			targets := []string{u.RequestURI(), public}
			first, second := targets[i], targets[1-i]
			const message = "The stored file is damaged or missing, so it cannot be shown. The fault was recorded for the operator. Please try again later."
			checkPage(t, part+": the first request", v.get(first), http.StatusInternalServerError, message)
			checkPage(t, part+": the page", v.get(page), http.StatusOK, "A check failed")
			if w := v.get(second); w.Code == http.StatusOK || strings.Contains(w.Body.String(), "another file") {
				t.Errorf("%s: the second request: status = %d, body %s, want an error without the file", part, w.Code, w.Body)
			}
			if w := v.getJSON(u.RequestURI()); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "The stored file is damaged or missing") {
				t.Errorf("%s as JSON: status = %d, body %s, want 500 and the reason", part, w.Code, w.Body)
			}
			checkPage(t, part+": in German", v.get(u.RequestURI()+"&lang=de"), http.StatusInternalServerError, "Die gespeicherte Datei ist beschädigt")
		}
	})
}
