package api

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pdf/pdftest"
)

var update = flag.Bool("update", false, "rewrite the recorded responses in testdata")

const problemsFile = "testdata/problems.txt"

// maxRecorded is the maximum length in bytes of a body that is recorded completely. Of a longer body,
// only the first 300 bytes, the length and the digest are recorded.
const maxRecorded = 4096

// recorder records responses in the order of the requests.
type recorder struct {
	*vault

	b bytes.Buffer
}

// varying has patterns for the values that differ between runs, such as ids and times.
var varying = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "(uuid)"},
	{regexp.MustCompile(`NWU-[0-9A-Z]{16}`), "(reference id)"},
	{regexp.MustCompile(`20\d{2}-\d{2}-\d{2}T[0-9:.]+Z`), "(time)"},
	{regexp.MustCompile(`Bulk upload of [-0-9: ]+ UTC`), "(name)"},
}

// record records the status and the body of a response. It replaces varying values by their masks, and
// fails the test if the response is not a client error.
func (r *recorder) record(name string, a *response) {
	r.tb.Helper()
	body := string(a.Body)
	for _, v := range varying {
		body = v.pattern.ReplaceAllString(body, v.mask)
	}
	if len(body) > maxRecorded {
		body = fmt.Sprintf("%s ... %d bytes, SHA-256 %x\n", strings.ToValidUTF8(body[:300], ""), len(body), sha256.Sum256([]byte(body)))
	}
	if a.Status < 400 || a.Status >= 500 {
		r.tb.Errorf("%s: status = %d, body %.300s; want a client error", name, a.Status, a.Body)
	}
	fmt.Fprintf(&r.b, "%s\n%d %s\n", name, a.Status, body)
}

// TestRecordedProblems compares the status and the body of error responses of the API, byte by
// byte, with those in testdata.
func TestRecordedProblems(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := &recorder{vault: newVault(t, d, 0)}
		r.recordUploads()
		r.recordForms()
		r.recordFiles()
		r.recordStaged()
		r.recordBulk()
		r.recordBulkJSON()
		r.recordLists()
		r.recordRecords()
		r.recordKeys()
		r.recordEntries()
		r.recordNotify()
		if *update {
			if err := os.WriteFile(problemsFile, r.b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(problemsFile)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.b.Bytes(); !bytes.Equal(got, want) {
			lines, recorded := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
			for i := range min(len(lines), len(recorded)) {
				if lines[i] != recorded[i] {
					t.Fatalf("line %d after %q:\n got %s\nwant %s", i+1, lines[max(0, i-1)], lines[i], recorded[i])
				}
			}
			t.Fatalf("the responses have %d lines, want the %d recorded lines", len(lines), len(recorded))
		}
	})
}

func (r *recorder) recordUploads() {
	title, name, email := text("certificate_title", "BSc"), text("full_name", "Ada Obi"), text("applicant_email", "ada@example.org")
	file := pdfFile(samplePDF(0))
	long, longer := strings.Repeat("é", 256), strings.Repeat("é", 1001)
	for _, tc := range []struct {
		name  string
		parts []part
	}{
		{"nothing", nil},
		{"no title", []part{name, email, file}},
		{"no name", []part{title, email, file}},
		{"no address", []part{title, name, file}},
		{"no file", []part{title, name, email}},
		{"white space", []part{text("certificate_title", " \t"), text("full_name", "\n"), text("applicant_email", " "), file}},
		{"a long title", []part{text("certificate_title", long), name, email, file}},
		{"a long name", []part{title, text("full_name", long), email, file}},
		{"a long address", []part{title, name, text("applicant_email", strings.Repeat("a", 250)+"@example.org"), file}},
		{"a long date", []part{title, name, email, text("issue_date", long), file}},
		{"long details", []part{title, name, email, text("details", longer), file}},
		{"endless details", []part{title, name, email, text("details", strings.Repeat("x", 100_000)), file}},
		{"all wrong", []part{text("certificate_title", "\xff"), text("full_name", long), text("applicant_email", "x"), text("issue_date", "x"), text("details", longer)}},
		{"NUL in each", []part{text("certificate_title", "\x00"), text("full_name", "\x00"), text("applicant_email", "\x00"), text("issue_date", "\x00"), text("details", "\x00"), file}},
		{"no UTF-8", []part{title, name, email, text("details", "caf\xe9"), file}},
		{"no address, but a word", []part{title, name, text("applicant_email", "ada"), file}},
		{"an address with a name", []part{title, name, text("applicant_email", "Ada <ada@example.org>"), file}},
		{"no such day", []part{title, name, email, text("issue_date", "2026-02-30"), file}},
		{"another form of date", []part{title, name, email, text("issue_date", "30.06.2026"), file}},
		{"the year 0", []part{title, name, email, text("issue_date", "0000-01-01"), file}},
		{"an expiry before the issue", []part{title, name, email, text("issue_date", "2026-06-30"), text("expires_on", "2026-06-30"), file}},
		{"an expiry after 100 years", []part{title, name, email, text("issue_date", "2026-06-30"), text("expires_on", "2126-07-01"), file}},
		{"no such day of expiry", []part{title, name, email, text("expires_on", "2030-02-30"), file}},
		{"a list", []part{title, text("full_name[]", "Ada"), email, file}},
		{"a list of files", []part{title, name, email, {name: "certificate_file[]", file: "a.pdf", content: samplePDF(0)}}},
		{"a file where text belongs", []part{title, name, email, {name: "details", file: "a.txt", content: []byte("x")}, file}},
		{"text where the file belongs", []part{title, name, email, text("certificate_file", "x")}},
		{"text and a missing title", []part{name, email, text("certificate_file", "x")}},
		{"a field twice", []part{title, title, name, email, file}},
		{"two files", []part{title, name, email, file, file}},
		{"a refused file and another", []part{title, name, email, pdfFile(nil), file}},
		{"a refused file and a missing name", []part{title, email, pdfFile([]byte("hello"))}},
	} {
		r.record("upload: "+tc.name, r.post(form(r.tb, tc.parts...)))
	}
	first := form(r.tb, append(r.validFields(), file)...)
	if a := r.post(first); a.Status != http.StatusCreated {
		r.tb.Fatalf("the first upload: status = %d, want 201; body %s", a.Status, a.Body)
	}
	r.record("upload: a duplicate", r.post(first))
}

func (r *recorder) recordForms() {
	file := raw(disposition("certificate_file")+`; filename="a.pdf"`, string(samplePDF(0)))
	valid := raw(disposition("certificate_title"), "Form") + raw(disposition("full_name"), "Ada") + raw(disposition("applicant_email"), "ada@example.org")
	end := "--" + boundary + "--\r\n"
	for _, tc := range []struct{ name, body string }{
		{"empty", ""},
		{"no boundary", "hello"},
		{"no end", valid + file},
		{"a part without a name", valid + raw("Content-Disposition: form-data", "x") + file + end},
		{"a file name with NUL", valid + raw(disposition("certificate_file")+"; filename=\"a\x00.pdf\"", "x") + end},
		{"a head of many lines", valid + raw(disposition("details")+strings.Repeat("\r\nX: y", 20_000), "x") + file + end},
		{"too many parts", strings.Repeat(raw(disposition("x"), ""), 101) + end},
		{"too large", valid + file + end + strings.Repeat(" ", maxBody)},
	} {
		r.record("form: "+tc.name, r.post([]byte(tc.body)))
	}
	for _, contentType := range []string{"", "application/json", "multipart/form-data", "multipart/form-data; boundary=another"} {
		for _, path := range []string{"", "/upload-file", "/bulk"} {
			q := r.request(http.MethodPost, vaultPath+path, strings.NewReader(valid+file+end))
			q.Header.Set("Content-Type", contentType)
			r.record(fmt.Sprintf("form: type %q to %q", contentType, path), r.do(q))
		}
	}
	for _, path := range []string{"", "/upload-file", "/bulk"} {
		q := r.request(http.MethodPost, vaultPath+path, strings.NewReader(valid+file+end))
		q.Header.Set("Content-Type", multipartType)
		q.Header.Set("Content-Encoding", "gzip")
		r.record(fmt.Sprintf("form: compressed, to %q", path), r.do(q))
	}
}

// pictures returns a JPEG and a PNG of 16 by 16 pixels.
func pictures(tb testing.TB) (jpg, lossless []byte) {
	tb.Helper()
	img := image.NewGray(image.Rect(0, 0, 16, 16))
	for i := range img.Pix {
		img.Pix[i] = color.Gray{Y: byte(i * 7)}.Y
	}
	var j, p bytes.Buffer
	if err := jpeg.Encode(&j, img, nil); err != nil {
		tb.Fatal(err)
	}
	if err := png.Encode(&p, img); err != nil {
		tb.Fatal(err)
	}
	return j.Bytes(), p.Bytes()
}

// sized returns a copy of a PNG. The header of the copy has the given width and height, and 64 bits per
// pixel.
func sized(content []byte, width, height uint32) []byte {
	out := bytes.Clone(content)
	header := out[12:29]
	for i, v := range []uint32{width, height} {
		for k := range 4 {
			header[4+4*i+k] = byte(v >> (24 - 8*k))
		}
	}
	header[12], header[13] = 16, 6
	sum := crc32.ChecksumIEEE(header)
	for k := range 4 {
		out[29+k] = byte(sum >> (24 - 8*k))
	}
	return out
}

func (r *recorder) recordFiles() {
	pdf := samplePDF(0)
	jpg, lossless := pictures(r.tb)
	catalog, pages := "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>"
	page := "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<<>>>>"
	secret := "/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<" + strings.Repeat("11", 32) + ">/U<" + strings.Repeat("22", 32) + ">>>/ID[<01><01>]"
	bombed := bytes.Clone(jpg)
	if at := bytes.Index(bombed, []byte("\xff\xc0")); at >= 0 {
		copy(bombed[at+5:], "\xff\xff\xff\xff")
	}
	for _, tc := range []struct {
		name, file string
		content    []byte
	}{
		{"empty", "a.pdf", nil},
		{"another extension", "a.docx", pdf},
		{"no extension", "pdf", pdf},
		{"a PDF named PNG", "a.png", pdf},
		{"a PDF named JPEG", "a.jpeg", pdf},
		{"a JPEG named PDF", "a.pdf", jpg},
		{"a PNG named JPG", "a.jpg", lossless},
		{"text", "a.pdf", []byte("hello")},
		{"a truncated PDF", "a.pdf", pdf[:330]},
		{"the beginning of a PDF", "a.pdf", []byte("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 o")},
		{"a damaged PDF", "a.pdf", []byte("%PDF-1.7\n" + strings.Repeat("x", 100) + "\n%%EOF\n")},
		{"no pages", "a.pdf", pdftest.File("", catalog, "<</Type/Pages/Kids[]/Count 0>>")},
		{"a password", "a.pdf", pdftest.File(secret, catalog, pages, page)},
		{"an unknown encryption", "a.pdf", pdftest.File("/Encrypt<</Filter/Adobe.PubSec/V 4>>", catalog, pages, page)},
		{"also a ZIP", "a.pdf", append([]byte("PK\x03\x04\n"), pdf...)},
		{"ends in a ZIP", "a.pdf", append(bytes.Clone(pdf), "PK\x05\x06"+strings.Repeat("\x00", 18)...)},
		{"also a web page", "a.pdf", append([]byte("<html>\n"), pdf...)},
		{"also a script", "a.pdf", append([]byte("#!/bin/sh\n"), pdf...)},
		{"a truncated JPEG", "a.jpg", jpg[:len(jpg)-4]},
		{"a damaged JPEG", "a.jpg", []byte("\xff\xd8\xff\x00\x00\xff\xd9")},
		{"no image in a JPEG", "a.jpg", []byte("\xff\xd8\xff\xd9")},
		{"too many pixels in a JPEG", "a.jpg", bombed},
		{"a truncated PNG", "a.png", lossless[:len(lossless)-20]},
		{"a damaged PNG", "a.png", append(bytes.Clone(lossless[:40]), "x"...)},
		{"too many pixels in a PNG", "a.png", sized(lossless, 1<<20, 1<<20)},
		{"a PNG that expands", "a.png", sized(lossless, 15_000, 8_000)},
		{"a PNG that is too short", "a.png", sized(lossless, 100, 100)},
		{"too large", "a.pdf", append(samplePDF(20_971_520), '\n')},
	} {
		r.record("file: "+tc.name, r.post(form(r.tb, append(r.validFields(), part{name: "certificate_file", file: tc.file, content: tc.content})...)))
		r.record("staged file: "+tc.name, r.postFile(part{name: "file", file: tc.file, content: tc.content}))
	}
	r.exec(`UPDATE institutions SET refuse_active = true`)
	active := pdftest.File("", "<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(x)>>>>", pages, page)
	r.record("file: active content", r.post(form(r.tb, append(r.validFields(), pdfFile(active))...)))
	r.record("staged file: active content", r.postFile(part{name: "file", file: "a.pdf", content: active}))
	r.exec(`UPDATE institutions SET refuse_active = false`)
}
