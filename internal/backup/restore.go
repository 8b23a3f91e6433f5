package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// RestoreOptions are the settings of a restore.
type RestoreOptions struct {
	// Dir is the folder of a backup, or the folder of all scheduled backups.
	Dir string
	// At selects the newest backup of Dir that is not newer than At. The zero value selects the
	// newest.
	At time.Time
	// Target is the storage of the new vault. Its folder must contain no vault, and its database
	// must be empty. If the backup contains no database, the database must already be restored.
	Target config.Storage
	// Keyring has the master key if the vault will not read it from its data folder, or is nil.
	Keyring *keyring.Ring
	// Identity is the content of the file with the age identity if the vault will not read it from
	// its data folder, or is nil.
	Identity []byte
	// Drill makes the vault a drill, which sends no mail and no webhooks.
	Drill bool
	Now   func() time.Time
}

// Restored is the result of a restore.
type Restored struct {
	// Backup is the folder of the backup.
	Backup     string    `json:"backup"`
	CopiedAt   time.Time `json:"copied_at"`
	RestoredAt time.Time `json:"restored_at"`
	Drill      bool      `json:"drill"`
	// Files is the number of files in the backup, and Bytes is their size.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Missing are the names of files that the store lacked when the backup was made.
	Missing []string `json:"missing"`
	// Ignored are the folders of scheduled backups that were not considered, because their date is in
	// the future.
	Ignored []string `json:"ignored"`
}

// Future reports whether the date of the backup was in the future when it was restored.
func (r *Restored) Future() bool { return r.CopiedAt.After(r.RestoredAt.Add(db.ClockTolerance)) }

// Restore creates a vault from a backup. It checks each file of the backup while copying the file.
// If Restore fails, it removes what it created, as far as possible. An incomplete vault cannot be
// started. The errors include those of ReadHeader, ErrWrongKey, ErrInUse, ErrNotEmpty and
// ErrInterrupted.
func Restore(ctx context.Context, o RestoreOptions) (_ *Restored, err error) {
	chosen, err := choose(o.Dir, o.At, o.Now())
	if err != nil {
		return nil, err
	}
	dir, header := chosen.dir, chosen.header
	keys, err := openBackupKeys(dir, &o)
	if err != nil {
		return nil, err
	}
	contents, err := survey(ctx, dir, keys.ring)
	if err != nil {
		return nil, err
	}
	if err := keys.check(contents); err != nil {
		return nil, err
	}
	if err := checkHeader(header, &o); err != nil {
		return nil, err
	}
	t, err := openTarget(ctx, &o, header)
	if err != nil {
		return nil, err
	}
	// If the restore is cancelled, close must still remove what the restore created.
	defer func() { err = errors.Join(err, t.close(context.WithoutCancel(ctx), err == nil)) }()
	c := copier{dir: dir, target: t, skip: keys.skip}
	if err := c.run(ctx, keys.ring, contents.files); err != nil {
		return nil, err
	}
	r := db.Restore{CopiedAt: header.CreatedAt.UTC(), RestoredAt: o.Now().UTC().Truncate(time.Microsecond), Drill: o.Drill}
	if err := t.finish(ctx, dir, r); err != nil {
		return nil, err
	}
	return &Restored{
		Backup: dir, CopiedAt: r.CopiedAt, RestoredAt: r.RestoredAt, Drill: r.Drill, Files: contents.files, Bytes: contents.bytes, Missing: contents.missing,
		Ignored: append([]string{}, chosen.ignored...),
	}, nil
}

// checkHeader checks that this binary and the settings fit the backup.
func checkHeader(h Header, o *RestoreOptions) error {
	switch {
	case h.Dialect == db.SQLite && o.Target.Database != "":
		return errors.New("the backup has a SQLite database; run the command without --database")
	case h.Dialect == db.PostgreSQL && o.Target.Database == "":
		return errors.New("the backup has a PostgreSQL database; set --database to an empty PostgreSQL database")
	case h.Dialect != db.SQLite && h.Dialect != db.PostgreSQL:
		return fmt.Errorf("the backup has a database of the unknown kind %q", h.Dialect)
	case h.FilesOnly && h.Dialect != db.PostgreSQL:
		return errors.New("the backup contains no database")
	}
	known, err := db.KnownSchema(h.Dialect)
	if err != nil {
		return err
	}
	if h.Schema > known {
		return fmt.Errorf("%w: the backup was made by certvault %s and has schema %d, and this binary knows schema %d; "+
			"restore it with certvault %[2]s or newer", db.ErrNewSchema, h.Version, h.Schema, known)
	}
	return nil
}

// inventory is the content of a backup according to its manifest.
type inventory struct {
	files int
	bytes int64
	// missing are the names of files that the store lacked.
	missing []string
	// names has the names of the files in the folders of the database and of the keys.
	names map[string]bool
}

// survey reads the whole manifest of a backup and verifies its signature.
func survey(ctx context.Context, dir string, ring *keyring.Ring) (v inventory, err error) {
	v.names, v.missing = map[string]bool{}, []string{}
	err = eachEntry(ctx, dir, ring, func(e Entry) error {
		if e.Missing {
			v.missing = append(v.missing, e.Name)
			return nil
		}
		v.files++
		v.bytes += e.Size
		if !isStored(e.Name) {
			v.names[e.Name] = true
		}
		return nil
	})
	return v, err
}

// eachEntry calls visit for each entry of the manifest of a backup. The entries are trustworthy
// only if eachEntry returns nil.
func eachEntry(ctx context.Context, dir string, ring *keyring.Ring, visit func(Entry) error) (err error) {
	m, err := openManifest(dir, ring)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := m.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(e); err != nil {
			return err
		}
	}
}
