package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

// The database refers to files in the folder of files, so both must belong together: they carry the
// same installation id, and all servers on one database use the same folder. A copy of the folder
// has the id too, but the copy does not get the files of the other server. Each server on
// PostgreSQL therefore writes its heartbeats to the database and to a mark in the folder. If
// another server's heartbeats arrive in the database and not in the folder, the folder is a copy.

const (
	// idFile is the file with the id of the installation, in the folder of files.
	idFile = "installation"
	// marksDir has a file for each server that uses the folder of files.
	marksDir = "nodes"
	// markTime is the time after a heartbeat until its mark is visible to other servers.
	markTime = job.HeartbeatInterval
	// markPoll is the interval at which heartbeats and marks are compared.
	markPoll = 100 * time.Millisecond
	// oldMark is the age at which the mark of a dead server is removed.
	oldMark = time.Hour
)

var (
	errOtherInstallation = errors.New("the files belong to another installation than the database")
	errCopiedFolder      = errors.New("another server uses this database with another folder of files: " +
		"each server would lack the files of the other; stop it first, or share its folder")
)

// store is the folder of files of a server.
type store struct {
	dir  string
	node string
}

// checkInstallation checks that the folder and the database belong to the same installation. If the
// database has no id, because it is new or was used only by earlier releases, checkInstallation
// stores the id of the folder in the database, and first creates the id if the folder has none.
func (s store) checkInstallation(ctx context.Context, d *db.DB) error {
	file := filepath.Join(s.dir, idFile)
	stored, err := d.Installation(ctx)
	if err != nil {
		return err
	}
	if stored == "" {
		// If the process dies before the id is in the database, the next start uses the file.
		if err := createID(file); err != nil {
			return fmt.Errorf("storing the installation id: %w", err)
		}
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s does not exist; set --data to the data folder of the database. "+
			"If this is that folder, restored from a backup without the file, write %s to the file", errOtherInstallation, file, stored)
	}
	if err != nil {
		return fmt.Errorf("reading the installation id: %w", err)
	}
	id := strings.TrimSpace(string(text))
	if stored == "" {
		if err := d.SetInstallation(ctx, id); err != nil {
			return err
		}
		// Another server may have stored its id first.
		if stored, err = d.Installation(ctx); err != nil {
			return err
		}
	}
	if id != stored {
		return fmt.Errorf("%w: %s has the id %s, and the database has the id %s; set --data to the data folder of the database",
			errOtherInstallation, file, id, stored)
	}
	return nil
}

// createID writes a new id to a file, unless the file exists.
func createID(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(uuid.NewString() + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// await returns nil when all other servers of the database are known to use the same folder or to be
// dead. previous is the last server of this data folder, which is dead. The error is errCopiedFolder
// if another server is alive and uses another folder.
func (s store) await(ctx context.Context, q *job.Queue, previous string) error {
	others, err := q.Others(ctx, time.Now())
	if err != nil {
		return err
	}
	delete(others, previous)
	began := time.Now()
	beats := map[string]time.Time{} // when this process saw the next heartbeat of a server
	for len(others) > 0 && time.Since(began) < job.DeadAfter {
		now, err := q.Others(ctx, time.Now())
		if err != nil {
			return err
		}
		for node, first := range others {
			last, alive := now[node]
			switch seen, beating := beats[node]; {
			case !alive:
				delete(others, node)
			case last == first: // it may be dead
			case s.mark(node) > first:
				delete(others, node)
			case !beating:
				beats[node] = time.Now()
			case time.Since(seen) > markTime:
				return fmt.Errorf("%w: server %s", errCopiedFolder, node)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(markPoll):
		}
	}
	return nil
}

// mark returns the last heartbeat of a server in this folder, or 0 if there is none.
func (s store) mark(node string) int64 {
	text, err := os.ReadFile(filepath.Join(s.dir, marksDir, filepath.Base(node)))
	if err != nil {
		return 0
	}
	at, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return at
}

// setMark stores a heartbeat of this server. Other servers read the old mark or the new one.
func (s store) setMark(at time.Time) error {
	file := filepath.Join(s.dir, marksDir, s.node)
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file+".new", strconv.AppendInt(nil, db.Micros(at), 10), 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("marking the folder of files: %w", err)
	}
	return nil
}

// removeMarks removes the mark of this server, and the marks of other servers that are older than
// oldMark.
func (s store) removeMarks(now time.Time) error {
	dir := filepath.Join(s.dir, marksDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing marks: %w", err)
	}
	var errs []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.Name() != s.node && now.Sub(info.ModTime()) < oldMark {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("removing marks: %w", err))
		}
	}
	return errors.Join(errs...)
}

// checkStore checks that the folder of files and the database belong together. On SQLite, the
// database is in the data folder, which is locked.
func (a *App) checkStore(ctx context.Context) error {
	if err := a.store.checkInstallation(ctx, a.DB); err != nil || a.DB.Dialect == db.SQLite {
		return err
	}
	if err := a.store.await(ctx, a.Queue, a.previous); err != nil {
		return err
	}
	if err := a.store.removeMarks(time.Now()); err != nil {
		a.log.WarnContext(ctx, "marks of dead servers were not removed", slog.Any("error", err))
	}
	return nil
}

// signLock writes the id of this server to the lock file, and returns the id of the last server
// that locked the same file, or "" if there is none. The text includes the number of the file's
// inode. A copy of the file has another number and names no previous server, because the server
// that wrote the text may be alive.
func signLock(file, node string) (previous string, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("locking the data folder: %w", err)
	}
	inode := ""
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = strconv.FormatUint(stat.Ino, 10)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("locking the data folder: %w", err)
	}
	if number, id, ok := strings.Cut(strings.TrimSpace(string(text)), " "); ok && number == inode && inode != "" {
		previous = id
	}
	if err := os.WriteFile(file, []byte(inode+" "+node+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("locking the data folder: %w", err)
	}
	return previous, nil
}
