package panel

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/search"
)

// approvedCertificate creates an approved certificate of an institution, without sealing it.
func (o *panelTest) approvedCertificate(inst account.Institution) *cert.Certificate {
	o.tb.Helper()
	o.certificateCount++
	c := o.upload(inst, fmt.Sprintf("Sample Person %d", o.certificateCount), "a.pdf")
	if err := o.DB.Tx(o.tb.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(o.tb.Context(), `UPDATE certificates SET status = 'approved', approved_at = created_at, tail_key = original_key, verified_sha256 = sha256, verified_size = size, whole = $1 WHERE uuid = $2`, true, c.UUID)
		return err
	}); err != nil {
		o.tb.Fatal(err)
	}
	return c
}

func TestListOfCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		checkPage(t, "an empty list", o.get("issuer", o.pathOf("certificates")), http.StatusOK, "No certificates yet", "Upload the first certificate")
		for i := range 30 {
			name := "a.pdf"
			if i%3 == 0 {
				name = "refuse.pdf"
			}
			o.upload(o.inst, fmt.Sprintf("Person Number %d", i), name)
		}
		o.upload(o.other, "Foreign Person", "a.pdf")
		o.processAll()
		w := o.get("auditor", o.pathOf("certificates"))
		checkPage(t, "all certificates", w, http.StatusOK, "All 30", "Failed 10", "Approved 20", "Person Number 29", "There is no room for the stamp.", "Next page")
		if text := visibleText(t, w); strings.Contains(text, "Foreign") || strings.Contains(text, "Revoke…") || strings.Contains(text, "Number 4 ") {
			t.Errorf("the list shows a certificate of another institution or of another page, or an action that an auditor must not perform: %s", text)
		}
		if body := w.Body.String(); strings.Index(body, "Export CSV") > strings.Index(body, "Person Number 29") {
			t.Error("the actions are below the certificates")
		}
		checkPage(t, "the number of all matching certificates", w, http.StatusOK, "All 30 in this list")
		checkPage(t, "the failed certificates", o.get("issuer", o.pathOf("certificates?status=failed")), http.StatusOK, "Person Number 27", "Retry failed", "All 10 in this list")
		w = o.get("issuer", o.pathOf("certificates?q=number+1"))
		checkPage(t, "a search", w, http.StatusOK, "All 11", "Person Number 13")
		if strings.Contains(visibleText(t, w), "Number 2 ") {
			t.Error("the search finds a certificate that does not match")
		}
		checkPage(t, "a search without matches", o.get("issuer", o.pathOf("certificates?q=unknown")), http.StatusOK, "No matching certificates", "Show all certificates")
		checkPage(t, "an invalid date", o.get("issuer", o.pathOf("certificates?from=2026-13-01")), http.StatusUnprocessableEntity, "must be one that exists")
		checkPage(t, "an unknown status", o.get("issuer", o.pathOf("certificates?status=lost")), http.StatusUnprocessableEntity, "This status does not exist.")
		checkPage(t, "an invalid cursor", o.get("issuer", o.pathOf("certificates?cursor=x")), http.StatusUnprocessableEntity, "cursor")
		list, err := o.panel.Search.List(t.Context(), o.inst.ID, search.Filter{Range: listing.Range{PerPage: certificatesPerPage, Cursor: new(string)}})
		if err != nil {
			t.Fatal(err)
		}
		w = o.get("issuer", o.pathOf("certificates?cursor="+url.QueryEscape(list.Next)))
		checkPage(t, "the next page", w, http.StatusOK, "Number 4", "First page", "Previous page")
		w = o.get("issuer", o.linkTo(w, "Previous page"))
		checkPage(t, "the previous page", w, http.StatusOK, "Number 29", "Number 5", "Next page")
		if strings.Contains(visibleText(t, w), "Previous page") {
			t.Error("the first page has a link to a previous page")
		}
		checkPage(t, "an invalid cursor of a previous page", o.get("issuer", o.pathOf("certificates?before=x")), http.StatusUnprocessableEntity, "cursor")

		// An export contains only the selected certificates.
		w = o.post("auditor", o.pathOf("certificates/csv"), url.Values{"which": {"all"}, "status": {"failed"}})
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 11 || !strings.Contains(w.Header().Get("Content-Disposition"), "attachment") {
			t.Errorf("the CSV export: got %d rows, error %v, header %v; want the heading and 10 rows in an attachment", len(rows), err, w.Header())
		}
		w = o.post("auditor", o.pathOf("certificates/zip"), url.Values{"selected": {list.Items[0].UUID, list.Items[1].UUID, list.Items[2].UUID}})
		archive, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
		if w.Code != http.StatusOK || err != nil || len(archive.File) != 3 {
			t.Errorf("the ZIP export: status = %d, error %v; want 200 and a ZIP with 3 files", w.Code, err)
		}
		for _, action := range []string{"zip", "csv", "retry", "revoke"} {
			w := o.followRedirect(t, "issuer", o.post("issuer", o.pathOf("certificates/"+action), url.Values{"status": {"failed"}}), o.pathOf("certificates?status=failed"))
			checkPage(t, "nothing selected, "+action, w, http.StatusOK, "Select at least one certificate first.")
		}

		// A retry of many certificates needs no reason. A revocation requires a reason.
		w = o.post("issuer", o.pathOf("certificates/retry"), url.Values{"which": {"all"}})
		if w.Code != http.StatusSeeOther {
			t.Fatalf("the bulk retry: status = %d, want 303: %s", w.Code, visibleText(t, w))
		}
		task := w.Header().Get("Location")
		checkPage(t, "a running task", o.get("issuer", task), http.StatusOK, "Retrying certificates", "In progress")
		o.Until("all are retried", func() bool {
			return strings.Contains(visibleText(t, o.get("issuer", task)), "Done 10 certificates retried")
		})
		ask := url.Values{"selected": {list.Items[0].UUID, list.Items[1].UUID}}
		checkPage(t, "the form for the reason", o.post("owner", o.pathOf("certificates/revoke"), ask), http.StatusOK, "Revoke 2 certificates?", "cannot be undone")
		ask.Set("sure", "1")
		checkPage(t, "a revocation without a reason", o.post("owner", o.pathOf("certificates/revoke"), ask), http.StatusUnprocessableEntity, "The reason is missing.")
		ask.Set("reason", "Withdrawn")
		task = o.post("owner", o.pathOf("certificates/revoke"), ask).Header().Get("Location")
		o.Until("both are revoked", func() bool {
			return strings.Contains(visibleText(t, o.get("owner", task)), "Done 2 certificates revoked")
		})
		checkPage(t, "after the revocation", o.get("owner", o.pathOf("certificates?status=revoked")), http.StatusOK, "Revoked 2")
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM audit_entries WHERE action = 'certificate.revoked' AND actor_name = 'Owner Person'`).Scan(&n); err != nil || n != 2 {
			t.Errorf("got %d entries about revocations by the owner in the audit log, want 2; error %v", n, err)
		}
	})
}

func TestOneCertificate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	good, bad := o.upload(o.inst, "Ada Lovelace", "ada.pdf"), o.upload(o.inst, "Bob \"B\" Best", "refuse.pdf")
	checkPage(t, "a certificate in processing", o.get("issuer", o.pathOf("certificates/"+good.UUID)), http.StatusOK, "Processing", "updates automatically", "Record is valid Not yet")
	o.processAll()
	good, err := o.panel.Certs.ByUUID(t.Context(), o.inst.ID, good.UUID)
	if err != nil {
		t.Fatal(err)
	}
	page := o.pathOf("certificates/" + good.UUID)
	checkPage(t, "an approved certificate", o.get("auditor", page), http.StatusOK, "Ada Lovelace", "Approved", good.ReferenceID, "ada.pdf",
		fmt.Sprintf("%x", good.File.SHA256), fmt.Sprintf("%x", good.Verified.SHA256), "Bottom right, page 1", "Digital signature is valid Yes",
		"Uploaded, processing started", "the verified PDF was created", "By Regina Registrar")
	checkPage(t, "a failed certificate", o.get("issuer", o.pathOf("certificates/"+bad.UUID)), http.StatusOK, "Bob \"B\" Best", "There is no room for the stamp.", "Retry", "Processing failed", "Record is valid No")
	if text := visibleText(t, o.get("auditor", o.pathOf("certificates/"+bad.UUID))); strings.Contains(text, "Retry") || strings.Contains(text, "Revoke…") {
		t.Errorf("the page for an auditor has actions: %s", text)
	}
	for path, mediaType := range map[string]string{"/verified.pdf": "application/pdf", "/original": "application/pdf", "/page.png": "image/png"} {
		w := o.get("auditor", page+path)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != mediaType || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") ||
			(path != "/page.png") != strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: status = %d, header %v; want 200, the type of the file, a sandbox, and an attachment unless the file is the image", path, w.Code, w.Header())
		}
	}
	o.followRedirect(t, "issuer", o.post("issuer", o.pathOf("certificates/"+bad.UUID+"/retry"), nil), o.pathOf("certificates/"+bad.UUID))
	checkPage(t, "a second retry", o.post("issuer", o.pathOf("certificates/"+bad.UUID+"/retry"), nil), http.StatusBadRequest, "the status of this one has changed")

	checkPage(t, "the revocation form", o.get("owner", page+"/revoke"), http.StatusOK, "Public page after the revocation", "Ada Lovelace", "cannot be undone")
	checkPage(t, "a revocation without a reason", o.post("owner", page+"/revoke", url.Values{}), http.StatusUnprocessableEntity, "The reason is missing.")
	form := url.Values{"reason": {"Awarded in error"}, "note": {"Ticket 7"}, "look": {"1"}}
	checkPage(t, "the preview of the revocation", o.post("owner", page+"/revoke", form), http.StatusOK, "Awarded in error")
	form.Del("look")
	w := o.followRedirect(t, "owner", o.post("owner", page+"/revoke", form), page)
	checkPage(t, "after the revocation", w, http.StatusOK, "The certificate was revoked, and the public page shows it.", "Awarded in error", "Internal note: Ticket 7")
}
