package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// maxMissing is the maximum number of missing files in a finding, because a finding is one line.
const maxMissing = 20

// fileNames is the result of comparing the names of the stored files with the records.
type fileNames struct {
	files   int
	missing []string // the first maxMissing keys
	absent  int      // the number of all missing files
	extra   int      // the number of files without a record
}

// ExamineFileNames lists the file store and compares the names of the files with the records of the
// database. It reads no file. Files without a record are no problem: the server deletes them after the time
// of --blob-keep.
func ExamineFileNames(ctx context.Context, s config.Storage) []Finding {
	n, err := examineFileNames(ctx, s)
	f := finding("file names", "", err)
	if err == nil {
		f.Good = n.absent == 0
		f.Detail = fmt.Sprintf("%s, %d of them without a record, which the server deletes after --blob-keep; %s missing",
			count(n.files, "file"), n.extra, count(n.absent, "file"))
		if n.absent > 0 {
			f.Detail += ": " + strings.Join(n.missing, ", ")
		}
		if n.absent > len(n.missing) {
			f.Detail += fmt.Sprintf(" and %d more", n.absent-len(n.missing))
		}
	}
	return withRemedies([]Finding{f})
}

func examineFileNames(ctx context.Context, s config.Storage) (n *fileNames, err error) {
	d, err := openExisting(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.CheckSchema(ctx); err != nil {
		return nil, err
	}
	files, err := openInstalled(ctx, s, d)
	if err != nil {
		return nil, err
	}
	if files, err = requireFiles(s, files); err != nil {
		return nil, err
	}
	return compareNames(ctx, d, files)
}

// compareNames first lists the records and then the files, because a file is stored before its record. A
// missing file may have been deleted in between, together with its record. compareNames therefore lists
// the records again, and counts a missing file only if it still has a record.
func compareNames(ctx context.Context, d *db.DB, files blob.Store) (*fileNames, error) {
	// Half of a digest is enough to identify a name, and needs less memory.
	type name [16]byte
	nameOf := func(key string) (n name) {
		sum := sha256.Sum256([]byte(key))
		copy(n[:], sum[:])
		return n
	}
	recorded := map[name]bool{} // whether the file exists
	err := recordedKeys(ctx, d, func(key string) error {
		recorded[nameOf(key)] = false
		return nil
	})
	if err != nil {
		return nil, err
	}
	n := &fileNames{}
	err = files.Walk(ctx, "", func(i blob.Info) error {
		n.files++
		key := nameOf(i.Key)
		if _, known := recorded[key]; known {
			recorded[key] = true
		} else {
			n.extra++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the stored files: %w", err)
	}
	err = recordedKeys(ctx, d, func(key string) error {
		if exists, known := recorded[nameOf(key)]; exists || !known {
			return nil
		}
		recorded[nameOf(key)] = true // several records may have the same file
		n.absent++
		if len(n.missing) < maxMissing {
			n.missing = append(n.missing, key)
		}
		return nil
	})
	return n, err
}

// recordedKeys calls visit with the key of each file that has a record.
func recordedKeys(ctx context.Context, d *db.DB, visit func(key string) error) error {
	for _, keys := range blobKeys {
		if err := keys(ctx, d, visit); err != nil {
			return err
		}
	}
	return nil
}
