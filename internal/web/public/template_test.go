package public

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// A look-up of the original of a certificate from a template finds the certificate. A look-up of the base,
// which all certificates from one version of the template share, finds nothing.
func TestCertificateFromTemplate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		b := v.Issue(v.inst, "Bo Ek", "Missing Letters")
		get := func(index int) *cert.Certificate {
			t.Helper()
			entries, err := v.Batches.AllEntries(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			c, err := v.Certs.ByUUID(t.Context(), v.inst.ID, entries[index].UUID)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		v.Finish(v.inst, b)
		c, failed := get(0), get(1)
		for name, digest := range map[string]string{"the base": digestOf(string(vaulttest.Base)), "nothing": digestOf(""), "the zero digest": strings.Repeat("0", 64)} {
			if w := v.getJSON("/verify/file/" + digest); w.Code != http.StatusNotFound {
				t.Errorf("%s: status = %d, want 404; body %s", name, w.Code, w.Body)
			}
		}
		if w := v.getJSON("/verify/file/" + c.OriginalDigest()); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.ReferenceID) {
			t.Errorf("the original: status = %d, want 200 with the certificate; body %s", w.Code, w.Body)
		}
		checkPage(t, "the certificate", v.get("/verify/"+c.ReferenceID), http.StatusOK, "This certificate is valid", "Bo Ek", c.OriginalDigest())
		// A certificate that could not be drawn has no digests, so no file matches it.
		v.revoke(failed, "Issued in error")
		w := v.get("/verify/" + failed.ReferenceID)
		checkPage(t, "a certificate that was never drawn", w, http.StatusOK, "Issued in error")
		if strings.Contains(textOf(t, w), strings.Repeat("0", 64)) {
			t.Error("the page shows a digest of a certificate that was never drawn")
		}
		zero := v.getJSON("/verify/file/" + strings.Repeat("0", 64) + "?reference_id=" + failed.ReferenceID)
		if zero.Code != http.StatusOK || !strings.Contains(zero.Body.String(), `"match":"different"`) {
			t.Errorf("the zero digest and a certificate that was never drawn: status = %d, body %s, want different", zero.Code, zero.Body)
		}
	})
}
