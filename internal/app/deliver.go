package app

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/safehttp"
	"github.com/certvault/certvault/internal/webhook"
)

// sender returns the configuration of mail.
func (a *App) sender() (mail.Config, error) {
	c, err := mailConfig(a.cfg)
	c.Keyring, c.Metrics = a.Keyring, mail.NewMetrics(a.registry)
	return c, err
}

// mailConfig returns the configuration of mail without the keyring and the metrics. Mail is sent to the
// server of --smtp, or written to the outbox folder if --smtp is not set.
func mailConfig(cfg *config.Serve) (mail.Config, error) {
	text, host, err := cfg.MailSender()
	if err != nil {
		return mail.Config{}, err
	}
	from, err := mail.ParseAddress(text)
	if err != nil {
		return mail.Config{}, fmt.Errorf("--mail-from: %w", err)
	}
	from.Name = cmp.Or(from.Name, mail.Host(host))
	c := mail.Config{From: from, Bounces: cfg.BounceDomain}
	if cfg.SMTP == "" {
		c.NoServer = true
		c.Sender, err = mail.NewOutbox(outboxOf(cfg))
		return c, err
	}
	server, err := cfg.MailServer()
	if err != nil {
		return mail.Config{}, err
	}
	signer, err := mailSigner(cfg, from)
	if err != nil {
		return mail.Config{}, err
	}
	c.Sender = mail.NewSMTP(server, host, signer)
	return c, nil
}

// outbox returns the folder to which mail is written if there is no mail server.
func (a *App) outbox() string { return outboxOf(a.cfg) }

func outboxOf(cfg *config.Serve) string { return filepath.Join(cfg.Data, "outbox") }

// mailSigner returns the DKIM signer of mail, or nil if --dkim-key is not set.
func mailSigner(cfg *config.Serve, from mail.Address) (*mail.Signer, error) {
	if cfg.DKIMKey == "" {
		return nil, nil //nolint:nilnil // nil means mail without a signature
	}
	domain := cmp.Or(cfg.DKIMDomain, from.Email[strings.LastIndexByte(from.Email, '@')+1:])
	s, err := mail.NewSigner(domain, cfg.DKIMSelector, cfg.DKIMKey)
	if err != nil {
		return nil, fmt.Errorf("--dkim-key: %w", err)
	}
	return s, nil
}

// delivery returns the configuration of the delivery of events.
func (a *App) delivery() (webhook.DelivererConfig, error) {
	allow, err := a.cfg.WebhookNetworks()
	if err != nil {
		return webhook.DelivererConfig{}, err
	}
	return webhook.DelivererConfig{
		Transport: safehttp.Transport(safehttp.Options{Allow: allow}), Waits: a.cfg.WebhookRetry, Metrics: webhook.NewMetrics(a.registry),
	}, nil
}

// startDelivery starts the delivery of events. It first frees the leases of dead processes, so that
// deliveries do not wait for the expiry of these leases. On SQLite it frees all leases, because no other
// server uses the data folder.
func (a *App) startDelivery(ctx context.Context) error {
	free := a.Deliverer.FreeDeadLeases
	if a.DB.Dialect == db.SQLite {
		free = a.Hooks.FreeLeases
	}
	if err := free(ctx); err != nil {
		return err
	}
	a.Deliverer.Start(ctx)
	return nil
}
