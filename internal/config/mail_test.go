package config_test

import (
	"testing"

	"github.com/certvault/certvault/internal/config"
)

func TestMailServer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.MailServer{
		"smtp://mail.example.org":                     {Host: "mail.example.org", Port: 25, TLS: config.TLSOffered},
		"smtp://mail.example.org:2525/":               {Host: "mail.example.org", Port: 2525, TLS: config.TLSOffered},
		"smtp://[::1]:25":                             {Host: "::1", Port: 25, TLS: config.TLSOffered},
		"smtp://mail.example.org?tls=required":        {Host: "mail.example.org", Port: 25, TLS: config.TLSRequired},
		"smtp://mail.example.org?tls=off":             {Host: "mail.example.org", Port: 25, TLS: config.TLSOff},
		"smtp://u%40x:p%2Fw@mail.example.org":         {Host: "mail.example.org", Port: 587, User: "u@x", Password: "p/w", TLS: config.TLSRequired},
		"smtps://u:p@mail.example.org":                {Host: "mail.example.org", Port: 465, User: "u", Password: "p", TLS: config.TLSFromTheStart},
		"smtps://mail.example.org:8465?tls=required":  {Host: "mail.example.org", Port: 8465, TLS: config.TLSFromTheStart},
		"smtp://u:p@mail.example.org:25?tls=required": {Host: "mail.example.org", Port: 25, User: "u", Password: "p", TLS: config.TLSRequired},
	} {
		m := config.Mail{SMTP: text}
		if got, err := m.MailServer(); err != nil || got != want {
			t.Errorf("MailServer of %s = %+v, error = %v, want %+v", text, got, err, want)
		}
	}
	for _, bad := range []string{
		"mail.example.org", "http://mail.example.org", "smtp://", "smtp://mail.example.org/x", "smtp://mail.example.org?tls=maybe", "smtp://mail.example.org?ssl=1",
		"smtp://mail.example.org:0", "smtp://u:p@mail.example.org?tls=off", "smtps://mail.example.org?tls=off", "smtps://mail.example.org?tls=maybe",
	} {
		m := config.Mail{SMTP: bad}
		if got, err := m.MailServer(); err == nil {
			t.Errorf("MailServer of %s = %+v, want an error", bad, got)
		}
	}
}

func TestMailSender(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base, from, smtp, want string
	}{
		"derived from the base URL":  {"https://vault.example.org:8443", "", "", "no-reply@vault.example.org"},
		"configured":                 {"https://vault.example.org", "Vault <v@example.org>", "smtp://a.example", "Vault <v@example.org>"},
		"IP address and outbox":      {"https://192.0.2.7", "", "", "no-reply@localhost"},
		"IP address and mail server": {"https://192.0.2.7", "", "smtp://a.example", ""},
	} {
		c := config.Serve{BaseURL: tc.base, Mail: config.Mail{SMTP: tc.smtp, MailFrom: tc.from}}
		if got, _, err := c.MailSender(); got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: sender = %q, error = %v, want the sender %q, or an error if it is empty", name, got, err, tc.want)
		}
	}
}
