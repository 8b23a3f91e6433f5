package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// verifyWorkers is the number of files that are read at the same time.
const verifyWorkers = 4

// Problem describes what is wrong with one file of a backup.
type Problem struct {
	// File is the name of the file, relative to the folder of the backup.
	File string `json:"file"`
	// Detail describes the problem.
	Detail string `json:"detail"`
}

// Report is the result of the check of a backup.
type Report struct {
	Dir    string `json:"dir"`
	Header Header `json:"header"`
	// Files is the number of files in the backup according to the manifest, and Bytes is their size.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Problems are all problems, ordered by the name of the file. The backup is intact if there are
	// none.
	Problems []Problem `json:"problems"`
}

// Verify checks a backup: the signature of the manifest, the digest of each file, missing and
// additional files, and the structure of the database. Problems of the backup are in the report.
// The errors include those of ReadHeader, and ErrWrongKey if the manifest was signed with a master
// key other than that of ring.
func Verify(ctx context.Context, dir string, ring *keyring.Ring) (_ *Report, err error) {
	r, err := openManifest(dir, ring)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	v := &verifier{report: &Report{Dir: dir, Header: r.Header, Problems: []Problem{}}}
	if err := v.entries(ctx, r); err != nil {
		return nil, err
	}
	if err := v.additional(ctx, dir, ring); err != nil {
		return nil, err
	}
	if err := v.database(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(v.report.Problems, func(a, b Problem) int { return strings.Compare(a.File, b.File) })
	return v.report, nil
}

// verifier checks one backup.
type verifier struct {
	report *Report
	mu     sync.Mutex
	// present is the number of entries whose file exists and is a regular file.
	present int
	// damaged means that the manifest is damaged, so its entries may be wrong or incomplete.
	damaged bool
}

func (v *verifier) addf(file, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Problems = append(v.report.Problems, Problem{file, fmt.Sprintf(format, args...)})
}

// entries checks the file of each entry of the manifest.
func (v *verifier) entries(ctx context.Context, r *manifestReader) error {
	entries := make(chan Entry)
	var workers sync.WaitGroup
	for range verifyWorkers {
		workers.Go(func() {
			for e := range entries {
				if ctx.Err() == nil {
					v.entry(ctx, e)
				}
			}
		})
	}
	err := v.send(ctx, r, entries)
	close(entries)
	workers.Wait()
	return errors.Join(err, ctx.Err())
}

// send sends all entries of a manifest to the workers.
func (v *verifier) send(ctx context.Context, r *manifestReader, entries chan<- Entry) error {
	database := r.Header.FilesOnly
	for ctx.Err() == nil {
		e, err := r.next()
		if errors.Is(err, io.EOF) {
			if !database {
				v.addf(databaseDir, "the manifest does not name the copy of the database")
			}
			return nil
		}
		if errors.Is(err, ErrDamaged) {
			v.damaged = true
			v.addf(manifestName, "%v", err)
			return nil
		}
		if err != nil {
			return err
		}
		if e.Missing {
			v.addf(e.Name, "the file store lacked this file when the backup was made")
			continue
		}
		database = database || strings.HasPrefix(e.Name, databaseDir+"/")
		v.report.Files++
		v.report.Bytes += e.Size
		entries <- e
	}
	return ctx.Err()
}

// entry checks the file of an entry.
func (v *verifier) entry(ctx context.Context, e Entry) {
	name := filepath.Join(v.report.Dir, filepath.FromSlash(e.Name))
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.addf(e.Name, "the file is missing")
		return
	case err != nil:
		v.addf(e.Name, "the file cannot be read: %v", err)
		return
	case !info.Mode().IsRegular():
		v.addf(e.Name, "it is not a regular file")
		return
	}
	v.mu.Lock()
	v.present++
	v.mu.Unlock()
	if info.Size() != e.Size {
		v.addf(e.Name, "it has %d bytes instead of %d", info.Size(), e.Size)
		return
	}
	sum, err := fileDigest(ctx, name)
	switch {
	case ctx.Err() != nil: // the check was interrupted
	case err != nil:
		v.addf(e.Name, "the file cannot be read: %v", err)
	case sum != e.SHA256:
		v.addf(e.Name, "the content has changed: the SHA-256 digest is %x instead of %x", sum, e.SHA256)
	}
}

// fileDigest returns the digest of a file.
func fileDigest(ctx context.Context, name string) (sum Digest, err error) {
	file, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, contextReader{ctx, file}); err != nil {
		return sum, err
	}
	return Digest(hash.Sum(nil)), nil
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // the reader exists only during one call
	io.Reader
}

// Read implements [io.Reader].
func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// additional finds the files that the manifest does not name. A signed manifest names each file once.
// If there are as many files as entries whose file is present, no file is additional, and the names
// are not compared.
func (v *verifier) additional(ctx context.Context, dir string, ring *keyring.Ring) error {
	count := 0
	if err := eachFile(ctx, dir, func(string) { count++ }); err != nil {
		return err
	}
	if count == v.present || v.damaged {
		return nil
	}
	known, err := openEarlier(dir, ring, v.report.Header.Installation)
	if err != nil {
		return err
	}
	return eachFile(ctx, dir, func(name string) {
		if _, ok := known.has(name); !ok {
			v.addf(name, "the manifest does not name this file")
		}
	})
}

// eachFile calls visit with the name of each file of a backup except the manifest.
func eachFile(ctx context.Context, dir string, visit func(name string)) error {
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if name := filepath.ToSlash(rel); name != manifestName {
			visit(name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing the files of the backup: %w", err)
	}
	return nil
}

// database checks the structure of the copy of the database.
func (v *verifier) database(ctx context.Context) error {
	if v.report.Header.FilesOnly {
		return nil
	}
	name, check := sqliteName, checkSQLite
	if v.report.Header.Dialect == db.PostgreSQL {
		name, check = dumpName, listDump
	}
	file := filepath.Join(v.report.Dir, filepath.FromSlash(name))
	if _, err := os.Stat(file); err != nil {
		return nil //nolint:nilerr // it is reported as missing
	}
	if err := check(ctx, file); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errNoRestoreProgram) {
			v.addf(name, "the structure of the database was not checked, because %v", err)
		} else {
			v.addf(name, "the structure of the database: %v", err)
		}
	}
	return nil
}

// checkSQLite checks the integrity of a copy of a SQLite database.
func checkSQLite(ctx context.Context, file string) (err error) {
	d, err := db.OpenReadOnly(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	problems, err := d.IntegrityCheck(ctx)
	if err == nil && len(problems) > 0 {
		err = errors.New(strings.Join(problems, "; "))
	}
	return err
}
