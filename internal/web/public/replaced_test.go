package public

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// replace uploads a replacement of a certificate, and returns the replacement, which is in processing.
func (v *vault) replace(old *cert.Certificate) *cert.Certificate {
	v.tb.Helper()
	text := old.Text()
	u := cert.Upload{
		Institution: v.inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload,
		Title: text.Title, FullName: text.FullName, Email: text.Email, IssueDate: text.IssueDate, Details: text.Details,
	}
	var c *cert.Certificate
	content := strings.NewReader(string(vaulttest.PDF) + "% a replacement of " + old.UUID)
	if err := v.Certs.Receive(v.tb.Context(), v.inst.UUID, cert.NewIncoming("better.pdf", content), func(f *cert.File) (err error) {
		u.File = f
		c, err = v.Certs.Replace(v.tb.Context(), old.UUID, u)
		return err
	}); err != nil {
		v.tb.Fatal(err)
	}
	return c
}

func TestReplacedCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		old := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		v.Work(1)
		c := v.replace(old)
		for _, l := range v.Languages.Languages() {
			if w := v.get("/verify/" + old.ReferenceID + "?lang=" + l.Tag); !slices.Contains(attributes(t, w, "div", "class"), "verdict valid") {
				t.Errorf("%s: the certificate is not valid while its replacement is in processing", l.Tag)
			}
		}
		v.Work(1)
		var got struct{ Data verification }
		if err := json.Unmarshal(v.getJSON("/verify/"+old.ReferenceID).Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Data.Status != "replaced" || got.Data.ReplacedBy == nil || *got.Data.ReplacedBy != (link{c.ReferenceID, base + "/verify/" + c.ReferenceID}) || got.Data.Reason != nil {
			t.Errorf("the replaced certificate is %+v, want the status replaced and a link to %s", got.Data, c.ReferenceID)
		}
		if err := json.Unmarshal(v.getJSON("/verify/"+c.ReferenceID).Body.Bytes(), &got); err != nil || got.Data.Status != "valid" ||
			got.Data.Replaces == nil || got.Data.Replaces.ReferenceID != old.ReferenceID {
			t.Errorf("the new certificate is %+v, error %v, want the status valid and a link to %s", got.Data, err, old.ReferenceID)
		}
		verified, err := v.Certs.ByUUID(t.Context(), v.inst.ID, old.UUID)
		if err != nil {
			t.Fatal(err)
		}
		targets := []string{"/verify/" + old.ReferenceID, "/verify/file/" + hex.EncodeToString(verified.Verified.SHA256[:]), "/verify/file/" + digestOf(string(vaulttest.PDF))}
		for _, target := range targets {
			var found struct{ Data verification }
			if err := json.Unmarshal(v.getJSON(target).Body.Bytes(), &found); err != nil || found.Data.Status != "replaced" {
				t.Errorf("%s: status = %q, error %v, want replaced", target, found.Data.Status, err)
			}
		}
		for _, l := range v.Languages.Languages() {
			for _, target := range targets {
				w := v.get(target + "?lang=" + l.Tag)
				if w.Code != http.StatusOK || !slices.Contains(attributes(t, w, "div", "class"), "verdict replaced") {
					t.Errorf("%s %s: status = %d, classes %v; want 200 and the verdict replaced", l.Tag, target, w.Code, attributes(t, w, "div", "class"))
				}
				links := attributes(t, w, "a", "href")
				if !slices.ContainsFunc(links, func(s string) bool { return strings.HasPrefix(s, "/verify/"+c.ReferenceID) }) {
					t.Errorf("%s %s: the links are %v, want one to the new certificate", l.Tag, target, links)
				}
			}
			links := attributes(t, v.get("/verify/"+c.ReferenceID+"?lang="+l.Tag), "a", "href")
			if !slices.ContainsFunc(links, func(s string) bool { return strings.HasPrefix(s, "/verify/"+old.ReferenceID) }) {
				t.Errorf("%s: the links of the new certificate are %v, want one to the old certificate", l.Tag, links)
			}
		}
		checkPage(t, "in English", v.get("/verify/"+old.ReferenceID), http.StatusOK, "Replaced by "+c.ReferenceID, "no longer valid")
		checkPage(t, "another file", v.get("/verify/file/"+digestOf("x")+"?reference_id="+old.ReferenceID), http.StatusOK, "Replaced by "+c.ReferenceID)
		if w := v.get("/verify/" + old.ReferenceID + "/card.png"); w.Code != http.StatusOK {
			t.Errorf("the card: status = %d, want 200", w.Code)
		}
	})
}

// If a certificate is revoked while its replacement is in processing, its page later shows the replacement
// and the reason for the revocation.
func TestReplacedAfterRevocation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		old := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		v.Work(1)
		c := v.replace(old)
		v.revoke(old, "The name was wrong.")
		v.Work(1)
		checkPage(t, "revoked and replaced", v.get("/verify/"+old.ReferenceID), http.StatusOK, "Replaced by "+c.ReferenceID, "The name was wrong.")
	})
}
