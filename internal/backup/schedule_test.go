package backup_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// schedule returns a schedule of the vault in a new folder.
func (f *fixture) schedule(node string) *backup.Schedule {
	return &backup.Schedule{
		Config: f.config, Dir: f.t.TempDir(), Every: time.Hour, Keep: 2, Node: node, Log: slog.New(slog.DiscardHandler),
	}
}

// names returns the names of the files and folders in a folder.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// due makes the next backup due.
func (f *fixture) due() {
	f.t.Helper()
	f.Exec(`UPDATE backups SET started_at = 0`)
}

func (f *fixture) record() *backup.Record {
	f.t.Helper()
	r, err := backup.LastRecord(f.t.Context(), f.DB)
	f.ok(err)
	return r
}

// TestScheduleKeepsTheLastBackups checks that a schedule makes a backup only when one is due, links the
// files of the last backup, and removes all but the last Keep backups.
func TestScheduleKeepsTheLastBackups(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		old := f.keys()[0]
		s := f.schedule("a")
		f.ok(s.Run(t.Context()))
		f.ok(s.Run(t.Context()))
		if list := names(t, s.Dir); len(list) != 1 {
			t.Fatalf("backups = %v, want one, because the second is not due", list)
		}
		// Add two earlier backups, and a folder that is not a backup.
		first := filepath.Join(s.Dir, names(t, s.Dir)[0])
		for _, name := range []string{"20200101T000000Z", "20200102T000000Z"} {
			f.ok(os.CopyFS(filepath.Join(s.Dir, name), os.DirFS(first)))
		}
		f.ok(os.Mkdir(filepath.Join(s.Dir, "mine"), 0o700))
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // the names are times in whole seconds
		f.issue(1)
		f.due()
		f.ok(s.Run(t.Context()))
		list := names(t, s.Dir)
		if len(list) != 3 || list[0] != filepath.Base(first) || list[2] != "mine" {
			t.Fatalf("backups = %v, want the last two and the other folder", list)
		}
		a, err := os.Stat(filepath.Join(first, "files", "blobs", old))
		f.ok(err)
		b, err := os.Stat(filepath.Join(s.Dir, list[1], "files", "blobs", old))
		f.ok(err)
		if !os.SameFile(a, b) {
			t.Error("the second backup contains a copy of a file of the first, want a link")
		}
		if problems := f.verify(filepath.Join(s.Dir, list[1])); len(problems) != 0 {
			t.Errorf("problems = %v, want none", problems)
		}
		r := f.record()
		if r.Dir != filepath.Join(s.Dir, list[1]) || r.Every != time.Hour || time.Since(r.CompletedAt) > time.Minute || r.Problem(d.Now()) != "" {
			t.Errorf("record = %+v, want the last backup without a problem", r)
		}
		if problem := r.Problem(d.Now().Add(3 * time.Hour)); !strings.Contains(problem, "although one is made every 1h") {
			t.Errorf("three hours later, the problem is %q, want that backups are late", problem)
		}
		f.ok(backup.Stop(t.Context(), d))
		if problem := f.record().Problem(d.Now().Add(3 * time.Hour)); problem != "" {
			t.Errorf("without a schedule, the problem is %q, want none", problem)
		}
	})
}

// TestScheduleAfterAClockWasAhead checks that the backups that were made while a clock was ahead are removed
// first after the clock was corrected, and that they are not used for the next backup.
func TestScheduleAfterAClockWasAhead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		s := f.schedule("a")
		s.Keep = 3
		f.ok(s.Run(t.Context()))
		first := filepath.Join(s.Dir, names(t, s.Dir)[0])
		for i := range s.Keep {
			f.ok(os.CopyFS(filepath.Join(s.Dir, time.Now().AddDate(1, 0, i).UTC().Format("20060102T150405Z")), os.DirFS(first)))
		}
		f.ok(os.RemoveAll(first))
		f.Exec(`UPDATE backups SET started_at = $1, completed_at = $1`, db.Micros(d.Now().AddDate(1, 0, 0)))
		if list, err := backup.Future(s.Dir, d.Now()); err != nil || len(list) != s.Keep {
			t.Fatalf("backups with a date in the future = %v, %v, want %d", list, err, s.Keep)
		}
		var made []string
		for range s.Keep {
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
			f.ok(s.Run(t.Context()))
			made = append(made, filepath.Base(f.record().Dir))
			f.due()
		}
		if list := names(t, s.Dir); !slices.Equal(list, made) {
			t.Errorf("backups = %v, want those that were made after the clock was corrected: %v", list, made)
		}
	})
}

// TestScheduleKeepsTheBackupMadeLast checks that the last backup is not removed although others have a later
// date, which is not in the future any more.
func TestScheduleKeepsTheBackupMadeLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 1)
	s := f.schedule("a")
	f.ok(s.Run(t.Context()))
	first := filepath.Join(s.Dir, names(t, s.Dir)[0])
	for _, name := range []string{"20200101T000000Z", "20200102T000000Z", "20200103T000000Z"} {
		f.ok(os.CopyFS(filepath.Join(s.Dir, name), os.DirFS(first)))
	}
	f.ok(os.RemoveAll(first))
	last := filepath.Join(s.Dir, "20200101T000000Z")
	f.Exec(`UPDATE backups SET dir = $1, started_at = 0`, last)
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	f.ok(s.Run(t.Context()))
	if list := names(t, s.Dir); len(list) != 3 || !exists(last) {
		t.Errorf("backups = %v, want %s and two others", list, filepath.Base(last))
	}
}

// TestOneServerMakesABackup checks that only one of several servers makes a backup that is due.
func TestOneServerMakesABackup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		var group sync.WaitGroup
		var servers []*backup.Schedule
		for _, node := range []string{"a", "b", "c", "d"} {
			s := f.schedule(node)
			servers = append(servers, s)
			group.Go(func() {
				if err := s.Run(t.Context()); err != nil {
					t.Errorf("server %s: %v", node, err)
				}
			})
		}
		group.Wait()
		made := 0
		for _, s := range servers {
			made += len(names(t, s.Dir))
		}
		if made != 1 {
			t.Errorf("%d backups were made, want 1", made)
		}
	})
}

// TestScheduleContinuesAfterACrash checks that, after a server died during a backup, another server removes
// the partial backup and makes a new one.
func TestScheduleContinuesAfterACrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		s := f.schedule("b")
		partial := filepath.Join(s.Dir, "20200101T000000Z")
		f.ok(os.MkdirAll(filepath.Join(partial, "files", "blobs"), 0o700))
		now := d.Now()
		f.Exec(`UPDATE backups SET leased_by = 'a', leased_until = $1, started_at = $2`, db.Micros(now.Add(30*time.Second)), db.Micros(now))
		f.ok(s.Run(t.Context()))
		if list := names(t, s.Dir); len(list) != 1 {
			t.Fatalf("backups = %v, want only the partial one, because its server has a lease", list)
		}
		f.Exec(`UPDATE backups SET leased_until = $1`, db.Micros(now.Add(-time.Second)))
		f.ok(s.Run(t.Context()))
		list := names(t, s.Dir)
		if len(list) != 1 || exists(partial) {
			t.Fatalf("backups = %v, want a new one and not the partial one", list)
		}
		// A lease and a start time that were written while a clock was ahead do not delay backups.
		f.Exec(`UPDATE backups SET leased_by = 'a', leased_until = $1, started_at = $1`, db.Micros(now.Add(24*time.Hour)))
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		f.ok(s.Run(t.Context()))
		if list := names(t, s.Dir); len(list) != 2 {
			t.Errorf("backups = %v, want two", list)
		}
	})
}

// TestStoppedServerMakesTheBackupAgain checks that a server that stops during a backup makes the backup at
// its next start, and that the record shows no problem.
func TestStoppedServerMakesTheBackupAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 1)
	s := f.schedule("a")
	keys := s.Keys
	ctx, stop := context.WithCancel(t.Context())
	s.Keys = []backup.Keys{func(context.Context, db.Queryer, func(string) error) error {
		stop()
		return ctx.Err()
	}}
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) || len(names(t, s.Dir)) != 0 {
		t.Fatalf("error = %v, backups = %v, want context.Canceled and no backup", err, names(t, s.Dir))
	}
	if problem := f.record().Problem(time.Now()); problem != "" {
		t.Errorf("the problem is %q, want none", problem)
	}
	s.Keys = keys
	f.ok(s.Run(t.Context()))
	if list := names(t, s.Dir); len(list) != 1 {
		t.Errorf("backups after the next start = %v, want one", list)
	}
}

// TestInterruptedAttemptsAreLate checks that the first backup is late if each attempt is interrupted.
func TestInterruptedAttemptsAreLate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		s := f.schedule("a")
		keys := s.Keys
		for range 2 {
			ctx, stop := context.WithCancel(t.Context())
			s.Keys = []backup.Keys{func(context.Context, db.Queryer, func(string) error) error {
				stop()
				return ctx.Err()
			}}
			if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("error = %v, want context.Canceled", err)
			}
			// An hour and a half passes.
			f.Exec(`UPDATE backups SET started_at = started_at - $1`, (90 * time.Minute).Microseconds())
		}
		if problem := f.record().Problem(d.Now()); !strings.Contains(problem, "no scheduled backup is complete") {
			t.Errorf("the problem is %q, want that no backup is complete", problem)
		}
		s.Keys = keys
		f.ok(s.Run(t.Context()))
		if problem := f.record().Problem(d.Now()); problem != "" {
			t.Errorf("after a complete backup, the problem is %q, want none", problem)
		}
	})
}

// TestFailedBackupIsRecorded checks that no old backup is removed if a new one fails or lacks files,
// and that the record shows the problem.
func TestFailedBackupIsRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), 2)
	s := f.schedule("a")
	s.Keep = 1
	f.ok(s.Run(t.Context()))
	first := names(t, s.Dir)[0]
	keys := s.Keys
	s.Keys = []backup.Keys{func(context.Context, db.Queryer, func(string) error) error {
		return errors.New("the disk of the store is broken")
	}}
	f.due()
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	if err := s.Run(t.Context()); err == nil {
		t.Error("a backup that failed returned no error")
	}
	if problem := f.record().Problem(time.Now()); !strings.Contains(problem, "the disk of the store is broken") {
		t.Errorf("problem = %q, want the error", problem)
	}
	if list := names(t, s.Dir); len(list) != 1 || list[0] != first {
		t.Errorf("backups = %v, want only %s", list, first)
	}
	// After a failure, the next backup is due after an hour, even if the interval is longer.
	s.Every = 24 * time.Hour
	f.Exec(`UPDATE backups SET started_at = $1`, db.Micros(time.Now().Add(-61*time.Minute)))
	s.Keys = keys
	f.ok(f.Blobs.Delete(t.Context(), f.keys()[0]))
	// The file is also removed from the last backup, so that the next backup cannot link it.
	f.ok(os.Remove(filepath.Join(s.Dir, first, "files", "blobs", f.keys()[0])))
	f.ok(s.Run(t.Context()))
	if problem := f.record().Problem(time.Now()); !strings.Contains(problem, "lacked files to which the database refers (1)") {
		t.Errorf("problem = %q, want a missing file", problem)
	}
	if list := names(t, s.Dir); len(list) != 2 || list[0] != first {
		t.Errorf("backups = %v, want two, the first %s", list, first)
	}
	f.ok(os.RemoveAll(s.Dir))
	f.due()
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "mount its disk") {
		t.Errorf("without the folder: error = %v, want an error that contains %q", err, "mount its disk")
	}
}

func TestCheckFolder(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	file := filepath.Join(data, "file")
	if err := errors.Join(os.MkdirAll(filepath.Join(data, "files", "backups"), 0o700), os.Mkdir(filepath.Join(data, "backups"), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(data, "files"): "belongs to the vault", filepath.Join(data, "files", "backups"): "belongs to the vault",
		filepath.Join(data, "none"): "does not exist", file: "is not a folder",
	} {
		if err := backup.CheckFolder(data, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want an error that contains %q", dir, err, want)
		}
	}
	if err := backup.CheckFolder(data, filepath.Join(data, "backups")); err != nil {
		t.Errorf("a new folder in the data folder: error = %v, want none", err)
	}
}
