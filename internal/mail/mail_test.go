package mail

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-message/mail"
)

var createdAt = time.Date(2026, 7, 1, 8, 30, 0, 123_000_000, time.UTC)

func envelope(t *testing.T) *Envelope {
	t.Helper()
	m, err := Letter{
		Heading: "An <b>endpoint</b> fails", Paragraphs: []string{"Zoë & co.", "The second paragraph."}, Button: &Button{"Open", "https://vault.example/x?a=1&b=2"},
		Why: "You are an owner.",
	}.Message(Address{Name: "Zoë Ü., \"Z\"", Email: "zoe@example.org"}, "Störung\r\nBcc: victim@example.org")
	if err != nil {
		t.Fatal(err)
	}
	m.Unsubscribe = "https://vault.example/unsubscribe/x"
	return &Envelope{Message: m, ID: "0197c2a0-0000-7000-8000-000000000001", From: Address{"Certvault", "no-reply@vault.example"}, CreatedAt: createdAt}
}

// parsedMessage has the header of a message, and the bodies of its parts by media type.
type parsedMessage struct {
	header *mail.Header
	parts  map[string]string
}

// readMessage parses a message with another library than the one that writes messages.
func readMessage(t *testing.T, text string) parsedMessage {
	t.Helper()
	r, err := mail.CreateReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	m := parsedMessage{header: &r.Header, parts: map[string]string{}}
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return m
		}
		if err != nil {
			t.Fatal(err)
		}
		h, ok := part.Header.(*mail.InlineHeader)
		if !ok {
			t.Fatalf("type of the header of a part = %T, want *mail.InlineHeader", part.Header)
		}
		kind, _, err := h.ContentType()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part.Body)
		if err != nil {
			t.Fatal(err)
		}
		m.parts[kind] = string(body)
	}
}

// checkMessage checks the headers and the parts of the message from envelope.
func checkMessage(t *testing.T, text string) {
	t.Helper()
	m := readMessage(t, text)
	for name, want := range map[string]string{
		"Message-Id": "<0197c2a0-0000-7000-8000-000000000001@vault.example>", "Auto-Submitted": "auto-generated",
		"List-Unsubscribe-Post": "List-Unsubscribe=One-Click", "List-Unsubscribe": "<https://vault.example/unsubscribe/x>", "Bcc": "",
	} {
		if got := m.header.Get(name); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
	if at, err := m.header.Date(); err != nil || !at.Equal(createdAt.Truncate(time.Second)) {
		t.Errorf("Date = %v, want the creation time in whole seconds; error %v", at, err)
	}
	if subject, err := m.header.Subject(); err != nil || subject != "Störung Bcc: victim@example.org" {
		t.Errorf("Subject = %q, want the subject on one line; error %v", subject, err)
	}
	to, err := m.header.AddressList("To")
	if err != nil || len(to) != 1 || to[0].Name != `Zoë Ü., "Z"` || to[0].Address != "zoe@example.org" {
		t.Errorf("To = %v, want the name and the address of the receiver; error %v", to, err)
	}
	for kind, wants := range map[string][]string{
		"text/plain": {"An <b>endpoint</b> fails", "Zoë & co.", "https://vault.example/x?a=1&b=2", "You are an owner."},
		"text/html":  {"An &lt;b&gt;endpoint", "Zoë &amp; co.", `href="https://vault.example/x?a=1&amp;b=2"`, `lang="en"`, `dir="ltr"`},
	} {
		for _, want := range wants {
			if !strings.Contains(m.parts[kind], want) {
				t.Errorf("the part %s does not contain %q", kind, want)
			}
		}
	}
	if strings.Contains(m.parts["text/html"], "<img") || strings.Contains(m.parts["text/html"], "src=") || strings.Contains(m.parts["text/html"], "url(") {
		t.Error("the HTML contains <img, src= or url(, want none of them")
	}
}

func TestOutboxFilesAreReadable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "outbox")
	o, err := NewOutbox(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // after a crash, a message may be sent twice
		if err := o.Send(t.Context(), envelope(t)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "20260701T083000.123Z-0197c2a0-0000-7000-8000-000000000001.eml" {
		t.Fatalf("files in the outbox = %v, want one file with the time and the id in its name; error %v", files, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the outbox = %v, want 0700; error %v", info.Mode(), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	checkMessage(t, string(text))
}

func TestCheckRefusesInvalidMessages(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Message{
		"no address": {Subject: "s", Text: "t"}, "no subject": {To: Address{Email: "a@example.org"}, Text: "t"},
		"no text": {To: Address{Email: "a@example.org"}, Subject: "s"}, "two addresses": {To: Address{Email: "a@example.org, b@example.org"}, Subject: "s", Text: "t"},
		"text that is too long": {To: Address{Email: "a@example.org"}, Subject: "s", Text: strings.Repeat("x", maxMessage+1)},
	} {
		if err := m.check(); err == nil {
			t.Errorf("%s: check returned no error, want an error", name)
		}
	}
}
