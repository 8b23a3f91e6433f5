package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

const (
	// restoringDir exists in a data folder while a restore is not complete. A SQLite database is in
	// this folder until the restore is complete.
	restoringDir = "restoring"
	// lockName is the name of the file that certvault serve locks.
	lockName = "lock"
)

var (
	// ErrInUse means that a server uses the target of a restore.
	ErrInUse = errors.New("a running certvault server uses the target of the restore; stop it, or use another folder and database")
	// ErrNotEmpty means that the target of a restore contains a vault or other data.
	ErrNotEmpty = errors.New("the target of the restore is not empty")
	// ErrInterrupted means that a data folder contains files of an interrupted restore.
	ErrInterrupted = errors.New("the folder contains files of an interrupted restore")
)

// CheckInterrupted returns ErrInterrupted or db.ErrRestoring if a restore into the storage of a vault
// was interrupted. In this case, no process may use the storage. If d is nil, CheckInterrupted checks
// only the data folder.
func CheckInterrupted(ctx context.Context, data string, d *db.DB) error {
	if _, err := os.Lstat(filepath.Join(data, restoringDir)); err == nil {
		return fmt.Errorf("%w: %s exists; delete %s, %s and %[2]s, then run certvault restore again",
			ErrInterrupted, filepath.Join(data, restoringDir), filepath.Join(data, filesDir), filepath.Join(data, keysDir))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for an interrupted restore: %w", err)
	}
	if d == nil {
		return nil
	}
	return d.CheckRestoring(ctx)
}

// target is the vault that a restore creates.
type target struct {
	data, database string
	header         Header
	// created has the lock file and the folders of the target that the restore created, in the order
	// of their creation.
	created []string
	lock    *flock.Flock
	// empty means that the data folder had no stored files and no keys before the restore, so a failed
	// restore may remove all stored files and keys.
	empty bool
	// db is the PostgreSQL database, or nil.
	db *db.DB
	// marked means that the database has the mark of BeginRestore. loaded means that the database has
	// the data of the backup.
	marked, loaded bool
}

// openTarget locks the target of a restore, checks that it is empty, and marks it as incomplete.
func openTarget(ctx context.Context, o *RestoreOptions, h Header) (_ *target, err error) {
	t := &target{data: o.Target.Data, database: o.Target.Database, header: h}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(context.WithoutCancel(ctx), false))
		}
	}()
	if err := t.create(t.data); err != nil {
		return nil, err
	}
	if err := t.lockData(); err != nil {
		return nil, err
	}
	if err := CheckInterrupted(ctx, t.data, nil); err != nil {
		return nil, err
	}
	if err := t.checkEmpty(); err != nil {
		return nil, err
	}
	t.empty = true
	if t.database != "" {
		if err := t.openDatabase(ctx); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{restoringDir, filesDir, keysDir} {
		if err := t.create(filepath.Join(t.data, dir)); err != nil {
			return nil, err
		}
		// restoringDir, which marks the restore as incomplete, must be durable before any file is copied.
		if err := blob.SyncDir(t.data); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// checkEmpty returns ErrNotEmpty if the data folder has a database, stored files or keys. Other
// files, such as a TLS certificate, are allowed.
func (t *target) checkEmpty() error {
	entries, err := os.ReadDir(t.data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the data folder: %w", err)
	}
	for _, e := range entries {
		name := filepath.Join(t.data, e.Name())
		if strings.HasPrefix(e.Name(), db.FileName) {
			return fmt.Errorf("%w: %s exists; set --data to another folder", ErrNotEmpty, name)
		}
		if e.Name() != filesDir && e.Name() != keysDir {
			continue
		}
		first, err := firstFile(name)
		if err != nil {
			return err
		}
		if first != "" {
			return fmt.Errorf("%w: %s exists; set --data to another folder", ErrNotEmpty, first)
		}
	}
	return nil
}

// firstFile returns a file in a folder or its subfolders, or "" if there is none.
func firstFile(dir string) (first string, err error) {
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		first = name
		return fs.SkipAll
	})
	if err != nil {
		return "", fmt.Errorf("reading the data folder: %w", err)
	}
	return first, nil
}

// create creates a folder with its parents, unless it exists, and records the created folders.
func (t *target) create(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := t.create(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("creating the data folder: %w", err)
	}
	t.created = append(t.created, dir)
	return nil
}

// lockData locks the data folder as certvault serve does.
func (t *target) lockData() error {
	file := filepath.Join(t.data, lockName)
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		t.created = append(t.created, file)
	}
	lock := flock.New(file)
	locked, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("locking the data folder: %w", err)
	}
	if !locked {
		return fmt.Errorf("%w: %s is locked", ErrInUse, file)
	}
	t.lock = lock
	return nil
}

// path returns the path to which a file of the backup is copied, or "" if the file is not copied.
func (t *target) path(name string) (string, error) {
	switch {
	case name == dumpName:
		return "", nil // pg_restore reads it
	case name == sqliteName:
		return filepath.Join(t.data, restoringDir, db.FileName), nil
	case isStored(name), name == masterKeyName, name == identityName, name == protectedIdentityName:
		return filepath.Join(t.data, filepath.FromSlash(name)), nil
	default:
		return "", fmt.Errorf("%w: the manifest names the unknown file %s", ErrDamaged, name)
	}
}

// finish completes a restore after all files are copied: it prepares the database, makes everything
// durable, and removes the mark. dir is the folder of the backup.
func (t *target) finish(ctx context.Context, dir string, r db.Restore) error {
	if err := t.sync(); err != nil {
		return err
	}
	if t.database != "" {
		if err := t.finishPostgres(ctx, dir, r); err != nil {
			return err
		}
	} else if err := t.finishSQLite(ctx, r); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(t.data, restoringDir)); err != nil {
		return fmt.Errorf("completing the restore: %w", err)
	}
	return blob.SyncDir(t.data)
}

// sync makes all files of the target durable.
func (t *target) sync() error {
	// The folders of the files and the keys may be on other file systems than the data folder.
	for _, dir := range []string{filepath.Join(t.data, filesDir), filepath.Join(t.data, keysDir), t.data} {
		if err := syncAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// close releases the target. If done is false, close first removes what the restore created: the
// copied files, and then the mark.
func (t *target) close(ctx context.Context, done bool) error {
	var errs []error
	if t.db != nil {
		if !done {
			errs = append(errs, t.abandonDatabase(ctx))
		}
		errs = append(errs, t.db.Close())
	}
	if !done && t.empty {
		for _, dir := range []string{filesDir, keysDir} {
			errs = append(errs, removeContents(filepath.Join(t.data, dir)))
		}
		if errors.Join(errs...) == nil {
			errs = append(errs, os.RemoveAll(filepath.Join(t.data, restoringDir)))
		}
	}
	if !done {
		for _, name := range slices.Backward(t.created) {
			// Remove fails for a folder that contains other files or the mark.
			_ = os.Remove(name)
		}
	}
	if t.lock != nil {
		errs = append(errs, t.lock.Unlock())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the target of the restore: %w", err)
	}
	return nil
}

// removeContents removes everything in a folder. It does nothing if the folder does not exist.
func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(append(errs, err)...)
}
