package app

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// errOtherMasterKey means that the database belongs to another master key, for example because a command
// uses the same --database with another --data.
var errOtherMasterKey = errors.New("this master key is not that of the database; " +
	"set --data to the data folder of the database, or restore the key from a backup or a recovery sheet")

// openKeyring opens the master key of a database and checks that the key belongs to the database. If the
// database has no key yet, openKeyring creates a missing key and a missing identity of the signing keys.
// Otherwise a missing key is an error, because a new key could not decrypt the secrets in the database.
func openKeyring(ctx context.Context, d *db.DB, c config.Storage, keys *authority.Authority) (*keyring.Ring, error) {
	known, err := d.HasKey(ctx)
	if err != nil {
		return nil, err
	}
	ring, err := masterKey(c, !known)
	if errors.Is(err, keyring.ErrMissing) {
		return nil, fmt.Errorf("%w; restore it from a backup or a recovery sheet, or set --data to the data folder of the database: "+
			"no new key was created, because it could not decrypt the secrets in the database", err)
	}
	if err != nil {
		return nil, err
	}
	recipient := ""
	if !known {
		if recipient, err = keys.CreateIdentity(); err != nil {
			return nil, err
		}
	}
	return ring, checkKey(ctx, d, ring, func(tx *db.Tx) error { return keys.RecordIdentityTx(ctx, tx, recipient) })
}

// masterKey reads the master key, and creates a missing key if create is set.
func masterKey(c config.Storage, create bool) (*keyring.Ring, error) {
	file := c.MasterKeyPath()
	switch {
	case file == "":
		return keyring.Parse(c.MasterKey, "in "+config.MasterKeyVariable)
	case create:
		return keyring.OpenFile(file)
	}
	return keyring.OpenExisting(file)
}

// checkKey checks that the database's secrets were encrypted with this master key. The first
// process that opens the database stores the check value, and calls first in the same transaction.
func checkKey(ctx context.Context, d *db.DB, ring *keyring.Ring, first func(tx *db.Tx) error) error {
	value, err := ring.MAC(keyring.Check, []byte("master key"))
	if err != nil {
		return err
	}
	stored, err := d.KeyCheck(ctx, value, first)
	if err != nil {
		return err
	}
	if !hmac.Equal(value, stored) {
		return errOtherMasterKey
	}
	return nil
}
