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

// keyed posts a body with an idempotency key.
func (v *vault) keyed(key, path, contentType string, body io.Reader) *answer {
	v.tb.Helper()
	r := v.request(http.MethodPost, path, body)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Idempotency-Key", key)
	return v.do(r)
}

func (v *vault) keyedForm(key string, parts ...part) *answer {
	v.tb.Helper()
	return v.keyed(key, vaultPath, "multipart/form-data; boundary="+boundary, bytes.NewReader(form(v.tb, parts...)))
}

func replayed(a *answer) bool { return a.Header.Get("Idempotency-Replayed") == "true" }

// sameAgain checks that an answer is a replay of the first one.
func sameAgain(t *testing.T, what string, first, again *answer) {
	t.Helper()
	if !replayed(again) || again.Status != first.Status || !bytes.Equal(again.Body, first.Body) || again.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: %d %s is not %d %s again", what, again.Status, again.Body, first.Status, first.Body)
	}
	if first.Header.Get("X-Request-Id") == again.Header.Get("X-Request-Id") {
		t.Errorf("%s: the request ids are the same", what)
	}
}

func otherContent(t *testing.T, what string, a *answer) {
	t.Helper()
	if a.Status != http.StatusUnprocessableEntity || a.fields(t) != "Idempotency-Key" || replayed(a) {
		t.Errorf("%s: %d %s", what, a.Status, a.Body)
	}
}

func TestUploadRunsOncePerKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		fields := v.usual()
		content := samplePDF(100_000)
		all := append(slices.Clone(fields), pdfFile(content))
		first := v.keyedForm("k1", all...)
		if first.Status != http.StatusCreated || replayed(first) {
			t.Fatalf("%d %s", first.Status, first.Body)
		}
		sameAgain(t, "again", first, v.keyedForm("k1", all...))
		// The bytes of the form do not matter: neither its boundary nor the content types of the
		// parts.
		other := bytes.ReplaceAll(form(t, all...), []byte(boundary), []byte("quite-another"))
		other = bytes.Replace(other, []byte(`filename="diploma.pdf"`), []byte("filename=\"diploma.pdf\"\r\nContent-Type: application/pdf"), 1)
		sameAgain(t, "behind another boundary", first, v.keyed("k1", vaultPath, "multipart/form-data; boundary=quite-another", bytes.NewReader(other)))
		changed := slices.Clone(content)
		changed[len(changed)/2]++
		for what, parts := range map[string][]part{
			"another value":             append(slices.Clone(fields[:2]), text("applicant_email", "bo@example.org"), pdfFile(content)),
			"one field more":            append(slices.Clone(all), text("details", "x")),
			"a field that nobody knows": append(slices.Clone(all), text("colour", "x")),
			"one field less":            all[1:],
			"another order":             append([]part{all[1], all[0]}, all[2:]...),
			"another file":              append(slices.Clone(fields), pdfFile(changed)),
			"no file":                   fields,
			"the file as text":          append(slices.Clone(fields), text("certificate_file", string(content))),
			"two fields run together":   append([]part{text("certificate_titleB", "Sc Physics 1")}, all[1:]...),
			"nothing":                   nil,
		} {
			otherContent(t, what, v.keyedForm("k1", parts...))
		}
		if rows, files := v.stored(); rows != 1 || files != 1 {
			t.Errorf("%d rows and %d files", rows, files)
		}
		if a := v.keyedForm("k2", all...); a.Status != http.StatusUnprocessableEntity || a.fields(t) != "applicant_email existing_uuid" {
			t.Errorf("with another key: %d %s", a.Status, a.Body)
		}
		if a := v.post(form(t, all...)); a.Status != http.StatusUnprocessableEntity || replayed(a) {
			t.Errorf("without a key: %d %s", a.Status, a.Body)
		}
	})
}

// A refusal of invalid input is also stored: a later request with the same key gets it again.
func TestRefusalsAreStored(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	usual := v.usual()
	good := append(slices.Clone(usual), pdfFile(samplePDF(0)))
	if a := v.post(form(t, good...)); a.Status != http.StatusCreated {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	rows, files := v.stored()
	for what, parts := range map[string][]part{
		"nothing":           nil,
		"a field too long":  append(slices.Clone(usual), text("details", strings.Repeat("x", 200_000)), pdfFile(samplePDF(0))),
		"a field twice":     append(slices.Clone(good), text("full_name", "x")),
		"a list":            append(slices.Clone(good), text("details[]", "x")),
		"no name":           append(slices.Clone(good), text("", "x")),
		"two files":         append(slices.Clone(good), pdfFile(samplePDF(0))),
		"a duplicate":       good,
		"an empty file":     append(slices.Clone(usual), pdfFile(nil)),
		"a file too large":  append(slices.Clone(usual), pdfFile(samplePDF(20<<20+1))),
		"no file of ours":   append(slices.Clone(usual), pdfFile([]byte("PK\x03\x04"))),
		"the file as text":  append(slices.Clone(usual), text("certificate_file", "x")),
		"a file for a text": append(slices.Clone(usual[1:]), part{"certificate_title", "title.txt", []byte("x")}, pdfFile(samplePDF(0))),
	} {
		first := v.keyedForm(strings.ReplaceAll(what, " ", "-"), parts...)
		if first.Status != http.StatusUnprocessableEntity || replayed(first) {
			t.Errorf("%s: %d %s", what, first.Status, first.Body)
		}
		sameAgain(t, what, first, v.keyedForm(strings.ReplaceAll(what, " ", "-"), parts...))
		otherContent(t, what, v.keyedForm(strings.ReplaceAll(what, " ", "-"), append(slices.Clone(v.usual()), pdfFile(samplePDF(10_000)))...))
	}
	// Two bodies over the limit that differ only after the limit are still different requests.
	long := func(last string) []part {
		return append(slices.Clone(usual), text("details", strings.Repeat("x", 100_000)+last))
	}
	if a := v.keyedForm("long", long("a")...); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	otherContent(t, "another end", v.keyedForm("long", long("b")...))
	if r, f := v.stored(); r != rows || f != files {
		t.Errorf("%d rows and %d files are left", r-rows, f-files)
	}
}

// A request that failed or broke off does not use up its key.
func TestFailedRequestFreesKey(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	all := append(v.usual(), pdfFile(samplePDF(50_000)))
	whole := form(t, all...)
	const multi = "multipart/form-data; boundary=" + boundary
	crowd := slices.Clone(all)
	for range 200 {
		crowd = append(crowd, text("x", "y"))
	}
	for what, tc := range map[string]struct {
		contentType string
		body        []byte
		status      int
	}{
		"cut off":            {multi, whole[:len(whole)-1000], 422},
		"another boundary":   {multi + "x", whole, 422},
		"no form":            {"application/json", whole, 415},
		"too large":          {multi, append(slices.Clone(whole), make([]byte, 25<<20)...), 413},
		"too many parts":     {multi, form(t, crowd...), 422},
		"a part's huge head": {multi, []byte("--" + boundary + "\r\nX: " + strings.Repeat("x", 1<<20)), 422},
	} {
		if a := v.keyed("k", vaultPath, tc.contentType, bytes.NewReader(tc.body)); a.Status != tc.status || a.refusal(t).Message == "" {
			t.Errorf("%s: %d %s", what, a.Status, a.Body)
		}
	}
	if rows, files := v.stored(); rows != 0 || files != 0 {
		t.Errorf("%d rows and %d files are left", rows, files)
	}
	if a := v.keyedForm("k", all...); a.Status != http.StatusCreated || replayed(a) {
		t.Errorf("the whole: %d %s", a.Status, a.Body)
	}
}

func TestConcurrentRequestWithKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		all := append(v.usual(), pdfFile(samplePDF(50_000)))
		whole := form(t, all...)
		read, write := io.Pipe()
		var first *answer
		var wg sync.WaitGroup
		wg.Go(func() { first = v.keyed("k", vaultPath, "multipart/form-data; boundary="+boundary, read) })
		if _, err := write.Write(whole[:20_000]); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return v.count(`SELECT count(*) FROM idempotency_keys`) == 1 })
		a := v.keyedForm("k", all...)
		wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if a.Status != http.StatusConflict || err != nil || wait < 1 || a.refusal(t).Message == "" {
			t.Errorf("meanwhile: %d %v %s", a.Status, a.Header, a.Body)
		}
		if _, err := write.Write(whole[20_000:]); err != nil {
			t.Fatal(err)
		}
		if err := write.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if first.Status != http.StatusCreated {
			t.Fatalf("%d %s", first.Status, first.Body)
		}
		sameAgain(t, "afterwards", first, v.keyedForm("k", all...))
		if rows, files := v.stored(); rows != 1 || files != 1 {
			t.Errorf("%d rows and %d files", rows, files)
		}
	})
}

// If many clients send the same request at once, it is performed once. The others are asked to
// wait, or get the answer of the first.
func TestManyRequestsWithOneKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		all := append(v.usual(), pdfFile(samplePDF(20_000)))
		answers := make([]*answer, 12)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = v.keyedForm("k", all...) })
		}
		wg.Wait()
		made := 0
		for _, a := range answers {
			switch {
			case a.Status == http.StatusCreated && !replayed(a):
				made++
			case a.Status != http.StatusCreated && a.Status != http.StatusConflict:
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
		if rows, files := v.stored(); made != 1 || rows != 1 || files != 1 {
			t.Errorf("%d were done, %d rows and %d files", made, rows, files)
		}
	})
}

// Authentication, permission and routing are checked before the key.
func TestKeysArePerToken(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	all := append(v.usual(), pdfFile(samplePDF(0)))
	if a := v.keyedForm("k", all...); a.Status != http.StatusCreated {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	mine := v.secret
	for what, tc := range map[string]struct {
		secret string
		status int
	}{
		"no token":              {"", 401},
		"no permission":         {v.token(v.inst, nil, token.VaultList), 403},
		"another token":         {v.token(v.inst, nil, token.All...), 422}, // a duplicate, not a replay
		"another's institution": {v.token(v.institution("OTH"), nil, token.All...), 201},
	} {
		v.secret = tc.secret
		if a := v.keyedForm("k", all...); a.Status != tc.status || replayed(a) {
			t.Errorf("%s: %d %s", what, a.Status, a.Body)
		}
	}
	v.secret = mine
	if a := v.keyed("k", vaultPath+"/"+nobody+"/retry", "", http.NoBody); a.Status != http.StatusNotFound {
		t.Errorf("another path: %d %s", a.Status, a.Body)
	}
}

func TestMalformedKeys(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	for _, values := range [][]string{
		{""}, {strings.Repeat("k", 256)}, {"two words"}, {"tab\tkey"}, {"schlüssel"}, {"\x80"}, {"del\x7f"}, {"a", "b"}, {"a", "a"}, {"a", ""},
	} {
		r := v.request(http.MethodPost, vaultPath, bytes.NewReader(form(t, append(v.usual(), pdfFile(samplePDF(0)))...)))
		r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		r.Header["Idempotency-Key"] = values
		w := httptest.NewRecorder()
		v.api.Handler().ServeHTTP(w, r) // not through net/http's client, which does not send all of them
		a := &answer{w.Code, w.Header(), w.Body.Bytes()}
		if a.Status != http.StatusUnprocessableEntity || a.fields(t) != "Idempotency-Key" {
			t.Errorf("%q: %d %s", values, a.Status, a.Body)
		}
	}
	for _, key := range []string{"k", strings.Repeat("k", 255), `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, "!~,;"} {
		if a := v.keyedForm(key, append(v.usual(), pdfFile(samplePDF(0)))...); a.Status != http.StatusCreated {
			t.Errorf("%q: %d %s", key, a.Status, a.Body)
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
		retry := func() *answer { return v.keyed("k", vaultPath+"/"+id+"/retry", "", http.NoBody) }
		first := retry()
		if first.Status != http.StatusOK || events() != 1 {
			t.Fatalf("%d %s", first.Status, first.Body)
		}
		sameAgain(t, "retry", first, retry())
		// Without the key, the response is that there is nothing to retry. That response is not
		// stored.
		if a := v.keyed("other", vaultPath+"/"+id+"/retry", "", http.NoBody); a.Status != http.StatusBadRequest || replayed(a) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		v.Work(1)
		if a := v.keyed("other", vaultPath+"/"+id+"/retry", "", http.NoBody); a.Status != http.StatusOK || replayed(a) || events() != 2 {
			t.Errorf("once it failed again: %d %s", a.Status, a.Body)
		}

		revoke := func(body string) *answer {
			return v.keyed("k", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(body))
		}
		wrong := v.keyed("bad", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(`{"reason": ""}`))
		if wrong.Status != http.StatusUnprocessableEntity {
			t.Errorf("%d %s", wrong.Status, wrong.Body)
		}
		sameAgain(t, "a refused revocation", wrong, v.keyed("bad", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(`{"reason":""}`)))
		first = revoke(`{"reason": "withdrawn", "note": "x"}`)
		if first.Status != http.StatusOK {
			t.Fatalf("%d %s", first.Status, first.Body)
		}
		sameAgain(t, "revoke, written otherwise", first, revoke("{\n\t\"reason\":\"withdrawn\",\"note\":\"x\"\n}"))
		otherContent(t, "another reason", revoke(`{"reason": "other", "note": "x"}`))
		otherContent(t, "no note", revoke(`{"reason": "withdrawn"}`))
		// Revoking a revoked certificate changes nothing, and its answer is stored too.
		again := v.keyed("k2", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(`{"reason": "again"}`))
		if again.Status != http.StatusOK || replayed(again) || data(t, again)["revocation_reason"] != "withdrawn" {
			t.Errorf("%d %s", again.Status, again.Body)
		}
		sameAgain(t, "revoked again", again, v.keyed("k2", vaultPath+"/"+id+"/revoke", "application/json", strings.NewReader(`{"reason": "again"}`)))
		if events() != 3 {
			t.Errorf("%d events", events())
		}
	})
}

// The answer is stored with the operation, however the request ends: with an error of the
// transaction, a panic, or a client that disconnected.
func TestAnswerIsStoredWithOperation(t *testing.T) {
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
							if err := x.answerTx(ctx, tx, http.StatusCreated, made.UUID); err != nil {
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
		well := func(context.Context, *db.Tx) error { return nil }
		broken := errors.New("the disk is on fire")
		if _, err := upload("broken", func(context.Context, *db.Tx) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = upload("panic", func(context.Context, *db.Tx) error { panic("nil map") })
		}()
		if n := v.count(`SELECT count(*) FROM idempotency_keys`) + v.count(`SELECT count(*) FROM certificates`); n != 0 {
			t.Fatalf("%d rows are left of what was undone", n)
		}
		for _, key := range []string{"broken", "panic"} {
			first, err := upload(key, well)
			if err != nil || first.Code != http.StatusCreated {
				t.Fatalf("%s: %d %s, %v", key, first.Code, first.Body, err)
			}
			again, err := upload(key, well)
			if err != nil || again.Body.String() != first.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: %d %s, %v", key, again.Code, again.Body, err)
			}
		}
		if n := v.count(`SELECT count(*) FROM certificates`); n != 2 {
			t.Errorf("%d certificates", n)
		}
	})
}

// A request that the client aborts frees its key.
func TestDroppedConnectionFreesKey(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	all := append(v.usual(), pdfFile(samplePDF(50_000)))
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	r := v.request(http.MethodPost, vaultPath, read).WithContext(ctx)
	r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	r.Header.Set("Idempotency-Key", "k")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		res, err := v.server.Client().Do(r)
		if err == nil {
			t.Errorf("answered %d", res.StatusCode)
			_ = res.Body.Close()
		}
	}()
	if _, err := write.Write(form(t, all...)[:20_000]); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return v.count(`SELECT count(*) FROM idempotency_keys`) == 1 })
	cancel()
	_ = write.CloseWithError(os.ErrClosed)
	<-gone
	await(t, func() bool { return v.count(`SELECT count(*) FROM idempotency_keys`) == 0 })
	if a := v.keyedForm("k", all...); a.Status != http.StatusCreated || replayed(a) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A handler that sets no answer causes an internal error, not an empty success.
func TestOperationWithoutAnswer(t *testing.T) {
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
		t.Errorf("%v, %s", err, w.Body)
	}
}
