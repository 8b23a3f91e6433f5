package recipient

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
)

var fill = regexp.MustCompile(`<rect class="(?:day|night)"[^>]* fill="(#[0-9a-f]{6})"`)

// TestColourAboveCertificates checks that pages show the institution's colour above a valid certificate. It
// checks that no page shows the colour above a revoked certificate. The pages of one certificate must not
// show it after a failed check either.
func TestColourAboveCertificates(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	c := h.approvedCertificate("ada@example.org", "BSc")
	h.Exec(`UPDATE institutions SET colour = '#1a237e'`)
	view, _ := h.mailedSecrets()
	w := h.post("/c/"+view+"/"+c.UUID+"/shares", "listed", "unlisted")
	made := regexp.MustCompile(`__Host-share=([A-Z2-7]+)`).FindStringSubmatch(w.Header().Get("Set-Cookie"))
	if made == nil {
		t.Fatalf("no share link was created: status = %d, want a cookie with its secret", w.Code)
	}
	h.signInToNewAccount()
	bands := func(w *httptest.ResponseRecorder) string {
		var fills []string
		for _, f := range fill.FindAllStringSubmatch(w.Body.String(), -1) {
			fills = append(fills, f[1])
		}
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "style=") {
			t.Errorf("status = %d, want 200 and no inline style: %s", w.Code, w.Body.String())
		}
		return strings.Join(fills, " ")
	}
	pages := map[string]string{
		"the mailed link": "/c/" + view, "the share link": "/s/" + made[1], "the account": "/account", "the certificate in the account": "/account/certificates/" + c.UUID,
	}
	for name, path := range pages {
		if got := bands(h.get(path)); !regexp.MustCompile(`^#1a237e #[0-9a-f]{6}$`).MatchString(got) {
			t.Errorf("%s: the colours of the band are %q, want #1a237e and a second colour", name, got)
		}
	}
	h.Exec(`UPDATE certificate_checks SET result = 'failed' WHERE name = 'file'`)
	for _, name := range []string{"the mailed link", "the share link", "the certificate in the account"} {
		if got := bands(h.get(pages[name])); got != "" {
			t.Errorf("%s: a certificate with a failed check has the band %q, want none", name, got)
		}
	}
	h.Exec(`UPDATE certificates SET status = 'revoked', revoked_at = $1, revocation_reason = 'In error' WHERE id = $2`, db.Micros(time.Now()), c.ID)
	for name, path := range pages {
		if got := bands(h.get(path)); got != "" {
			t.Errorf("%s: a revoked certificate has the band %q, want none", name, got)
		}
	}
}
