package recipient

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
)

func TestPortfolio(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	c, second := h.approvedCertificate("ada@example.org", "BSc"), h.approvedCertificate("ada@example.org", "MSc")
	const page = "/account/portfolio"
	if w := h.get(page); w.Code != http.StatusSeeOther {
		t.Errorf("without a sign-in: status = %d, want a redirect", w.Code)
	}
	h.signInToNewAccount()
	h.checkPage("before the first portfolio", h.get(page), http.StatusOK, "Create portfolio", `value="Ada"`, "Leave it empty for a random address.")
	for _, target := range []string{"", "/" + c.UUID + "/add"} {
		if w := h.send(http.MethodPost, page+target, "display_name=x", "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
			t.Errorf("a form of another site to %s%s: status = %d, want 403", page, target, w.Code)
		}
	}
	h.checkPage("an invalid address", h.post(page, "display_name", "Ada <i>Obi</i>", "slug", "x", "visible", "1"), http.StatusUnprocessableEntity, "This address is not available", `value="Ada &lt;i&gt;Obi`)
	if w := h.post(page, "display_name", "Ada <i>Obi</i>", "slug", "ada-obi", "visible", "1"); w.Code != http.StatusSeeOther {
		t.Fatalf("saving: status = %d, want a redirect; %s", w.Code, w.Body)
	}
	w := h.get(page)
	h.checkPage("the new portfolio", w, http.StatusOK, base+"/p/ada-obi", "No certificates chosen yet", "Add", "the old address stops working")
	if strings.Contains(w.Body.String(), "Leave it empty") {
		t.Error("the page offers a random address for an empty field, but SavePortfolio keeps the address")
	}
	for _, uuid := range []string{c.UUID, second.UUID} {
		if w := h.post(page + "/" + uuid + "/add"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != page+"#more" {
			t.Fatalf("adding: status = %d, Location = %q, want a redirect to the list", w.Code, w.Header().Get("Location"))
		}
	}
	if w := h.post(page + "/" + second.UUID + "/up"); w.Code != http.StatusSeeOther {
		t.Fatalf("moving: status = %d, want a redirect", w.Code)
	}
	session := h.person
	h.person = nil
	w = h.get("/p/ada-obi")
	h.checkPage("the public page", w, http.StatusOK, "Ada &lt;i&gt;Obi&lt;/i&gt;", "/verify/"+c.ReferenceID, "Issued to", "Valid", "University")
	if titles := regexp.MustCompile(`class="award"><bdi>([^<]*)`).FindAllStringSubmatch(w.Body.String(), -1); len(titles) != 2 || titles[0][1] != "MSc" || titles[1][1] != "BSc" {
		t.Errorf("the entries are %v, want MSc and BSc", titles)
	}
	if w.Header().Get("X-Robots-Tag") != "noindex" || w.Header().Get("Referrer-Policy") != "no-referrer" || strings.Contains(w.Body.String(), "example.org") {
		t.Errorf("the public page: header %v, want noindex and no-referrer, and no e-mail address in the page", w.Header())
	}
	for _, l := range []string{"es", "fr", "de", "pt", "ar", "hi", "zh"} {
		h.checkPage(l, h.get("/p/ada-obi?lang="+l), http.StatusOK, `lang="`+l+`"`)
	}
	h.Exec(`UPDATE certificates SET status = 'revoked', revoked_at = 1782900000000000, revocation_reason = 'In error' WHERE id = $1`, c.ID)
	h.checkPage("with a revoked certificate", h.get("/p/ada-obi"), http.StatusOK, "Revoked on", "Valid")
	if err := h.Accounts.SetPublic(t.Context(), h.inst.ID, account.Public{HideName: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(h.get("/p/ada-obi").Body.String(), "Issued to") {
		t.Error("the page shows the name on certificates although the institution hides names")
	}
	h.person = session
	if w := h.post(page, "display_name", "Ada", "slug", "ada-obi-2", "visible", "1", "listed", "1"); w.Code != http.StatusSeeOther {
		t.Fatalf("saving: status = %d, want a redirect", w.Code)
	}
	h.checkPage("the old address", h.get("/p/ada-obi"), http.StatusNotFound, "This link does not work")
	if w := h.get("/p/ada-obi-2"); w.Code != http.StatusOK || w.Header().Get("X-Robots-Tag") != "" {
		t.Errorf("the page for search engines: status = %d, X-Robots-Tag = %q, want 200 without noindex", w.Code, w.Header().Get("X-Robots-Tag"))
	}
	if w := h.post(page, "display_name", "Ada", "slug", "ada-obi-2"); w.Code != http.StatusSeeOther {
		t.Fatalf("switching off: status = %d, want a redirect", w.Code)
	}
	h.checkPage("switched off", h.get("/p/ada-obi-2"), http.StatusNotFound, "This link does not work")
}
