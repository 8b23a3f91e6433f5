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

// approved returns an approved certificate of an institution. All callers share it, because no test
// changes it in a way that affects others.
func (o *panelTest) approved(inst account.Institution) *cert.Certificate {
	o.tb.Helper()
	o.made++
	c := o.upload(inst, fmt.Sprintf("Sample Person %d", o.made), "a.pdf")
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
		says(t, "nothing", o.get("issuer", o.pathOf("certificates")), http.StatusOK, "No certificates yet", "Upload the first certificate")
		for i := range 30 {
			name := "a.pdf"
			if i%3 == 0 {
				name = "refuse.pdf"
			}
			o.upload(o.mine, fmt.Sprintf("Person Number %d", i), name)
		}
		o.upload(o.other, "Stranger Danger", "a.pdf")
		o.settle()
		w := o.get("auditor", o.pathOf("certificates"))
		says(t, "all", w, http.StatusOK, "All 30", "Failed 10", "Approved 20", "Person Number 29", "There is no room for the stamp.", "Next page")
		if text := words(t, w); strings.Contains(text, "Stranger") || strings.Contains(text, "Revoke…") || strings.Contains(text, "Number 4 ") {
			t.Errorf("shows what it must not: %s", text)
		}
		if body := w.Body.String(); strings.Index(body, "Export CSV") > strings.Index(body, "Person Number 29") {
			t.Error("what can be done with certificates stands below them")
		}
		says(t, "what is meant by all", w, http.StatusOK, "All that match (30)")
		says(t, "failed", o.get("issuer", o.pathOf("certificates?status=failed")), http.StatusOK, "Person Number 27", "Retry failed", "All that match (10)")
		w = o.get("issuer", o.pathOf("certificates?q=number+1"))
		says(t, "search", w, http.StatusOK, "All 11", "Person Number 13")
		if strings.Contains(words(t, w), "Number 2 ") {
			t.Error("the search lets others through")
		}
		says(t, "no match", o.get("issuer", o.pathOf("certificates?q=nobody")), http.StatusOK, "No certificate matches", "Show all certificates")
		says(t, "a bad date", o.get("issuer", o.pathOf("certificates?from=2026-13-01")), http.StatusUnprocessableEntity, "must be one that exists")
		says(t, "a bad status", o.get("issuer", o.pathOf("certificates?status=lost")), http.StatusUnprocessableEntity, "no such status")
		says(t, "a bad cursor", o.get("issuer", o.pathOf("certificates?cursor=x")), http.StatusUnprocessableEntity, "cursor")
		list, err := o.panel.Search.List(t.Context(), o.mine.ID, search.Filter{Range: listing.Range{PerPage: listPage, Cursor: new(string)}})
		if err != nil {
			t.Fatal(err)
		}
		w = o.get("issuer", o.pathOf("certificates?cursor="+url.QueryEscape(list.Next)))
		says(t, "the next page", w, http.StatusOK, "Number 4", "First page", "Previous page")
		w = o.get("issuer", o.follow(w, "Previous page"))
		says(t, "the page before", w, http.StatusOK, "Number 29", "Number 5", "Next page")
		if strings.Contains(words(t, w), "Previous page") {
			t.Error("the first page leads to one before it")
		}
		says(t, "a bad way back", o.get("issuer", o.pathOf("certificates?before=x")), http.StatusUnprocessableEntity, "cursor")

		// Exports contain what the list shows.
		w = o.post("auditor", o.pathOf("certificates/csv"), url.Values{"which": {"all"}, "status": {"failed"}})
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 11 || !strings.Contains(w.Header().Get("Content-Disposition"), "attachment") {
			t.Errorf("%d rows, %v, %v", len(rows), err, w.Header())
		}
		w = o.post("auditor", o.pathOf("certificates/zip"), url.Values{"selected": {list.Items[0].UUID, list.Items[1].UUID, list.Items[2].UUID}})
		archive, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
		if err != nil || len(archive.File) != 3 {
			t.Errorf("%d: %v", w.Code, err)
		}
		says(t, "nothing selected", o.post("issuer", o.pathOf("certificates/zip"), url.Values{}), http.StatusBadRequest, "Select certificates in the list first")

		// Bulk retry needs no reason; bulk revocation requires one.
		w = o.post("issuer", o.pathOf("certificates/retry"), url.Values{"which": {"all"}})
		if w.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", w.Code, words(t, w))
		}
		task := w.Header().Get("Location")
		says(t, "under way", o.get("issuer", task), http.StatusOK, "Retrying certificates", "Under way")
		o.Until("all are retried", func() bool {
			return strings.Contains(words(t, o.get("issuer", task)), "Done 10 certificates retried")
		})
		ask := url.Values{"selected": {list.Items[0].UUID, list.Items[1].UUID}}
		says(t, "asked first", o.post("owner", o.pathOf("certificates/revoke"), ask), http.StatusOK, "Revoke 2 certificates?", "cannot be undone")
		ask.Set("sure", "1")
		says(t, "no reason", o.post("owner", o.pathOf("certificates/revoke"), ask), http.StatusUnprocessableEntity, "The reason is missing.")
		ask.Set("reason", "Withdrawn")
		task = o.post("owner", o.pathOf("certificates/revoke"), ask).Header().Get("Location")
		o.Until("both are revoked", func() bool {
			return strings.Contains(words(t, o.get("owner", task)), "Done 2 certificates revoked")
		})
		says(t, "revoked", o.get("owner", o.pathOf("certificates?status=revoked")), http.StatusOK, "Revoked 2")
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM audit_entries WHERE action = 'certificate.revoked' AND actor_name = 'Owner Person'`).Scan(&n); err != nil || n != 2 {
			t.Errorf("%d entries in the log, %v", n, err)
		}
	})
}

func TestOneCertificate(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	good, bad := o.upload(o.mine, "Ada Lovelace", "ada.pdf"), o.upload(o.mine, "Bob \"B\" Best", "refuse.pdf")
	says(t, "processing", o.get("issuer", o.pathOf("certificates/"+good.UUID)), http.StatusOK, "Processing", "looks again by itself", "The record stands Not yet")
	o.settle()
	good, err := o.panel.Certs.ByUUID(t.Context(), o.mine.ID, good.UUID)
	if err != nil {
		t.Fatal(err)
	}
	page := o.pathOf("certificates/" + good.UUID)
	says(t, "approved", o.get("auditor", page), http.StatusOK, "Ada Lovelace", "Approved", good.ReferenceID, "ada.pdf",
		fmt.Sprintf("%x", good.File.SHA256), fmt.Sprintf("%x", good.Verified.SHA256), "Bottom right, page 1", "The digital signature is valid Yes",
		"Uploaded; processing began", "the verified PDF was made", "By Regina Registrar")
	says(t, "failed", o.get("issuer", o.pathOf("certificates/"+bad.UUID)), http.StatusOK, "Bob \"B\" Best", "There is no room for the stamp.", "Retry", "Processing failed", "The record stands No")
	if text := words(t, o.get("auditor", o.pathOf("certificates/"+bad.UUID))); strings.Contains(text, "Retry") || strings.Contains(text, "Revoke…") {
		t.Errorf("an auditor is offered deeds: %s", text)
	}
	for path, mediaType := range map[string]string{"/verified.pdf": "application/pdf", "/original": "application/pdf", "/page.png": "image/png"} {
		w := o.get("auditor", page+path)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != mediaType || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") ||
			(path != "/page.png") != strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
	}
	o.redirects(t, "issuer", o.post("issuer", o.pathOf("certificates/"+bad.UUID+"/retry"), nil), o.pathOf("certificates/"+bad.UUID))
	says(t, "retried twice", o.post("issuer", o.pathOf("certificates/"+bad.UUID+"/retry"), nil), http.StatusBadRequest, "not failed any more")

	says(t, "asked", o.get("owner", page+"/revoke"), http.StatusOK, "What the public will see", "Ada Lovelace", "cannot be undone")
	says(t, "no reason", o.post("owner", page+"/revoke", url.Values{}), http.StatusUnprocessableEntity, "The reason is missing.")
	form := url.Values{"reason": {"Awarded in error"}, "note": {"Ticket 7"}, "look": {"1"}}
	says(t, "looked at", o.post("owner", page+"/revoke", form), http.StatusOK, "Awarded in error")
	form.Del("look")
	w := o.redirects(t, "owner", o.post("owner", page+"/revoke", form), page)
	says(t, "revoked", w, http.StatusOK, "The certificate was revoked.", "Awarded in error", "Note for members only: Ticket 7")
}
