package app

import (
	"context"
	"crypto/hmac"
	"errors"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// errForeignKey is the error if the database belongs to another master key. This happens if a
// command uses the same --database with another --data.
var errForeignKey = errors.New("keys/master.key in this data folder is not the one that the database was set up with: " +
	"give the data folder that belongs to it, or put the key back from a backup")

// checkKey checks that the database's secrets were encrypted with this master key. The first
// process stores the check value.
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
