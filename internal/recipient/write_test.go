package recipient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gomail "github.com/emersion/go-message/mail"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// delivered writes a message to an outbox and reads the file with the parser of go-message. It returns
// the header, the parts by content type, and the size of the file in bytes.
func delivered(t *testing.T, m mail.Message) (header *gomail.Header, parts map[string]string, size int) {
	t.Helper()
	dir := t.TempDir()
	o, err := mail.NewOutbox(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := &mail.Envelope{Message: m, ID: "id", From: mail.Address{Name: "Vault", Email: "no-reply@vault.example"}, CreatedAt: time.Now()}
	e.Images = func(context.Context) map[string]*mail.Image { return largestImages }
	if err := o.Send(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	r, err := gomail.CreateReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	parts = map[string]string{}
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return &r.Header, parts, len(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(part.Header.Get("Content-Type"), ";")
		body, err := io.ReadAll(part.Body)
		if err != nil {
			t.Fatal(err)
		}
		parts[kind] = string(body)
	}
}

// largestImages are a logo and a picture of a page, each of the maximum size.
var largestImages = map[string]*mail.Image{
	"logo": {Type: "image/png", Content: make([]byte, mail.MaxLogo), Width: 240, Height: 64},
	"page": {Type: "image/jpeg", Content: make([]byte, mail.MaxPage), Width: 200, Height: 260},
}

// hostile has names and titles in several scripts, some of which try to change the header or the HTML of
// a mail.
var hostile = []string{
	"BSc Physics", "Zoë\r\nBcc: victim@example.org", "محمد بن سلمان", "\u202egnp.exe\u202c", "李雷", "नमस्ते दुनिया", "<script>alert(1)</script>",
	`"quoted" <x@example.org>, other@example.org`, "=?utf-8?q?=0ABcc:_x?=", strings.Repeat("ह", 255), strings.Repeat("𐎀", 255), strings.Repeat("<&>", 85),
}

// longTexts are texts of about the maximum length. The first takes the most bytes as HTML, and the
// second as plain text.
var longTexts = [2]account.MailText{
	{Paragraph: strings.Repeat("\"", account.MaxParagraph-30) + " {name} {title} {institution}", Closing: strings.Repeat("𐎀", account.MaxClosing-10) + " {title}"},
	{Paragraph: "{name} {title} {institution} {name}" + strings.Repeat("𐎀", account.MaxParagraph-40), Closing: strings.Repeat("𐎀", account.MaxClosing)},
}

func TestMailInEveryLanguage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	catalog, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range catalog.Languages() {
		t.Run(l.Tag, func(t *testing.T) {
			t.Parallel()
			largest := 0
			for _, text := range hostile {
				for _, n := range []int{1, 2, 5000} {
					for _, owner := range []*account.User{nil, {ID: 1, Name: text, Email: "ada@example.org"}} {
						d := draft{institution: text, brand: account.BrandOf("#1a237e"), owner: owner, language: l, url: "https://vault.example/c/SECRET", logo: "logo:1", picture: "page:1"}
						d.download = d.url + "/0197c2a0-0000-7000-8000-000000000001/certificate.pdf"
						d.linkedIn = (&account.PublicProfile{Name: text, Public: account.Public{LinkedIn: "1234567890123456789"}}).AddToLinkedIn(text, "2026-06-30", "2030-12-31", "https://vault.example/verify/NWU-0123456789ABCDEF", "NWU-0123456789ABCDEF")
						if owner == nil {
							d.unsubscribe = "https://vault.example/unsubscribe/OTHER"
						}
						for range n {
							d.items = append(d.items, item{title: text, name: text, email: "ada@example.org", issueDate: "2026-06-30"})
						}
						for _, texts := range []map[string]account.MailText{nil, {l.Tag: longTexts[0]}, {l.Tag: longTexts[1]}} {
							d.texts = texts
							m, err := d.message()
							if err != nil {
								t.Fatal(err)
							}
							largest = max(largest, checkMail(t, l, m, owner == nil, n == 1))
						}
					}
				}
			}
			if largest > 60<<10 {
				t.Errorf("the largest mail has %d bytes, want at most 60 KiB", largest)
			}
			t.Logf("the largest mail has %d bytes", largest)
		})
	}
}

// checkMail checks a mail as its receiver gets it, and returns the size of the mail in bytes. invitation
// reports whether the receiver has no account, and one whether the mail is about one certificate.
func checkMail(t *testing.T, l *locale.Language, m mail.Message, invitation, one bool) (size int) {
	t.Helper()
	header, parts, size := delivered(t, m)
	allowed := map[string]bool{
		"Date": true, "Mime-Version": true, "Message-Id": true, "Subject": true, "From": true, "To": true, "Content-Type": true, "Auto-Submitted": true,
		"List-Unsubscribe": invitation, "List-Unsubscribe-Post": invitation, "Content-Transfer-Encoding": true,
	}
	for f := header.Fields(); f.Next(); {
		if !allowed[f.Key()] {
			t.Errorf("the mail has the unexpected header %s: %s", f.Key(), f.Value())
		}
	}
	subject, err := header.Subject()
	if err != nil || strings.ContainsAny(subject, "\r\n\u202e") || subject == "" {
		t.Errorf("the subject is %q, want one line without a change of direction; error %v", subject, err)
	}
	to, err := header.AddressList("To")
	if err != nil || len(to) != 1 || to[0].Address != "ada@example.org" {
		t.Errorf("the receiver is %v, want ada@example.org; error %v", to, err)
	}
	text, html := parts["text/plain"], parts["text/html"]
	for _, want := range []string{
		fmt.Sprintf(`<html lang=%q dir=%q>`, l.Tag, l.Direction), "prefers-color-scheme:dark", "background:#1a237e;color:#ffffff", `class="head in" bgcolor="#1a237e"`,
		`href="https://vault.example/c/SECRET"`, `src="cid:logo.id@vault.example" width="240" height="64"`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the HTML does not contain %s", want)
		}
	}
	for _, not := range []string{"<script", `src="http`, `src="//`, "url(", "<!--", "\u202e", "{institution}", "{title}", "<link"} {
		if strings.Contains(html, not) || strings.Contains(text, "\u202e") {
			t.Errorf("the HTML contains %q, or the text contains U+202E; want neither", not)
		}
	}
	if images := len(parts["image/png"]) == mail.MaxLogo && (len(parts["image/jpeg"]) == mail.MaxPage) == one; !images || strings.Contains(html, "cid:page.id@vault.example") != one {
		t.Errorf("the mail has a logo of %d bytes and a page of %d bytes, want the logo, and the page only for one certificate", len(parts["image/png"]), len(parts["image/jpeg"]))
	}
	if strings.Contains(text, "/certificate.pdf") != one || strings.Contains(html, "/certificate.pdf") != one {
		t.Error("the link to the PDF is missing, or is in mail about several certificates; want it only in mail about one certificate")
	}
	if one && (!strings.Contains(text, l.Date(time.Date(2026, 6, 30, 0, 0, 0, 0, time.UTC))) || !strings.Contains(html, l.Date(time.Date(2026, 6, 30, 0, 0, 0, 0, time.UTC)))) {
		t.Error("the mail does not contain the issue date, want it in the text and in the HTML")
	}
	if !strings.Contains(text, "https://vault.example/c/SECRET") || strings.Contains(text, "unsubscribe/OTHER") != invitation {
		t.Errorf("the text has the wrong links: %s", text)
	}
	return size
}

func TestNamesAreIsolated(t *testing.T) {
	t.Parallel()
	for in, want := range map[[2]string]string{
		{"Ada Obi", "ltr"}: "Ada Obi", {"محمد", "ltr"}: "\u2068محمد\u2069", {"Ada Obi", "rtl"}: "\u2068Ada Obi\u2069",
		{"a\u202eb\u2066c", "ltr"}: "abc", {" two\n lines ", "ltr"}: "two lines",
	} {
		if got := mail.Quote(in[0], 100, in[1]); got != want {
			t.Errorf("Quote of %q = %q, want %q", in, got, want)
		}
	}
	if got := mail.Quote(strings.Repeat("é", 30), 10, "ltr"); got != strings.Repeat("é", 9)+"…" {
		t.Errorf("Quote of a long text = %q, want 9 letters and an ellipsis", got)
	}
}
