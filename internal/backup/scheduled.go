package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// scheduled is the folder of a scheduled backup.
type scheduled struct {
	dir    string
	header Header
	// err is the error of ReadHeader.
	err error
	// future means that the backup was made while a clock was ahead: its name or its header has a time
	// in the future.
	future bool
}

// complete reports whether the backup is complete. A backup with an invalid header counts as complete.
func (s *scheduled) complete() bool { return s.err == nil || errors.Is(s.err, ErrDamaged) }

// partial reports whether the backup is still running, or was interrupted.
func (s *scheduled) partial() bool {
	return errors.Is(s.err, ErrPartial) || errors.Is(s.err, ErrNoBackup)
}

// listScheduled returns the scheduled backups in a folder, the oldest first. Backups with a date in the
// future count as older than all others, because backups that are made after the clock was corrected
// have earlier dates.
func listScheduled(dir string, now time.Time) (list []scheduled, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing backups: %w", err)
	}
	limit := now.Add(db.ClockTolerance)
	for _, e := range entries { // in the order of the names, which are times
		named, err := time.Parse(folderTime, e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		s := scheduled{dir: filepath.Join(dir, e.Name())}
		s.header, s.err = ReadHeader(s.dir)
		s.future = named.After(limit) || s.err == nil && s.header.CreatedAt.After(limit)
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b scheduled) int {
		switch {
		case a.future == b.future:
			return 0
		case a.future:
			return -1
		default:
			return 1
		}
	})
	return list, nil
}

// Future returns the folders of the complete scheduled backups in dir whose date is in the future.
func Future(dir string, now time.Time) (dirs []string, err error) {
	list, err := listScheduled(dir, now)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].future && list[i].complete() {
			dirs = append(dirs, list[i].dir)
		}
	}
	return dirs, nil
}
