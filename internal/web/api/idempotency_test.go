package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/token"
)

const vaultPath = "/business/certificate-vault"

// postWithKey posts a body with an idempotency key.
func (v *vault) postWithKey(key, path, contentType string, body io.Reader) *response {
	v.tb.Helper()
	r := v.request(http.MethodPost, path, body)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Idempotency-Key", key)
	return v.do(r)
}

func (v *vault) postFormWithKey(key string, parts ...part) *response {
	v.tb.Helper()
	return v.postWithKey(key, vaultPath, "multipart/form-data; boundary="+boundary, bytes.NewReader(form(v.tb, parts...)))
}

func replayed(a *response) bool { return a.Header.Get("Idempotency-Replayed") == "true" }

// checkReplay checks that again is a replay of first, with another request id.
func checkReplay(t *testing.T, what string, first, again *response) {
	t.Helper()
	if !replayed(again) || again.Status != first.Status || !bytes.Equal(again.Body, first.Body) || again.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: status = %d, body %s; want a replay of status %d, body %s", what, again.Status, again.Body, first.Status, first.Body)
	}
	if first.Header.Get("X-Request-Id") == again.Header.Get("X-Request-Id") {
		t.Errorf("%s: the request ids are the same, want different ids", what)
	}
}

func checkOtherContent(t *testing.T, what string, a *response) {
	t.Helper()
	if a.Status != http.StatusUnprocessableEntity || a.fields(t) != "Idempotency-Key" || replayed(a) {
		t.Errorf("%s: status = %d, want 422 for the Idempotency-Key, and no replay; body %s", what, a.Status, a.Body)
	}
}

func TestUploadRunsOncePerKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		fields := v.validFields()
		content := samplePDF(100_000)
		all := append(slices.Clone(fields), pdfFile(content))
		first := v.postFormWithKey("k1", all...)
		if first.Status != http.StatusCreated || replayed(first) {
			t.Fatalf("the first request: status = %d, want 201, and no replay; body %s", first.Status, first.Body)
		}
		checkReplay(t, "the same request", first, v.postFormWithKey("k1", all...))
		// The boundary of the form and the content types of its parts may differ.
		other := bytes.ReplaceAll(form(t, all...), []byte(boundary), []byte("quite-another"))
		other = bytes.Replace(other, []byte(`filename="diploma.pdf"`), []byte("filename=\"diploma.pdf\"\r\nContent-Type: application/pdf"), 1)
		checkReplay(t, "another boundary", first, v.postWithKey("k1", vaultPath, "multipart/form-data; boundary=quite-another", bytes.NewReader(other)))
		changed := slices.Clone(content)
		changed[len(changed)/2]++
		for what, parts := range map[string][]part{
			"another value":         append(slices.Clone(fields[:2]), text("applicant_email", "bo@example.org"), pdfFile(content)),
			"an additional field":   append(slices.Clone(all), text("details", "x")),
			"an unknown field":      append(slices.Clone(all), text("colour", "x")),
			"a missing field":       all[1:],
			"another order":         append([]part{all[1], all[0]}, all[2:]...),
			"another file":          append(slices.Clone(fields), pdfFile(changed)),
			"no file":               fields,
			"the file as text":      append(slices.Clone(fields), text("certificate_file", string(content))),
			"joined name and value": append([]part{text("certificate_titleB", "Sc Physics 1")}, all[1:]...),
			"an empty form":         nil,
		} {
			checkOtherContent(t, what, v.postFormWithKey("k1", parts...))
		}
		if rows, files := v.stored(); rows != 1 || files != 1 {
			t.Errorf("%d rows and %d files are stored, want 1 and 1", rows, files)
		}
		if a := v.postFormWithKey("k2", all...); a.Status != http.StatusUnprocessableEntity || a.fields(t) != "applicant_email existing_uuid" {
			t.Errorf("with another key: status = %d, want 422 for a duplicate; body %s", a.Status, a.Body)
		}
		if a := v.post(form(t, all...)); a.Status != http.StatusUnprocessableEntity || replayed(a) {
			t.Errorf("without a key: status = %d, want 422, and no replay; body %s", a.Status, a.Body)
		}
	})
}

// The error response to invalid input is stored: a repeated request with the same key gets the same
// response.
func TestErrorsAreStored(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	fields := v.validFields()
	valid := append(slices.Clone(fields), pdfFile(samplePDF(0)))
	if a := v.post(form(t, valid...)); a.Status != http.StatusCreated {
		t.Fatalf("the first upload: status = %d, want 201; body %s", a.Status, a.Body)
	}
	rows, files := v.stored()
	for what, parts := range map[string][]part{
		"nothing":                nil,
		"a long field":           append(slices.Clone(fields), text("details", strings.Repeat("x", 200_000)), pdfFile(samplePDF(0))),
		"a repeated field":       append(slices.Clone(valid), text("full_name", "x")),
		"a list":                 append(slices.Clone(valid), text("details[]", "x")),
		"no name":                append(slices.Clone(valid), text("", "x")),
		"two files":              append(slices.Clone(valid), pdfFile(samplePDF(0))),
		"a duplicate":            valid,
		"an empty file":          append(slices.Clone(fields), pdfFile(nil)),
		"a large file":           append(slices.Clone(fields), pdfFile(samplePDF(20<<20+1))),
		"an unsupported file":    append(slices.Clone(fields), pdfFile([]byte("PK\x03\x04"))),
		"the file as text":       append(slices.Clone(fields), text("certificate_file", "x")),
		"a file instead of text": append(slices.Clone(fields[1:]), part{"certificate_title", "title.txt", []byte("x")}, pdfFile(samplePDF(0))),
	} {
		first := v.postFormWithKey(strings.ReplaceAll(what, " ", "-"), parts...)
		if first.Status != http.StatusUnprocessableEntity || replayed(first) {
			t.Errorf("%s: status = %d, want 422, and no replay; body %s", what, first.Status, first.Body)
		}
		checkReplay(t, what, first, v.postFormWithKey(strings.ReplaceAll(what, " ", "-"), parts...))
		checkOtherContent(t, what, v.postFormWithKey(strings.ReplaceAll(what, " ", "-"), append(slices.Clone(v.validFields()), pdfFile(samplePDF(10_000)))...))
	}
	// The fingerprint covers the whole field, including the bytes after the limit.
	long := func(last string) []part {
		return append(slices.Clone(fields), text("details", strings.Repeat("x", 100_000)+last))
	}
	if a := v.postFormWithKey("long", long("a")...); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("a field over the limit: status = %d, want 422; body %s", a.Status, a.Body)
	}
	checkOtherContent(t, "another end of a long field", v.postFormWithKey("long", long("b")...))
	if r, f := v.stored(); r != rows || f != files {
		t.Errorf("the refused requests stored %d rows and %d files, want none", r-rows, f-files)
	}
}

// A request that is malformed, truncated or too large does not keep its key.
func TestFailedRequestReleasesKey(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	all := append(v.validFields(), pdfFile(samplePDF(50_000)))
	whole := form(t, all...)
	const multi = "multipart/form-data; boundary=" + boundary
	tooMany := slices.Clone(all)
	for range 200 {
		tooMany = append(tooMany, text("x", "y"))
	}
	for what, tc := range map[string]struct {
		contentType string
		body        []byte
		status      int
	}{
		"truncated":                {multi, whole[:len(whole)-1000], 422},
		"another boundary":         {multi + "x", whole, 422},
		"no form":                  {"application/json", whole, 415},
		"too large":                {multi, append(slices.Clone(whole), make([]byte, 25<<20)...), 413},
		"too many parts":           {multi, form(t, tooMany...), 422},
		"a large header of a part": {multi, []byte("--" + boundary + "\r\nX: " + strings.Repeat("x", 1<<20)), 422},
	} {
		if a := v.postWithKey("k", vaultPath, tc.contentType, bytes.NewReader(tc.body)); a.Status != tc.status || a.problem(t).Message == "" {
			t.Errorf("%s: status = %d, want %d; body %s", what, a.Status, tc.status, a.Body)
		}
	}
	if rows, files := v.stored(); rows != 0 || files != 0 {
		t.Errorf("the failed requests stored %d rows and %d files, want none", rows, files)
	}
	if a := v.postFormWithKey("k", all...); a.Status != http.StatusCreated || replayed(a) {
		t.Errorf("the complete form: status = %d, want 201; body %s", a.Status, a.Body)
	}
}

func TestConcurrentRequestWithKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		all := append(v.validFields(), pdfFile(samplePDF(50_000)))
		whole := form(t, all...)
		read, write := io.Pipe()
		var first *response
		var wg sync.WaitGroup
		wg.Go(func() { first = v.postWithKey("k", vaultPath, "multipart/form-data; boundary="+boundary, read) })
		if _, err := write.Write(whole[:20_000]); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return v.count(`SELECT count(*) FROM idempotency_keys`) == 1 })
		a := v.postFormWithKey("k", all...)
		wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if a.Status != http.StatusConflict || err != nil || wait < 1 || a.problem(t).Message == "" {
			t.Errorf("during the first request: status = %d, want 409 with Retry-After; header %v, body %s", a.Status, a.Header, a.Body)
		}
		if _, err := write.Write(whole[20_000:]); err != nil {
			t.Fatal(err)
		}
		if err := write.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if first.Status != http.StatusCreated {
			t.Fatalf("the first request: status = %d, want 201; body %s", first.Status, first.Body)
		}
		checkReplay(t, "after the first request", first, v.postFormWithKey("k", all...))
		if rows, files := v.stored(); rows != 1 || files != 1 {
			t.Errorf("%d rows and %d files are stored, want 1 and 1", rows, files)
		}
	})
}

// If several clients send the same request concurrently, one request is performed. The responses to the
// other requests have the status 409, or are replays of the first response.
func TestConcurrentRequestsWithOneKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		all := append(v.validFields(), pdfFile(samplePDF(20_000)))
		responses := make([]*response, 12)
		var wg sync.WaitGroup
		for i := range responses {
			wg.Go(func() { responses[i] = v.postFormWithKey("k", all...) })
		}
		wg.Wait()
		made := 0
		for _, a := range responses {
			switch {
			case a.Status == http.StatusCreated && !replayed(a):
				made++
			case a.Status != http.StatusCreated && a.Status != http.StatusConflict:
				t.Errorf("a concurrent request: status = %d, want 201 or 409; body %s", a.Status, a.Body)
			}
		}
		if rows, files := v.stored(); made != 1 || rows != 1 || files != 1 {
			t.Errorf("%d requests were performed, %d rows and %d files are stored, want 1 of each", made, rows, files)
		}
	})
}

// A key is valid for one token and one path. The token and its permissions are checked before the
// key.
func TestKeysArePerToken(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	all := append(v.validFields(), pdfFile(samplePDF(0)))
	if a := v.postFormWithKey("k", all...); a.Status != http.StatusCreated {
		t.Fatalf("the first upload: status = %d, want 201; body %s", a.Status, a.Body)
	}
	original := v.secret
	for what, tc := range map[string]struct {
		secret string
		status int
	}{
		"no token":            {"", 401},
		"no permission":       {v.token(v.inst, nil, token.VaultList), 403},
		"another token":       {v.token(v.inst, nil, token.All...), 422}, // a duplicate, not a replay
		"another institution": {v.token(v.institution("OTH"), nil, token.All...), 201},
	} {
		v.secret = tc.secret
		if a := v.postFormWithKey("k", all...); a.Status != tc.status || replayed(a) {
			t.Errorf("%s: status = %d, want %d; body %s", what, a.Status, tc.status, a.Body)
		}
	}
	v.secret = original
	if a := v.postWithKey("k", vaultPath+"/"+unknownID+"/retry", "", http.NoBody); a.Status != http.StatusNotFound {
		t.Errorf("another path: status = %d, want 404; body %s", a.Status, a.Body)
	}
}

func TestMalformedKeys(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	for _, values := range [][]string{
		{""}, {strings.Repeat("k", 256)}, {"two words"}, {"tab\tkey"}, {"schlüssel"}, {"\x80"}, {"del\x7f"}, {"a", "b"}, {"a", "a"}, {"a", ""},
	} {
		r := v.request(http.MethodPost, vaultPath, bytes.NewReader(form(t, append(v.validFields(), pdfFile(samplePDF(0)))...)))
		r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		r.Header["Idempotency-Key"] = values
		w := httptest.NewRecorder()
		v.api.Handler().ServeHTTP(w, r) // the client of net/http does not send all of these headers
		a := &response{w.Code, w.Header(), w.Body.Bytes()}
		if a.Status != http.StatusUnprocessableEntity || a.fields(t) != "Idempotency-Key" {
			t.Errorf("the keys %q: status = %d, want 422 for the Idempotency-Key; body %s", values, a.Status, a.Body)
		}
	}
	for _, key := range []string{"k", strings.Repeat("k", 255), `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, "!~,;"} {
		if a := v.postFormWithKey(key, append(v.validFields(), pdfFile(samplePDF(0)))...); a.Status != http.StatusCreated {
			t.Errorf("the key %q: status = %d, want 201; body %s", key, a.Status, a.Body)
		}
	}
}

func TestRetryAndRevokeRunOncePerKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		id := v.upload("refuse.pdf")["uuid"].(string)
		v.Work(1)
		events := func() int {
			return v.count(`SELECT count(*) FROM webhook_events WHERE name LIKE '%.retried' OR name LIKE '%.revoked'`)
		}
		retry := func() *response { return v.postWithKey("k", vaultPath+"/"+id+"/retry", "", http.NoBody) }
		first := retry()
		if first.Status != http.StatusOK || events() != 1 {
			t.Fatalf("the first retry: status = %d with %d events, want 200 with 1 event; body %s", first.Status, events(), first.Body)
		}
		checkReplay(t, "retry", first, retry())
		// The certificate is processing, so a retry with another key is an invalid operation. The
		// response to an invalid operation is not stored.
		if a := v.postWithKey("other", vaultPath+"/"+id+"/retry", "", http.NoBody); a.Status != http.StatusBadRequest || replayed(a) {
			t.Errorf("a second retry with another key: status = %d, want 400, and no replay; body %s", a.Status, a.Body)
		}
		v.Work(1)
		if a := v.postWithKey("other", vaultPath+"/"+id+"/retry", "", http.NoBody); a.Status != http.StatusOK || replayed(a) || events() != 2 {
			t.Errorf("after the certificate failed again: status = %d with %d events, want 200 with 2 events; body %s", a.Status, events(), a.Body)
		}

		revoke := func(body string) *response {
			return v.postWithKey("k", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(body))
		}
		wrong := v.postWithKey("bad", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(`{"reason": ""}`))
		if wrong.Status != http.StatusUnprocessableEntity {
			t.Errorf("revoking without a reason: status = %d, want 422; body %s", wrong.Status, wrong.Body)
		}
		checkReplay(t, "an invalid revocation", wrong, v.postWithKey("bad", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(`{"reason":""}`)))
		first = revoke(`{"reason": "withdrawn", "note": "x"}`)
		if first.Status != http.StatusOK {
			t.Fatalf("revoking: status = %d, want 200; body %s", first.Status, first.Body)
		}
		checkReplay(t, "a revocation with other white space", first, revoke("{\n\t\"reason\":\"withdrawn\",\"note\":\"x\"\n}"))
		checkOtherContent(t, "another reason", revoke(`{"reason": "other", "note": "x"}`))
		checkOtherContent(t, "no note", revoke(`{"reason": "withdrawn"}`))
		// Revoking a revoked certificate changes nothing, but its response is stored.
		again := v.postWithKey("k2", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(`{"reason": "again"}`))
		if again.Status != http.StatusOK || replayed(again) || data(t, again)["revocation_reason"] != "withdrawn" {
			t.Errorf("revoking with another key: status = %d, want 200 with the first reason, and no replay; body %s", again.Status, again.Body)
		}
		checkReplay(t, "a second revocation", again, v.postWithKey("k2", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(`{"reason": "again"}`)))
		if events() != 3 {
			t.Errorf("%d events were recorded, want 3", events())
		}
	})
}

// A response is stored if and only if its operation is committed. If the transaction returns an error
// or panics, the key is released.
func TestResponseIsStoredWithOperation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		upload := func(key string, end func(ctx context.Context, tx *db.Tx) error) (w *httptest.ResponseRecorder, err error) {
			w = httptest.NewRecorder()
			r := v.request(http.MethodPost, vaultPath, http.NoBody)
			r.Header.Set("Idempotency-Key", key)
			inst, err := v.api.Tokens.List(t.Context(), v.inst.ID)
			if err != nil {
				return nil, err
			}
			c := &call{Request: r, token: inst[0], institution: v.inst}
			x, err := v.api.begin(c)
			if err != nil {
				return nil, err
			}
			defer x.release()
			if err = x.complete(); err == nil {
				incoming := cert.NewIncoming("a.pdf", bytes.NewReader(samplePDF(0)))
				err = v.api.Certs.Receive(t.Context(), v.inst.UUID, incoming, func(file *cert.File) error {
					_, err := v.api.Certs.Upload(c.Context(), cert.Upload{
						Institution: v.inst, Context: cert.SingleUpload, Title: key, FullName: "Ada", Email: "ada@example.org", File: file,
						Then: func(ctx context.Context, tx *db.Tx, made *cert.Certificate) error {
							if err := x.respondTx(ctx, tx, http.StatusCreated, made.UUID); err != nil {
								return err
							}
							return end(ctx, tx)
						},
					})
					return err
				})
			}
			return w, x.end(w, err)
		}
		succeed := func(context.Context, *db.Tx) error { return nil }
		broken := errors.New("broken")
		if _, err := upload("broken", func(context.Context, *db.Tx) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("an upload whose transaction fails: error = %v, want %v", err, broken)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = upload("panic", func(context.Context, *db.Tx) error { panic("nil map") })
		}()
		if n := v.count(`SELECT count(*) FROM idempotency_keys`) + v.count(`SELECT count(*) FROM certificates`); n != 0 {
			t.Fatalf("%d keys and certificates are stored after the rollback, want 0", n)
		}
		for _, key := range []string{"broken", "panic"} {
			first, err := upload(key, succeed)
			if err != nil || first.Code != http.StatusCreated {
				t.Fatalf("%s: status = %d, want 201; body %s, error %v", key, first.Code, first.Body, err)
			}
			again, err := upload(key, succeed)
			if err != nil || again.Body.String() != first.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" {
				t.Errorf("the second upload with the key %s: status = %d, body %s, error %v, want a replay", key, again.Code, again.Body, err)
			}
		}
		if n := v.count(`SELECT count(*) FROM certificates`); n != 2 {
			t.Errorf("%d certificates were created, want 2", n)
		}
	})
}

// A request that the client aborts releases its key.
func TestAbortedRequestReleasesKey(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	all := append(v.validFields(), pdfFile(samplePDF(50_000)))
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	r := v.request(http.MethodPost, vaultPath, read).WithContext(ctx)
	r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	r.Header.Set("Idempotency-Key", "k")
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err := v.server.Client().Do(r)
		if err == nil {
			t.Errorf("the aborted request got the status %d, want an error", res.StatusCode)
			_ = res.Body.Close()
		}
	}()
	if _, err := write.Write(form(t, all...)[:20_000]); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return v.count(`SELECT count(*) FROM idempotency_keys`) == 1 })
	cancel()
	_ = write.CloseWithError(os.ErrClosed)
	<-done
	await(t, func() bool { return v.count(`SELECT count(*) FROM idempotency_keys`) == 0 })
	if a := v.postFormWithKey("k", all...); a.Status != http.StatusCreated || replayed(a) {
		t.Errorf("the request after the aborted one: status = %d, want 201, and no replay; body %s", a.Status, a.Body)
	}
}

// If a handler performs an operation without a response, end returns an internal error and writes
// nothing.
func TestOperationWithoutResponse(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	w := httptest.NewRecorder()
	c := &call{Request: v.request(http.MethodPost, vaultPath, http.NoBody), token: &token.Token{}, institution: &account.Institution{}}
	x, err := v.api.begin(c)
	if err != nil {
		t.Fatal(err)
	}
	err = x.end(w, nil)
	if fault.KindOf(err) != fault.Internal || err == nil || w.Body.Len() != 0 {
		t.Errorf("end returned %v and wrote %q, want an internal error and no output", err, w.Body)
	}
}
