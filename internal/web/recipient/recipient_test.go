package recipient

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
)

// TestTemplates checks that all templates of this package can be loaded.
func TestTemplates(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	if err := h.site.Check(); err != nil {
		t.Error(err)
	}
}

func TestMailLinkShowsCertificateAndFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	c, other := h.approvedCertificate("ada@example.org", "BSc"), h.approvedCertificate("eve@example.org", "Other")
	if err := h.Recipients.Resend(t.Context(), h.inst.ID, c.UUID, nil); err != nil {
		t.Fatal(err)
	}
	view, _ := h.mailedSecrets()
	w := h.get("/c/" + view)
	h.checkPage("a valid certificate", w, http.StatusOK, "This certificate is valid", "BSc", "30 June 2026", "/sign-up?email=ada%40example.org&amp;next=%2Faccount", "issueMonth=6", "issueYear=2026")
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Robots-Tag": "noindex", "Set-Cookie": ""} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the content security policy lacks default-src 'none' or contains unsafe: %s", policy)
	}
	if w.Body.Len() > 15<<10 {
		t.Errorf("the page has %d bytes, want at most 15 KB", w.Body.Len())
	}
	for _, l := range []string{"es", "fr", "de", "pt", "ar", "hi", "zh"} {
		h.checkPage(l, h.get("/c/"+view+"?lang="+l), http.StatusOK, `lang="`+l+`"`)
	}
	h.checkPage("an unknown link", h.get("/c/ABCDEFGHIJKLMNOPQRSTUVWXYZ"), http.StatusNotFound, "This link does not work")
	h.checkPage("another certificate", h.get("/c/"+view+"/"+other.UUID), http.StatusNotFound, "This link does not work")
	for file, want := range map[string]string{"certificate.pdf": string(vaulttest.PDF) + certtest.Tail, "original": string(vaulttest.PDF)} {
		w := h.get("/c/" + view + "/" + c.UUID + "/" + file)
		if w.Body.String() != want || w.Code != http.StatusOK || w.Header().Get("Content-Security-Policy") != web.StyledFilePolicy || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: status = %d, body %q, header %v; want 200, the stored file, the sandbox policy and nosniff", file, w.Code, w.Body.String(), w.Header())
		}
	}
	if w := h.get("/c/" + view + "/" + c.UUID + "/tail"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown file: status = %d, want 404", w.Code)
	}
	h.Exec(`UPDATE certificate_checks SET result = 'failed' WHERE name = 'file'`)
	h.checkPage("a failed check", h.get("/c/"+view), http.StatusOK, "A check failed")
	h.Exec(`UPDATE certificate_checks SET result = 'not_run' WHERE name = 'file'`)
	h.checkPage("a check that did not run", h.get("/c/"+view), http.StatusOK, "The stored file could not be checked at the moment")
	h.Exec(`UPDATE certificates SET status = 'revoked', revoked_at = $1, revocation_reason = 'In error' WHERE id = $2`, db.Micros(time.Now()), c.ID)
	w = h.get("/c/" + view)
	h.checkPage("a revoked certificate", w, http.StatusOK, "Revoked on", "In error", "Signed and published on")
	if strings.Contains(w.Body.String(), "not been revoked") {
		t.Error("the page says that a revoked certificate has not been revoked")
	}
	for _, file := range []string{"certificate.pdf", "original", "image.png"} {
		if w := h.get("/c/" + view + "/" + c.UUID + "/" + file); w.Code != http.StatusNotFound {
			t.Errorf("%s after the revocation: status = %d, want 404", file, w.Code)
		}
	}
	if strings.Contains(h.log.String(), view) || strings.Contains(h.log.String(), "example.org") {
		t.Errorf("the log contains the link or an address: %s", h.log.String())
	}
}

// TestOnlySameSiteFormsChangeAnything checks that GET requests create and delete no records, and that forms
// of other sites are refused.
func TestOnlySameSiteFormsChangeAnything(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	c := h.approvedCertificate("ada@example.org", "BSc")
	view, unsubscribe := h.mailedSecrets()
	h.signInToNewAccount()
	h.recent = true
	state := func() string {
		var b strings.Builder
		for _, table := range []string{"shares", "corrections", "unsubscribes", "allowances", "users", "mails", "mail_links", "notices"} {
			var n int
			if err := h.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
				t.Fatal(err)
			}
			b.WriteString(table + " " + string(rune('0'+n)) + " ")
		}
		return b.String()
	}
	before := state()
	for _, target := range []string{
		"/c/" + view, "/c/" + view + "/" + c.UUID, "/unsubscribe/" + unsubscribe, "/account", "/account/certificates/" + c.UUID, "/account/export", "/account/delete",
		"/account/deleted",
	} {
		for range 2 {
			if w := h.get(target); w.Code != http.StatusOK {
				t.Errorf("GET %s: status = %d, want 200", target, w.Code)
			}
		}
	}
	forms := map[string]string{
		"/c/" + view + "/" + c.UUID + "/shares": "label=x", "/c/" + view + "/" + c.UUID + "/correction": "text=x", "/account/certificates/" + c.UUID + "/shares": "label=x",
		"/account/delete": "confirm=ada@example.org", "/account/export": "",
	}
	for target, body := range forms {
		if w := h.send(http.MethodPost, target, body, "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
			t.Errorf("%s from another site: status = %d, want 403", target, w.Code)
		}
		if w := h.get(target); target != "/account/delete" && target != "/account/export" && w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusNotFound {
			t.Errorf("GET %s: status = %d, want 404 or 405", target, w.Code)
		}
	}
	if got := state(); got != before {
		t.Errorf("the numbers of records changed from %s to %s, want no change", before, got)
	}
}

// TestMailLinkOfClaimedCertificate checks the page of the mailed link to a certificate that already belongs
// to an account. The page has a link to sign in. It has no link to sign up, because a new account would not
// get the certificate. The owner of the account can end the mailed link.
func TestMailLinkOfClaimedCertificate(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	foreign, c := h.approvedCertificate("eve@example.org", "Other"), h.approvedCertificate("ada@example.org", "BSc")
	view, _ := h.mailedSecrets()
	h.checkPage("an unclaimed certificate", h.get("/c/"+view), http.StatusOK, "Create an account with", "/sign-up?email=ada%40example.org")
	h.signInToNewAccount()
	ada := h.person
	h.person = nil
	w := h.get("/c/" + view)
	h.checkPage("a claimed certificate", w, http.StatusOK, "already in an account", `href="/sign-in?next=%2Faccount"`)
	if strings.Contains(w.Body.String(), "/sign-up") {
		t.Error("the page has a link to sign up")
	}
	certificatePath := "/account/certificates/" + c.UUID
	if w := h.post(certificatePath + "/mailed/end"); w.Header().Get("Location") != "/sign-in" {
		t.Errorf("ending the mailed link without a sign-in: status = %d, want a redirect to the sign-in", w.Code)
	}
	h.checkPage("the mailed link after the refused attempt to end it", h.get("/c/"+view), http.StatusOK, "BSc")
	h.person = ada
	if w := h.post("/account/certificates/" + foreign.UUID + "/mailed/end"); w.Code != http.StatusNotFound {
		t.Errorf("ending the link of another person: status = %d, want 404", w.Code)
	}
	h.checkPage("the form to end the link", h.get(certificatePath), http.StatusOK, "Turn off the mailed link")
	if w := h.post(certificatePath + "/mailed/end"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != certificatePath {
		t.Errorf("ending the link: status = %d, want 303 to the certificate: %s", w.Code, w.Body.String())
	}
	for _, path := range []string{"/c/" + view, "/c/" + view + "/" + c.UUID + "/original"} {
		if w := h.get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s after the link was ended: status = %d, want 404", path, w.Code)
		}
	}
	if strings.Contains(h.get(certificatePath).Body.String(), "Turn off the mailed link") {
		t.Error("the page still has the form to end the link")
	}
}

func TestShareLinkShowsOnlyPublicData(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	c := h.approvedCertificate("ada@example.org", "BSc")
	foreign, own := h.approvedCertificate("eve@example.org", "Other"), h.approvedCertificate("ada@example.org", "MSc")
	h.signInToNewAccount()
	certificatePath := "/account/certificates/" + c.UUID
	h.Exec(`UPDATE certificates SET details = 'With a note' WHERE id = $1`, c.ID)
	h.checkPage("the person's own certificate", h.get(certificatePath), http.StatusOK, "With a note")
	h.checkPage("the certificate of another person", h.get("/account/certificates/"+foreign.UUID), http.StatusNotFound, "Page not found", "signed in to another account")
	if w := h.post("/account/certificates/"+foreign.UUID+"/shares", "label", "x"); w.Code != http.StatusNotFound {
		t.Errorf("sharing the certificate of another person: status = %d, want 404", w.Code)
	}
	h.checkPage("a day in the past", h.post(certificatePath+"/shares", "label", "kept", "expires", "2020-01-01"), http.StatusUnprocessableEntity,
		"Enter a date from today on", `href="#expires"`, `value="kept"`, `aria-invalid="true"`)
	h.checkPage("a problem in German", h.post(certificatePath+"/shares?lang=de", "expires", "x"), http.StatusUnprocessableEntity, "Geben Sie ein Datum ab heute")
	for n := range 100 {
		h.Exec(`INSERT INTO shares (uuid, certificate_id, hash, label, listed, created_at) VALUES ($1, $2, $3, 'many', FALSE, 0)`,
			uuid.NewString(), c.ID, fmt.Appendf(nil, "%032d", n))
	}
	h.checkPage("too many links", h.post(certificatePath+"/shares"), http.StatusBadRequest, "maximum number of share links")
	h.Exec(`DELETE FROM shares WHERE label = 'many'`)
	link := regexp.MustCompile(`href="https://vault\.example(/s/[A-Z2-7]{26})"`)
	var links []string
	for _, listed := range []string{"unlisted", "public"} {
		// The response redirects to the page, and has a cookie with the secret. The page shows the new link
		// and deletes the cookie, so that a reload does not show the link again.
		w := h.post(certificatePath+"/shares", "label", "for <b>them</b>", "listed", listed)
		cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != certificatePath || !strings.HasPrefix(cookie, "__Host-share=") {
			t.Fatalf("creating a share link: status = %d, headers %v; want 303, the page and a cookie", w.Code, w.Header())
		}
		if body := h.send(http.MethodGet, "/account/certificates/"+own.UUID, "", "Cookie", cookie).Body.String(); strings.Contains(body, "Copy it now") {
			t.Error("the page of another certificate shows the new link")
		}
		w = h.send(http.MethodGet, certificatePath, "", "Cookie", cookie)
		h.checkPage("a new share link", w, http.StatusOK, "Copy it now", "for &lt;b&gt;them&lt;/b&gt;")
		if deleted := w.Header().Get("Set-Cookie"); !strings.Contains(deleted, "__Host-share=;") || !strings.Contains(deleted, "Max-Age=0") {
			t.Errorf("after the page showed the link, Set-Cookie = %q, want the deletion of the cookie", deleted)
		}
		links = append(links, link.FindStringSubmatch(w.Body.String())[1])
	}
	h.person = nil // visitors of a share link are not signed in
	for i, path := range links {
		w := h.get(path)
		h.checkPage("a shared certificate", w, http.StatusOK, "This certificate is valid", "BSc")
		if indexed := w.Header().Get("X-Robots-Tag") == "" && !strings.Contains(w.Body.String(), `content="noindex"`); indexed != (i == 1) || w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("share link %d: header %v, want noindex except for link 1, and no-referrer", i, w.Header())
		}
		if strings.Contains(w.Body.String(), "example.org") || strings.Contains(w.Body.String(), "/original") || strings.Contains(w.Body.String(), "With a note") {
			t.Errorf("share link %d shows the e-mail address, the details or the original", i)
		}
		if w := h.get(path + "/certificate.pdf"); w.Code != http.StatusOK || w.Body.String() != string(vaulttest.PDF)+certtest.Tail {
			t.Errorf("the file of share link %d: status = %d, want 200 and the verified PDF", i, w.Code)
		}
		if w := h.get(path + "/original"); w.Code != http.StatusNotFound {
			t.Errorf("the original of share link %d: status = %d, want 404", i, w.Code)
		}
	}
	for _, target := range []string{"/account", certificatePath, certificatePath + "/certificate.pdf", "/account/export", "/account/delete"} {
		if w := h.get(target); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sign-in" {
			t.Errorf("%s for a signed-out visitor: status = %d, want a redirect to the sign-in", target, w.Code)
		}
	}
}

func TestWalletHasPagesAndFilters(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.signInToNewAccount()
	h.checkPage("an empty list", h.get("/account"), http.StatusOK, "No certificates yet", "ada@example.org")
	h.approvedCertificate("ada@example.org", "BSc")
	for i := range recipient.WalletPage {
		h.approvedCertificate("ada@example.org", "Course "+string(rune('A'+i)))
	}
	h.checkPage("the first page", h.get("/account"), http.StatusOK, "Certificates: 25", "Page 1 of 2", "page=2")
	h.checkPage("the second page", h.get("/account?page=2"), http.StatusOK, "BSc", "Page 2 of 2")
	h.checkPage("a page after the last page", h.get("/account?page=9"), http.StatusOK, "BSc", "Page 2 of 2", "page=1")
	h.checkPage("a filter", h.get("/account?search=course+b&status=approved&institution=nwu"), http.StatusOK, "Certificates: 1", "Course B", `value="course b"`)
	h.checkPage("a filter that finds nothing", h.get("/account?search=no+such+course"), http.StatusOK, "No certificates match your search", "Show all")
	for _, q := range []string{"?page=x", "?page=-1", "?status=failed", "?page=1&page=2"} {
		h.checkPage(q, h.get("/account"+q), http.StatusOK, "Certificates: 25")
	}
	h.checkPage("a long search text", h.get("/account?search="+strings.Repeat("x", 300)), http.StatusUnprocessableEntity, "the search text is too long",
		`value="`+strings.Repeat("x", 300)+`"`)
	h.post("/account/portfolio", "display_name", "Ada", "slug", "ada-obi")
	h.checkPage("a page of the portfolio", h.get("/account/portfolio?page=2"), http.StatusOK, "BSc", "Page 2 of 2")
	h.checkPage("a page of the portfolio after the last page", h.get("/account/portfolio?page=9"), http.StatusOK, "BSc", "Page 2 of 2", "page=1")
}

func TestExportAndDeleteAccount(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.approvedCertificate("ada@example.org", "BSc")
	h.signInToNewAccount()
	for target, form := range map[string]string{"/account/delete": "confirm=ada@example.org", "/account/export": ""} {
		if w := h.send(http.MethodPost, target, form, "Sec-Fetch-Site", "same-origin"); w.Header().Get("Location") != "/account/confirm" {
			t.Errorf("%s without a recent sign-in: status = %d, want a redirect to the confirmation", target, w.Code)
		}
	}
	h.recent = true
	w := h.post("/account/export")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/zip" || !strings.HasPrefix(w.Body.String(), "PK") {
		t.Errorf("the export: status = %d, want 200 and a ZIP file; header %v", w.Code, w.Header())
	}
	h.checkPage("the page that asks for confirmation", h.get("/account/delete"), http.StatusOK, "Your certificates (1)", "ada@example.org", "Your portfolio is deleted.", "Your open applications are withdrawn.")
	h.checkPage("the wrong address", h.post("/account/delete", "confirm", "eve@example.org"), http.StatusUnprocessableEntity, "This is not the address")
	w = h.post("/account/delete", "confirm", " ADA@example.org ")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/account/deleted" {
		t.Errorf("deleting the account: status = %d, want 303 to /account/deleted: %s", w.Code, w.Body.String())
	}
	var n int
	if err := h.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM users`).Scan(&n); err != nil || n != 0 {
		t.Errorf("got %d accounts after the deletion, want 0; error %v", n, err)
	}
}

func TestDamagedFileIsNotSentToItsRecipient(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	c := h.approvedCertificate("ada@example.org", "BSc")
	view, _ := h.mailedSecrets()
	if err := h.Blobs.Delete(t.Context(), c.File.Key); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"certificate.pdf", "original", "image.png"} {
		w := h.get("/c/" + view + "/" + c.UUID + "/" + file)
		h.checkPage(file, w, http.StatusInternalServerError, "The stored file is damaged or missing, so it cannot be shown.")
	}
	h.checkPage("the page", h.get("/c/"+view), http.StatusOK, "A check failed")
}

func TestUnsubscribeAndResume(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	h.approvedCertificate("ada@example.org", "BSc")
	_, link := h.mailedSecrets()
	h.checkPage("the page of the link", h.get("/unsubscribe/"+link), http.StatusOK, "Unsubscribe", "ada@example.org")
	// The request of a mail program has no cookie (RFC 8058, 3.1) and no Origin.
	h.checkPage("one click", h.send(http.MethodPost, "/unsubscribe/"+link, "List-Unsubscribe=One-Click"), http.StatusOK, "You are unsubscribed")
	h.checkPage("after unsubscribing", h.get("/unsubscribe/"+link), http.StatusOK, "You are unsubscribed")
	h.checkPage("resuming mail", h.post("/unsubscribe/"+link, "again", "1"), http.StatusOK, "Unsubscribe")
	h.checkPage("an unknown link", h.post("/unsubscribe/X"), http.StatusNotFound, "This link does not work")
}

func TestBounceHookChecksTokenAndReport(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	const token = "Bearer 0123456789abcdef"
	for name, tc := range map[string]struct {
		path, auth, kind, body string
		status                 int
	}{
		"no token":                 {"", "", "application/json", `{}`, http.StatusUnauthorized},
		"a wrong token":            {"", token + "0", "application/json", `{}`, http.StatusUnauthorized},
		"an unknown address":       {"", token, "application/json", `{"recipient":"x@y.example","status":"5.1.1"}`, http.StatusUnprocessableEntity},
		"the token in the path":    {"/0123456789abcdef", "", "application/json", `{"recipient":"x@y.example","status":"5.1.1"}`, http.StatusUnprocessableEntity},
		"invalid JSON":             {"", token, "application/json", `{`, http.StatusBadRequest},
		"a mail that is no report": {"", token, "message/rfc822", "To: a@b.example\r\n\r\nhello", http.StatusUnprocessableEntity},
		"a large report":           {"", token, "message/rfc822", strings.Repeat("x", maxReport+1), http.StatusRequestEntityTooLarge},
	} {
		if w := h.send(http.MethodPost, "/hooks/bounce"+tc.path, tc.body, "Authorization", tc.auth, "Content-Type", tc.kind); w.Code != tc.status {
			t.Errorf("%s: status = %d, want %d: %s", name, w.Code, tc.status, w.Body.String())
		}
	}
	if strings.Contains(h.log.String(), "0123456789abcdef") {
		t.Error("the log contains the token")
	}
}

func TestRequestsOfAnAddressAreLimited(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 3)
	for i := range 5 {
		w := h.get("/c/GUESS")
		if want := map[bool]int{true: http.StatusNotFound, false: http.StatusTooManyRequests}[i < 3]; w.Code != want {
			t.Errorf("request %d: status = %d, want %d", i+1, w.Code, want)
		}
	}
}
