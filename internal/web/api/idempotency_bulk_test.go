package api

import (
	"bytes"
	"net/http"
	"net/url"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// The upload of a file, and a bulk upload in each media type, are performed once per key.
func TestBulkRunsOncePerKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		const multi = "multipart/form-data; boundary=" + boundary
		stage := func(content []byte) *response {
			return v.postWithKey("k", vaultPath+"/upload-file", multi, bytes.NewReader(form(t, part{name: "file", file: "a.pdf", content: content})))
		}
		first := stage(samplePDF(30_000))
		if first.Status != http.StatusCreated {
			t.Fatalf("the first upload of the file: status = %d, want 201; body %s", first.Status, first.Body)
		}
		checkReplay(t, "the file", first, stage(samplePDF(30_000)))
		checkOtherContent(t, "another file", stage(samplePDF(30_001)))
		if _, files := v.stored(); files != 1 {
			t.Errorf("%d files are stored, want 1", files)
		}
		id := data(t, first)["file_id"].(string)
		entry := func(name, id string) []part {
			return []part{text("entries[0][certificate_title]", "BSc"), text("entries[0][full_name]", name), text("entries[0][applicant_email]", "a@example.org"), text("entries[0][file_id]", id)}
		}
		for what, body := range map[string]func(name, id string) (string, []byte){
			"form": func(name, id string) (string, []byte) { return multi, form(t, entry(name, id)...) },
			"urlencoded": func(name, id string) (string, []byte) {
				q := url.Values{}
				for _, p := range entry(name, id) {
					q.Set(p.name, string(p.content))
				}
				return "application/x-www-form-urlencoded", []byte(q.Encode())
			},
			"json": func(name, id string) (string, []byte) {
				return "application/json", []byte(`{"entries":[{"certificate_title":"BSc","full_name":"` + name + `","applicant_email":"a@example.org","file_id":"` + id + `"}]}`)
			},
		} {
			send := func(key, name, id string) *response {
				contentType, content := body(name, id)
				return v.postWithKey(key, vaultPath+"/bulk", contentType, bytes.NewReader(content))
			}
			first := send(what, "Ada", id)
			if first.Status != http.StatusAccepted {
				t.Fatalf("%s: status = %d, want 202; body %s", what, first.Status, first.Body)
			}
			checkReplay(t, what, first, send(what, "Ada", id))
			checkOtherContent(t, what, send(what, "Bo", id))
			wrong := send(what+"-wrong", "Ada", unknownID)
			if wrong.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s with an unknown file: status = %d, want 422; body %s", what, wrong.Status, wrong.Body)
			}
			checkReplay(t, what+", refused", wrong, send(what+"-wrong", "Ada", unknownID))
		}
		if n := v.count(`SELECT count(*) FROM batches`); n != 3 {
			t.Errorf("%d batches were created, want 3", n)
		}
	})
}
