package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
)

// postBulk sends a body to the bulk route.
func (v *vault) postBulk(contentType string, body []byte) *response {
	v.tb.Helper()
	r := v.request(http.MethodPost, "/business/certificate-vault/bulk", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return v.do(r)
}

const multipartType = "multipart/form-data; boundary=" + boundary

// field is the name and the value of a field of a form.
type field struct{ name, value string }

func multipartOf(tb testing.TB, fields []field) []byte {
	tb.Helper()
	var parts []part
	for _, f := range fields {
		parts = append(parts, text(f.name, f.value))
	}
	return form(tb, parts...)
}

func urlencodedOf(fields []field) []byte {
	var pairs []string
	for _, f := range fields {
		pairs = append(pairs, url.QueryEscape(f.name)+"="+url.QueryEscape(f.value))
	}
	return []byte(strings.Join(pairs, "&"))
}

// entry returns the required fields of an entry. The name and the address contain the index.
func entry(index any, fileID string) []field {
	at := fmt.Sprintf("entries[%v]", index)
	return []field{
		{at + "[certificate_title]", "BSc Physics"}, {at + "[full_name]", fmt.Sprintf("Person %v", index)},
		{at + "[applicant_email]", fmt.Sprintf("person.%v@example.org", index)}, {at + "[file_id]", fileID},
	}
}

func (v *vault) batches() (n int) {
	v.tb.Helper()
	if err := v.DB.QueryRowContext(v.tb.Context(), `SELECT count(*) FROM batches`).Scan(&n); err != nil {
		v.tb.Fatal(err)
	}
	return n
}

// accept checks that a bulk upload was accepted and returns the id of the batch.
func (v *vault) accept(a *response, total int) string {
	v.tb.Helper()
	if a.Status != http.StatusAccepted {
		v.tb.Fatalf("the bulk upload: status = %d, want 202; body %s", a.Status, a.Body)
	}
	d := data(v.tb, a)
	id, ok := d["batch_id"].(string)
	if _, isID := parseUUID(id); !ok || !isID || d["total"] != float64(total) || d["status"] != "processing" || len(d) != 3 || a.json(v.tb)["message"] == "" {
		v.tb.Fatalf("the response to an accepted batch is %s, want its id, the total %d, the status processing and a message", a.Body, total)
	}
	return id
}

// The same entries in each of the three media types, in any order and with gaps between the indexes,
// create the same batch.
func TestBulkAcceptsThreeMediaTypes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		file := v.stage("diploma.pdf")
		third := append(entry(999_999, file), field{"entries[999999][issue_date]", "2024-02-29"}, field{"entries[999999][details]", "名誉 & =%"},
			field{"entries[999999][expires_on]", "2027-02-28"})
		// The fields of the three entries are interleaved.
		fields := []field{{"_token", "x"}}
		for i := range third {
			for _, list := range [][]field{third, entry(4, file), entry(0, file)} {
				if i < len(list) {
					fields = append(fields, list[i])
				}
			}
		}
		for name, body := range map[string]struct {
			contentType string
			body        []byte
		}{
			"multipart":  {multipartType, multipartOf(t, fields)},
			"urlencoded": {"application/x-www-form-urlencoded; charset=utf-8", urlencodedOf(fields)},
			"JSON": {"application/json", []byte(`{"x": [1, {"y": null}], "entries": {"999999": {"details": "名誉 & =%", "certificate_title": "BSc Physics", "full_name": "Person 999999",
				"applicant_email": "person.999999@example.org", "file_id": "` + file + `", "issue_date": "2024-02-29", "expires_on": "2027-02-28"},
				"0": {"certificate_title": "BSc Physics", "full_name": "Person 0", "colour": ["blue"], "applicant_email": "person.0@example.org", "file_id": "` + file + `", "issue_date": null},
				"4": {"certificate_title": "BSc \u0050hysics", "full_name": "Person 4", "applicant_email": "person.4@example.org", "file_id": "` + file + `", "details": ""}}, "y": 1} `)},
		} {
			v.exec(`DELETE FROM batch_entries`)
			v.exec(`DELETE FROM batches`)
			id := v.accept(v.postBulk(body.contentType, body.body), 3)
			record := data(t, v.get("/business/batches/"+id))
			for i, index := range []float64{0, 4, 999_999} {
				if e := record["entries"].([]any)[i].(map[string]any); e["index"] != index || e["status"] != "queued" {
					t.Errorf("%s: the entry is %v, want a queued entry with the index %v", name, e, index)
				}
			}
			var inputs []string
			rows, err := d.QueryContext(t.Context(), `SELECT input FROM batch_entries ORDER BY entry_index`)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var s string
				if err := rows.Scan(&s); err != nil {
					t.Fatal(err)
				}
				inputs = append(inputs, s)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			rows.Close()
			var last map[string]string
			if err := json.Unmarshal([]byte(inputs[2]), &last); err != nil || last["details"] != "名誉 & =%" || last["issue_date"] != "2024-02-29" || last["expires_on"] != "2027-02-28" || last["full_name"] != "Person 999999" {
				t.Errorf("%s: the stored inputs are %v, error %v, want the details, the dates and the name of the last entry", name, inputs, err)
			}
		}
		id := v.accept(v.postBulk("application/json", []byte(`{"entries": [{"certificate_title": "MSc", "full_name": "A", "applicant_email": "a@example.org", "file_id": "`+file+`"}]}`)), 1)
		if e := data(t, v.get("/business/batches/"+id))["entries"].([]any)[0].(map[string]any); e["index"] != 0.0 {
			t.Errorf("an array of entries: the entry is %v, want the index 0", e)
		}
	})
}

// If one field is invalid, the complete batch is refused. The names of the errors contain the index of the
// entry.
func TestBulkRefusals(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	file := v.stage("diploma.pdf")
	other := stageForeign(v)
	long := strings.Repeat("x", 256)
	for _, tc := range []struct {
		name   string
		extra  []field
		fields string
	}{
		{"valid", nil, ""},
		{"an unknown field", []field{{"entries[7][colour]", "blue"}, {"colour", "blue"}, {"entriesx", "y"}}, ""},
		{"an unknown list", []field{{"entries[7][colour][]", "blue"}}, ""},
		{"long title", []field{{"entries[8][certificate_title]", long}}, "entries.8.applicant_email entries.8.certificate_title entries.8.file_id entries.8.full_name"},
		{"very long details", []field{{"entries[7][details]", strings.Repeat("x", 20_000)}}, "entries.7.details"},
		{"details over the limit of a value", []field{{"entries[7][details]", strings.Repeat("é", 2_000_000)}}, "entries.7.details"},
		{"white space and then text", []field{{"entries[7][details]", strings.Repeat(" ", 20_000) + "x"}}, "entries.7.details"},
		{"long details", []field{{"entries[7][details]", strings.Repeat("é", 1001)}}, "entries.7.details"},
		{"details with NUL", []field{{"entries[7][details]", "a\x00b"}}, "entries.7.details"},
		{"details with half a surrogate pair", []field{{"entries[7][details]", "a\xed\xa0\x80b"}}, "entries.7.details"},
		{"details in Latin-1", []field{{"entries[7][details]", "caf\xe9"}}, "entries.7.details"},
		{"an invalid date", []field{{"entries[7][issue_date]", "2026-02-30"}}, "entries.7.issue_date"},
		{"a repeated field", []field{{"entries[7][full_name]", "Ada"}}, "entries.7.full_name"},
		{"an array instead of text", []field{{"entries[7][details][]", "x"}}, "entries.7.details"},
		{"an object instead of text", []field{{"entries[7][details][a][b]", "x"}}, "entries.7.details"},
		{"an entry that is text", []field{{"entries[9]", "x"}}, "entries.9"},
		{"entries that are text", []field{{"entries", "x"}}, "entries"},
		{"index 01", []field{{"entries[01][full_name]", "x"}}, "entries.01.full_name"},
		{"index -1", []field{{"entries[-1][full_name]", "x"}}, "entries.-1.full_name"},
		{"index +1", []field{{"entries[+1][full_name]", "x"}}, "entries.+1.full_name"},
		{"index 1e3", []field{{"entries[1e3][full_name]", "x"}}, "entries.1e3.full_name"},
		{"index 1.0", []field{{"entries[1.0][full_name]", "x"}}, "entries.1.0.full_name"},
		{"index 1000000", []field{{"entries[1000000][full_name]", "x"}}, "entries.1000000.full_name"},
		{"index of 30 digits", []field{{"entries[" + strings.Repeat("9", 30) + "][x]", "x"}}, "entries." + strings.Repeat("9", 30) + ".x"},
		{"Arabic digits", []field{{"entries[٣][full_name]", "x"}}, "entries.٣.full_name"},
		{"an index with a space", []field{{"entries[ 1][full_name]", "x"}}, "entries. 1.full_name"},
		{"no index", []field{{"entries[][full_name]", "x"}}, "entries[][full_name]"},
		{"dots instead of brackets", []field{{"entries.0.full_name", "x"}}, "entries.0.full_name"},
		{"a missing bracket", []field{{"entries[0][full_name", "x"}}, "entries[0][full_name"},
		{"nested brackets", []field{{"entries[0][[full_name]]", "x"}}, "entries[0][[full_name]]"},
		{"text after the brackets", []field{{"entries[0][full_name]x", "x"}}, "entries[0][full_name]x"},
		{"a very long name", []field{{"entries[" + strings.Repeat("é", 3000) + "][x]", "x"}}, "entries." + strings.Repeat("é", 46)},
		{"an unknown file", []field{{"entries[8][file_id]", uuid.NewString()}}, "entries.8.applicant_email entries.8.certificate_title entries.8.file_id entries.8.full_name"},
	} {
		fields := append(entry(7, file), tc.extra...)
		for kind, a := range map[string]*response{
			"multipart":  v.postBulk(multipartType, multipartOf(t, fields)),
			"urlencoded": v.postBulk("application/x-www-form-urlencoded", urlencodedOf(fields)),
		} {
			if tc.fields == "" {
				v.accept(a, 1)
				continue
			}
			if a.Status != http.StatusUnprocessableEntity || a.fields(t) != tc.fields {
				t.Errorf("%s, %s: status = %d, body %s, want 422 with the fields %q", tc.name, kind, a.Status, a.Body, tc.fields)
			}
		}
	}
	for name, id := range map[string]string{"another institution's": other, "invalid": "x", "empty": "", "NUL": "\x00"} {
		a := v.postBulk(multipartType, multipartOf(t, append(entry(0, file), entry(3, id)...)))
		if a.Status != http.StatusUnprocessableEntity || a.fields(t) != "entries.3.file_id" {
			t.Errorf("file id %s: status = %d, want 422; body %s", name, a.Status, a.Body)
		}
	}
	v.exec(`UPDATE staged_files SET expires_at = 0`)
	if a := v.postBulk(multipartType, multipartOf(t, entry(3, file))); a.Status != http.StatusUnprocessableEntity || a.fields(t) != "entries.3.file_id" {
		t.Errorf("an expired file: status = %d, want 422; body %s", a.Status, a.Body)
	}
	if n := v.batches(); n != 6 {
		t.Errorf("%d batches were created, want 6", n)
	}
}

// stageForeign stages a file of another institution.
func stageForeign(v *vault) string {
	v.tb.Helper()
	own := v.secret
	defer func() { v.secret = own }()
	v.secret = v.token(v.institution("OTH"), nil, token.VaultCreate)
	return v.stage("foreign.pdf")
}

// TestBulkRefusalsInJSON tests bodies in JSON, with values that forms cannot have.
func TestBulkRefusalsInJSON(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	file := v.stage("diploma.pdf")
	with := func(extra string) string {
		return `{"certificate_title": "BSc", "full_name": "Ada", "applicant_email": "ada@example.org", "file_id": "` + file + `"` + extra + `}`
	}
	n := 0
	for _, tc := range []struct{ name, body, fields string }{
		{"valid", `{"entries": [` + with("") + `]}`, ""},
		{"nulls", `{"entries": [` + with(`, "issue_date": null, "details": null`) + `]}`, ""},
		{"a surrogate pair", `{"entries": [` + with(`, "details": "\ud83c\udf93 \\ud800 🎓 \ufffd"`) + `]}`, ""},
		{"an escaped name", `{"entrie\u0073": [` + with("") + `]}`, ""},
		{"half a surrogate pair", `{"entries": [` + with(`, "details": "\ud83c"`) + `]}`, "entries.0.details"},
		{"the second half of a pair", `{"entries": [` + with(`, "details": "x\udf93x"`) + `]}`, "entries.0.details"},
		{"two first halves", `{"entries": [` + with(`, "details": "\ud83c\ud83c"`) + `]}`, "entries.0.details"},
		{"half a pair and text", `{"entries": [` + with(`, "details": "\ud83cx"`) + `]}`, "entries.0.details"},
		{"half a pair and an escape", `{"entries": [` + with(`, "details": "\ud83c\n"`) + `]}`, "entries.0.details"},
		{"not UTF-8", `{"entries": [` + with(`, "details": "`+"caf\xe9"+`"`) + `]}`, "entries.0.details"},
		{"NUL", `{"entries": [` + with(`, "details": "\u0000"`) + `]}`, "entries.0.details"},
		{"a number", `{"entries": [` + with(`, "details": 5`) + `]}`, "entries.0.details"},
		{"true", `{"entries": [` + with(`, "details": true`) + `]}`, "entries.0.details"},
		{"an array", `{"entries": [` + with(`, "details": ["x"]`) + `]}`, "entries.0.details"},
		{"an object", `{"entries": [` + with(`, "details": {"x": [1]}`) + `]}`, "entries.0.details"},
		{"too long", `{"entries": [` + with(`, "details": "`+strings.Repeat("x", 20_000)+`"`) + `]}`, "entries.0.details"},
		{"a repeated member", `{"entries": [` + with(`, "full_name": "Ada"`) + `]}`, "entries.0.full_name"},
		{"null instead of required text", `{"entries": [` + with("") + `, {"full_name": null, "file_id": "` + file + `"}]}`,
			"entries.1.applicant_email entries.1.certificate_title entries.1.full_name"},
		{"an entry that is null", `{"entries": [null, ` + with("") + `]}`, "entries.0"},
		{"an entry that is an array", `{"entries": [[[1, {"x": []}], 2], ` + with("") + `, 5, "x"]}`, "entries.0 entries.2 entries.3"},
		{"no entries", `{}`, "entries"},
		{"empty entries", `{"entries": []}`, "entries"},
		{"empty object", `{"entries": {}}`, "entries"},
		{"entries null", `{"entries": null}`, "entries"},
		{"entries text", `{"entries": "x"}`, "entries"},
		{"repeated entries", `{"entries": [` + with("") + `], "entries": []}`, "entries"},
		{"a repeated number", `{"entries": {"5": ` + with("") + `, "5": ` + with("") + `}}`, "entries.5"},
		{"index 01", `{"entries": {"01": ` + with("") + `, "1": ` + with("") + `}}`, "entries.01"},
		{"index 1000000", `{"entries": {"1000000": [], "1": ` + with("") + `}}`, "entries.1000000"},
		{"an empty index", `{"entries": {"": 1, "1": ` + with("") + `}}`, "entries."},
		{"an array at the top", `[` + with("") + `]`, "-"},
		{"text at the top", `"entries"`, "-"},
		{"an empty body", ``, "-"},
		{"truncated", `{"entries": [` + with("") + `]`, "-"},
		{"truncated in an entry", `{"entries": [{"full_name": "A`, "-"},
		{"text after the document", `{"entries": [` + with("") + `]} x`, "-"},
		{"a second document", `{"entries": [` + with("") + `]}{}`, "-"},
		{"a missing comma", `{"entries": [` + with("") + with("") + `]}`, "-"},
		{"a missing value", `{"entries": [{"full_name": }]}`, "-"},
		{"an extra comma", `{"entries": [` + with(",") + `]}`, "-"},
		{"a bare word", `{"entries": [` + with(`, "details": nope`) + `]}`, "-"},
		{"a value over the limit", `{"entries": [` + with(`, "details": "`+strings.Repeat("x", 1_000_000)+`"`) + `]}`, "-"},
		{"a name over the limit", `{"` + strings.Repeat("x", 1_000_000) + `": 1}`, "-"},
		{"very deep nesting", `{"entries": [` + strings.Repeat("[", 100_000) + `]}`, "-"},
		{"white space over the limit", `{"entries": ` + strings.Repeat(" ", 1_000_000) + `[` + with("") + `]}`, "-"},
	} {
		a := v.postBulk("application/json", []byte(tc.body))
		switch tc.fields {
		case "":
			v.accept(a, 1)
			n++
		case "-":
			if a.Status != http.StatusUnprocessableEntity || len(a.problem(t).Errors) != 0 {
				t.Errorf("%s: status = %d, want 422 without fields; body %.300s", tc.name, a.Status, a.Body)
			}
		default:
			if a.Status != http.StatusUnprocessableEntity || a.fields(t) != tc.fields {
				t.Errorf("%s: status = %d, body %.300s, want 422 with the fields %q", tc.name, a.Status, a.Body, tc.fields)
			}
		}
	}
	if got := v.batches(); got != n {
		t.Errorf("%d batches were created, want %d", got, n)
	}
	if strings.Contains(v.log.String(), `"status":500`) {
		t.Errorf("a response has the status 500: %s", v.log.String())
	}
}

func TestBulkBodies(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	file := v.stage("diploma.pdf")
	complete := multipartOf(t, entry(0, file))
	filePart := form(t, append([]part{{name: "entries[0][full_name]", file: "name.txt", content: []byte("Ada")}}, text("entries[0][file_id]", file))...)
	nameless := bytes.Replace(complete, []byte(`; name="entries[0][full_name]"`), nil, 1)
	for name, tc := range map[string]struct {
		contentType string
		body        []byte
		status      int
		fields      string
	}{
		"no type":                      {"", complete, 415, ""},
		"another type":                 {"text/csv", complete, 415, ""},
		"no boundary":                  {"multipart/form-data", complete, 415, ""},
		"multipart mixed":              {"multipart/mixed; boundary=" + boundary, complete, 415, ""},
		"another boundary":             {"multipart/form-data; boundary=x", complete, 422, ""},
		"truncated":                    {multipartType, complete[:len(complete)-30], 422, ""},
		"empty multipart":              {multipartType, nil, 422, ""},
		"no parts":                     {multipartType, form(t), 422, "entries"},
		"empty form":                   {"application/x-www-form-urlencoded", nil, 422, "entries"},
		"only separators":              {"application/x-www-form-urlencoded", []byte("&&&"), 422, "entries"},
		"a truncated escape":           {"application/x-www-form-urlencoded", []byte("entries%5B0%5D%5Bfull_name%5D=%A"), 422, ""},
		"a truncated escape in a name": {"application/x-www-form-urlencoded", []byte("entries%5=x"), 422, ""},
		"a part without a name":        {multipartType, nameless, 422, ""},
		"a file instead of text":       {multipartType, filePart, 422, "entries.0.applicant_email entries.0.certificate_title entries.0.full_name"},
		"multipart declared as JSON":   {"application/json", complete, 422, ""},
		"JSON declared as urlencoded":  {"application/x-www-form-urlencoded", []byte(`{"entries": []}`), 422, "entries"},
	} {
		a := v.postBulk(tc.contentType, tc.body)
		if a.Status != tc.status || a.fields(t) != tc.fields {
			t.Errorf("%s: status = %d, body %s, want %d with the fields %q", name, a.Status, a.Body, tc.status, tc.fields)
		}
	}
	if n := v.batches(); n != 0 {
		t.Errorf("%d batches were created, want 0", n)
	}
}

// A request at the limits is accepted. A request that exceeds one of the limits is refused.
func TestBulkLimits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short skips this test, which is slow")
	}
	v := newVault(t, dbtest.SQLite(t), 0)
	file := v.stage("diploma.pdf")
	many := func(entries, parts int) (fields []field) {
		for i := range entries {
			fields = append(fields, entry(i, file)...)
		}
		for len(fields) < parts {
			fields = append(fields, field{"entries[0][x" + strconv.Itoa(len(fields)) + "]", "x"})
		}
		return fields
	}
	jsonOf := func(entries, members int) []byte {
		var b bytes.Buffer
		b.WriteString(`{"entries":[`)
		for i := range entries {
			fmt.Fprintf(&b, `{"certificate_title":"BSc","full_name":"P","applicant_email":"p%d@example.org","file_id":%q`, i, file)
			for n := 4 * entries; i == 0 && n < members; n++ {
				fmt.Fprintf(&b, `,"x%d":1`, n)
			}
			b.WriteString(`},`)
		}
		return append(bytes.TrimSuffix(b.Bytes(), []byte(",")), "]}"...)
	}
	for _, tc := range []struct {
		entries, parts int
		fields         string
	}{{5000, 40_000, ""}, {5000, 40_001, "-"}, {5001, 0, "entries"}} {
		for contentType, body := range map[string][]byte{
			multipartType: multipartOf(t, many(tc.entries, tc.parts)), "application/x-www-form-urlencoded": urlencodedOf(many(tc.entries, tc.parts)),
			"application/json": jsonOf(tc.entries, tc.parts),
		} {
			a := v.postBulk(contentType, body)
			switch {
			case tc.fields == "":
				v.accept(a, 5000)
			case a.Status != http.StatusUnprocessableEntity:
				t.Errorf("%+v, %s: status = %d, want 422; body %s", tc, contentType, a.Status, a.Body)
			case strings.Trim(tc.fields, "-") != a.fields(t):
				t.Errorf("%+v, %s: want errors only for the fields of the test case; body %s", tc, contentType, a.Body)
			}
		}
	}
	padding := func(size int) []byte {
		body := multipartOf(t, entry(0, file))
		return append(body, bytes.Repeat([]byte{' '}, size-len(body))...)
	}
	v.accept(v.postBulk(multipartType, padding(64<<20)), 1)
	for name, body := range map[string]io.Reader{
		"with Content-Length": bytes.NewReader(padding(64<<20 + 1)), "without Content-Length": struct{ io.Reader }{bytes.NewReader(padding(64<<20 + 1))},
	} {
		r := v.request(http.MethodPost, "/business/certificate-vault/bulk", body)
		r.Header.Set("Content-Type", multipartType)
		if a := v.do(r); a.Status != http.StatusRequestEntityTooLarge || !strings.Contains(a.problem(t).Message, "64 MiB") {
			t.Errorf("a body over the limit, %s: status = %d, want 413; body %s", name, a.Status, a.Body)
		}
	}
}

// A response lists at most 1,000 errors. Its message has the number of all errors except the first.
func TestBulkErrorLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("-short skips this test, which sends 5,000 entries")
	}
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	var fields []field
	for i := range 5000 {
		fields = append(fields, field{fmt.Sprintf("entries[%d][details]", i), "x"})
	}
	a := v.postBulk("application/x-www-form-urlencoded", urlencodedOf(fields))
	r := a.problem(t)
	if a.Status != http.StatusUnprocessableEntity || len(r.Errors) != 1000 || r.Message != "The certificate title field is required. (and 19999 more errors)" {
		t.Errorf("20,000 errors: status = %d, %d listed errors, message %q, want 422, 1000 listed errors and the number 19999", a.Status, len(r.Errors), r.Message)
	}
	if _, ok := r.Errors["entries.249.file_id"]; !ok {
		t.Error("the listed errors do not contain an error of entry 249, want the errors of the first 250 entries")
	}
}

// If a batch is refused while the client is still sending the body, the client receives the response.
func TestBulkRefusalWhileSending(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	body := append([]byte("entries%=&"), bytes.Repeat([]byte("x=y&"), 12<<20)...)
	if a := v.postBulk("application/x-www-form-urlencoded", body); a.Status != http.StatusUnprocessableEntity || a.problem(t).Message == "" {
		t.Errorf("a refused body of 48 MiB: status = %d, want 422; body %s", a.Status, a.Body)
	}
}

func FuzzBulk(f *testing.F) {
	v := newVault(f, dbtest.SQLite(f), 0)
	for kind, seeds := range []string{
		"--" + boundary + "\r\nContent-Disposition: form-data; name=\"entries[0][full_name]\"\r\n\r\nAda\r\n--" + boundary + "--",
		"entries%5B0%5D%5Bfull_name%5D=Ada&entries[1][file_id]=x", `{"entries":{"7":{"full_name":"\ud83c\udf93","details":null}}}`, `{"entries":[{"full_name":"A"},[],null]}`,
	} {
		f.Add(byte(kind), seeds)
	}
	f.Fuzz(func(t *testing.T, kind byte, body string) {
		in := &bulkInput{draft: v.api.Batches.NewDraft(), exchange: &exchange{}}
		defer in.draft.Close()
		switch kind % 3 {
		case 0:
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
			read, err := in.reader(httptest.NewRecorder(), r)
			if err != nil {
				t.Fatal(err)
			}
			_ = read()
		case 1:
			_ = in.urlencoded(strings.NewReader(body))
		case 2:
			err := in.json(strings.NewReader(body))
			if err == nil && !json.Valid([]byte(body)) {
				t.Errorf("the invalid JSON %q is accepted", body)
			}
		}
	})
}

func FuzzReadName(f *testing.F) {
	for _, s := range []string{"entries[0][full_name]", "entries[999999][a][b]", "entries[", "entries[]", "entries[0]x", "entriesx", "entries[01][x]", "entries.0.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n := readName(name)
		if n.kind == entryField && n.field != "" && fmt.Sprintf("entries[%d][%s]", n.index, n.field) != name {
			t.Errorf("readName(%q) = %+v, want the index and the field of the name", name, n)
		}
		if n.kind == malformedName && (n.key == "" || len(n.key) > 3*maxNameShown || !utf8.ValidString(n.key)) {
			t.Errorf("the key of the malformed name %q is %q, want a short text in UTF-8", name, n.key)
		}
	})
}
