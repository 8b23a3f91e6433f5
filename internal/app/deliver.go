package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/safehttp"
	"github.com/certvault/certvault/internal/webhook"
)

// mailWorkers is how many messages are handed over at once.
const mailWorkers = 2

// prepareMail puts together what mail leaves by: the server of --smtp, or the
// outbox folder.
func (a *App) prepareMail() error {
	text, host, err := a.cfg.MailSender()
	if err != nil {
		return err
	}
	from, err := mail.ParseAddress(text)
	if err != nil {
		return fmt.Errorf("--mail-from: %w", err)
	}
	var sender mail.Sender
	if a.cfg.SMTP != "" {
		server, err := a.cfg.MailServer()
		if err != nil {
			return err
		}
		signer, err := a.signer(from)
		if err != nil {
			return err
		}
		sender = mail.NewSMTP(server, host, signer)
	} else if sender, err = mail.NewOutbox(a.outbox()); err != nil {
		return err
	}
	a.mailer = mail.New(mail.Config{
		DB: a.DB, Queue: a.queue, Sender: sender, From: from, Ring: a.Ring, Bounces: a.cfg.BounceDomain,
		Ended: func(ctx context.Context, tx *db.Tx, e mail.End) error { return a.recipients.MailEndedTx(ctx, tx, e) },
		Now:   time.Now, Log: a.log,
	})
	return nil
}

// outbox is the folder in which mail stays without a server.
func (a *App) outbox() string { return filepath.Join(a.cfg.Data, "outbox") }

// signer gives what signs mail, nil where nothing does.
func (a *App) signer(from mail.Address) (*mail.Signer, error) {
	if a.cfg.DKIMKey == "" {
		return nil, nil //nolint:nilnil // mail without a signature is a configuration too
	}
	domain := cmp.Or(a.cfg.DKIMDomain, from.Email[strings.LastIndexByte(from.Email, '@')+1:])
	s, err := mail.NewSigner(domain, a.cfg.DKIMSelector, a.cfg.DKIMKey)
	if err != nil {
		return nil, fmt.Errorf("--dkim-key: %w", err)
	}
	return s, nil
}

// prepareDelivery puts together what sends events out.
func (a *App) prepareDelivery() error {
	allow, err := a.cfg.WebhookNetworks()
	if err != nil {
		return err
	}
	a.hooks = webhook.NewDeliverer(a.Hooks, webhook.DelivererConfig{
		Transport: safehttp.Transport(safehttp.Options{Allow: allow}), Waits: a.cfg.WebhookRetry,
		Notify: a.notifyOwners, Metrics: webhook.NewMetrics(a.registry), Log: a.log,
	})
	a.registry.MustRegister(a.Hooks.Conditions(func(err error) {
		a.log.Warn("the condition of webhooks could not be counted", slog.Any("error", err))
	}))
	return nil
}

// notifyOwners mails an institution's owners of one of its endpoints.
func (a *App) notifyOwners(ctx context.Context, tx *db.Tx, n webhook.Notice) error {
	owners, err := a.Accounts.OwnersTx(ctx, tx, n.InstitutionID)
	if err != nil {
		return err
	}
	letter, subject := n.Letter(a.cfg.BaseURL)
	for _, o := range owners {
		m, err := letter.Message(mail.Address{Name: o.Name, Email: o.Email}, subject)
		if err != nil {
			return err
		}
		if _, err := a.mailer.EnqueueTx(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}

// startDelivery begins to send. On SQLite this process has the data folder to
// itself: leases are those of one that died, and need not run out.
func (a *App) startDelivery(ctx context.Context) error {
	if a.DB.Dialect == db.SQLite {
		if err := a.Hooks.FreeLeases(ctx); err != nil {
			return err
		}
	}
	a.hooks.Start(ctx)
	return nil
}
