package api

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/limit"
)

func (r *recorder) recordStaged() {
	file := part{name: "file", file: "a.pdf", content: samplePDF(0)}
	for _, tc := range []struct {
		name  string
		parts []part
	}{
		{"nothing", nil},
		{"text", []part{text("file", "x")}},
		{"a list", []part{{name: "file[]", file: "a.pdf", content: samplePDF(0)}}},
		{"two", []part{file, file}},
		{"another name", []part{pdfFile(samplePDF(0))}},
		{"no name", []part{{content: []byte("x")}, file}},
	} {
		r.record("staged: "+tc.name, r.postFile(tc.parts...))
	}
	r.stage("first.pdf")
	for _, left := range []int{10, 0} {
		r.exec(`UPDATE staged_usage SET bytes = $1`, int64(batch.StagedQuota)-int64(left))
		r.record(fmt.Sprintf("staged: %d bytes left", left), r.postFile(file))
	}
	r.exec(`UPDATE staged_usage SET bytes = 1000000`)
}

func (r *recorder) recordBulk() {
	file, other := r.stage("diploma.pdf"), stageForeign(r.vault)
	long := strings.Repeat("é", 256)
	at := func(name, value string) field { return field{"entries[7][" + name + "]", value} }
	many := make([]field, 0, 6_000)
	for i := range batch.MaxEntries + 1 {
		many = append(many, field{fmt.Sprintf("entries[%d][details]", i), "x"})
	}
	for _, tc := range []struct {
		name   string
		fields []field
	}{
		{"nothing", nil},
		{"other fields", []field{{"colour", "blue"}}},
		{"an empty entry", []field{{"entries[3][colour]", "blue"}}},
		{"no title", entry(7, file)[1:]},
		{"no file", entry(7, file)[:3]},
		{"two empty entries", []field{{"entries[3][details]", "x"}, {"entries[1][details]", "x"}}},
		{"a long title", append(entry(7, file)[1:], at("certificate_title", long))},
		{"a bad address", append(append(entry(7, file)[:2], entry(7, file)[3]), at("applicant_email", "ada"))},
		{"a bad date", append(entry(7, file), at("issue_date", "2026-02-30"))},
		{"a long date", append(entry(7, file), at("issue_date", long))},
		{"long details", append(entry(7, file), at("details", strings.Repeat("x", 1001)))},
		{"an expiry before the issue", append(entry(7, file), at("issue_date", "2026-06-30"), at("expires_on", "2026-06-29"))},
		{"endless details", append(entry(7, file), at("details", strings.Repeat("x", 20_000)))},
		{"an endless title", append(entry(7, file)[1:], at("certificate_title", strings.Repeat("x", 20_000)))},
		{"an endless file id", append(entry(7, file)[:3], at("file_id", strings.Repeat("x", 20_000)))},
		{"NUL", append(entry(7, file), at("details", "\x00"))},
		{"no UTF-8", append(entry(7, file), at("details", "caf\xe9"))},
		{"a field twice", append(entry(7, file), at("full_name", "Ada"))},
		{"a file id twice", append(entry(7, file), at("file_id", file))},
		{"an array", append(entry(7, file), field{"entries[7][details][]", "x"})},
		{"an array of file ids", append(entry(7, file)[:3], field{"entries[7][file_id][]", "x"})},
		{"an entry that is text", append(entry(7, file), field{"entries[9]", "x"})},
		{"entries that are text", append(entry(7, file), field{"entries", "x"})},
		{"a number with a zero", append(entry(7, file), field{"entries[01][full_name]", "x"})},
		{"a number too large", append(entry(7, file), field{"entries[1000000][full_name]", "x"})},
		{"no number", append(entry(7, file), field{"entries[][full_name]", "x"})},
		{"a dot", append(entry(7, file), field{"entries.0.full_name", "x"}, field{"entries.1.full_name", "x"})},
		{"a long name", append(entry(7, file), field{"entries[" + strings.Repeat("é", 3000) + "][x]", "x"})},
		{"names and entries", append(entry(7, "x"), field{"entries[-1][x]", "x"}, field{"entries[9]", "x"}, field{"entries[8][details]", long}, field{"entries", ""})},
		{"no such file", entry(7, uuid.Nil.String())},
		{"another institution's file", entry(7, other)},
		{"a file id that is none", entry(7, "x")},
		{"an empty file id", entry(7, " ")},
		{"too many entries", many},
		{"a thousand problems and more", many[:1_500]},
	} {
		for _, kind := range []struct {
			name, contentType string
			body              []byte
		}{
			{"multipart", multipartType, multipartOf(r.tb, tc.fields)},
			{"urlencoded", "application/x-www-form-urlencoded", urlencodedOf(tc.fields)},
		} {
			if len(kind.body) == 0 || len(tc.fields) == 0 && kind.name == "multipart" {
				kind.body = append(kind.body, '\n')
			}
			r.record("bulk, "+kind.name+": "+tc.name, r.postBulk(kind.contentType, kind.body))
		}
	}
	r.record("bulk: a file where text belongs", r.postBulk(multipartType, form(r.tb, part{name: "entries[0][full_name]", file: "a.txt", content: []byte("x")})))
	r.record("bulk: a part without a name", r.postBulk(multipartType, form(r.tb, part{content: []byte("x")})))
	r.record("bulk: too many parts", r.postBulk(multipartType, []byte(strings.Repeat(raw(disposition("x"), ""), maxBulkParts+1))))
	r.record("bulk: too many pairs", r.postBulk("application/x-www-form-urlencoded", []byte(strings.Repeat("x=&", maxBulkParts+1))))
	r.record("bulk: a bad escape", r.postBulk("application/x-www-form-urlencoded", []byte("entries[0][full_name]=%zz")))
	r.record("bulk: a bad escape in a name", r.postBulk("application/x-www-form-urlencoded", []byte("%zz=x")))
	r.record("bulk: too large", r.postBulk("application/x-www-form-urlencoded", make([]byte, maxBulk+1)))
	r.exec(`UPDATE staged_files SET expires_at = 0`)
	r.record("bulk: an expired file", r.postBulk(multipartType, multipartOf(r.tb, entry(3, file))))
}

func (r *recorder) recordBulkJSON() {
	file := r.stage("diploma.pdf")
	with := func(extra string) string {
		return `{"certificate_title": "BSc", "full_name": "Ada", "applicant_email": "ada@example.org", "file_id": "` + file + `"` + extra + `}`
	}
	for _, tc := range []struct{ name, body string }{
		{"nothing", ``},
		{"no object", `[` + with("") + `]`},
		{"text", `"entries"`},
		{"no entries", `{}`},
		{"empty entries", `{"entries": []}`},
		{"entries null", `{"entries": null}`},
		{"entries text", `{"entries": "x"}`},
		{"entries twice", `{"entries": [` + with("") + `], "entries": []}`},
		{"an empty entry", `{"entries": [{}]}`},
		{"nulls", `{"entries": [{"full_name": null, "file_id": null}]}`},
		{"entries that are none", `{"entries": [null, [[1, {"x": []}], 2], ` + with("") + `, 5, "x"]}`},
		{"a number", `{"entries": [` + with(`, "details": 5`) + `]}`},
		{"a number as a file id", `{"entries": [{"file_id": 5}]}`},
		{"an object", `{"entries": [` + with(`, "issue_date": {"x": [1]}`) + `]}`},
		{"half a surrogate pair", `{"entries": [` + with(`, "details": "\ud83c"`) + `]}`},
		{"not UTF-8", `{"entries": [` + with(`, "details": "`+"caf\xe9"+`"`) + `]}`},
		{"too long", `{"entries": [` + with(`, "details": "`+strings.Repeat("x", 20_000)+`"`) + `]}`},
		{"a member twice", `{"entries": [` + with(`, "full_name": "Ada"`) + `]}`},
		{"an entry twice", `{"entries": {"5": ` + with("") + `, "5": ` + with("") + `}}`},
		{"a number with a zero", `{"entries": {"01": ` + with("") + `, "1": ` + with("") + `}}`},
		{"an empty number", `{"entries": {"": 1, "1": ` + with("") + `}}`},
		{"broken off", `{"entries": [` + with("") + `]`},
		{"a missing value", `{"entries": [{"full_name": }]}`},
		{"text behind it", `{"entries": [` + with("") + `]} x`},
		{"an endless value", `{"entries": [` + with(`, "details": "`+strings.Repeat("x", 1_000_000)+`"`) + `]}`},
		{"no such file", `{"entries": [{"certificate_title": "BSc", "full_name": "Ada", "applicant_email": "x", "file_id": "` + uuid.Nil.String() + `"}]}`},
		{"too many entries", `{"entries": [` + strings.Repeat(`{},`, batch.MaxEntries) + `{}]}`},
		{"too many fields", `{"entries": [{` + strings.Repeat(`"x": 1,`, maxBulkParts) + `"x": 1}]}`},
	} {
		r.record("bulk, JSON: "+tc.name, r.postBulk("application/json", []byte(tc.body)))
	}
}

func (r *recorder) recordLists() {
	long := strings.Repeat("x", 5_000)
	common := []string{
		"page=0", "page=-1", "page=x", "page=100001", "page=10000", "page=1&page=2", "per_page=0", "per_page=101", "per_page=x", "page=0&per_page=0",
		"cursor=x", "cursor=AAAA", "cursor=&page=1", "cursor=" + long, "cursor=&per_page=101", "colour=blue", "a=1&b=2&c=3", "page[]=1", "%zz", "a=1;b=2", "search[]=x",
		"%00=1", "caf%E9=1",
	}
	vault := []string{
		"status=x", "status=generated", "status=x&page=0", "search=" + long, "search=%00", "search=caf%E9", "applicant_email=" + long, "applicant_email=%00",
		"status=approved&status=failed", "sort_field=name", "issue_date_from=2026-01-01", "batch_id=x",
	}
	general := []string{
		"status=x", "status=approved", "search=" + long, "search=%00", "issue_date_from=x", "issue_date_from=2026-02-30", "issue_date_to=x", "generated_at_from=x",
		"generated_at_to=x", "generated_at_to=2026-02-30", "batch_id=x", "batch_id=" + strings.ReplaceAll(uuid.Nil.String(), "-", ""), "customer_id=0", "customer_id=x",
		"customer_id=-5", "sort_field=x", "sort_field=Name", "sort_order=x", "sort_order=ASC", "sort_field=x&sort_order=x&status=x", "applicant_email=x",
		"issue_date_from=x&issue_date_to=x&generated_at_from=x&generated_at_to=x&batch_id=x",
		"sort_field=created_at&sort_field=name", "page=100000&per_page=100&batch_id=x",
	}
	for _, list := range []struct {
		path    string
		queries []string
	}{
		{vaultPath, vault}, {"/business/certificates", general}, {"/business/batches", []string{"status=x", "search=x"}},
	} {
		for _, query := range append(list.queries, common...) {
			name := query
			if len(name) > 60 {
				name = name[:60] + "..."
			}
			r.record("list: "+list.path+"?"+name, r.get(list.path+"?"+query))
		}
	}
}

func (r *recorder) recordRecords() {
	made := r.upload("diploma.pdf")["uuid"].(string)
	path := vaultPath + "/" + made
	revoke := func(name, body string) { r.record("revoke: "+name, r.postJSON(path+"/revoke", body)) }
	revoke("nothing", ``)
	revoke("no object", `[]`)
	revoke("text", `"x"`)
	revoke("broken off", `{"reason": "x"`)
	revoke("an empty object", `{}`)
	revoke("no reason", `{"note": "x"}`)
	revoke("null", `{"reason": null}`)
	revoke("white space", `{"reason": " "}`)
	revoke("a long reason", `{"reason": "`+strings.Repeat("é", 1001)+`"}`)
	revoke("a long note", `{"reason": "x", "note": "`+strings.Repeat("é", 1001)+`"}`)
	revoke("both", `{"reason": "", "note": "`+strings.Repeat("é", 1001)+`"}`)
	revoke("NUL", `{"reason": "a\u0000b", "note": "a\u0000b"}`)
	revoke("a number", `{"reason": 5}`)
	revoke("a note that is a list", `{"reason": "x", "note": []}`)
	revoke("a notice that is text", `{"reason": "x", "notify": "no"}`)
	revoke("a member twice", `{"reason": "x", "Reason": "y"}`)
	revoke("half a surrogate pair", `{"reason": "\ud83c"}`)
	revoke("not UTF-8", "{\"reason\": \"caf\xe9\"}")
	revoke("too large", `{"reason": "`+strings.Repeat("x", maxJSON)+`"}`)
	q := r.request(http.MethodPost, path+"/revoke", strings.NewReader(`{"reason": "x"}`))
	q.Header.Set("Content-Type", "text/plain")
	r.record("revoke: another type", r.do(q))
	r.record("revoke: no such record", r.postJSON(vaultPath+"/"+uuid.Nil.String()+"/revoke", `{}`))
	r.record("retry: not failed", r.do(r.request(http.MethodPost, path+"/retry", http.NoBody)))
	r.record("retry: no such record", r.do(r.request(http.MethodPost, vaultPath+"/x/retry", http.NoBody)))
	r.record("download: not yet", r.get(path+"/download"))
	r.record("download: general, not yet", r.get("/business/certificates/"+made+"/download"))
	for _, path := range []string{vaultPath + "/x", "/business/certificates/x", "/business/batches/x", "/business/batches/" + uuid.Nil.String(), "/business/x", vaultPath + "/bulk"} {
		r.record("get: "+path, r.get(path))
	}
}

func (r *recorder) recordKeys() {
	file := pdfFile(samplePDF(0))
	valid := append(r.validFields(), file)
	for _, key := range []string{"a b", "é", strings.Repeat("k", 256)} {
		r.record(fmt.Sprintf("key: %.5q", key), r.postFormWithKey(key, valid...))
	}
	q := r.request(http.MethodPost, vaultPath, bytes.NewReader(form(r.tb, valid...)))
	q.Header.Set("Content-Type", multipartType)
	q.Header["Idempotency-Key"] = []string{"one", "two"}
	r.record("key: two", r.do(q))
	if a := r.postFormWithKey("kept", valid...); a.Status != http.StatusCreated {
		r.tb.Fatalf("the upload with a key: status = %d, want 201; body %s", a.Status, a.Body)
	}
	r.record("key: other content", r.postFormWithKey("kept", append(r.validFields(), file)...))
	for range 2 {
		r.record("key: a refusal", r.postFormWithKey("refused", text("full_name", "Ada"), text("certificate_file", "x")))
		r.record("key: a duplicate", r.postFormWithKey("duplicate", valid...))
		r.record("key: a refused file", r.postWithKey("staged", vaultPath+"/upload-file", multipartType, bytes.NewReader(form(r.tb, part{name: "file", file: "a.pdf", content: []byte("x")}))))
		r.record("key: a bulk upload", r.postWithKey("bulk", vaultPath+"/bulk", "application/json", strings.NewReader(`{"entries": [{"details": 5}, 5], "x": 1}`)))
		r.record("key: a form", r.postWithKey("form", vaultPath, multipartType, strings.NewReader("x")))
	}
	found, _, err := r.api.Tokens.Authenticate(r.tb.Context(), r.secret)
	if err != nil {
		r.tb.Fatal(err)
	}
	claim, _, err := r.api.Keys.Begin(r.tb.Context(), limit.Scope{
		InstitutionID: r.inst.ID, TokenID: found.ID, Method: http.MethodPost, Path: vaultPath, Key: "busy",
	})
	if err != nil {
		r.tb.Fatal(err)
	}
	r.record("key: under way", r.postFormWithKey("busy", valid...))
	if err := claim.Release(r.tb.Context()); err != nil {
		r.tb.Fatal(err)
	}
}

// recordEntries records the rejected entries of a batch.
func (r *recorder) recordEntries() {
	r.exec(`UPDATE staged_files SET expires_at = 9000000000000000`)
	file, deleted := r.stage("diploma.pdf"), r.stage("gone.pdf")
	fields := append(append(entry(1, file), entry(2, deleted)...), entry(1, file)...)
	for i := range fields[8:] {
		fields[8+i].name = strings.Replace(fields[8+i].name, "entries[1]", "entries[3]", 1)
	}
	id := r.accept(r.postBulk(multipartType, multipartOf(r.tb, fields)), 3)
	r.exec(`DELETE FROM staged_files WHERE uuid = $1`, deleted)
	if err := r.Queue.Start(r.tb.Context()); err != nil {
		r.tb.Fatal(err)
	}
	await(r.tb, func() bool {
		return r.count(`SELECT count(*) FROM batch_entries WHERE status = 'queued'`)+r.count(`SELECT count(*) FROM certificates WHERE status = 'processing'`) == 0
	})
	if err := r.Queue.Stop(r.tb.Context()); err != nil {
		r.tb.Fatal(err)
	}
	a := r.get("/business/batches/" + id)
	a.Status = http.StatusUnprocessableEntity // record accepts error responses only
	r.record("batch: rejected entries", a)
}
