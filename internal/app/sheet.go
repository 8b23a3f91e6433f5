package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/recovery"
)

// Sheet returns the recovery sheet of the installation as text. baseURL may be empty.
func (s *Storage) Sheet(ctx context.Context, baseURL string) (string, error) {
	sheet := recovery.Sheet{BaseURL: baseURL, At: time.Now(), MasterKey: s.Keyring.Text()}
	var err error
	if sheet.Installation, err = s.DB.Installation(ctx); err != nil {
		return "", err
	}
	if sheet.Identity, err = s.Keys.Identity(ctx); err != nil {
		return "", err
	}
	roots, err := s.Keys.Roots(ctx)
	if f, ok := errors.AsType[*authority.Fault](err); err != nil && (!ok || f.Code != authority.CodeMissing) {
		return "", err
	}
	if len(roots) > 0 {
		sheet.Root = authority.Fingerprint(roots[0])
	}
	return sheet.Text()
}

var errMasterKeySet = fmt.Errorf("%s is set: unset it to create the file of the master key", config.MasterKeyVariable)

// Recover creates the files of the master key and of the identity from the text of a recovery sheet, and
// returns their names. If there is a database whose schema this version can use, the secrets must be
// those of the database. Recover does not change existing files.
func Recover(ctx context.Context, c config.Storage, sheet string) (files []string, err error) {
	masterKey, identity, err := recovery.Parse(sheet)
	if err != nil {
		return nil, err
	}
	ring, err := keyring.Parse(masterKey, "of the sheet")
	if err != nil {
		return nil, err
	}
	file := c.MasterKeyPath()
	if file == "" {
		return nil, errMasterKeySet
	}
	options, err := keyOptions(c, "")
	if err != nil {
		return nil, err
	}
	if _, err := makePrivate(c.Data); err != nil {
		return nil, err
	}
	d, err := usableDatabase(ctx, c)
	if err != nil {
		return nil, err
	}
	if d != nil {
		defer func() { err = errors.Join(err, d.Close()) }()
		if err := checkSheet(ctx, d, ring); err != nil {
			return nil, err
		}
	}
	// RestoreIdentity is called first, because it checks the identity before it writes a file.
	identityFile, err := authority.New(d, options).RestoreIdentity(ctx, identity)
	if err != nil {
		return nil, err
	}
	if err := ring.Restore(file); err != nil {
		return nil, err
	}
	return []string{file, identityFile}, nil
}

// usableDatabase opens the database. It returns nil if there is no database, or if its schema is older
// than that of this version. The next start then compares the secrets after the migration.
func usableDatabase(ctx context.Context, c config.Storage) (*db.DB, error) {
	if c.Database == "" {
		if _, err := os.Stat(filepath.Join(c.Data, db.FileName)); errors.Is(err, os.ErrNotExist) {
			return nil, nil //nolint:nilnil // no database is an expected state
		}
	}
	d, err := db.Open(ctx, c.Data, c.Database)
	if err != nil {
		return nil, err
	}
	if err := d.CheckSchema(ctx); err != nil {
		if errors.Is(err, db.ErrOldSchema) {
			err = nil
		}
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// checkSheet checks that the master key of a sheet is that of the database, if the database has
// one.
func checkSheet(ctx context.Context, d *db.DB, ring *keyring.Ring) error {
	known, err := d.HasKey(ctx)
	if err != nil || !known {
		return err
	}
	err = checkKey(ctx, d, ring, func(*db.Tx) error { return errOtherMasterKey })
	if errors.Is(err, errOtherMasterKey) {
		return fmt.Errorf("the sheet is of another installation: %w", err)
	}
	return err
}
