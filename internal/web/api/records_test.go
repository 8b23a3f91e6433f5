package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/blob/blobtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// recordFields maps the name of each field of a certificate to the statuses in which the field is
// null: p(rocessing), a(pproved), f(ailed), r(evoked after approval). New fields must be added here.
// Fields must not be removed, because clients depend on them.
var recordFields = map[string]string{
	"id": "", "uuid": "", "reference_id": "", "certificate_title": "", "full_name": "", "applicant_email": "", "source": "", "status": "",
	"issue_date": "", "details": "pafr", "trigger_context": "", "batch_id": "pafr", "customer_id": "pafr", "institution": "",
	"failure": "par", "file": "", "verified_sha256": "pf", "placement": "pf", "placement_page": "pf", "placement_box": "pf", "notices": "",
	"verification_url": "", "pdf_path": "pfr", "image_path": "pfr", "qrcode_path": "", "barcode_path": "",
	"created_at": "", "updated_at": "", "approved_at": "pf", "revoked_at": "paf", "revocation_reason": "paf", "replaces": "pafr", "replaced_by": "pafr",
	"expires_on": "pafr", "expired": "", "verifications": "",
}

func checkRecord(t *testing.T, status string, record map[string]any) {
	t.Helper()
	if got, want := slices.Sorted(maps.Keys(record)), slices.Sorted(maps.Keys(recordFields)); !slices.Equal(got, want) {
		t.Errorf("%s: the fields are %v, want %v", status, got, want)
	}
	for name, null := range recordFields {
		if (record[name] == nil) != strings.Contains(null, status[:1]) {
			t.Errorf("%s: %s = %v, want null in the statuses %q, and a value in all others", status, name, record[name], null)
		}
	}
	for _, name := range []string{"created_at", "updated_at", "approved_at", "revoked_at"} {
		s, ok := record[name].(string)
		if !ok {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, s); err != nil || !strings.HasSuffix(s, "Z") || time.Since(at) > time.Hour {
			t.Errorf("%s: %s is %q, want a recent time in UTC", status, name, s)
		}
	}
	state, _ := record["status"].(map[string]any)
	if len(state) != 3 || state["value"] != status || state["label"] == "" || state["description"] == "" {
		t.Errorf("the status is %v, want the value %s with a label and a description", state, status)
	}
}

func TestRecordInEachStatus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		made := v.upload("diploma.pdf")
		checkRecord(t, "processing", made)
		id, reference := made["uuid"].(string), made["reference_id"].(string)
		view := func(id string) map[string]any { return data(t, v.get("/business/certificate-vault/"+id)) }
		if got := view(id); !reflect.DeepEqual(got, made) {
			t.Errorf("the record is %v, want the record of the upload %v", got, made)
		}
		content := samplePDF(0)
		sum := sha256.Sum256(content)
		wantParts := map[string]any{
			"source":           map[string]any{"value": "vault", "label": "Vault"},
			"institution":      map[string]any{"uuid": v.inst.UUID, "name": v.inst.Name, "slug": "nwu"},
			"file":             map[string]any{"name": "diploma.pdf", "mime_type": "application/pdf", "size": float64(len(content)), "sha256": hex.EncodeToString(sum[:])},
			"trigger_context":  "single_upload",
			"notices":          []any{},
			"full_name":        "Ada Obi",
			"applicant_email":  "ada@example.org",
			"issue_date":       time.Now().UTC().Format(time.DateOnly),
			"verification_url": base + "/verify/" + reference,
			"qrcode_path":      base + "/verify/" + reference + "/qrcode.svg",
			"barcode_path":     base + "/verify/" + reference + "/barcode.svg",
		}
		for name, want := range wantParts {
			if !reflect.DeepEqual(made[name], want) {
				t.Errorf("%s is %v, want %v", name, made[name], want)
			}
		}
		failing := v.upload("refuse.pdf")["uuid"].(string)
		v.Work(2)
		failed := view(failing)
		checkRecord(t, "failed", failed)
		if want := map[string]any{"code": "no_room", "message": "There is no room for the stamp."}; !reflect.DeepEqual(failed["failure"], want) {
			t.Errorf("the failure is %v, want no_room with its message", failed["failure"])
		}
		approved := view(id)
		checkRecord(t, "approved", approved)
		if approved["verified_sha256"] != hexOf(append(content, tail...)) || approved["placement"] != "bottom-right" || approved["placement_page"] != 1.0 ||
			!reflect.DeepEqual(approved["placement_box"], []any{0.5, 0.5, 0.75, 1.0}) ||
			!reflect.DeepEqual(approved["notices"], []any{map[string]any{"code": "form", "message": "The PDF has form fields."}}) {
			t.Errorf("the approved record is %v, want the digest of the verified PDF, the placement and the notice", approved)
		}
		for _, kind := range []string{"pdf", "image"} {
			u, err := url.Parse(approved[kind+"_path"].(string))
			if err != nil || !strings.HasPrefix(u.String(), base+"/files/"+id+"/"+kind+"?") || u.Query().Get("signature") == "" {
				t.Errorf("%s_path is %v, want a capability URL of the file", kind, approved[kind+"_path"])
			}
		}
		a := v.postJSON("/business/certificate-vault/"+id+"/revoke", `{"reason": " Withdrawn ", "note": "never shown"}`)
		if a.Status != http.StatusOK || a.json(t)["message"] == "" || strings.Contains(string(a.Body), "never shown") {
			t.Errorf("revoking: status = %d, want 200; body %s", a.Status, a.Body)
		}
		revoked := view(id)
		checkRecord(t, "revoked", revoked)
		if !reflect.DeepEqual(revoked, data(t, a)) || revoked["revocation_reason"] != "Withdrawn" {
			t.Errorf("the revoked record is %v, want the record in the response, with the reason Withdrawn", revoked)
		}
		// A revoked certificate has no failure, because it cannot be retried.
		a = v.postJSON("/business/certificate-vault/"+failing+"/revoke", `{"reason": "Withdrawn"}`)
		if a.Status != http.StatusOK || data(t, a)["failure"] != nil || view(failing)["failure"] != nil {
			t.Errorf("revoking a failed certificate: status = %d, want 200 without a failure; body %s", a.Status, a.Body)
		}
	})
}

func hexOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestListEnvelope(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	const path = "/business/certificate-vault"
	link := func(query string) any { return base + path + "?" + query }
	check := func(query string, records int, links, meta map[string]any) {
		t.Helper()
		a := v.get(path + query)
		got := a.json(t)
		list, ok := got["data"].([]any)
		if a.Status != http.StatusOK || !ok || len(list) != records || len(got) != 3 {
			t.Errorf("%q: status = %d, want 200 with %d records; body %s", query, a.Status, records, a.Body)
		}
		if !reflect.DeepEqual(got["links"], links) {
			t.Errorf("%q: the links are %v, want %v", query, got["links"], links)
		}
		if !reflect.DeepEqual(got["meta"], meta) {
			t.Errorf("%q: the meta data is %v, want %v", query, got["meta"], meta)
		}
	}
	meta := func(page, from, last, per, to, total any) map[string]any {
		return map[string]any{
			"current_page": page, "from": from, "last_page": last, "path": base + path, "per_page": per, "to": to, "total": total, "next_cursor": nil,
		}
	}
	check("", 0, map[string]any{"first": link("page=1"), "last": link("page=1"), "prev": nil, "next": nil}, meta(1.0, nil, 1.0, 15.0, nil, 0.0))
	var newest []any
	for range 5 {
		newest = append([]any{v.upload("diploma.pdf")["uuid"]}, newest...)
	}
	check("", 5, map[string]any{"first": link("page=1"), "last": link("page=1"), "prev": nil, "next": nil}, meta(1.0, 1.0, 1.0, 15.0, 5.0, 5.0))
	check("?per_page=2&page=2", 2,
		map[string]any{"first": link("page=1&per_page=2"), "last": link("page=3&per_page=2"), "prev": link("page=1&per_page=2"), "next": link("page=3&per_page=2")},
		meta(2.0, 3.0, 3.0, 2.0, 4.0, 5.0))
	check("?per_page=2&page=9", 0,
		map[string]any{"first": link("page=1&per_page=2"), "last": link("page=3&per_page=2"), "prev": link("page=8&per_page=2"), "next": nil},
		meta(9.0, nil, 3.0, 2.0, nil, 5.0))
	check("?search=Ada+Obi&status=failed", 0,
		map[string]any{"first": link("page=1&search=Ada+Obi&status=failed"), "last": link("page=1&search=Ada+Obi&status=failed"), "prev": nil, "next": nil},
		meta(1.0, nil, 1.0, 15.0, nil, 0.0))
	// The pages of the next links contain each record once, the newest first.
	var visited []any
	for next := link("per_page=2"); next != nil; {
		to, err := url.Parse(next.(string))
		if err != nil {
			t.Fatal(err)
		}
		a := v.get(to.RequestURI())
		for _, record := range a.json(t)["data"].([]any) {
			checkRecord(t, "processing", record.(map[string]any))
			visited = append(visited, record.(map[string]any)["uuid"])
		}
		next = a.json(t)["links"].(map[string]any)["next"]
	}
	if !slices.Equal(visited, newest) {
		t.Errorf("the visited records are %v, want %v", visited, newest)
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	v.upload("diploma.pdf")
	for query, status := range map[string]int{
		"": 200, "?page=1&per_page=1": 200, "?per_page=100": 200, "?page=100&per_page=100": 200, "?page=10000&per_page=1": 200,
		"?status=": 200, "?status=revoked&applicant_email=ada@example.org&search=x": 200, "?search=%25": 200, "?applicant_email=nobody": 200,
	} {
		if a := v.get("/business/certificate-vault" + query); a.Status != status {
			t.Errorf("%q: status = %d, want %d; body %s", query, a.Status, status, a.Body)
		}
	}
	for query, fields := range map[string]string{
		"?page=0": "page", "?page=": "page", "?page=-1": "page", "?page=1.5": "page", "?page=x": "page", "?page=9223372036854775808": "page",
		"?per_page=0": "per_page", "?per_page=101": "per_page", "?page=101&per_page=100": "page", "?page=10001&per_page=1": "page", "?page=667": "page",
		"?status=pending": "status", "?status=APPROVED": "status", "?sort=name": "sort", "?cursors=": "cursors",
		"?page=0&per_page=0&status=x&zzz=1": "page per_page status zzz", "?page=1&page=2": "page", "?search=a&search=b": "search", "?search=%00": "search",
	} {
		a := v.get("/business/certificate-vault" + query)
		if a.Status != http.StatusUnprocessableEntity || a.fields(t) != fields {
			t.Errorf("%q: status = %d, want 422 for %s; body %s", query, a.Status, fields, a.Body)
		}
	}
	if got := v.get("/business/certificate-vault?status=x").problem(t).Message; got != "The value is invalid; it must be one of processing, approved, failed, revoked." {
		t.Errorf("the message of an invalid status is %q, want a list of the valid statuses", got)
	}
	if got := v.get("/business/certificate-vault?page=0&per_page=0&status=x").problem(t).Message; !strings.HasSuffix(got, " (and 2 more errors)") {
		t.Errorf("the message of three errors is %q, want a message about the first error and 2 more", got)
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	id := v.upload("refuse.pdf")["uuid"].(string)
	retry := func() *response {
		return v.do(v.request(http.MethodPost, "/business/certificate-vault/"+id+"/retry", http.NoBody))
	}
	if a := retry(); a.Status != http.StatusBadRequest || a.problem(t).Message != "Invalid operation" {
		t.Errorf("retrying a processing certificate: status = %d, want 400; body %s", a.Status, a.Body)
	}
	v.Work(1)
	a := retry()
	if a.Status != http.StatusOK || a.json(t)["message"] == "" {
		t.Fatalf("retrying a failed certificate: status = %d, want 200; body %s", a.Status, a.Body)
	}
	checkRecord(t, "processing", data(t, a))
	if a := retry(); a.Status != http.StatusBadRequest {
		t.Errorf("retrying for the second time: status = %d, want 400; body %s", a.Status, a.Body)
	}
}

func TestDownload(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	record := v.upload("diploma.pdf")
	path := "/business/certificate-vault/" + record["uuid"].(string)
	if a := v.get(path + "/download"); a.Status != http.StatusNotFound ||
		a.problem(t).Message != "Verified PDF not found. The certificate may still be processing." {
		t.Errorf("downloading a processing certificate: status = %d, want 404 with the reason; body %s", a.Status, a.Body)
	}
	v.Work(1)
	want := append(samplePDF(0), tail...)
	check := func(name string) {
		t.Helper()
		a := v.get(path + "/download")
		if a.Status != http.StatusOK || !bytes.Equal(a.Body, want) || a.Header.Get("Content-Type") != "application/pdf" {
			t.Errorf("%s: status = %d, %d bytes, header %v, want 200 with the verified PDF", name, a.Status, len(a.Body), a.Header)
		}
		if got := a.Header.Get("Content-Disposition"); got != "attachment; filename="+record["reference_id"].(string)+".pdf" {
			t.Errorf("%s: Content-Disposition = %s, want an attachment with the reference id", name, got)
		}
		if !strings.HasPrefix(a.Header.Get("Cache-Control"), "private") || a.Header.Get("X-Content-Type-Options") != "nosniff" ||
			a.Header.Get("ETag") != `"`+hexOf(want)+`"` {
			t.Errorf("%s: the header is %v, want a private cache, nosniff and the digest as ETag", name, a.Header)
		}
	}
	check("approved")
	r := v.request(http.MethodGet, path+"/download", http.NoBody)
	r.Header.Set("Accept", "application/pdf")
	from := len(want) - len(tail) - 10
	r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+19))
	if a := v.do(r); a.Status != http.StatusPartialContent || !bytes.Equal(a.Body, want[from:from+20]) {
		t.Errorf("a range across the end of the original: status = %d, want 206; body %q", a.Status, a.Body)
	}
	if a := v.do(v.request(http.MethodHead, path+"/download", http.NoBody)); a.Status != http.StatusOK || a.Header.Get("Content-Length") != fmt.Sprint(len(want)) {
		t.Errorf("HEAD: status = %d, want 200; header %v", a.Status, a.Header)
	}
	if a := v.postJSON(path+"/revoke", `{"reason": "x"}`); a.Status != http.StatusOK {
		t.Fatalf("revoking the certificate: status = %d, want 200; body %s", a.Status, a.Body)
	}
	check("revoked")
}

func TestRevokeBody(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	id := v.upload("diploma.pdf")["uuid"].(string)
	path := "/business/certificate-vault/" + id + "/revoke"
	for _, tc := range []struct {
		name, contentType, body string
		status                  int
		fields                  string
	}{
		{"no body", "application/json", "", 422, ""},
		{"no JSON", "application/json", "reason=x", 422, ""},
		{"truncated", "application/json", `{"reason": "x"`, 422, ""},
		{"more than one value", "application/json", `{"reason": "x"}{}`, 422, ""},
		{"an array", "application/json", `["x"]`, 422, ""},
		{"deep nesting", "application/json", strings.Repeat("[", 20_000), 422, ""},
		{"a number", "application/json", `{"reason": 1}`, 422, "reason"},
		{"an object as note", "application/json", `{"reason": "x", "note": {}}`, 422, "note"},
		{"no reason", "application/json", `{}`, 422, "reason"},
		{"null", "application/json", `null`, 422, ""},
		{"a null reason", "application/json", `{"reason": null}`, 422, "reason"},
		{"a list instead of text", "application/json", `{"reason": ["x"]}`, 422, "reason"},
		{"a repeated field", "application/json", `{"reason": "x", "reason": "y"}`, 422, "reason"},
		{"a repeated field in another case", "application/json", `{"reason": "x", "Reason": "y"}`, 422, "reason"},
		{"NUL", "application/json", `{"reason": "a\u0000b"}`, 422, "reason"},
		{"invalid UTF-8", "application/json", "{\"reason\": \"a\xffb\"}", 422, ""},
		{"a surrogate in UTF-8", "application/json", "{\"reason\": \"a\xed\xa0\x80b\"}", 422, ""},
		{"half a surrogate pair", "application/json", `{"reason": "a\ud83d"}`, 422, ""},
		{"the second half of a pair", "application/json", `{"reason": "\ude00a"}`, 422, ""},
		{"halves in the wrong order", "application/json", `{"reason": "\ude00\ud83d"}`, 422, ""},
		{"half a pair before another escape", "application/json", `{"reason": "\ud83d\n"}`, 422, ""},
		{"half a pair in a name", "application/json", `{"reason": "x", "\ud83d": 1}`, 422, ""},
		{"both too long", "application/json", `{"reason": "` + strings.Repeat("é", 1001) + `", "note": "` + strings.Repeat("é", 1001) + `"}`, 422, "note reason"},
		{"too large", "application/json", `{"reason": "x"` + strings.Repeat(" ", 64<<10) + `}`, 413, ""},
		{"a form", "application/x-www-form-urlencoded", `reason=x`, 415, ""},
		{"no type", "", `{"reason": "x"}`, 415, ""},
		{"a malformed type", "application/json; charset", `{"reason": "x"}`, 415, ""},
	} {
		r := v.request(http.MethodPost, path, strings.NewReader(tc.body))
		r.Header.Set("Content-Type", tc.contentType)
		if a := v.do(r); a.Status != tc.status || a.fields(t) != tc.fields {
			t.Errorf("%s: status = %d, want %d for %q; body %s", tc.name, a.Status, tc.status, tc.fields, a.Body)
		}
	}
	if a := v.get("/business/certificate-vault/" + id); data(t, a)["revoked_at"] != nil {
		t.Fatal("an invalid request revoked the certificate")
	}
	r := v.request(http.MethodPost, path, strings.NewReader(`{"reason": "x\ud83d\ude00\\ud83d", "unknown": [1]}`))
	r.Header.Set("Content-Type", "Application/JSON; charset=utf-8")
	if a := v.do(r); a.Status != http.StatusOK {
		t.Errorf("revoking with an emoji as escapes: status = %d, want 200; body %s", a.Status, a.Body)
	}
	r = v.request(http.MethodPost, path, strings.NewReader(`{"reason": "x"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	if a := v.do(r); a.Status != http.StatusUnsupportedMediaType {
		t.Errorf("a compressed body: status = %d, want 415; body %s", a.Status, a.Body)
	}
	if a := v.postJSON(path, `{"reason": "another"}`); a.Status != http.StatusOK || data(t, a)["revocation_reason"] != `x😀\ud83d` {
		t.Errorf("revoking for the second time: status = %d, want 200 with the first reason; body %s", a.Status, a.Body)
	}
}

// If a stored file is damaged, the response has the status 500 and a message instead of the file.
func TestDamagedFileIsNotSentByTheInterface(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	made := v.upload("diploma.pdf")
	v.Work(1)
	id := fmt.Sprint(made["uuid"])
	c, err := v.Certs.BySignedLink(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	content := string(samplePDF(0)) + tail
	for name, damaged := range map[string]string{"flipped": tail[:5] + "x" + tail[6:], "truncated": tail[:len(tail)-1], "emptied": "", "lengthened": tail + "x"} {
		for _, target := range []string{"/business/certificate-vault/", "/business/certificates/"} {
			target += id + "/download"
			for stored, want := range map[string]int{damaged: http.StatusInternalServerError, tail: http.StatusOK} {
				blobtest.Replace(t, v.Blobs, c.Verified.TailKey, stored)
				a := v.get(target)
				body := content
				if want != http.StatusOK {
					body = `{"message":"The stored file is damaged or missing, so it was not sent. The operator of this vault has been alerted."}` + "\n"
				}
				if a.Status != want || string(a.Body) != body {
					t.Errorf("%s, %s: status = %d, body %q, want %d and %q", name, target, a.Status, a.Body, want, body)
				}
			}
		}
	}
	if n := v.count(`SELECT count(*) FROM certificate_checks WHERE name = 'file' AND result = 'failed'`); n != 1 {
		t.Errorf("%d failed checks of the file are stored, want 1", n)
	}
}
