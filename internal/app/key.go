package app

import (
	"context"
	"crypto/hmac"
	"errors"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// errOtherMasterKey means that the database belongs to another master key. This happens if a
// command uses the same --database with another --data.
var errOtherMasterKey = errors.New("keys/master.key in this data folder is not the master key of the database; " +
	"set --data to the data folder of the database, or restore the key from a backup")

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
