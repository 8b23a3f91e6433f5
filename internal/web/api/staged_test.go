package api

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// postFile sends a form to the route upload-file.
func (v *vault) postFile(parts ...part) *response {
	v.tb.Helper()
	r := v.request(http.MethodPost, "/business/certificate-vault/upload-file", bytes.NewReader(form(v.tb, parts...)))
	r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	return v.do(r)
}

// stage uploads a file and returns its id.
func (v *vault) stage(name string) string {
	v.tb.Helper()
	a := v.postFile(part{name: "file", file: name, content: samplePDF(0)})
	id, _ := data(v.tb, a)["file_id"].(string)
	if a.Status != http.StatusCreated || id == "" {
		v.tb.Fatalf("staging a file: status = %d, want 201 with an id; body %s", a.Status, a.Body)
	}
	return id
}

func (v *vault) exec(query string, args ...any) {
	v.tb.Helper()
	if err := v.DB.Tx(v.tb.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(v.tb.Context(), query, args...)
		return err
	}); err != nil {
		v.tb.Fatal(err)
	}
}

// files counts the stored files.
func (v *vault) files() (n int) {
	v.tb.Helper()
	if err := v.Blobs.Walk(v.tb.Context(), "", func(blob.Info) error { n++; return nil }); err != nil {
		v.tb.Fatal(err)
	}
	return n
}

func TestUploadFile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		content := samplePDF(0)
		file := func(name string, content []byte) part { return part{name: "file", file: name, content: content} }
		a := v.postFile(file("../diploma 1.pdf", content))
		record := data(t, a)
		if a.Status != http.StatusCreated || a.json(t)["message"] == "" {
			t.Fatalf("staging a file: status = %d, want 201 with a message; body %s", a.Status, a.Body)
		}
		if record["file_name"] != "diploma 1.pdf" || record["mime_type"] != "application/pdf" || record["size"] != float64(len(content)) {
			t.Errorf("the record is %v, want the base name, the type and the size of the file", record)
		}
		if id, ok := parseUUID(record["file_id"].(string)); !ok || id != record["file_id"] {
			t.Errorf("the file id is %v, want a UUID", record["file_id"])
		}
		end, err := time.Parse(time.RFC3339Nano, record["expires_at"].(string))
		if left := time.Until(end); err != nil || left < 23*time.Hour || left > 24*time.Hour {
			t.Errorf("expires_at = %v, want a time in 23 to 24 hours; error %v", record["expires_at"], err)
		}
		if len(record) != 5 {
			t.Errorf("the record is %v, want 5 fields", record)
		}
		before := v.files()
		for name, tc := range map[string]struct {
			parts  []part
			fields string
		}{
			"nothing":           {nil, "file"},
			"another field":     {[]part{text("title", "x")}, "file"},
			"text":              {[]part{text("file", string(content))}, "file"},
			"empty":             {[]part{file("a.pdf", nil)}, "file"},
			"truncated":         {[]part{file("a.pdf", content[:20])}, "file"},
			"another type":      {[]part{file("a.docx", content)}, "file"},
			"another extension": {[]part{file("a.png", content)}, "file"},
			"two":               {[]part{file("a.pdf", content), file("b.pdf", content)}, "file"},
			"too large":         {[]part{file("a.pdf", append(samplePDF(20_971_520), '\n'))}, "file"},
			"the wrong name":    {[]part{{name: "certificate_file", file: "a.pdf", content: content}}, "file"},
		} {
			a := v.postFile(tc.parts...)
			if a.Status != http.StatusUnprocessableEntity || a.fields(t) != tc.fields {
				t.Errorf("%s: status = %d, want 422; body %s", name, a.Status, a.Body)
			}
			if n := v.files(); n != before {
				t.Errorf("%s: the refused upload stored %d files, want none", name, n-before)
			}
		}
		if a := v.postFile(file("a.pdf", samplePDF(20_971_520))); a.Status != http.StatusCreated || data(t, a)["size"] != float64(20_971_520) {
			t.Errorf("a file at the limit: status = %d, want 201; body %s", a.Status, a.Body)
		}
	})
}

func TestStagedQuota(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	v.stage("first.pdf")
	before := v.files()
	// With 10 bytes left, the server refuses the file after receiving it. With 0 bytes left, it refuses
	// the request before receiving the file.
	for _, left := range []int{10, 0} {
		v.exec(`UPDATE staged_usage SET bytes = $1`, 20<<30-left)
		a := v.postFile(part{name: "file", file: "a.pdf", content: samplePDF(0)})
		wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if a.Status != http.StatusTooManyRequests || err != nil || wait < 23*3600 || wait > 25*3600 || a.problem(t).Message == "" {
			t.Errorf("%d bytes left: status = %d, Retry-After %q, body %s, want 429 and 23 to 25 hours", left, a.Status, a.Header.Get("Retry-After"), a.Body)
		}
		if n := v.files(); n != before {
			t.Errorf("with %d bytes left, the refused upload stored %d files, want none", left, n-before)
		}
	}
	// The quota is per institution.
	v.secret = v.token(v.institution("OTH"), nil, "certificate-vault:create")
	v.stage("other.pdf")
}

func TestUploadFileBody(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	body := form(t, part{name: "file", file: "a.pdf", content: samplePDF(0)})
	for contentType, status := range map[string]int{
		"": 415, "application/json": 415, "multipart/form-data": 415, "multipart/form-data; boundary=another": 422,
	} {
		r := v.request(http.MethodPost, "/business/certificate-vault/upload-file", bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		if a := v.do(r); a.Status != status {
			t.Errorf("type %q: status = %d, want %d; body %s", contentType, a.Status, status, a.Body)
		}
	}
	r := v.request(http.MethodPost, "/business/certificate-vault/upload-file", bytes.NewReader(append(body, make([]byte, 24<<20)...)))
	r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	if a := v.do(r); a.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit: status = %d, want 413; body %s", a.Status, a.Body)
	}
	if n := v.files(); n != 0 {
		t.Errorf("the refused uploads stored %d files, want none", n)
	}
}
