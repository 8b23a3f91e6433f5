//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/certvault/certvault/test/vault"
)

// mailServer accepts mail for every address except unknown.
type mailServer struct {
	unknown string

	mu  sync.Mutex
	got map[string]string // the envelope sender by recipient
	// last is the last mail by recipient.
	last map[string]string
}

// letter returns the last mail to an address, or an empty letter if there is no mail.
func (m *mailServer) letter(t *testing.T, to string) (l letter) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if text, ok := m.last[to]; ok {
		var err error
		if l, err = readLetter(text); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func newMailServer() *mailServer {
	return &mailServer{got: map[string]string{}, last: map[string]string{}}
}

func (m *mailServer) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &mailSession{server: m}, nil
}

// from returns the envelope sender of the mail to an address. Failed deliveries are reported to the
// envelope sender.
func (m *mailServer) from(to string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got[to]
}

type mailSession struct {
	server   *mailServer
	from, to string
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.to = to; to == s.server.unknown {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no mailbox of this name"}
	}
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.got[s.to], s.server.last[s.to] = s.from, string(text)
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

// report is the format of a delivery status notification of Exim (RFC 3464). Its arguments are the
// envelope sender and the failed recipient.
const report = `Received: from Debian-exim by mx.example.org with local (Exim 4.98)
	id 1vMabc-000000001AB-0Abc
	for %[1]s;
	Sat, 21 Nov 2026 10:00:00 +0000
X-Failed-Recipients: %[2]s
Auto-Submitted: auto-replied
From: Mail Delivery System <Mailer-Daemon@mx.example.org>
To: %[1]s
Content-Type: multipart/report; report-type=delivery-status; boundary=1795255200-eximdsn-1804289383
MIME-Version: 1.0
Subject: Mail delivery failed: returning message to sender

--1795255200-eximdsn-1804289383
Content-type: text/plain; charset=us-ascii

This message was created automatically by mail delivery software.

--1795255200-eximdsn-1804289383
Content-type: message/delivery-status

Reporting-MTA: dns; mx.example.org

Action: failed
Final-Recipient: rfc822;%[2]s
Status: 5.2.2
Remote-MTA: dns; mail.example.org
Diagnostic-Code: smtp; 552 5.2.2 no space is left

--1795255200-eximdsn-1804289383
Content-type: text/rfc822-headers

From: Northwind University <no-reply@vault.example>

--1795255200-eximdsn-1804289383--
`

// TestUndeliverableMail uses a mail server that rejects one address immediately. For another address,
// the test later sends a report of a failed delivery. The panel must show both failures.
func TestUndeliverableMail(t *testing.T) {
	t.Parallel()
	server := newMailServer()
	server.unknown = "unknown.mailbox@example.org"
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := smtp.NewServer(server)
	x.Domain, x.ErrorLog = "mx.example.org", slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(func() { _ = x.Close() })
	go func() { _ = x.Serve(l) }()

	eachInFull(t, func(t *testing.T, database string) {
		const secret = "0123456789abcdefgh"
		f := start(t, database, "--smtp", "smtp://"+l.Addr().String()+"?tls=off", "--mail-from", "no-reply@vault.example",
			"--bounce-domain", "bounces.vault.example", "--bounce-token", secret)
		session, err := f.SignIn(t.Context(), "owner@nwu.example", vault.OwnerPassword)
		if err != nil {
			t.Fatal(err)
		}
		detail := func(uuid string) string {
			r, err := f.client.Request(t.Context(), http.MethodGet, "/panel/northwind-university/certificates/"+uuid, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Del("Authorization")
			r.AddCookie(&http.Cookie{Name: vault.SessionCookie, Value: session})
			a, err := f.client.Send(r)
			if err != nil || a.Status != http.StatusOK {
				t.Fatalf("requesting the page of the certificate: %+v, %v; want status 200", a, err)
			}
			return string(a.Body)
		}

		refused := f.upload(t, form("Unknown Mailbox"))
		eventually(t, singleTime+approvalTime, "the page shows the refusal", func() bool {
			page := detail(refused.UUID)
			return strings.Contains(page, "Not delivered") && strings.Contains(page, "there is no such mailbox (550 5.1.1)")
		})

		// Each database needs its own address, because both use the same mail server.
		name := map[bool]string{true: "Late Lite", false: "Late Gres"}[database == ""]
		late := f.upload(t, form(name))
		eventually(t, singleTime+approvalTime, "the mail is sent", func() bool { return server.from(mailbox(name)) != "" && strings.Contains(detail(late.UUID), "Sent") })
		from := server.from(mailbox(name))
		if !strings.HasPrefix(from, "bounce+") || !strings.HasSuffix(from, "@bounces.vault.example") {
			t.Fatalf("envelope sender = %s, want bounce+...@bounces.vault.example", from)
		}
		postReport := func(from string) int {
			r, err := f.client.Request(t.Context(), http.MethodPost, "/hooks/bounce", strings.NewReader(strings.ReplaceAll(fmt.Sprintf(report, from, mailbox(name)), "\n", "\r\n")))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+secret)
			r.Header.Set("Content-Type", "message/rfc822")
			a, err := f.client.Send(r)
			if err != nil {
				t.Fatal(err)
			}
			return a.Status
		}
		forged := strings.Replace(from, "@", "0@", 1)
		if status := postReport(forged); status != http.StatusUnprocessableEntity {
			t.Errorf("report with an unknown address: status = %d, want 422", status)
		}
		if strings.Contains(detail(late.UUID), "Not delivered") {
			t.Error("the panel shows a failed delivery after a report with an unknown address")
		}
		if status := postReport(from); status/100 != 2 {
			t.Errorf("valid report: status = %d, want 2xx", status)
		}
		if page := detail(late.UUID); !strings.Contains(page, "Not delivered") || !strings.Contains(page, "the mailbox is full (5.2.2)") {
			t.Errorf("page after the report = %s, want the failed delivery and its reason", page)
		}
	})
}
