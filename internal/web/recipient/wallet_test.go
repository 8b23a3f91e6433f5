package recipient

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
)

// A recipient can download a credential and add it to a wallet, in an account and with a mailed link.
// A recipient cannot use the certificate of another person.
func TestCredentialOfRecipient(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	c := h.approvedCertificate("ada@example.org", "BSc")
	link, _ := h.mailedSecrets()
	foreign := h.approvedCertificate("eve@example.org", "Other")
	h.signInToNewAccount()
	for _, base := range []string{"/account/certificates/" + c.UUID, "/c/" + link + "/" + c.UUID} {
		h.checkPage("the certificate", h.get(base), http.StatusOK, "Digital credential", base+"/credential?format=vc", base+"/credential?format=png", base+"/wallet", "issuer of the credential is this website")
		if w := h.get(base + "/credential?format=vc"); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/vc" || strings.Contains(w.Body.String(), "ada@example.org") {
			t.Errorf("%s: the credential: status = %d, want 200; header %v, want application/vc; the body must not contain the e-mail address", base, w.Code, w.Header())
		}
		h.checkPage("before the offer", h.get(base+"/wallet"), http.StatusOK, "We mail the code")
		w := h.post(base + "/wallet")
		cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != base+"/wallet" {
			t.Fatalf("%s: an offer: status = %d, want 303; header %v, want the Location %s/wallet", base, w.Code, w.Header(), base)
		}
		h.checkPage("the offer", h.send(http.MethodGet, base+"/wallet", "", "Cookie", cookie), http.StatusOK, "openid-credential-offer://", "<svg")
		h.checkPage("the offer in Arabic", h.send(http.MethodGet, base+"/wallet?lang=ar", "", "Cookie", cookie), http.StatusOK, "إضافة إلى محفظة")
	}
	h.checkPage("the credential of another person", h.get("/account/certificates/"+foreign.UUID+"/credential"), http.StatusNotFound)
	if w := h.post("/account/certificates/" + foreign.UUID + "/wallet"); w.Code != http.StatusNotFound {
		t.Errorf("an offer of another person's certificate: status = %d, want 404", w.Code)
	}
	if _, err := h.Certs.Revoke(t.Context(), h.inst.ID, c.UUID, cert.Revocation{Reason: "issued by mistake"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/credential", "/wallet"} {
		if w := h.get("/account/certificates/" + c.UUID + path); w.Code != http.StatusNotFound {
			t.Errorf("%s after the revocation: status = %d, want 404", path, w.Code)
		}
	}
}
