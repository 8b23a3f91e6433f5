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

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
)

// All servers on one database must use the same folder of files. A copy of the folder has the id of
// the installation too (see storeid.go), but lacks the files that the other servers store later.
// Each server on PostgreSQL therefore writes its heartbeats to the database and to a mark in the
// folder. If another server's heartbeats arrive in the database and not in the folder, the folder
// is a copy.

const (
	// marksDir has a file for each server that uses the folder of files.
	marksDir = "nodes"
	// markTime is the maximum time after a heartbeat until its mark is visible to other servers, which
	// may use a network file system.
	markTime = 3 * time.Second
	// markPoll is the interval at which heartbeats and marks are compared.
	markPoll = 100 * time.Millisecond
	// oldMark is the age at which the mark of a dead server is removed.
	oldMark = time.Hour
)

var errCopiedFolder = errors.New("another server uses this database with another folder of files: " +
	"each server would lack the files of the other; stop it first, or share its folder")

// store is the folder of files of a server.
type store struct {
	dir  string
	node string
}

// await waits until each other server of the database uses the same folder or is dead. The error wraps
// errCopiedFolder if another server is alive and uses another folder.
func (s store) await(ctx context.Context, q *job.Queue, clock func() time.Time) error {
	beats := map[string]time.Time{} // when this process first saw a newer heartbeat of a server
	return watchOthers(ctx, q, clock, func(others, now map[string]int64) (done bool, err error) {
		for node, first := range others {
			last, alive := now[node]
			switch seen, beating := beats[node]; {
			case !alive:
				delete(others, node)
			case last == first: // the server may be dead
			case s.mark(node) > first:
				delete(others, node)
			case !beating:
				beats[node] = time.Now()
			case time.Since(seen) > markTime:
				return true, fmt.Errorf("%w: server %s", errCopiedFolder, node)
			}
		}
		return len(others) == 0, nil
	})
}

// watchOthers calls see with the heartbeats of the other servers, those at the beginning and the present ones. It
// ends if see is done or fails, or if a server without a newer heartbeat is dead by now. see may change others.
func watchOthers(ctx context.Context, q *job.Queue, clock func() time.Time, see func(others, now map[string]int64) (done bool, err error)) error {
	others, err := q.Others(ctx, clock())
	if err != nil {
		return err
	}
	for began := time.Now(); len(others) > 0 && time.Since(began) < job.DeadAfter+markTime; {
		now, err := q.Others(ctx, clock())
		if err != nil {
			return err
		}
		if done, err := see(others, now); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(markPoll):
		}
	}
	return nil
}

// mark returns the last heartbeat of a server in this folder in microseconds since 1970, or 0 if there
// is none.
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

// setMark stores a heartbeat of this server atomically.
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

// removeMarks removes the mark of this server, and other servers' marks that are older than
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

// checkStore checks that no other server uses the database with a copy of the folder of files. On
// SQLite, there is nothing to check: the database is in the data folder, which is locked. The
// previous server of this data folder is dead, because this process has locked the folder.
// checkStore removes that server from the list of nodes, so that no start waits for it.
func (a *App) checkStore(ctx context.Context) error {
	if a.DB.Dialect == db.SQLite {
		return nil
	}
	if a.previous != "" {
		if err := a.Queue.Remove(ctx, a.previous); err != nil {
			return err
		}
	}
	if !a.marksFiles() {
		return nil
	}
	if err := a.store.await(ctx, a.Queue, a.DB.Now); err != nil {
		return err
	}
	if err := a.store.removeMarks(time.Now()); err != nil {
		a.log.WarnContext(ctx, "marks of dead servers were not removed", slog.Any("error", err))
	}
	return nil
}

// errOtherBaseURL means that another server of the database was started with another base URL.
var errOtherBaseURL = errors.New("another server uses this database with another base URL, which is printed on every certificate: " +
	"start both with the same --base-url, or stop the other one first to change it")

// claimBaseURL stores the base URL of this server. The error wraps errOtherBaseURL if the stored one is
// another, and another server is alive. claimBaseURL waits until the other servers are alive or dead.
func (a *App) claimBaseURL(ctx context.Context) error {
	stored, err := a.DB.BaseURL(ctx)
	if err != nil {
		return err
	}
	if stored != "" && stored != a.cfg.BaseURL {
		alive, err := otherAlive(ctx, a.Queue, a.DB.Now)
		if err != nil {
			return err
		}
		if alive {
			return fmt.Errorf("%w: %s here, %s there", errOtherBaseURL, a.cfg.BaseURL, stored)
		}
		a.log.WarnContext(ctx, "the base URL has changed; earlier certificates lead to the earlier one",
			slog.String("base_url", a.cfg.BaseURL), slog.String("earlier", stored))
	}
	return a.DB.SetBaseURL(ctx, a.cfg.BaseURL)
}

// otherAlive reports whether another server of the database is alive: its heartbeat changes.
func otherAlive(ctx context.Context, q *job.Queue, clock func() time.Time) (alive bool, err error) {
	err = watchOthers(ctx, q, clock, func(others, now map[string]int64) (done bool, err error) {
		for node, at := range now {
			first, ok := others[node]
			alive = alive || !ok || at > first
		}
		return alive || len(now) == 0, nil
	})
	return alive, err
}

// marksFiles reports whether other servers of the database may use a copy of the folder of files.
func (a *App) marksFiles() bool { return a.DB.Dialect == db.PostgreSQL && a.cfg.Blob == "" }

// lockText returns the text of a lock file: the inode number of the file, and the id of the server that
// locked it.
func lockText(file, node string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("locking the data folder: %w", err)
	}
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf("%d %s\n", inode, node), nil
}

// readLock returns the id of the last server that locked the file, or "" if that server stopped
// normally. If the file is a copy, its inode number differs from that in its text. readLock then returns
// "" and sets copied, because the server that wrote the text may be alive.
func readLock(file string) (previous string, copied bool, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", false, fmt.Errorf("locking the data folder: %w", err)
	}
	_, node, found := strings.Cut(strings.TrimSpace(string(text)), " ")
	if !found {
		return "", false, nil
	}
	original, err := lockText(file, node)
	if err != nil {
		return "", false, err
	}
	if original != string(text) {
		return "", true, nil
	}
	return node, false, nil
}

// signLock writes the id of this server to the lock file.
func signLock(file, node string) error {
	text, err := lockText(file, node)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("locking the data folder: %w", err)
	}
	return nil
}

// clearLock removes the id of this server from the lock file when the server stops normally, because a
// copy of the folder that is made later is complete. clearLock does not change the lock file of a folder
// that has replaced the locked folder.
func clearLock(locked os.FileInfo, file string) error {
	if now, err := os.Stat(file); err != nil || !os.SameFile(locked, now) {
		return nil //nolint:nilerr // the folder was moved
	}
	if err := os.Truncate(file, 0); err != nil {
		return fmt.Errorf("unlocking the data folder: %w", err)
	}
	return nil
}
