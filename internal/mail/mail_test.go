package mail

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/config"
)

var made = time.Date(2026, 7, 1, 8, 30, 0, 123_000_000, time.UTC)

func envelope(t *testing.T) *Envelope {
	t.Helper()
	m, err := Letter{
		Heading: "An <b>endpoint</b> fails", Paragraphs: []string{"Zoë & co.", "A second one."}, Button: &Button{"Look at it", "https://vault.example/x?a=1&b=2"},
		Why: "You own it.",
	}.Message(Address{Name: "Zoë Ü., \"Z\"", Email: "zoe@example.org"}, "Störung\r\nBcc: victim@example.org")
	if err != nil {
		t.Fatal(err)
	}
	m.Unsubscribe = "https://vault.example/unsubscribe/x"
	return &Envelope{Message: m, ID: "0197c2a0-0000-7000-8000-000000000001", From: Address{"Certvault", "no-reply@vault.example"}, CreatedAt: made}
}

// judgeMessage reads a message as its receiver's program would.
func judgeMessage(t *testing.T, text string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Message-Id": "<0197c2a0-0000-7000-8000-000000000001@vault.example>", "Auto-Submitted": "auto-generated",
		"List-Unsubscribe-Post": "List-Unsubscribe=One-Click", "List-Unsubscribe": "<https://vault.example/unsubscribe/x>", "Bcc": "",
	} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	if at, err := m.Header.Date(); err != nil || !at.Equal(made.Truncate(time.Second)) {
		t.Errorf("Date %v, %v", at, err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "Störung Bcc: victim@example.org" {
		t.Errorf("Subject %q, %v", subject, err)
	}
	to, err := m.Header.AddressList("To")
	if err != nil || len(to) != 1 || to[0].Name != `Zoë Ü., "Z"` || to[0].Address != "zoe@example.org" {
		t.Errorf("To %v, %v", to, err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("Content-Type %q, %v", kind, err)
	}
	parts := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		parts[kind] = string(body)
	}
	for kind, wants := range map[string][]string{
		"text/plain": {"An <b>endpoint</b> fails", "Zoë & co.", "https://vault.example/x?a=1&b=2", "You own it."},
		"text/html":  {"An &lt;b&gt;endpoint", "Zoë &amp; co.", `href="https://vault.example/x?a=1&amp;b=2"`, `lang="en"`},
	} {
		for _, want := range wants {
			if !strings.Contains(parts[kind], want) {
				t.Errorf("%s lacks %q", kind, want)
			}
		}
	}
	if strings.Contains(parts["text/html"], "<img") || strings.Contains(parts["text/html"], "src=") {
		t.Error("the HTML fetches something")
	}
}

func TestOutboxKeepsWhatAnyProgramReads(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "outbox")
	o, err := NewOutbox(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is a repeat after a crash
		if err := o.Send(t.Context(), envelope(t)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "20260701T083000.123Z-0197c2a0-0000-7000-8000-000000000001.eml" {
		t.Fatalf("the outbox has %v, %v", files, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can read the outbox: %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	judgeMessage(t, string(text))
}

func TestSMTP(t *testing.T) {
	t.Parallel()
	const ( // how it ends
		sent = iota
		later
		never
	)
	for name, tc := range map[string]struct {
		server *server
		mode   config.TLSMode
		user   string
		ends   int
		heard  string
		not    string
	}{
		"plain":                            {&server{}, config.TLSOffered, "", sent, "plain: DATA", ""},
		"TLS on offer is used":             {&server{offers: true}, config.TLSOffered, "", sent, "TLS: DATA", "plain: MAIL"},
		"TLS switched off":                 {&server{offers: true}, config.TLSOff, "", sent, "plain: DATA", "plain: STARTTLS"},
		"TLS required and offered":         {&server{offers: true}, config.TLSRequired, "", sent, "TLS: DATA", "plain: MAIL"},
		"TLS required and not offered":     {&server{}, config.TLSRequired, "", later, "", "plain: MAIL"},
		"TLS from the start":               {&server{fromTheStart: true}, config.TLSFromTheStart, "", sent, "TLS: DATA", ""},
		"sign-in over TLS":                 {&server{offers: true, signIn: true}, config.TLSRequired, "user", sent, "TLS: AUTH", "plain: AUTH"},
		"no sign-in without TLS":           {&server{signIn: true}, config.TLSRequired, "user", later, "", "plain: AUTH"},
		"sign-in refused":                  {&server{offers: true, signIn: true, replies: map[string]string{"AUTH": "535 no"}}, config.TLSRequired, "user", later, "", "TLS: MAIL"},
		"receiver unknown":                 {&server{replies: map[string]string{"RCPT": "550 no such user zoe@example.org"}}, config.TLSOffered, "", never, "", ""},
		"receiver's mailbox busy":          {&server{replies: map[string]string{"RCPT": "450 zoe@example.org later"}}, config.TLSOffered, "", later, "", ""},
		"sender refused":                   {&server{replies: map[string]string{"MAIL": "553 no"}}, config.TLSOffered, "", never, "", ""},
		"content refused":                  {&server{replies: map[string]string{"DATA": "554 spam"}}, config.TLSOffered, "", never, "", ""},
		"server that does not greet":       {&server{replies: map[string]string{"EHLO": "421 busy", "HELO": "421 busy"}}, config.TLSOffered, "", later, "", ""},
		"a certificate that nobody trusts": {&server{fromTheStart: true}, config.TLSFromTheStart, "untrusted", later, "", "TLS: MAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.server.start(t)
			s.TLS = tc.mode
			roots := s.roots
			if tc.user == "untrusted" {
				roots = nil
			} else if tc.user != "" {
				s.User, s.Password = tc.user, "hunter2"
			}
			sender := NewSMTP(s.MailServer, "vault.example", nil)
			sender.roots = roots
			err := sender.Send(t.Context(), envelope(t))
			_, refused := errors.AsType[*RefusedError](err)
			if got := map[bool]int{true: sent, false: later}[err == nil]; refused && tc.ends != never || !refused && got != tc.ends {
				t.Fatalf("it ended with %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), "zoe@") || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("the error repeats an address or a password: %v", err)
			}
			if tc.heard != "" && !s.heard(tc.heard) || tc.not != "" && s.heard(tc.not) {
				t.Errorf("the server heard %v", s.commands)
			}
			if tc.ends == sent {
				if !s.heard("plain: EHLO vault.example") && !s.heard("TLS: EHLO vault.example") {
					t.Errorf("it introduced itself otherwise: %v", s.commands)
				}
				judgeMessage(t, s.messages[0])
			}
		})
	}
}

func TestSenderRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Message{
		"no address": {Subject: "s", Text: "t"}, "no subject": {To: Address{Email: "a@example.org"}, Text: "t"},
		"no text": {To: Address{Email: "a@example.org"}, Subject: "s"}, "two addresses": {To: Address{Email: "a@example.org, b@example.org"}, Subject: "s", Text: "t"},
		"too long": {To: Address{Email: "a@example.org"}, Subject: "s", Text: strings.Repeat("x", maxMessage+1)},
	} {
		if err := m.check(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
