package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/vaulttest"
)

// The list contains certificates from templates. The page of a certificate shows its source, and the
// original can be downloaded.
func TestCertificatesFromTemplates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		o.upload(o.inst, "Ada Obi", "a.pdf")
		b := o.Issue(&o.inst, "Bo Ek")
		o.processUntil("the certificates are approved", func() bool {
			n, err := search.Processing(t.Context(), d)
			got, err2 := o.Batches.ByUUID(t.Context(), o.inst.ID, b.UUID, "")
			return err == nil && err2 == nil && n == 0 && got.Approved == 1
		})
		waiting := o.Issue(&o.inst, "Cy Day")
		checkPage(t, "all certificates", o.get("issuer", o.pathOf("certificates")), http.StatusOK, "All 2", "Ada Obi", "Bo Ek")
		w := o.get("issuer", o.pathOf("certificates?source=template"))
		checkPage(t, "certificates from templates", w, http.StatusOK, "All 1", "Bo Ek", "Source: From a template")
		if strings.Contains(visibleText(t, w), "Ada Obi") {
			t.Error("the list of certificates from templates contains an uploaded certificate")
		}
		if w := o.get("issuer", o.pathOf("certificates?source=nothing")); w.Code != http.StatusOK || strings.Contains(visibleText(t, w), "Source: ") {
			t.Errorf("an unknown source: status = %d, want 200 and no filter by source", w.Code)
		}
		entries, err := o.Batches.AllEntries(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		c, err := o.Certs.ByUUID(t.Context(), o.inst.ID, entries[0].UUID)
		if err != nil {
			t.Fatal(err)
		}
		checkPage(t, "the certificate", o.get("issuer", o.pathOf("certificates/"+c.UUID)), http.StatusOK, "from a template", "Created from a template, processing started", c.OriginalDigest())
		if w := o.get("issuer", o.pathOf("certificates/"+c.UUID+"/original")); w.Code != http.StatusOK || w.Body.Len() != int(c.File.Size) || !strings.HasPrefix(w.Body.String(), string(vaulttest.Base)) {
			t.Errorf("the original: status = %d, %d bytes; want 200 and %d bytes that begin with the base", w.Code, w.Body.Len(), c.File.Size)
		}
		export := o.post("issuer", o.pathOf("certificates/csv"), url.Values{"which": {"all"}, "source": {"template"}})
		if text := export.Body.String(); export.Code != http.StatusOK || !strings.Contains(text, c.OriginalDigest()) || strings.Contains(text, "Ada Obi") {
			t.Errorf("the export: status = %d, body = %q; want 200 and only the certificate from a template", export.Code, text)
		}
		if waiting.Source != "template" {
			t.Errorf("source = %s, want template", waiting.Source)
		}
	})
}

// The activity of a certificate shows that the signatories were asked, and lists their approvals.
func TestActivityOfSignatories(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	b := o.Issue(&o.inst, "Bo Ek")
	o.processUntil("the certificate is approved", func() bool {
		got, err := o.Batches.ByUUID(t.Context(), o.inst.ID, b.UUID, "")
		return err == nil && got.Approved == 1
	})
	entries, err := o.Batches.AllEntries(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	page := o.pathOf("certificates/" + entries[0].UUID)
	for i, status := range []string{"approved", "pending"} {
		o.Exec(`INSERT INTO certificate_signatures (certificate_id, institution_id, signatory_index, user_id, designation, in_order, digest, status, display_name, approved_at)
			SELECT id, institution_id, $1, $2, 'Dean', 0, X'00', $3, 'Dean Person', CASE WHEN $3 = 'approved' THEN created_at + 60000000 END FROM certificates WHERE uuid = $4`,
			i+1, 1000+i, status, entries[0].UUID)
	}
	w := o.get("issuer", page)
	checkPage(t, "a certificate with one approval", w, http.StatusOK, "From a template, waiting for signatories", "Approved by a signatory", "By Dean Person")
	if strings.Contains(visibleText(t, w), "rocessing started") {
		t.Error("the activity contains the start of processing before all signatories have approved")
	}
	o.Exec(`UPDATE certificate_signatures SET status = 'approved', approved_at = (SELECT created_at + 120000000 FROM certificates WHERE id = certificate_id) WHERE status = 'pending'`)
	checkPage(t, "a certificate with all approvals", o.get("issuer", page), http.StatusOK, "Processing started")
}
