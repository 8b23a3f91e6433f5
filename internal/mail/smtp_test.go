package mail

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/certvault/certvault/internal/config"
)

// Results of sending a message.
const (
	sent = iota
	later
	never
)

// ending returns the result for an error.
func ending(err error) int {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return never
	}
	return map[bool]int{true: sent, false: later}[err == nil]
}

func TestSMTP(t *testing.T) {
	t.Parallel()
	const user, password = "user", "hunter2"
	for name, tc := range map[string]struct {
		server *server
		mode   config.TLSMode
		user   string
		ends   int
		secure bool
	}{
		"plain":                            {&server{}, config.TLSOffered, "", sent, false},
		"TLS on offer is used":             {&server{offers: true}, config.TLSOffered, "", sent, true},
		"TLS switched off":                 {&server{offers: true}, config.TLSOff, "", sent, false},
		"TLS required and offered":         {&server{offers: true}, config.TLSRequired, "", sent, true},
		"TLS required and not offered":     {&server{}, config.TLSRequired, "", later, false},
		"TLS from the start":               {&server{fromTheStart: true}, config.TLSFromTheStart, "", sent, true},
		"sign-in over TLS":                 {&server{offers: true, signIn: true, user: user, password: password}, config.TLSRequired, user, sent, true},
		"no sign-in without TLS":           {&server{signIn: true, user: user, password: password}, config.TLSRequired, user, later, false},
		"sign-in refused":                  {&server{offers: true, signIn: true, user: user, password: "other"}, config.TLSRequired, user, later, true},
		"receiver unknown":                 {&server{rcpt: refuse(550, "no such user zoe@example.org")}, config.TLSOffered, "", never, false},
		"receiver's mailbox busy":          {&server{rcpt: refuse(450, "zoe@example.org later")}, config.TLSOffered, "", later, false},
		"sender refused":                   {&server{mail: refuse(553, "no")}, config.TLSOffered, "", never, false},
		"content refused":                  {&server{data: refuse(554, "spam")}, config.TLSOffered, "", never, false},
		"no room at the moment":            {&server{data: refuse(452, "disk full")}, config.TLSOffered, "", later, false},
		"dropped in the middle":            {&server{drop: func(int) bool { return true }}, config.TLSOffered, "", later, false},
		"a certificate that nobody trusts": {&server{fromTheStart: true}, config.TLSFromTheStart, "untrusted", later, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.server.start(t)
			s.TLS = tc.mode
			roots := s.roots
			if tc.user == "untrusted" {
				roots = nil
			} else if tc.user != "" {
				s.User, s.Password = tc.user, password
			}
			sender := NewSMTP(s.MailServer, "vault.example", nil)
			sender.roots = roots
			err := sender.Send(t.Context(), envelope(t))
			if got := ending(err); got != tc.ends {
				t.Fatalf("it ended with %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), "zoe@") || strings.Contains(err.Error(), password)) {
				t.Errorf("the error repeats an address or a password: %v", err)
			}
			greeted, secure, signedIn := s.last()
			if tc.ends != sent {
				if len(s.got()) != 0 || signedIn {
					t.Errorf("the message was still sent")
				}
				return
			}
			if greeted != "vault.example" || secure != tc.secure || signedIn != (tc.user != "") {
				t.Errorf("it introduced itself as %q, TLS %v, signed in %v", greeted, secure, signedIn)
			}
			got := s.got()
			if len(got) != 1 || got[0].from != "no-reply@vault.example" || got[0].to != "zoe@example.org" {
				t.Fatalf("%d messages, %+v", len(got), got)
			}
			checkMessage(t, got[0].text)
		})
	}
}

func TestTemporaryFailureThenSent(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*server{
		"busy": {rcpt: once(refuse(450, "later"))}, "greylisted": {mail: once(refuse(451, "come back"))},
		"dropped": {drop: func(nth int) bool { return nth == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.start(t)
			sender := NewSMTP(s.MailServer, "vault.example", nil)
			if err := sender.Send(t.Context(), envelope(t)); ending(err) != later {
				t.Fatalf("at first: %v", err)
			}
			if err := sender.Send(t.Context(), envelope(t)); err != nil {
				t.Fatalf("then: %v", err)
			}
			if got := s.got(); len(got) != 1 {
				t.Fatalf("%d messages", len(got))
			}
			checkMessage(t, s.got()[0].text)
		})
	}
}

// A server that does not answer delays a message only until the time limit, and the end of the
// caller's context ends it at once.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *SMTP, cancel context.CancelFunc, asked <-chan struct{}){
		"the time is over":    func(s *SMTP, _ context.CancelFunc, _ <-chan struct{}) { s.time = 50 * time.Millisecond },
		"the caller has gone": func(_ *SMTP, cancel context.CancelFunc, asked <-chan struct{}) { go func() { <-asked; cancel() }() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release, asked := make(chan struct{}), make(chan struct{})
			s := &server{data: func(int) error { close(asked); <-release; return nil }}
			s.start(t)
			t.Cleanup(func() { close(release) })
			sender := NewSMTP(s.MailServer, "vault.example", nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end(sender, cancel, asked)
			if err := sender.Send(ctx, envelope(t)); ending(err) != later {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func TestAddressesBeyondASCII(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		address string
		utf8    bool
		ends    int
		to      string
	}{
		"the domain alone":              {"zoe@bücher.example", false, sent, "zoe@xn--bcher-kva.example"},
		"the name, and it takes them":   {"zoë@bücher.example", true, sent, "zoë@xn--bcher-kva.example"},
		"the name, and it does not":     {"zoë@bücher.example", false, never, ""},
		"another script, and it does":   {"测试@example.org", true, sent, "测试@example.org"},
		"ASCII at one that takes both":  {"zoe@example.org", true, sent, "zoe@example.org"},
		"a domain that cannot be there": {"zoe@-.example", false, never, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := (&server{utf8: tc.utf8}).start(t)
			e := envelope(t)
			e.To.Email = tc.address
			if err := NewSMTP(s.MailServer, "vault.example", nil).Send(t.Context(), e); ending(err) != tc.ends {
				t.Fatalf("it ended with %v", err)
			}
			got := s.got()
			if tc.ends != sent {
				if len(got) != 0 {
					t.Error("the message was sent")
				}
				return
			}
			to, err := readMessage(t, got[0].text).header.AddressList("To")
			if err != nil || got[0].to != tc.to || to[0].Address != tc.to {
				t.Errorf("to %q, in the message %v, %v", got[0].to, to, err)
			}
		})
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	edwards, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(numbers.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]struct {
		private any
		record  string
	}{
		"Ed25519": {secret, "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(edwards)},
		"RSA":     {numbers, "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(public)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signer, err := NewSigner("vault.example", "mail", keyFile(t, key.private))
			if err != nil {
				t.Fatal(err)
			}
			s := (&server{}).start(t)
			sender := NewSMTP(s.MailServer, "vault.example", signer)
			arabic := envelope(t)
			arabic.Text, arabic.To.Name, arabic.ReplyTo = strings.Repeat("شهادة ", 200), "يوسف", "office@example.org"
			for _, e := range []*Envelope{envelope(t), arabic} {
				if err := sender.Send(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			lookUp := func(name string) ([]string, error) {
				if name != "mail._domainkey.vault.example" {
					return nil, errors.New("asked for " + name)
				}
				return []string{key.record}, nil
			}
			verify := func(text string) error {
				found, err := dkim.VerifyWithOptions(strings.NewReader(text), &dkim.VerifyOptions{LookupTXT: lookUp})
				if err != nil || len(found) != 1 {
					t.Fatalf("%d signatures, %v", len(found), err)
				}
				if v := found[0]; v.Domain != "vault.example" || !covers(v.HeaderKeys, "From", "To", "Subject", "List-Unsubscribe", "List-Unsubscribe-Post") {
					t.Errorf("%s signed %v", v.Domain, v.HeaderKeys)
				}
				return found[0].Err
			}
			for _, m := range s.got() {
				if err := verify(m.text); err != nil {
					t.Errorf("the signature is not good: %v", err)
				}
				if verify(strings.Replace(m.text, "Auto-Submitted: auto-generated", "Auto-Submitted: no", 1)) == nil {
					t.Error("a changed header is not noticed")
				}
				for _, header := range []string{"Subject: another", "Reply-To: mallory@example.org"} {
					if verify(header+"\r\n"+m.text) == nil {
						t.Errorf("what was added is not noticed: %s", header)
					}
				}
			}
		})
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSigner("vault.example", "mail", keyFile(t, short)); err != nil {
		t.Errorf("1024 bits: %v", err)
	}
	if _, err := NewSigner("vault.example", "mail", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file is a key")
	}
}

func covers(signed []string, names ...string) bool {
	for _, name := range names {
		found := false
		for _, s := range signed {
			found = found || strings.EqualFold(s, name)
		}
		if !found {
			return false
		}
	}
	return true
}

func keyFile(t *testing.T, private any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "dkim.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
