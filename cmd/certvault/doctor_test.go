package main

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"
)

// mailbox is a mail server that keeps the last message.
type mailbox struct{ message string }

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }
func (m *mailbox) Mail(string, *smtp.MailOptions) error        { return nil }
func (m *mailbox) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "unknown@") {
		return &smtp.SMTPError{Code: 550, Message: "no such mailbox"}
	}
	return nil
}
func (m *mailbox) Reset()        {}
func (m *mailbox) Logout() error { return nil }

func (m *mailbox) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	m.message = string(text)
	return err
}

// TestDoctorSendsATestMessage checks that doctor --mail sends a message with the given mail settings.
// The command must report the reply code of a mail server that rejects the recipient, and a missing
// --smtp.
func TestDoctorSendsATestMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	createInstitution(t, dir)
	box := &mailbox{}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(box)
	server.Domain = "mx.example.org"
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	args := []string{"doctor", "--data", dir, "--smtp", "smtp://" + l.Addr().String() + "?tls=off", "--mail-from", "vault@vault.example"}
	code, out, errs := certvault(t, "", append(args, "--mail", "ada@example.org")...)
	if code != exitDone || !strings.Contains(out, "ok     test message: the mail server has accepted a message to ada@example.org") {
		t.Fatalf("exit code = %d, output %s%s, want a message that was accepted", code, out, errs)
	}
	if !strings.Contains(box.message, "To: <ada@example.org>") || !strings.Contains(box.message, "https://localhost:8443") {
		t.Errorf("the message is %s, want the recipient ada@example.org and the address of the vault", box.message)
	}
	for name, more := range map[string][]string{
		"refused: the reason is not known (550": {"--mail", "unknown@example.org"},
		"--smtp is not":                         {"--mail", "ada@example.org", "--smtp", ""},
	} {
		code, out, _ = certvault(t, "", append(slices.Clip(args), more...)...)
		if code != exitRefused || !strings.Contains(out, "WRONG  test message: ") || !strings.Contains(out, name) || !strings.Contains(out, "       Set or correct --smtp") {
			t.Errorf("%v: exit code = %d, output %s, want %q and a remedy", more, code, out, name)
		}
	}
}
