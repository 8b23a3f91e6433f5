package public

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// If the public can download the file of a certificate, it can also download the credential, and open the
// page that adds the credential to a wallet.
func TestPublicCredential(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.Settle()
	page, credential, wallet := "/verify/"+c.ReferenceID, "/verify/"+c.ReferenceID+"/credential", "/verify/"+c.ReferenceID+"/wallet"
	absent := func(when string) {
		t.Helper()
		for _, path := range []string{credential, wallet} {
			if w := v.get(path); w.Code != http.StatusNotFound {
				t.Errorf("%s: %s: status = %d, want 404", when, path, w.Code)
			}
		}
		if w := v.do(request(http.MethodPost, wallet)); w.Code != http.StatusNotFound {
			t.Errorf("%s: an offer: status = %d, want 404", when, w.Code)
		}
		if strings.Contains(v.get(page).Body.String(), "/credential") {
			t.Errorf("%s: the page offers the credential", when)
		}
	}
	absent("before the institution allows downloads")
	v.setPublic(account.Public{AllowDownload: true})
	for query, mediaType := range map[string]string{"": "application/vc", "?format=jwt": "application/vc+jwt", "?format=application/dc+sd-jwt": "application/dc+sd-jwt", "?format=png": "image/png", "?format=svg": "image/svg+xml"} {
		w := v.get(credential + query)
		if h := w.Header(); w.Code != http.StatusOK || h.Get("Content-Type") != mediaType || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") ||
			!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Cache-Control"), "private") {
			t.Errorf("the query %q: status = %d, header %v, want 200 with %s as an attachment, a sandbox and a private cache", query, w.Code, h, mediaType)
		}
	}
	if w := v.getJSON(credential); w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Body.String(), "OpenBadgeCredential") {
		t.Errorf("a request for JSON: header %v, want the credential as application/json", w.Header())
	}
	if text := textOf(t, v.get(page)); !strings.Contains(text, "The issuer of the credential is this website, vault.example .") {
		t.Errorf("the page does not say who the issuer is: %s", text)
	}

	foreign := request(http.MethodPost, wallet)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if w := v.do(foreign); w.Code != http.StatusForbidden {
		t.Errorf("an offer from another site: status = %d, want 403", w.Code)
	}
	w := v.do(request(http.MethodPost, wallet))
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != wallet || !strings.HasPrefix(cookie, "__Host-wallet=") {
		t.Fatalf("an offer: status = %d, header %v, want 303 to %s and a cookie", w.Code, w.Header(), wallet)
	}
	shown := request(http.MethodGet, wallet)
	shown.Header.Set("Cookie", cookie)
	if body := v.do(shown).Body.String(); !strings.Contains(body, `href="openid-credential-offer://?credential_offer_uri=https%3A%2F%2Fvault.example%2Finstitutions%2F`) || !strings.Contains(body, "<svg") {
		t.Error("the page does not have both a link to the wallet and a QR code")
	}
	if strings.Contains(v.get(wallet).Body.String(), "openid-credential-offer") {
		t.Error("the page shows the offer to a browser without the cookie")
	}
	for range 4 {
		v.do(request(http.MethodPost, wallet))
	}
	if w := v.do(request(http.MethodPost, wallet)); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "sent too often") {
		t.Errorf("the sixth offer: status = %d, want 429 and the reason", w.Code)
	}

	v.setPublic(account.Public{HideName: true})
	absent("with a hidden name")
	v.setPublic(account.Public{AllowDownload: true})
	v.revoke(c, "issued by mistake")
	absent("after the revocation")
	v.checkSecrets()
}
