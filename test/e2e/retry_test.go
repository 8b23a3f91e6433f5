//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/certvault/certvault/client"
)

// TestRetry removes the original of a certificate while the vault is stopped. Processing then fails, and
// the certificate has no public page. After the test restores the file, a retry approves the certificate.
func TestRetry(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database, "--process-attempts", "1")
		f.webhook(t)
		approved := f.upload(t, form("Ada Obi"))
		// The vault may approve a certificate before it is killed, so the test tries up to 20 times.
		var uuid, original string
		for i := range 20 {
			if uuid, original = f.interrupt(t, person(i)); uuid != "" {
				break
			}
			f.restart(t, "--process-attempts", "1")
		}
		if uuid == "" {
			t.Fatal("no certificate was in processing when the vault was killed")
		}
		content, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(original); err != nil {
			t.Fatal(err)
		}
		f.restart(t, "--process-attempts", "1")
		failed := f.await(t, uuid, "failed")
		if failed.Failure == nil || failed.Failure.Code == "" || failed.Failure.Message == "" || failed.PDFPath != nil {
			t.Errorf("failed certificate = %+v, want a failure with a code and a message, and no pdf_path", failed)
		}
		wantClientError(t, f.api(t).Download(t.Context(), uuid, io.Discard), client.ErrNotFound, "Verified PDF not found. The certificate may still be processing.")
		public := f.as(t, "")
		unknown := get(t, public, "/verify/NWU-0000000000000000", 404)
		for _, suffix := range []string{"", "/qrcode.svg", "/barcode.svg"} {
			a := get(t, public, failed.VerificationURL+suffix, 404)
			if suffix == "" && !bytes.Equal(a.Body, unknown.Body) {
				t.Errorf("the public response for a failed certificate differs from that for an unknown reference id: %s", a.Body)
			}
		}

		if err := os.WriteFile(original, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if retried := f.retry(t, uuid); retried.Status.Value != "processing" || retried.Failure != nil || retried.TriggerContext != "single_upload" {
			t.Errorf("retried certificate = %+v, want processing without a failure, and the context single_upload", retried)
		}
		f.await(t, uuid, "approved")
		f.checkEvents(t, failed.ID)
		f.await(t, approved.UUID, "approved")
		for _, done := range []string{uuid, approved.UUID} {
			_, err := f.api(t).RetryProcessing(t.Context(), done)
			wantClientError(t, err, client.ErrInvalidOperation, "Invalid operation")
		}
		f.checkEvents(t, failed.ID)
	})
}

// interrupt uploads a certificate and kills the vault. If the certificate was still in processing,
// interrupt returns the UUID and the path of the original; otherwise it returns empty strings.
func (f *fixture) interrupt(t *testing.T, who string) (uuid, original string) {
	t.Helper()
	before := f.files(t, "blobs")
	made := f.upload(t, form(who))
	f.Kill()
	if count(t, f.database(t), `SELECT count(*) FROM certificates WHERE uuid = $1 AND status = 'processing'`, made.UUID) == 0 {
		return "", ""
	}
	var key string
	if err := f.database(t).QueryRowContext(t.Context(), `SELECT original_key FROM certificates WHERE uuid = $1`, made.UUID).Scan(&key); err != nil {
		t.Fatal(err)
	}
	for _, file := range f.files(t, "blobs") {
		if !slices.Contains(before, file) && len(file) > len(key) && file[len(file)-len(key):] == key {
			return made.UUID, file
		}
	}
	t.Fatalf("there is no new file for the key %s", key)
	return "", ""
}

// checkEvents checks that a certificate has the events created, failed, retried and approved in
// this order, and that the deliveries have the expected trigger context.
func (f *fixture) checkEvents(t *testing.T, id int64) {
	t.Helper()
	rows, err := f.database(t).QueryContext(t.Context(), `SELECT name FROM webhook_events WHERE certificate_id = $1 ORDER BY id`, id)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	const prefix = "certificate_application."
	if want := []string{prefix + "created", prefix + "failed", prefix + "retried", prefix + "approved"}; !slices.Equal(names, want) {
		t.Errorf("events = %v, want %v", names, want)
	}
	for i, name := range names {
		context := "single_upload"
		if i >= 2 {
			context = "retry"
		}
		for _, p := range f.deliveries(t, name) {
			if p.ApplicationID == id && p.TriggerContext != context {
				t.Errorf("trigger context of %s = %s, want %s", name, p.TriggerContext, context)
			}
		}
	}
}
