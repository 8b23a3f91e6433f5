package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// openSecret is the set of permissions that doctor reports if a secret file has any of them. The group
// may read a file outside the data folder, because some platforms make mounted secrets readable for a
// group.
const openSecret fs.FileMode = 0o027

// examineSecretFiles returns an error if a secret file that a flag names has a permission of
// openSecret. Empty names are ignored. Secret files in the data folder need no check, because the data
// folder is private.
func examineSecretFiles(files ...string) error {
	var errs []error
	for _, file := range files {
		if file == "" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if info.Mode()&openSecret != 0 {
			errs = append(errs, fmt.Errorf("other users have access to %[1]s; run chmod 600 %[1]q", file))
		}
	}
	return errors.Join(errs...)
}

// examineSecretsOf checks that the master key and the identity of the signing keys belong to the
// database.
func examineSecretsOf(ctx context.Context, d *db.DB, s config.Storage, keys *authority.Authority) error {
	known, err := d.HasKey(ctx)
	if err != nil {
		return err
	}
	if !known {
		return errors.New("the database has no master key yet: start the server")
	}
	ring, err := masterKey(s, false)
	if err != nil {
		return err
	}
	if err := checkKey(ctx, d, ring, func(*db.Tx) error { return errOtherMasterKey }); err != nil {
		return err
	}
	return keys.CheckIdentity(ctx)
}
