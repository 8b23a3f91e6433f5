package api

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// trickyTexts are valid texts that programs often handle incorrectly: texts in many scripts, texts
// without letters, and texts with the syntax of other formats.
var trickyTexts = []string{
	"محمد Smith עלי", "John\u202eeoD\u202c", "\u2067علي\u2069 Ali", "\u200f\u200f\u200e", "می\u200cخواهم", "Ann\u200bLee", "\u200d", "\u2060\u2061\u2062",
	"👩‍👩‍👧‍👦 Family", "🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f", "👍🏽", "🇳🇴🇳", strings.Repeat("👩‍💻", 85), "𠮷野家 太郎", "\U0010ffff",
	"Z" + strings.Repeat("\u0335\u0351", 120), "\u0301\u0301\u0301", "Jose\u0301 Nu\u0301n\u0303ez", "José Núñez", "Nguyễn Thị Ngọc Ánh", "श्रीकृष्ण द्विवेदी",
	"မြင့်မြတ်သူ", "བསྟན་འཛིན", "ᠴᠢᠩᠭᠢᠰ", "각", "각", "ﾔﾏﾀﾞ ﾀﾛｳ", "İbrahim Işık", "ẞ ß ŉ ǰ", "ﬁ ﬀ ﬆ", "\ufdfa", "ǅ", "\ufeffAnna", "\ufffe\uffff", "\ufffd",
	"a\rb\nc\td", "a\vb\fc", "a\u0085b\u2028c\u2029d", "\x01\x02\x1b[31mred\x7f", "\x08\x08back", "\u0080\u009f",
	"<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "{{7*7}} ${7*7} <%= 7*7 %>", "{{.}} {{printf \"%s\" .}}", "&amp;&#0;&lt;", "]]><!--",
	"Robert'); DROP TABLE certificates;--", "' OR 1=1 --", "$1 $2 ?1 :name @p", "\\' \\\\ \\u0041 \\x", "%00 %s %n %d %%", "_%_%", "%", "_", "\\",
	"=HYPERLINK(\"http://127.0.0.1/\")", "+1+1", "-1", "@SUM(1)", "(unbalanced \\) ) (", "/Type /Catalog", "endstream endobj", "../../etc/passwd", `C:\con\aux`,
	"null", "undefined", "NaN", "true", "0", "-0", "1e309", "[]", "{}", "0x10", "١٢٣", "O", strings.Repeat("W", 255), strings.Repeat("𝕎", 255),
	"--boundary--", "\r\n--boundary", "Content-Disposition: form-data; name=x", "a\r\nBcc: victim@example.org",
}

// notText are strings that no field accepts, because they contain NUL or are not valid UTF-8.
var notText = []string{
	"a\x00b", "\x00", "\xff\xfe", "a\xc3", "\xc3\x28", "\xed\xa0\x80", "\xed\xbf\xbf", "\xc0\xaf", "\xf8\x88\x80\x80\x80", "\xf4\x90\x80\x80", "ab\x80", "\x1b$B\x80",
}

// corpusNames returns the names in the shared corpus, a folder next to the repository. If the file with
// the names is missing, it returns nil, or fails the test if the environment variable CI is true.
func corpusNames(tb testing.TB) (list []string) {
	tb.Helper()
	content, err := os.ReadFile("../../../../shared/corpus/recipients/names-tricky.json")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		tb.Log("the shared corpus is not next to the repository: its names are not tested")
		return nil
	}
	if err != nil {
		tb.Fatal(err)
	}
	var names []struct{ Name, Hex string }
	if err := json.Unmarshal(content, &names); err != nil {
		tb.Fatal(err)
	}
	for _, n := range names {
		raw, err := hex.DecodeString(n.Hex)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, n.Name+string(raw))
	}
	return list
}

// Both databases store text unchanged, except for white space around the text. If a value is not valid
// text, the response names its field.
func TestTrickyText(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		last := ""
		for i, s := range append(append(trickyTexts, notText...), corpusNames(t)...) {
			want := strings.TrimSpace(s)
			clean := utf8.ValidString(s) && !strings.ContainsRune(s, 0)
			long := utf8.RuneCountInString(want) > 255
			a := v.post(form(t, text("certificate_title", s), text("full_name", s), text("details", s), text("applicant_email", fmt.Sprintf("n%d@example.org", i)),
				part{name: "certificate_file", file: "diploma.pdf", content: samplePDF(0)}))
			if !clean || want == "" || long {
				fields := "certificate_title full_name"
				if !clean {
					fields = "certificate_title details full_name"
				}
				if a.Status != http.StatusUnprocessableEntity || a.fields(t) != fields {
					t.Errorf("the text %.60q: status = %d, want 422 with the text fields; body %s", s, a.Status, a.Body)
				}
				continue
			}
			if a.Status != http.StatusCreated {
				t.Errorf("the text %.60q: status = %d, want 201; body %s", s, a.Status, a.Body)
				continue
			}
			made := data(t, a)
			last = made["uuid"].(string)
			found := data(t, v.get(vaultPath+"/"+last))
			for _, field := range []string{"certificate_title", "full_name", "details"} {
				if made[field] != want || found[field] != want {
					t.Errorf("%s: the response has %.60q and the record has %.60q, want %.60q", field, made[field], found[field], want)
				}
			}
		}
		for _, s := range append(append(trickyTexts, notText...), corpusNames(t)...) {
			for _, filter := range []string{"search", "applicant_email", "status", "page", s} {
				a := v.get(vaultPath + "?" + url.QueryEscape(filter) + "=" + url.QueryEscape(s))
				if a.Status != http.StatusOK && a.Status != http.StatusUnprocessableEntity {
					t.Errorf("the list with %s=%.60q: status = %d, want 200 or 422; body %s", filter, s, a.Status, a.Body)
				}
			}
			if a := v.get(vaultPath + "/" + url.PathEscape(s)); a.Status != http.StatusNotFound {
				t.Errorf("the record %.60q: status = %d, want 404", s, a.Status)
			}
			encoded, err := json.Marshal(map[string]string{"reason": s, "note": s})
			if err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(s) { // json.Marshal would write a replacement character
				encoded = []byte(`{"reason":"` + s + `"}`)
			}
			a := v.postJSON(vaultPath+"/"+last+"/revoke", string(encoded))
			if clean := utf8.ValidString(s) && !strings.ContainsRune(s, 0) && strings.TrimSpace(s) != ""; (a.Status == http.StatusOK) != clean || a.Status >= 500 {
				t.Errorf("the reason %.60q: status = %d, want 200 for valid text, and a client error otherwise; body %s", s, a.Status, a.Body)
			}
		}
		if strings.Contains(v.log.String(), `"level":"ERROR"`) {
			t.Error("the log has errors, want none")
		}
	})
}

func TestIssueDates(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	for date, status := range map[string]int{
		"2024-02-29": 201, "2000-02-29": 201, " 2026-01-01 ": 201, "": 201, "0001-01-01": 201, "1066-10-14": 201, "9999-12-31": 201,
		"2023-02-29": 422, "1900-02-29": 422, "0000-01-01": 422, "2026-02-30": 422, "2026-04-31": 422, "2026-13-01": 422, "2026-00-01": 422, "2026-01-00": 422, "2026-01-32": 422,
		"0000-00-00": 422, "26-01-01": 422, "2026-1-1": 422, "20260101": 422, "2026/01/01": 422, "01.01.2026": 422, "2026-01-01T00:00:00Z": 422,
		"2026-01-01 00:00": 422, "+2026-01-01": 422, "-2026-01-01": 422, "12026-01-01": 422, "２０２６-01-01": 422, "٢٠٢٦-٠١-٠١": 422, "today": 422, "0": 422,
		"2026-01-01\x00": 422, "2026-01-01;": 422, "2026-W01-1": 422, "2026-001": 422, "2026−01−01": 422,
	} {
		a := v.post(form(t, append(v.validFields(), text("issue_date", date), pdfFile(samplePDF(0)))...))
		if a.Status != status || status == 422 && a.fields(t) != "issue_date" {
			t.Errorf("the date %q: status = %d, want %d; body %s", date, a.Status, status, a.Body)
		}
	}
}

// raw returns a part of a form with the given header.
func raw(header, content string) string {
	return "--" + boundary + "\r\n" + header + "\r\n\r\n" + content + "\r\n"
}

func disposition(name string) string { return `Content-Disposition: form-data; name="` + name + `"` }

// TestOddForms sends unusual and malformed forms.
func TestOddForms(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	pdf := string(samplePDF(0))
	file := raw(disposition("certificate_file")+`; filename="a.pdf"`, pdf)
	end := "--" + boundary + "--\r\n"
	n := 0
	valid := func() string {
		n++
		return raw(disposition("certificate_title"), fmt.Sprintf("Odd %d", n)) + raw(disposition("full_name"), "Ada") + raw(disposition("applicant_email"), "ada@example.org")
	}
	for _, tc := range []struct {
		what, body string
		status     int
		fields     string
	}{
		{"valid", valid() + file + end, 201, ""},
		{"a preamble and an epilogue", "preamble\r\n" + valid() + file + end + "epilogue", 201, ""},
		{"line feeds without carriage returns", strings.ReplaceAll(valid(), "\r\n", "\n") + strings.ReplaceAll(raw(disposition("certificate_file")+`; filename="a.pdf"`, "%%"), "%%", pdf) + end, 422, ""},
		{"no end", valid() + file, 422, ""},
		{"a truncated closing boundary", valid() + file + "--" + boundary, 422, ""},
		{"a list instead of text", valid() + raw(disposition("full_name[]"), "Bo") + file + end, 422, "full_name"},
		{"only a list", raw(disposition("full_name[]"), "Bo") + file + end, 422, "full_name"},
		{"an object instead of text", valid() + raw(disposition("details[a][b]"), "x") + file + end, 422, "details"},
		{"a list of files", valid() + raw(disposition("certificate_file[]")+`; filename="a.pdf"`, pdf) + end, 422, "certificate_file"},
		{"an unknown list", valid() + raw(disposition("tags[]"), "x") + raw(disposition("tags[]"), "y") + file + end, 201, ""},
		{"a file instead of text", valid() + raw(disposition("details")+`; filename="d.txt"`, "x") + file + end, 422, "details"},
		{"a repeated field", valid() + raw(disposition("full_name"), "Ada") + file + end, 422, "full_name"},
		{"a part without a name", valid() + raw("Content-Disposition: form-data", "x") + file + end, 422, "form"},
		{"a part with an empty name", valid() + raw(disposition(""), "x") + file + end, 422, "form"},
		{"a part without a disposition", valid() + raw("X: y", "x") + file + end, 422, "form"},
		{"a part without a header", valid() + "--" + boundary + "\r\n\r\nx\r\n" + file + end, 422, "form"},
		{"another disposition", valid() + raw(`Content-Disposition: attachment; name="details"`, "x") + file + end, 422, "form"},
		{"an invalid disposition", valid() + raw(`Content-Disposition: form-data; name="details"; name="x"`, "x") + file + end, 422, "form"},
		{"a name without a closing quote", valid() + raw(`Content-Disposition: form-data; name="details`, "x") + file + end, 422, "form"},
		{"an empty file name", valid() + raw(disposition("certificate_file")+`; filename=""`, pdf) + end, 422, "certificate_file"},
		{"a file name that is a path", valid() + raw(disposition("certificate_file")+`; filename="../../../etc/passwd.pdf"`, pdf) + end, 201, ""},
		{"a file name with NUL", valid() + raw(disposition("certificate_file")+"; filename=\"a\x00.pdf\"", pdf) + end, 422, ""},
		{"a file name in the form of RFC 8187", valid() + raw(disposition("certificate_file")+"; filename*=UTF-8''%e8%ad%89%e6%9b%b8.pdf", pdf) + end, 201, ""},
		{"a file name that is not UTF-8", valid() + raw(disposition("certificate_file")+"; filename=\"\xff\xfe.pdf\"", pdf) + end, 201, ""},
		{"a file name with a bidi mark", valid() + raw(disposition("certificate_file")+"; filename=\"exe.\u202efdp\"", pdf) + end, 422, "certificate_file"},
		{"a very long file name", valid() + raw(disposition("certificate_file")+`; filename="`+strings.Repeat("n", 20_000)+`.pdf"`, pdf) + end, 201, ""},
		{"another content type", valid() + raw(disposition("certificate_file")+"; filename=\"a.pdf\"\r\nContent-Type: text/html", pdf) + end, 201, ""},
		{"text in another charset", valid() + raw(disposition("details")+"\r\nContent-Type: text/plain; charset=iso-8859-1", "caf\xe9") + file + end, 422, "details"},
		{"quoted-printable", valid() + raw(disposition("details")+"\r\nContent-Transfer-Encoding: quoted-printable", "caf=C3=A9") + file + end, 201, ""},
		{"invalid quoted-printable", valid() + raw(disposition("details")+"\r\nContent-Transfer-Encoding: quoted-printable", "=ZZ\x00=") + file + end, 422, ""},
		{"a nested form", valid() + raw(disposition("details")+"\r\nContent-Type: multipart/mixed; boundary=inner", "--inner\r\n\r\nx\r\n--inner--") + file + end, 201, ""},
		{"a header of many lines", valid() + raw(disposition("details")+strings.Repeat("\r\nX: y", 20_000), "x") + file + end, 422, ""},
		{"a header of one long line", valid() + raw(disposition("details")+"\r\nX: "+strings.Repeat("y", 1<<20), "x") + file + end, 422, ""},
		{"a very long preamble", strings.Repeat("x\r\n", 1<<20), 422, ""},
		{"nothing but boundaries", strings.Repeat("--"+boundary+"\r\n", 10_000), 422, ""},
		{"100,000 parts", strings.Repeat(raw(disposition("x"), ""), 100_000) + end, 422, ""},
		{"a line in the file that begins with the boundary", valid() + raw(disposition("certificate_file")+`; filename="a.pdf"`, pdf+"\r\n--"+boundary+"x") + end, 201, ""},
	} {
		rows, files := v.stored()
		a := v.post([]byte(tc.body))
		if a.Status != tc.status {
			t.Errorf("%s: status = %d, want %d; body %.300s", tc.what, a.Status, tc.status, a.Body)
			continue
		}
		if a.Status == http.StatusCreated {
			made := data(t, a)
			if name := made["file"].(map[string]any)["name"].(string); strings.ContainsAny(name, "/\\\x00") || !utf8.ValidString(name) || len([]rune(name)) > 255 {
				t.Errorf("%s: the name of the file is %q, want at most 255 characters of UTF-8 without a path", tc.what, name)
			}
			continue
		}
		if got := a.fields(t); got != tc.fields {
			t.Errorf("%s: the refused fields are %q, want %q; body %s", tc.what, got, tc.fields, a.Body)
		}
		if r, f := v.stored(); r != rows || f != files {
			t.Errorf("%s: the refused form stored %d rows and %d files, want none", tc.what, r-rows, f-files)
		}
	}
}

// If a body does not arrive in time, the status is 408, not 500.
func TestLateBody(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t), 0)
	h := v.api.Handler()
	late := func(contentType string) *http.Request {
		r := v.request(http.MethodPost, vaultPath, io.MultiReader(strings.NewReader("--"+boundary+"\r\n"+disposition("details")+"\r\n\r\nx"), errReader{os.ErrDeadlineExceeded}))
		r.Header.Set("Content-Type", contentType)
		return r
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, late("multipart/form-data; boundary="+boundary))
	if w.Code != http.StatusRequestTimeout || !json.Valid(w.Body.Bytes()) {
		t.Errorf("a form that arrives too late: status = %d, want 408 as JSON; body %s", w.Code, w.Body)
	}
	id := v.upload("diploma.pdf")["uuid"].(string)
	r := late("application/json")
	r.URL.Path += "/" + id + "/revoke"
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || !json.Valid(w.Body.Bytes()) {
		t.Errorf("a JSON body that arrives too late: status = %d, want 408 as JSON; body %s", w.Code, w.Body)
	}
}
