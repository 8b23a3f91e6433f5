package app

import (
	"context"
	"crypto/hmac"
	"errors"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// errForeignKey is a master key that the database does not belong to: a command
// run with the same --database and another --data.
var errForeignKey = errors.New("keys/master.key in this data folder is not the one that the database was set up with: " +
	"give the data folder that belongs to it, or put the key back from a backup")

// checkKey sees that the database's secrets were encrypted with this master
// key. The first process to come sets it.
func checkKey(ctx context.Context, d *db.DB, ring *keyring.Ring) error {
	mine, err := ring.MAC(keyring.Check, []byte("master key"))
	if err != nil {
		return err
	}
	stored, err := d.KeyCheck(ctx, mine)
	if err != nil {
		return err
	}
	if !hmac.Equal(mine, stored) {
		return errForeignKey
	}
	return nil
}
