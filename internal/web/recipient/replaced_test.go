package recipient

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/vaulttest"
)

// replace replaces a certificate, and waits until the replacement is approved and the mail about it is sent.
// email is the address of the replacement. If it is empty, the address stays the same.
func (h *harness) replace(old *cert.Certificate, email string) *cert.Certificate {
	h.t.Helper()
	text := old.Text()
	if email != "" {
		text.Email = email
	}
	var c *cert.Certificate
	content := strings.NewReader(string(vaulttest.PDF) + "% a replacement of " + old.UUID)
	if err := h.Certs.Receive(h.t.Context(), h.inst.UUID, cert.NewIncoming("better.pdf", content), func(f *cert.File) (err error) {
		c, err = h.Certs.Replace(h.t.Context(), old.UUID, cert.Upload{
			Institution: h.inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload,
			Title: text.Title, FullName: text.FullName, Email: text.Email, IssueDate: text.IssueDate, Details: text.Details, File: f,
		})
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	h.finishWork()
	c, err := h.Certs.BySignedLink(h.t.Context(), c.UUID)
	if err != nil || c.Status != cert.Approved {
		h.t.Fatalf("the replacement is %v, error %v, want an approved certificate", c, err)
	}
	return c
}

func (h *harness) mailsOf(c *cert.Certificate) (reasons []recipient.Reason) {
	h.t.Helper()
	list, err := h.Recipients.Notices(h.t.Context(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, n := range list {
		reasons = append(reasons, n.Reason)
	}
	return reasons
}

// The mailed link and the share link of a replaced certificate show its replacement. In the account, the page
// of the replaced certificate redirects to the replacement. One mail is sent about the replacement.
func TestReplacedCertificateLeadsToNewOne(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	old := h.approvedCertificate("ada@example.org", "BSc Physics")
	token, _ := h.mailedSecrets()
	link, err := h.Recipients.MailLink(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := h.Recipients.CreateShare(t.Context(), link.Holder(), old, recipient.NewShare{Label: "For work"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Recipients.RequestCorrection(t.Context(), link.Holder(), old, "My name is wrong."); err != nil {
		t.Fatal(err)
	}
	h.finishWork()
	c := h.replace(old, "")

	if !strings.Contains(h.last.Subject, "Your certificate was replaced") || !strings.Contains(h.last.Text, "has replaced your certificate with a new one") {
		t.Errorf("the mail is %q: %s, want the mail about a replacement", h.last.Subject, h.last.Text)
	}
	if got := h.mailsOf(c); len(got) != 1 || got[0] != recipient.Replacement {
		t.Errorf("the mails of the new certificate are %v, want one about the replacement", got)
	}
	if got := h.mailsOf(old); len(got) != 1 {
		t.Errorf("the mails of the old certificate are %v, want one", got)
	}
	if open, _, err := h.Recipients.OpenCorrections(t.Context(), h.inst.ID, 10); err != nil || len(open) != 0 {
		t.Errorf("the open requests are %v, error %v, want none", open, err)
	}
	h.checkPage("the mailed link", h.get("/c/"+token), http.StatusOK, c.ReferenceID, `class="verdict valid"`, "For work")
	h.checkPage("the old address below the mailed link", h.get("/c/"+token+"/"+old.UUID), http.StatusOK, c.ReferenceID)
	if w := h.get("/c/" + token + "/" + old.UUID + "/certificate.pdf"); w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Disposition"), c.ReferenceID) {
		t.Errorf("the file below the mailed link: status = %d, header %v, want 200 and the file of the replacement", w.Code, w.Header())
	}
	h.checkPage("the share link", h.get("/s/"+secret), http.StatusOK, c.ReferenceID, `class="verdict valid"`)

	h.signInToNewAccount()
	h.checkPage("the account", h.get("/account"), http.StatusOK, "Replaced", c.UUID, old.UUID)
	if w := h.get("/account/certificates/" + old.UUID); w.Code != http.StatusSeeOther || !strings.HasSuffix(w.Header().Get("Location"), "/account/certificates/"+c.UUID) {
		t.Errorf("the old certificate in the account: status = %d, Location = %q, want 303 and the new certificate", w.Code, w.Header().Get("Location"))
	}
	// The form on the page of the replacement also ends the mailed links of the replaced certificate.
	h.checkPage("the new certificate", h.get("/account/certificates/"+c.UUID), http.StatusOK, "/mailed/end")
	h.post("/account/certificates/" + c.UUID + "/mailed/end")
	if w := h.get("/c/" + token); w.Code != http.StatusNotFound {
		t.Errorf("the mailed link after its end: status = %d, want 404", w.Code)
	}
}

// If the replacement is for another address, the links to the replaced certificate do not show the
// replacement, and their pages have no link to its files.
func TestReplacementForAnotherAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	old := h.approvedCertificate("wrong@example.org", "BSc Physics")
	token, _ := h.mailedSecrets()
	link, err := h.Recipients.MailLink(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := h.Recipients.CreateShare(t.Context(), link.Holder(), old, recipient.NewShare{})
	if err != nil {
		t.Fatal(err)
	}
	c := h.replace(old, "right@example.org")
	if !strings.Contains(h.last.Subject, "Your certificate from") || h.last.To.Email != "right@example.org" {
		t.Errorf("the mail to %s is %q, want the mail about a new certificate to right@example.org", h.last.To.Email, h.last.Subject)
	}
	for _, target := range []string{"/c/" + token, "/s/" + secret} {
		w := h.get(target)
		h.checkPage(target, w, http.StatusOK, `class="verdict replaced"`, old.ReferenceID)
		if strings.Contains(w.Body.String(), "/"+c.UUID) || strings.Contains(w.Body.String(), c.ReferenceID+".pdf") {
			t.Errorf("%s has a link to the files of the new certificate", target)
		}
	}
}

// If no mail was sent about a certificate, the mail about its replacement is the one for a new certificate.
func TestReplacementOfUnmailedCertificate(t *testing.T) {
	t.Parallel()
	h := newHarness(t, 0)
	old := h.approvedCertificate("ada@example.org", "BSc Physics")
	h.Tx(func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE notices SET status = 'unsubscribed' WHERE certificate_id = $1`, old.ID)
		return err
	})
	c := h.replace(old, "")
	if got := h.mailsOf(c); len(got) != 1 || got[0] != recipient.Approval || strings.Contains(h.last.Subject, "replaced") {
		t.Errorf("the mails are %v, the subject of the last is %q; want one mail about a new certificate", got, h.last.Subject)
	}
	// A mail was sent about c, so the next mail says that c was replaced.
	h.replace(c, "")
	if !strings.Contains(h.last.Subject, "replaced") {
		t.Errorf("the last mail is %q, want one about the replacement", h.last.Subject)
	}
}
