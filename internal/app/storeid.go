package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// The database refers to files in the file store, so both must belong to the same installation: the
// sweep would delete the files of another installation, and the check of stored files would report
// all files as damaged. The file certvault.json in the store and a row in the database therefore
// have the same id.

var (
	errOtherInstallation = errors.New("the files belong to another installation than the database")
	errNewDatabase       = errors.New("the database is new, but the file store has files, which the vault would delete")
	errNoInstallation    = errors.New("the file store has no installation id, but the database has one")
)

// databasePlace describes the database for messages, without a password.
func databasePlace(c config.Storage) string {
	if c.Database == "" {
		return filepath.Join(c.Data, db.FileName)
	}
	u, err := url.Parse(c.Database)
	if err != nil {
		return "of --database"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// verifyInstallation checks that the file store and the database belong to the same installation. It
// creates and changes nothing, so that it can run before the schema is migrated.
func verifyInstallation(ctx context.Context, c config.Storage, store blob.FileStore) (err error) {
	if c.Database == "" {
		if _, err := os.Stat(filepath.Join(c.Data, db.FileName)); errors.Is(err, fs.ErrNotExist) {
			return compareInstallation(ctx, c, store, "", true)
		}
	}
	setUmask()
	d, err := db.Open(ctx, c.Data, c.Database)
	if err != nil {
		return explainDamage(c, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return explainDamage(c, checkInstallation(ctx, c, d, store))
}

// checkInstallation is verifyInstallation with an open database.
func checkInstallation(ctx context.Context, c config.Storage, d *db.DB, store blob.FileStore) error {
	empty, err := d.IsEmpty(ctx)
	if err != nil {
		return err
	}
	id, err := d.Installation(ctx)
	if err != nil {
		return err
	}
	return compareInstallation(ctx, c, store, id, empty)
}

// compareInstallation compares the installation id of the database with that of the file store. id is
// empty if no server has stored an id in the database yet. empty reports whether the database is new.
func compareInstallation(ctx context.Context, c config.Storage, store blob.FileStore, id string, empty bool) error {
	stored, err := store.Installation(ctx)
	missing := errors.Is(err, blob.ErrNoInstallation)
	switch {
	case err != nil && !missing:
		return err
	case id == "" && empty:
		return checkNewDatabase(ctx, c, store)
	case id == "":
		return nil
	case missing:
		return fmt.Errorf("%w: the database %s has the id %s, and %s does not exist; %s. "+
			`If the file was lost, restore it from a backup, or write {"installation":%q,"format":1} to it`,
			errNoInstallation, databasePlace(c), id, store.InstallationPath(), storeRemedy(c), id)
	case stored.ID != id:
		return fmt.Errorf("%w: %s has the id %s, and the database %s has the id %s; %s, or --database to the database of the files",
			errOtherInstallation, store.InstallationPath(), stored.ID, databasePlace(c), id, storeRemedy(c))
	}
	return nil
}

// errFound ends a walk at the first blob.
var errFound = errors.New("found a file")

// checkNewDatabase returns errNewDatabase if the store has files, because a new database has no
// records of files.
func checkNewDatabase(ctx context.Context, c config.Storage, store blob.FileStore) error {
	err := store.Walk(ctx, "", func(blob.Info) error { return errFound })
	if errors.Is(err, errFound) {
		return fmt.Errorf("%w: the database is %s, and the files are in %s; restore the database from a backup, or set %s",
			errNewDatabase, databasePlace(c), store.Location(), otherStore(c))
	}
	if err != nil {
		return fmt.Errorf("reading the file store: %w", err)
	}
	return nil
}

// otherStore returns the setting to change in order to use an empty file store.
func otherStore(c config.Storage) string {
	if c.Blob != "" {
		return "--blob to another prefix"
	}
	return "--data to another folder"
}

// claimStore assigns the same installation id to a new database and a new file store, and replaces
// the installation file of a development version. Then it checks the ids again, because another
// server may have assigned an id to the database in the meantime.
func claimStore(ctx context.Context, c config.Storage, d *db.DB, store blob.FileStore, now time.Time) error {
	if err := checkInstallation(ctx, c, d, store); err != nil {
		return err
	}
	installation, err := store.Installation(ctx)
	if errors.Is(err, blob.ErrNoInstallation) {
		installation = blob.NewInstallation(now)
	} else if err != nil {
		return err
	}
	// If the process dies before the id is in the database, the next start uses the file.
	if err := store.SetInstallation(ctx, installation); err != nil {
		return err
	}
	// Another server on the same store may have stored its id first.
	if installation, err = store.Installation(ctx); err != nil {
		return err
	}
	if err := d.SetInstallation(ctx, installation.ID); err != nil {
		return err
	}
	return checkInstallation(ctx, c, d, store)
}

// examineInstallation checks that the file store and the database have the same installation id.
func examineInstallation(ctx context.Context, c config.Storage, store blob.FileStore) Finding {
	detail := "not used by certvault serve yet"
	err := verifyInstallation(ctx, c, store)
	if err == nil {
		installation, e := store.Installation(ctx)
		if e == nil {
			detail = installation.ID
		} else if !errors.Is(e, blob.ErrNoInstallation) {
			err = e
		}
	}
	return finding("installation", detail, err)
}
