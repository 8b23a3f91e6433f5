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

// The results of Send.
const (
	sent = iota
	temporaryError
	permanentError
)

// resultOf returns the result for an error.
func resultOf(err error) int {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return permanentError
	}
	return map[bool]int{true: sent, false: temporaryError}[err == nil]
}

func TestSendOverSMTP(t *testing.T) {
	t.Parallel()
	const user, password = "user", "hunter2"
	for name, tc := range map[string]struct {
		server *server
		mode   config.TLSMode
		user   string
		result int
		secure bool
	}{
		"no TLS":                          {&server{}, config.TLSOffered, "", sent, false},
		"TLS is used if offered":          {&server{startTLS: true}, config.TLSOffered, "", sent, true},
		"TLS switched off":                {&server{startTLS: true}, config.TLSOff, "", sent, false},
		"TLS required and offered":        {&server{startTLS: true}, config.TLSRequired, "", sent, true},
		"TLS required and not offered":    {&server{}, config.TLSRequired, "", temporaryError, false},
		"implicit TLS":                    {&server{implicitTLS: true}, config.TLSFromTheStart, "", sent, true},
		"sign-in over TLS":                {&server{startTLS: true, auth: true, user: user, password: password}, config.TLSRequired, user, sent, true},
		"no sign-in without TLS":          {&server{auth: true, user: user, password: password}, config.TLSRequired, user, temporaryError, false},
		"sign-in refused":                 {&server{startTLS: true, auth: true, user: user, password: "other"}, config.TLSRequired, user, temporaryError, true},
		"unknown receiver":                {&server{rcpt: refuse(550, "no such user zoe@example.org")}, config.TLSOffered, "", permanentError, false},
		"busy mailbox":                    {&server{rcpt: refuse(450, "zoe@example.org later")}, config.TLSOffered, "", temporaryError, false},
		"sender refused":                  {&server{mail: refuse(553, "no")}, config.TLSOffered, "", permanentError, false},
		"content refused":                 {&server{data: refuse(554, "spam")}, config.TLSOffered, "", permanentError, false},
		"mailbox without space":           {&server{data: refuse(452, "disk full")}, config.TLSOffered, "", temporaryError, false},
		"connection closed in the middle": {&server{drop: func(int) bool { return true }}, config.TLSOffered, "", temporaryError, false},
		"untrusted certificate":           {&server{implicitTLS: true}, config.TLSFromTheStart, "untrusted", temporaryError, false},
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
			if got := resultOf(err); got != tc.result {
				t.Fatalf("Send: error = %v, want the result %d (0 sent, 1 temporary error, 2 permanent error)", err, tc.result)
			}
			if err != nil && (strings.Contains(err.Error(), "zoe@") || strings.Contains(err.Error(), password)) {
				t.Errorf("error = %v, want an error without an address or a password", err)
			}
			helo, secure, signedIn := s.last()
			if tc.result != sent {
				if len(s.received()) != 0 || signedIn {
					t.Errorf("%d messages were received, signed in = %v; want 0 and false", len(s.received()), signedIn)
				}
				return
			}
			if helo != "vault.example" || secure != tc.secure || signedIn != (tc.user != "") {
				t.Errorf("EHLO name = %q, TLS = %v, signed in = %v; want vault.example, %v and %v", helo, secure, signedIn, tc.secure, tc.user != "")
			}
			got := s.received()
			if len(got) != 1 || got[0].from != "no-reply@vault.example" || got[0].to != "zoe@example.org" {
				t.Fatalf("the server received %d messages, want 1 with the addresses of the envelope: %+v", len(got), got)
			}
			checkMessage(t, got[0].text)
		})
	}
}

func TestTemporaryFailureThenSent(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*server{
		"busy mailbox": {rcpt: once(refuse(450, "later"))}, "greylisting": {mail: once(refuse(451, "come back"))},
		"closed connection": {drop: func(nth int) bool { return nth == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.start(t)
			sender := NewSMTP(s.MailServer, "vault.example", nil)
			if err := sender.Send(t.Context(), envelope(t)); resultOf(err) != temporaryError {
				t.Fatalf("first attempt: error = %v, want a temporary error", err)
			}
			if err := sender.Send(t.Context(), envelope(t)); err != nil {
				t.Fatalf("second attempt: error = %v, want none", err)
			}
			if got := s.received(); len(got) != 1 {
				t.Fatalf("the server received %d messages, want 1", len(got))
			}
			checkMessage(t, s.received()[0].text)
		})
	}
}

// If the server does not respond, Send ends at the time limit, or when the caller's context is
// cancelled.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *SMTP, cancel context.CancelFunc, received <-chan struct{}){
		"time limit": func(s *SMTP, _ context.CancelFunc, _ <-chan struct{}) { s.time = 50 * time.Millisecond },
		"cancelled context": func(_ *SMTP, cancel context.CancelFunc, received <-chan struct{}) {
			go func() { <-received; cancel() }()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release, received := make(chan struct{}), make(chan struct{})
			s := &server{data: func(int) error { close(received); <-release; return nil }}
			s.start(t)
			t.Cleanup(func() { close(release) })
			sender := NewSMTP(s.MailServer, "vault.example", nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end(sender, cancel, received)
			if err := sender.Send(ctx, envelope(t)); resultOf(err) != temporaryError {
				t.Errorf("error = %v, want a temporary error", err)
			}
		})
	}
}

func TestNonASCIIAddresses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		address string
		utf8    bool
		result  int
		to      string
	}{
		"domain":                        {"zoe@bücher.example", false, sent, "zoe@xn--bcher-kva.example"},
		"local part, with SMTPUTF8":     {"zoë@bücher.example", true, sent, "zoë@xn--bcher-kva.example"},
		"local part, without SMTPUTF8":  {"zoë@bücher.example", false, permanentError, ""},
		"another script, with SMTPUTF8": {"测试@example.org", true, sent, "测试@example.org"},
		"ASCII, with SMTPUTF8":          {"zoe@example.org", true, sent, "zoe@example.org"},
		"invalid domain":                {"zoe@-.example", false, permanentError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := (&server{utf8: tc.utf8}).start(t)
			e := envelope(t)
			e.To.Email = tc.address
			if err := NewSMTP(s.MailServer, "vault.example", nil).Send(t.Context(), e); resultOf(err) != tc.result {
				t.Fatalf("Send: error = %v, want the result %d (0 sent, 1 temporary error, 2 permanent error)", err, tc.result)
			}
			got := s.received()
			if tc.result != sent {
				if len(got) != 0 {
					t.Errorf("the server received %d messages, want 0", len(got))
				}
				return
			}
			to, err := readMessage(t, got[0].text).header.AddressList("To")
			if err != nil || got[0].to != tc.to || to[0].Address != tc.to {
				t.Errorf("receiver = %q in the envelope and %v in the header, want %q; error %v", got[0].to, to, tc.to, err)
			}
		})
	}
}

func TestDKIMSignature(t *testing.T) {
	t.Parallel()
	ed25519Public, ed25519Key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]struct {
		private any
		record  string
	}{
		"Ed25519": {ed25519Key, "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(ed25519Public)},
		"RSA":     {rsaKey, "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(public)},
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
			withPictures := envelope(t)
			withPictures.HTML, withPictures.Pictures = pictured(t).HTML, pictured(t).Pictures
			withPictures.Images = func(context.Context) map[string]*Image {
				return map[string]*Image{"page": {"image/jpeg", make([]byte, MaxPage), 200, 141}}
			}
			for _, e := range []*Envelope{envelope(t), arabic, withPictures} {
				if err := sender.Send(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			lookUp := func(name string) ([]string, error) {
				if name != "mail._domainkey.vault.example" {
					return nil, errors.New("unexpected look-up of " + name)
				}
				return []string{key.record}, nil
			}
			verify := func(text string) error {
				found, err := dkim.VerifyWithOptions(strings.NewReader(text), &dkim.VerifyOptions{LookupTXT: lookUp})
				if err != nil || len(found) != 1 {
					t.Fatalf("the message has %d signatures, want 1; error %v", len(found), err)
				}
				if v := found[0]; v.Domain != "vault.example" || !covers(v.HeaderKeys, "From", "To", "Subject", "List-Unsubscribe", "List-Unsubscribe-Post") {
					t.Errorf("domain = %s, signed headers = %v, want vault.example and the required headers", v.Domain, v.HeaderKeys)
				}
				return found[0].Err
			}
			for _, m := range s.received() {
				if err := verify(m.text); err != nil {
					t.Errorf("error of the signature = %v, want none", err)
				}
				if verify(strings.Replace(m.text, "Auto-Submitted: auto-generated", "Auto-Submitted: no", 1)) == nil {
					t.Error("the signature is valid after a header was changed, want an error")
				}
				for _, header := range []string{"Subject: another", "Reply-To: mallory@example.org"} {
					if verify(header+"\r\n"+m.text) == nil {
						t.Errorf("the signature is valid after the header %q was added, want an error", header)
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
		t.Errorf("NewSigner with an RSA key of 1024 bits: error = %v, want none", err)
	}
	if _, err := NewSigner("vault.example", "mail", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("NewSigner without a key file returned no error, want an error")
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
