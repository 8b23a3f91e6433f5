package app

import (
	"log/slog"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/template"
)

// Offers returns a service for the offers of a vault. The server may be running at the same time. The
// service cannot decide applications, and it cannot send mail.
func (b *Base) Offers() *application.Service {
	log := slog.New(slog.DiscardHandler)
	return application.New(application.Config{
		DB: b.DB, Keyring: b.Keyring, Accounts: b.Accounts, Templates: template.New(template.Config{DB: b.DB, Now: time.Now, Log: log}), Now: time.Now, Log: log,
	})
}
