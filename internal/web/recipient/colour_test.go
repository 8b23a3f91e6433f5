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

// The institution's colour is above valid certificates only, on all pages for recipients, so that
// no colour contradicts the verdict.
func TestColourAboveCertificates(t *testing.T) {
	t.Parallel()
	h := newHall(t, 0)
	c := h.approved("ada@example.org", "BSc")
	h.Exec(`UPDATE institutions SET colour = '#1a237e'`)
	view, _ := h.mailed()
	w := h.post("/c/"+view+"/"+c.UUID+"/shares", "listed", "unlisted")
	shared := regexp.MustCompile(base + `(/s/[A-Z2-7]+)`).FindStringSubmatch(w.Body.String())
	if shared == nil {
		t.Fatalf("no link was created: %d", w.Code)
	}
	h.join()
	bands := func(w *httptest.ResponseRecorder) string {
		var fills []string
		for _, f := range fill.FindAllStringSubmatch(w.Body.String(), -1) {
			fills = append(fills, f[1])
		}
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "style=") {
			t.Errorf("%d %s", w.Code, w.Body.String())
		}
		return strings.Join(fills, " ")
	}
	pages := map[string]string{
		"the mailed link": "/c/" + view, "a link for others": shared[1], "the account": "/account", "the certificate in the account": "/account/certificates/" + c.UUID,
	}
	for name, path := range pages {
		if got := bands(h.get(path)); !regexp.MustCompile(`^#1a237e #[0-9a-f]{6}$`).MatchString(got) {
			t.Errorf("%s: by day and by night %q", name, got)
		}
	}
	h.Exec(`UPDATE certificate_checks SET result = 'failed' WHERE name = 'file'`)
	for _, name := range []string{"the mailed link", "a link for others", "the certificate in the account"} {
		if got := bands(h.get(pages[name])); got != "" {
			t.Errorf("%s of what did not pass a check: %q", name, got)
		}
	}
	h.Exec(`UPDATE certificates SET status = 'revoked', revoked_at = $1, revocation_reason = 'In error' WHERE id = $2`, db.Micros(time.Now()), c.ID)
	for name, path := range pages {
		if got := bands(h.get(path)); got != "" {
			t.Errorf("%s of what was revoked: %q", name, got)
		}
	}
}
