package app

import (
	"context"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/recipient"
)

// prepareIdentity puts together who somebody is, and what becomes of certificates
// when that changes.
func (a *App) prepareIdentity() error {
	languages, err := locale.Load()
	if err != nil {
		return fmt.Errorf("reading the languages of mail: %w", err)
	}
	a.recipients = recipient.New(recipient.Config{
		DB: a.DB, Certs: a.certs, Accounts: a.Accounts, Mailer: a.mailer, Queue: a.queue, Catalog: languages, To: a.links.To, Now: time.Now, Log: a.log,
	})
	a.People, err = identity.New(identity.Config{
		DB: a.DB, Ring: a.Ring, Queue: a.queue, Mailer: a.mailer, Languages: languages, BaseURL: a.cfg.BaseURL,
		OnProved: func(ctx context.Context, tx *db.Tx, p identity.Person) error {
			return a.recipients.ClaimTx(ctx, tx, p.ID, p.EmailFolded)
		},
		OnDeleted: func(ctx context.Context, tx *db.Tx, p identity.Person) error {
			return a.recipients.ForgetTx(ctx, tx, p.ID)
		},
		Now: time.Now, Log: a.log,
	})
	return err
}
