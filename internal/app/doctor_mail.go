package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/mail"
)

// testMailTime limits the time in which the mail server must accept a test message.
const testMailTime = 30 * time.Second

// ExamineMail sends a test message with the settings of mail, which must be those of the server.
func ExamineMail(ctx context.Context, s config.Storage, m config.Mail, to string) []Finding {
	f := finding("test message", "the mail server has accepted a message to "+to, sendTestMail(ctx, s, m, to))
	return withRemedies([]Finding{f})
}

func sendTestMail(ctx context.Context, s config.Storage, m config.Mail, to string) error {
	if m.SMTP == "" {
		return errors.New("there is no mail server, because --smtp is not set")
	}
	address, err := mail.ParseAddress(to)
	if err != nil {
		return fmt.Errorf("--mail: %w", err)
	}
	base, err := storedBaseURL(ctx, s)
	if err != nil {
		return err
	}
	c, err := mailConfig(&config.Serve{Storage: s, Mail: m, BaseURL: base})
	if err != nil {
		return err
	}
	letter := mail.Letter{
		Heading:    "Test message",
		Paragraphs: []string{"The mail of the vault at " + base + " works."},
		Why:        "An operator sent this message with certvault doctor --mail.",
		Language:   "en", Direction: "ltr",
	}
	message, err := letter.Message(address, letter.Heading)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, testMailTime)
	defer cancel()
	return c.Sender.Send(ctx, &mail.Envelope{Message: message, ID: uuid.Must(uuid.NewV7()).String(), From: c.From, CreatedAt: time.Now()})
}

// storedBaseURL returns the base URL with which the server was last started, or the default base URL
// before the first start.
func storedBaseURL(ctx context.Context, s config.Storage) (base string, err error) {
	d, err := openExisting(ctx, s)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	base, err = d.BaseURL(ctx)
	return cmp.Or(base, "https://localhost:8443"), err
}
