package app

import (
	"context"
	"errors"
	"time"

	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/issuer"
)

// Documents returns a Fetcher that reads the documents of an existing vault from the database, and all
// others from another Fetcher. The server may be running.
func (b *Base) Documents(ctx context.Context, others credential.Fetcher) (credential.Fetcher, error) {
	address, err := b.DB.BaseURL(ctx)
	if err != nil {
		return nil, err
	}
	if address == "" {
		return nil, errors.New("the vault has no address yet; start it with certvault serve")
	}
	s := issuer.New(issuer.Config{DB: b.DB, Keyring: b.Keyring, Keys: b.Keys, Accounts: b.Accounts, BaseURL: address, Now: time.Now})
	return s.Documents(others), nil
}
