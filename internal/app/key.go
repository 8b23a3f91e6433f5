package app

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// errOtherMasterKey means that the database belongs to another master key. This happens if a
// command uses the same --database with another --data.
var errOtherMasterKey = errors.New("keys/master.key in this data folder is not the master key of the database; " +
	"set --data to the data folder of the database, or restore the key from a backup")

// openKeyring opens the master key of a database and checks that the key belongs to the database.
// If the database has no key yet, openKeyring creates a missing key. Otherwise openKeyring does not
// replace a missing key: another key could not decrypt the secrets in the database, and would make
// it harder to notice that the key must be restored.
func openKeyring(ctx context.Context, d *db.DB, dir string) (*keyring.Ring, error) {
	known, err := d.HasKey(ctx)
	if err != nil {
		return nil, err
	}
	open := keyring.Open
	if known {
		open = keyring.OpenExisting
	}
	ring, err := open(dir)
	if errors.Is(err, keyring.ErrMissing) {
		return nil, fmt.Errorf("%w; restore it from a backup, or set --data to the data folder of the database: "+
			"no new key was created, because it could not decrypt the secrets in the database", err)
	}
	if err != nil {
		return nil, err
	}
	return ring, checkKey(ctx, d, ring)
}

// checkKey checks that the database's secrets were encrypted with this master key. The first
// process that opens the database stores the check value.
func checkKey(ctx context.Context, d *db.DB, ring *keyring.Ring) error {
	value, err := ring.MAC(keyring.Check, []byte("master key"))
	if err != nil {
		return err
	}
	stored, err := d.KeyCheck(ctx, value)
	if err != nil {
		return err
	}
	if !hmac.Equal(value, stored) {
		return errOtherMasterKey
	}
	return nil
}
