//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

const maxFile = 20_971_520

// TestLimits uploads forms in which a text field or the address has the maximum length in code points, or
// is longer.
func TestLimits(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		accepted := 0
		for i, letter := range []string{"a", "é", "證", "🎓"} {
			for _, field := range []struct {
				name  string
				limit int
			}{{"certificate_title", 255}, {"full_name", 255}, {"details", 1000}} {
				who := fmt.Sprintf("Limit %d %s", i, field.name)
				longest := strings.Repeat(letter, field.limit)
				problem := uploadInvalid(t, f, form(who).With(field.name, longest+letter), field.name)
				if want := fmt.Sprintf("must not be greater than %d characters", field.limit); !strings.Contains(problem, want) {
					t.Errorf("%s: message %q, want %q", field.name, problem, want)
				}
				made := f.upload(t, form(who).With(field.name, "\t "+longest+" \n"))
				accepted++
				stored := map[string]string{"certificate_title": made.CertificateTitle, "full_name": made.FullName}
				if made.Details != nil {
					stored["details"] = *made.Details
				}
				if stored[field.name] != longest {
					t.Errorf("%s = %q, want the submitted text without the surrounding white space", field.name, stored[field.name])
				}
			}
		}
		local := strings.Repeat("l", 64)
		host := strings.Repeat("d", 62) + "." + strings.Repeat("e", 62) + "." + strings.Repeat("f", 60) + ".org"
		if n := len(local + "@" + host); n != 255 {
			t.Fatalf("the longest address has %d characters, want 255", n)
		}
		f.upload(t, form("Long Address").With("applicant_email", local+"@"+host))
		accepted++
		uploadInvalid(t, f, form("Longer Address").With("applicant_email", local+"@x"+host), "applicant_email")
		if n := count(t, f.database(t), `SELECT count(*) FROM certificates`); n != accepted {
			t.Errorf("got %d certificates for %d accepted uploads, want one for each upload", n, accepted)
		}
	})
}

// uploadInvalid uploads a form that the vault must refuse because of a field, and returns the
// message for the field.
func uploadInvalid(t *testing.T, f *fixture, form *vault.Form, field string) string {
	t.Helper()
	a, err := f.client.Upload(t.Context(), form)
	if err != nil {
		t.Fatal(err)
	}
	p := wantProblem(t, a, 422, "")
	if len(p.Errors[field]) != 1 || p.Errors[field][0] == "" {
		t.Errorf("the response does not have exactly one error for %s: %s", field, a.Body)
		return p.Message
	}
	if len(p.Errors) == 1 && p.Message != p.Errors[field][0] {
		t.Errorf("message = %q, want the first error %q", p.Message, p.Errors[field][0])
	}
	return p.Errors[field][0]
}

// TestValidation uploads forms with invalid and missing fields. The vault must not store anything. The test
// also checks the issue date of valid forms.
func TestValidation(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		good := form("Jane Doe")
		for field, values := range map[string][]string{
			"certificate_title": {"", "   ", "a\x00b", "\xff\xfe", "a\xc3"},
			"full_name":         {"", "\t\n", "a\x00b", "\xed\xa0\x80"},
			"applicant_email": {
				"", " ", "plain", "a@", "@b.org", "a b@c.org", "a@b", "a@b..org", "a@.org", "a@b.org.", "A <a@b.org>", "a@b.org, c@d.org", "a@b.org\nBcc: c@d.org",
				"a@-b.org", ".a@b.org", "a..b@c.org", "a@b_c.org", "a\x00@b.org", "a\xff@b.org", `"a b"@c.org`, "a@[127.0.0.1]", strings.Repeat("l", 65) + "@b.org",
			},
			"issue_date": {
				"2026-02-29", "2026-02-30", "2026-13-01", "2026-00-10", "2026-04-31", "2026-2-3", "20260203", "03.02.2026", "02/03/2026", "2026-02-03T00:00:00Z",
				"today", "2026-02-03\x00", "99999-01-01", "1900-02-29",
			},
			"details": {"a\x00b", "\xff"},
		} {
			for _, value := range values {
				t.Run(fmt.Sprintf("%s %.20q", field, value), func(t *testing.T) { uploadInvalid(t, f, good.With(field, value), field) })
			}
		}
		for _, field := range []string{"certificate_title", "full_name", "applicant_email", "certificate_file"} {
			if message := uploadInvalid(t, f, good.Without(field), field); !strings.Contains(message, "required") {
				t.Errorf("upload without %s: message %q, want that it is required", field, message)
			}
		}
		a, err := f.client.Upload(t.Context(), &vault.Form{})
		if err != nil {
			t.Fatal(err)
		}
		p := wantProblem(t, a, 422, "")
		if len(p.Errors) != 4 || !strings.HasSuffix(p.Message, " (and 3 more errors)") {
			t.Errorf("upload of an empty form: got %s, want 4 errors, and a message that ends with (and 3 more errors)", a.Body)
		}
		uploadInvalid(t, f, good.Without("certificate_file").With("certificate_file", "only text"), "certificate_file")
		nothingStored(t, f)

		// The default of the issue date is the current date in UTC.
		before := time.Now().UTC().Format(time.DateOnly)
		made := f.upload(t, good)
		if after := time.Now().UTC().Format(time.DateOnly); made.IssueDate != before && made.IssueDate != after {
			t.Errorf("issue_date = %s, want the current date in UTC", made.IssueDate)
		}
		if leap := f.upload(t, good.With("issue_date", "2024-02-29")); leap.IssueDate != "2024-02-29" {
			t.Errorf("issue_date = %s, want 2024-02-29", leap.IssueDate)
		}
	})
}

// nothingStored checks that the vault has no certificate, event or file.
func nothingStored(t *testing.T, f *fixture) {
	t.Helper()
	d := f.database(t)
	if n := count(t, d, `SELECT count(*) FROM certificates`) + count(t, d, `SELECT count(*) FROM webhook_events`); n != 0 {
		t.Errorf("got %d certificates and events after refused uploads, want 0", n)
	}
	if left := append(f.files(t, "blobs"), f.files(t, "incoming")...); len(left) != 0 {
		t.Errorf("got the files %v after refused uploads, want none", left)
	}
}

// TestFiles uploads files that the vault must refuse, and valid files with unusual names.
func TestFiles(t *testing.T) { //nolint:tparallel // the code after the subtests must run after them
	t.Parallel()
	f := start(t, "")
	pdf := sample("Jane Doe")
	picture, err := vault.PNG(300, 200)
	if err != nil {
		t.Fatal(err)
	}
	photo, err := vault.JPEG(300, 200)
	if err != nil {
		t.Fatal(err)
	}
	html := []byte("<!DOCTYPE html><html><body><script>alert(1)</script></body></html>")
	for _, c := range []struct {
		what, name string
		content    []byte
	}{
		{"empty", "diploma.pdf", nil},
		{"empty picture", "diploma.png", nil},
		{"web page named PDF", "diploma.pdf", html},
		{"web page that is a PDF", "diploma.pdf", append(html, pdf...)},
		{"text", "diploma.txt", []byte("text")},
		{"PDF named as text", "diploma.txt", pdf},
		{"PDF without extension", "diploma", pdf},
		{"PDF named as program", "diploma.pdf.exe", pdf},
		{"PDF named as picture", "diploma.png", pdf},
		{"picture named PDF", "diploma.pdf", picture},
		{"PNG named JPEG", "diploma.jpg", picture},
		{"JPEG named PNG", "diploma.png", photo},
		{"GIF", "diploma.gif", []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;")},
		{"SVG", "diploma.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)},
		{"truncated PNG", "diploma.png", picture[:len(picture)/2]},
		{"truncated JPEG", "diploma.jpg", photo[:len(photo)/3]},
		{"only the header of a PDF", "diploma.pdf", []byte("%PDF-1.7\n")},
		{"PDF without a page", "diploma.pdf", withoutPage(pdf)},
		{"PDF with a password", "diploma.pdf", encrypted(t, pdf, "secret")},
	} {
		t.Run(c.what, func(t *testing.T) {
			message := uploadInvalid(t, f, form("Jane Doe").WithFile(c.name, c.content), "certificate_file")
			if !strings.HasSuffix(message, ".") || strings.ContainsAny(message, "%\x00") || strings.Contains(message, "seal:") {
				t.Errorf("message = %q, want a sentence without text of an internal error", message)
			}
			t.Log(message)
		})
	}
	nothingStored(t, f)
	// The vault accepts unusual file names. It stores each name without the path.
	for i, name := range []string{"../../etc/passwd.pdf", `C:\temp\diploma.PDF`, "Übung 證書 🎓.pdf", strings.Repeat("n", 400) + ".pdf", ".pdf", "a\"b;c.pdf"} {
		made := f.upload(t, form(person(i)).WithFile(name, pdf))
		if strings.ContainsAny(made.File.Name, `/\`) || !strings.HasSuffix(strings.ToLower(made.File.Name), ".pdf") || len([]rune(made.File.Name)) > 255 {
			t.Errorf("file name %q is stored as %q, want a name without a path that ends in .pdf", name, made.File.Name)
		}
		f.await(t, made.UUID, "approved")
	}
}

func withoutPage(pdf []byte) []byte {
	return bytes.Replace(pdf, []byte("/Kids [3 0 R] /Count 1"), []byte("/Kids []      /Count 0"), 1)
}

// encrypted returns a PDF that requires a password.
func encrypted(t *testing.T, pdf []byte, password string) []byte {
	t.Helper()
	from := writeTemp(t, "plain.pdf", pdf)
	to := filepath.Join(filepath.Dir(from), "encrypted.pdf")
	run(t, "qpdf", "--encrypt", password, password, "256", "--", from, to)
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLargestFile uploads a file of the maximum size, 20 MiB, and a file with one more byte.
func TestLargestFile(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		for size, good := range map[int]bool{maxFile: true, maxFile + 1: false} {
			pdf, err := vault.Sample{Title: "Heavy", Name: "Jane Doe"}.PDFOfSize(size)
			if err != nil {
				t.Fatal(err)
			}
			upload := form(fmt.Sprintf("Size %d", size)).WithFile("heavy.pdf", pdf)
			if !good {
				uploadInvalid(t, f, upload, "certificate_file")
				continue
			}
			made := f.upload(t, upload)
			if made.File.Size != maxFile {
				t.Errorf("size = %d, want %d", made.File.Size, maxFile)
			}
			f.await(t, made.UUID, "approved")
			if !bytes.HasPrefix(f.verified(t, made.UUID), pdf) {
				t.Error("the verified PDF does not begin with the original")
			}
		}
	})
}
