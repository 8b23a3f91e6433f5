package app

import (
	"context"
	"errors"
	"time"

	"github.com/certvault/certvault/internal/issuer"
)

// Issuer returns a service for the credentials of an existing vault, for the operations that need only the
// database, such as Documents and RevokeFile. The server may be running.
func (b *Base) Issuer(ctx context.Context) (*issuer.Service, error) {
	address, err := b.DB.BaseURL(ctx)
	if err != nil {
		return nil, err
	}
	if address == "" {
		return nil, errors.New("the vault has no address yet; start it with certvault serve")
	}
	return issuer.New(issuer.Config{DB: b.DB, Keyring: b.Keyring, Keys: b.Keys, Accounts: b.Accounts, BaseURL: address, Now: time.Now}), nil
}
