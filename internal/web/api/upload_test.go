package api

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/token"
)

func TestUploadRefusals(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	content := samplePDF(0)
	with := func(parts ...part) []part { return append(v.validFields(), parts...) }
	many := func(n int) []part {
		parts := with(pdfFile(content))
		for i := len(parts); i < n; i++ {
			parts = append(parts, text(fmt.Sprintf("extra_%d", i), "x"))
		}
		return parts
	}
	for _, tc := range []struct {
		name   string
		parts  []part
		status int
		fields string
	}{
		{"valid", with(pdfFile(content)), 201, ""},
		{"the file first", append([]part{pdfFile(content)}, v.validFields()...), 201, ""},
		{"unknown fields", with(pdfFile(content), text("colour", "blue")), 201, ""},
		{"100 parts", many(100), 201, ""},
		{"101 parts", many(101), 422, ""},
		{"an empty form", nil, 422, "applicant_email certificate_file certificate_title full_name"},
		{"no file", with(), 422, "certificate_file"},
		{"two files", with(pdfFile(content), pdfFile(content)), 422, "certificate_file"},
		{"a repeated field", with(text("full_name", "Bo"), pdfFile(content)), 422, "full_name"},
		{"a repeated field after the file", with(pdfFile(content), text("full_name", "Bo")), 422, "full_name"},
		{"the file as text", with(text("certificate_file", string(content))), 422, "certificate_file"},
		{"an empty file", with(pdfFile(nil)), 422, "certificate_file"},
		{"another type", with(part{name: "certificate_file", file: "a.docx", content: []byte("PK\x03\x04")}), 422, "certificate_file"},
		{"another type than the content", with(part{name: "certificate_file", file: "a.png", content: content}), 422, "certificate_file"},
		{"a bad file and bad fields", []part{text("full_name", ""), pdfFile([]byte("%PDF-")), text("applicant_email", "x")}, 422,
			"applicant_email certificate_file certificate_title full_name"},
		{"a very long field", with(pdfFile(content), text("details", strings.Repeat("x", 200_000))), 422, "details"},
		{"an invalid date", with(pdfFile(content), text("issue_date", "2026-02-30")), 422, "issue_date"},
	} {
		rows, files := v.stored()
		a := v.post(form(t, tc.parts...))
		if a.Status != tc.status {
			t.Errorf("%s: status = %d, want %d; body %s", tc.name, a.Status, tc.status, a.Body)
			continue
		}
		if a.Status == http.StatusCreated {
			checkRecord(t, "processing", data(t, a))
			continue
		}
		if got := a.fields(t); got != tc.fields {
			t.Errorf("%s: the refused fields are %q, want %q; body %s", tc.name, got, tc.fields, a.Body)
		}
		if r, f := v.stored(); r != rows || f != files {
			t.Errorf("%s: the refused upload stored %d rows and %d files, want none", tc.name, r-rows, f-files)
		}
	}
}

// The message of a response has the first error, in the order of the fields, and the number of the other
// errors.
func TestUploadMessage(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	for want, parts := range map[string][]part{
		"The certificate title field is required. (and 3 more errors)": nil,
		"The full name field is required. (and 1 more error)":          {text("certificate_title", "x"), text("applicant_email", "ada@example.org")},
		"The certificate file field is required.":                      v.validFields(),
	} {
		if got := v.post(form(t, parts...)).problem(t).Message; got != want {
			t.Errorf("the message is %q, want %q", got, want)
		}
	}
}

func TestUploadDuplicate(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	body := form(t, append(v.validFields(), pdfFile(samplePDF(0)))...)
	first := v.post(body)
	a := v.post(body)
	const message = "A vault certificate with this email, title, and issue date already exists"
	r := a.problem(t)
	if a.Status != http.StatusUnprocessableEntity || r.Message != message || !strings.Contains(string(a.Body), data(t, first)["uuid"].(string)) {
		t.Errorf("a duplicate: status = %d, want 422 with the message and the UUID of the first certificate; body %s", a.Status, a.Body)
	}
	if rows, files := v.stored(); rows != 1 || files != 1 {
		t.Errorf("%d rows and %d files are stored, want 1 and 1", rows, files)
	}
}

func TestUploadBodyType(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	body := form(t, append(v.validFields(), pdfFile(samplePDF(0)))...)
	for contentType, status := range map[string]int{
		"":                                                  415,
		"application/json":                                  415,
		"multipart/form-data":                               415,
		"multipart/mixed; boundary=" + boundary:             415,
		"multipart/form-data; boundary=another":             422,
		"multipart/form-data; boundary=":                    415,
		"Multipart/Form-Data; Boundary=" + boundary:         201,
		"multipart/form-data; boundary=\"" + boundary + `"`: 422, // a duplicate of the same upload
	} {
		r := v.request(http.MethodPost, "/business/certificate-vault", bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		// Two of the content types are valid. The first request with one of them gets 201, and the
		// second gets 422 for a duplicate. The order of a map is random, so either can be the first.
		if a := v.do(r); a.Status != status && (a.Status != 201 && a.Status != 422 || status != 201 && status != 422) {
			t.Errorf("type %q: status = %d, want %d, or 201 or 422 for a valid type; body %s", contentType, a.Status, status, a.Body)
		}
	}
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	complete := form(t, append(v.validFields(), pdfFile(samplePDF(50_000)))...)
	at := bytes.Index(complete, []byte("%PDF-"))
	for name, body := range map[string][]byte{
		"empty":                                 {},
		"no boundary":                           []byte("hello"),
		"truncated in a header":                 complete[:30],
		"truncated in a field":                  complete[:at-100],
		"truncated in the file":                 complete[:at+1000],
		"truncated before the closing boundary": complete[:len(complete)-len(boundary)-6],
		"a very long header line":               []byte("--" + boundary + "\r\nContent-Disposition: " + strings.Repeat("x", 1<<20)),
	} {
		if a := v.post(body); a.Status != http.StatusUnprocessableEntity || a.problem(t).Message == "" {
			t.Errorf("%s: status = %d, want 422; body %s", name, a.Status, a.Body)
		}
		if rows, files := v.stored(); rows != 0 || files != 0 {
			t.Errorf("%s: the request stored %d rows and %d files, want none", name, rows, files)
		}
	}
}

// A request at a limit is accepted. A request with one more byte is refused.
func TestUploadLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("the bodies have up to 40 MiB")
	}
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	const maxFile = 20_971_520
	if a := v.post(form(t, append(v.validFields(), pdfFile(samplePDF(maxFile)))...)); a.Status != http.StatusCreated {
		t.Errorf("a file at the limit: status = %d, want 201; body %s", a.Status, a.Body)
	}
	a := v.post(form(t, append(v.validFields(), pdfFile(append(samplePDF(maxFile), '\n')))...))
	if a.Status != http.StatusUnprocessableEntity || a.fields(t) != "certificate_file" {
		t.Errorf("a file over the limit: status = %d, want 422; body %s", a.Status, a.Body)
	}
	// The bytes after the closing boundary count toward the size of the body.
	padded := func(size int) []byte {
		body := form(t, append(v.validFields(), pdfFile(samplePDF(0)))...)
		return append(body, bytes.Repeat([]byte{' '}, size-len(body))...)
	}
	if a := v.post(padded(25_165_824)); a.Status != http.StatusCreated {
		t.Errorf("a body at the limit: status = %d, want 201; body %s", a.Status, a.Body)
	}
	rows, files := v.stored()
	for name, body := range map[string]io.Reader{
		"with Content-Length":    bytes.NewReader(padded(25_165_825)),
		"without Content-Length": struct{ io.Reader }{bytes.NewReader(padded(25_165_825))},
		"with a very large file": struct{ io.Reader }{io.MultiReader(bytes.NewReader(form(t, append(v.validFields(), pdfFile([]byte("%PDF-1.7\n")))...)[:400]),
			bytes.NewReader(make([]byte, 40<<20)))},
	} {
		r := v.request(http.MethodPost, "/business/certificate-vault", body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		if a := v.do(r); a.Status != http.StatusRequestEntityTooLarge || a.problem(t).Message == "" {
			t.Errorf("a body over the limit, %s: status = %d, want 413; body %s", name, a.Status, a.Body)
		}
	}
	if r, f := v.stored(); r != rows || f != files {
		t.Errorf("the refused bodies stored %d rows and %d files, want none", r-rows, f-files)
	}
}

// If a request is refused while the client is still sending its file, the client receives the response
// before the connection is closed.
func TestRefusalWhileSending(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	viewer := v.token(v.inst, nil, token.VaultView)
	body := form(t, append(v.validFields(), pdfFile(samplePDF(19<<20)))...)
	busy := v.token(v.inst, nil, token.All...)
	v.api.Limit = limit.NewCounter(4, time.Now)
	found, _, err := v.api.Tokens.Authenticate(t.Context(), busy)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		v.api.Limit.Take(strconv.FormatInt(found.ID, 10))
	}
	for name, tc := range map[string]struct {
		secret, contentType string
		status              int
	}{
		"no token":      {"", "multipart/form-data; boundary=" + boundary, 401},
		"no permission": {viewer, "multipart/form-data; boundary=" + boundary, 403},
		"a wrong type":  {v.secret, "application/pdf", 415},
		"over the rate": {busy, "multipart/form-data; boundary=" + boundary, 429},
	} {
		r := v.request(http.MethodPost, "/business/certificate-vault", bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+tc.secret)
		r.Header.Set("Content-Type", tc.contentType)
		if a := v.do(r); a.Status != tc.status {
			t.Errorf("%s: status = %d, want %d; body %s", name, a.Status, tc.status, a.Body)
		}
	}
}

// If a client disconnects, no row and no file is stored.
func TestDisconnectedClient(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	complete := form(t, append(v.validFields(), pdfFile(samplePDF(300_000)))...)
	for name, sent := range map[string]int{"in the file": 200_000, "in the closing boundary": len(complete) - 4, "after the closing boundary": len(complete)} {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", v.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST /business/certificate-vault HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: multipart/form-data; boundary=%s\r\nContent-Length: %d\r\n\r\n%s", v.secret, boundary, len(complete)+1, complete[:sent]); err != nil {
			t.Fatal(err)
		}
		half, ok := conn.(*tls.Conn)
		if !ok {
			t.Fatal("the connection is not a TLS connection")
		}
		// Only the sending side is closed, so that the test can wait for the end of the response.
		if err := half.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if rows, files := v.stored(); rows != 0 || files != 0 {
			t.Errorf("%s: the request stored %d rows and %d files, want none", name, rows, files)
		}
	}
	// A truncated body is a client error, so the log must not contain the cause as an internal error.
	if log := v.log.String(); strings.Contains(log, "unexpected EOF") {
		t.Errorf("the log contains \"unexpected EOF\", want no internal error: %s", log)
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }
