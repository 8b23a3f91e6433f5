package app

import (
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/identity"
	"github.com/certvault/certvault/internal/locale"
)

// prepareIdentity puts together who somebody is.
func (a *App) prepareIdentity() error {
	languages, err := locale.Load()
	if err != nil {
		return fmt.Errorf("reading the languages of mail: %w", err)
	}
	a.People, err = identity.New(identity.Config{
		DB: a.DB, Ring: a.Ring, Queue: a.queue, Mailer: a.mailer, Languages: languages, BaseURL: a.cfg.BaseURL, Now: time.Now, Log: a.log,
	})
	return err
}
