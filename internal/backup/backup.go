// Package backup makes backups of a running vault, on request and at intervals, checks backups, and
// restores vaults. It defines the layout of a backup, and records the backups that were made. Other
// packages list the files to which their rows refer.
package backup

import (
	"context"
	"errors"
	"path"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// The layout of a backup. All names are relative to the folder of the backup and use slashes.
const (
	// manifestName is the name of the manifest. A backup whose manifest is incomplete is partial.
	manifestName = "manifest.jsonl"

	databaseDir = "database"
	// sqliteName is the name of the copy of a SQLite database.
	sqliteName = databaseDir + "/" + db.FileName
	// dumpName is the name of the dump of a PostgreSQL database, in the custom format of pg_dump.
	dumpName = databaseDir + "/certvault.dump"

	// filesDir is the folder with the contents of the file store.
	filesDir = "files"
	// blobsDir is the folder with a file for each blob. The name of the file is the key of the blob.
	blobsDir = filesDir + "/blobs"
	// markName is the name of the file with the installation id of the file store.
	markName = filesDir + "/certvault.json"
	// oldMarkName is the name of the same file in stores of earlier versions.
	oldMarkName = filesDir + "/installation"

	keysDir = "keys"
	// masterKeyName is the name of the master key.
	masterKeyName = keysDir + "/master.key"
	// identityName and protectedIdentityName are the names of the age identity, which decrypts the
	// signing keys. The second file is encrypted with a passphrase.
	identityName          = keysDir + "/identity.txt"
	protectedIdentityName = keysDir + "/identity.txt.age"
)

// folderTime is the layout of the name of a scheduled backup: the UTC time of its start.
const folderTime = "20060102T150405Z"

var (
	// ErrNoBackup means that a folder contains no backup.
	ErrNoBackup = errors.New("the folder contains no backup")
	// ErrPartial means that a backup is not complete: its manifest is missing or incomplete.
	ErrPartial = errors.New("the backup is partial")
	// ErrWrongKey means that the manifest of a backup was signed with another master key.
	ErrWrongKey = errors.New("the backup was made with another master key")
	// ErrOtherInstallation means that a backup belongs to another installation.
	ErrOtherInstallation = errors.New("the backup belongs to another installation")
	// ErrDamaged means that the manifest of a backup is not valid, or does not match the other files.
	ErrDamaged = errors.New("the backup is damaged")
)

// Keys calls visit with the key of each blob to which the rows of one package refer. All queries with
// q read the same state of the database.
type Keys func(ctx context.Context, q db.Queryer, visit func(key string) error) error

// Config contains the parts of a vault that a backup copies.
type Config struct {
	DB      *db.DB
	Keyring *keyring.Ring
	// Data is the data folder.
	Data string
	// Files is the file store.
	Files blob.Store
	// Keys are the functions of all packages whose rows refer to blobs.
	Keys []Keys
	// Version is the version of this program.
	Version string
}

// blobName returns the name in a backup of the blob with the given key.
func blobName(key string) string { return path.Join(blobsDir, key) }
