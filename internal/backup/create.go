package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

// Options describes a backup to make.
type Options struct {
	// Dir is the folder of the backup. It must be empty or not exist.
	Dir string
	// Since is the folder of an earlier backup, or empty. Its blobs are linked and not copied again, if
	// possible.
	Since string
	// FilesOnly leaves the database out and includes all files of the store.
	FilesOnly bool
	// WithoutKeys leaves the master key and the age identity out.
	WithoutKeys bool
}

// Result describes a backup that was made.
type Result struct {
	Dir       string    `json:"dir"`
	CreatedAt time.Time `json:"created_at"`
	// Files is the number of files in the backup without the manifest. Bytes is their total size.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Copied is the total size of the files that were copied and not linked.
	Copied int64 `json:"copied_bytes"`
	// Keys reports whether the backup contains the master key.
	Keys bool `json:"keys"`
	// Missing is the number of files that the backup should contain and that the store lacks.
	// MissingFiles has the names of the first of them, at most maxMissing.
	Missing      int      `json:"missing"`
	MissingFiles []string `json:"missing_files,omitempty"`
}

// maxMissing is the maximum number of missing files that a Result names. The manifest names all.
const maxMissing = 20

// ErrFull means that the disk of a backup is full, or is the vault's own disk and almost full.
var ErrFull = errors.New("the disk is full")

// Create makes a backup of a vault, which may be running. If Create fails, it removes what it
// wrote. A file that the store lacks is not an error: the result counts it, and the manifest names
// it.
func Create(ctx context.Context, c Config, o Options) (*Result, error) {
	installation, err := c.DB.Installation(ctx)
	if err != nil {
		return nil, err
	}
	var since *earlier
	if o.Since != "" {
		if since, err = openEarlier(o.Since, c.Keyring, installation); err != nil {
			return nil, fmt.Errorf("--since: %w", err)
		}
	}
	return create(ctx, c, o, installation, since)
}

// create makes a backup. It links the blobs of since, which may be nil, and ignores o.Since.
func create(ctx context.Context, c Config, o Options, installation string, since *earlier) (*Result, error) {
	if err := checkPlace(c.Data, o.Dir); err != nil {
		return nil, err
	}
	b := &builder{Config: c, Options: o, installation: installation, since: since, result: &Result{Dir: o.Dir}, made: map[string]bool{}, missing: map[string]bool{}}
	created, err := makeDir(o.Dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := watchDisk(ctx, c.Data, o.Dir, cancel)
	err = b.run(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrFull) {
		err = cause
	}
	cancel(nil)
	<-watched
	if err != nil {
		return nil, errors.Join(explain(err, o.Dir), b.remove(created))
	}
	return b.result, nil
}

// explain adds advice to the error of a full disk.
func explain(err error, dir string) error {
	if errors.Is(err, ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || db.Full(err) {
		return fmt.Errorf("%w: the backup in %s was not made; free space, or choose a folder on another disk: %w", ErrFull, dir, err)
	}
	return err
}

// makeDir creates the folder of a backup. It reports whether it created the folder. It returns an
// error if the folder exists and is not empty.
func makeDir(dir string) (created bool, err error) {
	err = os.Mkdir(dir, 0o700)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("creating the folder of the backup: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("reading the folder of the backup: %w", err)
	}
	if len(entries) > 0 {
		return false, fmt.Errorf("the folder %s is not empty; name a new folder for each backup, and the last one with --since", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder needs the right to search
		return false, fmt.Errorf("making the folder of the backup private: %w", err)
	}
	return false, nil
}

// builder makes one backup.
type builder struct {
	Config
	Options

	installation string
	since        *earlier
	manifest     *manifestWriter
	result       *Result
	// made has the folders of the backup that exist.
	made map[string]bool
	// missing has the names of the blobs that the store lacks.
	missing map[string]bool
	pace    pace
	// unsynced is the total size of the files that were copied since the last sync.
	unsynced int64
}

// remove removes the parts of a backup that failed. It also removes the folder if created is true.
func (b *builder) remove(created bool) error {
	var err error
	if b.manifest != nil {
		err = b.manifest.close()
	}
	if created {
		return errors.Join(ignoreClosed(err), os.RemoveAll(b.Dir))
	}
	for _, name := range []string{manifestName, databaseDir, filesDir, keysDir} {
		err = errors.Join(ignoreClosed(err), os.RemoveAll(filepath.Join(b.Dir, name)))
	}
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// run writes all parts of the backup. The manifest is complete only after all other files are
// durable.
func (b *builder) run(ctx context.Context) error {
	if _, err := b.DB.SyncClock(ctx); err != nil {
		return err
	}
	b.result.CreatedAt = b.DB.Now().UTC().Truncate(time.Microsecond)
	var err error
	switch {
	case b.FilesOnly:
		err = b.allFiles(ctx)
	case b.DB.Dialect == db.PostgreSQL:
		err = b.postgres(ctx)
	default:
		err = b.sqlite(ctx)
	}
	if err != nil {
		return err
	}
	if err := b.copyKeys(ctx); err != nil {
		return err
	}
	if err := syncAll(b.Dir); err != nil {
		return err
	}
	if err := b.manifest.finish(); err != nil {
		return err
	}
	// The directory entries of the manifest and of the folder must be durable too.
	return errors.Join(blob.SyncDir(b.Dir), blob.SyncDir(filepath.Dir(b.Dir)))
}

// begin creates the manifest and writes its header. If the backup contains the database, q must read the
// state of the database in the backup.
func (b *builder) begin(ctx context.Context, q db.Queryer) (err error) {
	schema, err := db.AppliedVersion(ctx, q)
	if err != nil {
		return err
	}
	h := Header{
		Installation: b.installation, CreatedAt: b.result.CreatedAt, Version: b.Version, Schema: schema, Dialect: b.DB.Dialect, FilesOnly: b.FilesOnly,
	}
	b.manifest, err = createManifest(b.Dir, b.Keyring, h)
	return err
}

// sqlite copies a SQLite database and the files to which the copy refers.
func (b *builder) sqlite(ctx context.Context) (err error) {
	file, err := b.path(sqliteName)
	if err != nil {
		return err
	}
	if err := b.DB.CopyTo(ctx, file); err != nil {
		return err
	}
	snapshot, err := db.OpenReadOnly(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	return b.referenced(ctx, snapshot, sqliteName)
}

// postgres dumps a PostgreSQL database and copies the files to which the dump refers.
func (b *builder) postgres(ctx context.Context) (err error) {
	snapshot, err := b.DB.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	file, err := b.path(dumpName)
	if err != nil {
		return err
	}
	if err := dump(ctx, b.DB.URL(), snapshot, file); err != nil {
		return err
	}
	return b.referenced(ctx, snapshot, dumpName)
}

// referenced adds the copy of the database, which is the file with the given name, and the files to
// which its rows refer.
func (b *builder) referenced(ctx context.Context, q db.Queryer, name string) error {
	if err := b.begin(ctx, q); err != nil {
		return err
	}
	if err := b.addWritten(ctx, name); err != nil {
		return err
	}
	if err := b.copyMark(ctx); err != nil {
		return err
	}
	for _, keys := range b.Keys {
		if err := keys(ctx, q, func(key string) error { return b.addBlob(ctx, key) }); err != nil {
			return err
		}
	}
	return nil
}

// allFiles adds all files of the store.
func (b *builder) allFiles(ctx context.Context) error {
	if err := b.begin(ctx, b.DB); err != nil {
		return err
	}
	if err := b.copyMark(ctx); err != nil {
		return err
	}
	return b.Files.Walk(ctx, "", func(i blob.Info) error {
		err := b.addBlob(ctx, i.Key)
		if errors.Is(err, blob.ErrNotFound) {
			return nil // deleted in the meantime
		}
		return err
	})
}
