package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// lockData makes the data folder private, locks it for this process, and writes the id of this node to
// the lock file. The operating system releases the lock when the process ends. If the folder is a copy
// of the folder of a running or crashed server, lockData first checks the database. If the copy is
// damaged, lockData does not write to the lock file, so that later starts also detect the copy.
func (a *App) lockData(ctx context.Context) error {
	denied, err := makePrivate(a.cfg.Data)
	if err != nil {
		return err
	}
	if denied != nil {
		a.log.WarnContext(ctx, "other users keep permissions to the data folder", slog.Any("error", denied))
	}
	lock, err := tryLock(a.cfg.Data)
	if err != nil {
		return err
	}
	a.lock = lock
	if a.locked, err = os.Stat(lock.Path()); err != nil {
		return fmt.Errorf("locking the data folder: %w", err)
	}
	var copied bool
	if a.previous, copied, err = readLock(lock.Path()); err != nil {
		return err
	}
	if copied {
		if err := checkCopy(ctx, a.cfg.Storage); err != nil {
			return err
		}
		a.log.WarnContext(ctx, "this data folder is a copy of the folder of a running server, or of one that crashed; the copy may lack certificates and files; "+
			"run certvault doctor --files, and use certvault backup for backups")
	}
	return signLock(lock.Path(), a.store.node)
}

// tryLock locks a data folder for this process. The error wraps ErrRunning if a server uses the folder.
func tryLock(data string) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(data, "lock"))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: %s; stop it first", ErrRunning, data)
	}
	return lock, nil
}
