// Package deletion finds files in the store to which no row of the database refers, waits, and then
// deletes the files. The package does not depend on the packages whose rows refer to files. Each of
// those packages provides a References.
//
// A file is deleted at the earliest a fixed time after a sweep found that no row refers to it. Therefore
// the store contains the files of every state that the database had within that time. An operator can
// replace the database with an older copy, and later with the newer database again.
//
// Unless an operator replaces the database, a file that a sweep finds without a row never gets a row. So
// nothing can change between the look-up and the deletion:
//
//   - A new file has a random key, and its first row is written within the time limit of a request.
//     The sweep ignores files that are younger than two hours.
//   - A row gets the key of an older file only from another row, and one transaction changes both
//     rows. For example, the certificate of an entry gets the key of the staged file. The rows that
//     pass keys on are looked up first. If a key was passed on before the first look-up, the second
//     look-up finds the row that received it.
//
// ExpireTx and DeleteNow are for erasure on request, which does not wait.
package deletion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
)

// References returns those of the keys to which rows of a package refer. It may also return keys
// whose files must be kept for another reason.
type References func(ctx context.Context, d *db.DB, keys []string) ([]string, error)

// Config has the dependencies of a Service.
type Config struct {
	DB    *db.DB
	Blobs blob.Store
	// References are the look-ups of all packages whose rows refer to files. If rows of one package
	// pass keys on to rows of another package, the look-up of the package that passes keys on must
	// come first.
	References []References
	// Keep is the minimum time between the first sweep that finds no row for a file and the deletion of
	// the file.
	Keep time.Duration
	// Now is a clock that all nodes on the database share.
	Now func() time.Time
	Log *slog.Logger
}

// Service deletes files.
type Service struct {
	db         *db.DB
	blobs      blob.Store
	references []References
	keep       time.Duration
	now        func() time.Time
	log        *slog.Logger
}

// New returns a service.
func New(c Config) *Service {
	return &Service{db: c.DB, blobs: c.Blobs, references: c.References, keep: c.Keep, now: c.Now, log: c.Log}
}

// ExpireTx records that files are erased, in the transaction that removes the rows that refer to them.
// If the process ends before DeleteNow, the next sweep deletes the files.
func ExpireTx(ctx context.Context, tx *db.Tx, keys []string, now time.Time) error {
	for _, key := range keys {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO blob_deletions (key, due_at, erased_at) VALUES ($1, $2, $2)
			ON CONFLICT (key) DO UPDATE SET due_at = excluded.due_at, erased_at = excluded.erased_at`, key, db.Micros(now)); err != nil {
			return fmt.Errorf("recording the erasure of a file: %w", err)
		}
	}
	return nil
}

// Exist returns those of the keys whose files exist.
func (s *Service) Exist(ctx context.Context, keys []string) (existing []string, err error) {
	for _, key := range keys {
		o, err := s.blobs.Open(ctx, key)
		if errors.Is(err, blob.ErrNotFound) {
			continue
		}
		if err == nil {
			err = o.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("looking for a file: %w", err)
		}
		existing = append(existing, key)
	}
	return existing, nil
}

// DeleteNow deletes those of the files to which no row refers, without a wait, even while a restore
// is not accepted. It returns the keys to which rows still refer.
func (s *Service) DeleteNow(ctx context.Context, keys []string) (referenced []string, err error) {
	used, err := s.referenced(ctx, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if used[key] {
			referenced = append(referenced, key)
			continue
		}
		if err := s.blobs.Delete(ctx, key); err != nil {
			return nil, fmt.Errorf("deleting an erased file: %w", err)
		}
	}
	return referenced, nil
}

// referenced returns those of the keys to which rows refer.
func (s *Service) referenced(ctx context.Context, keys []string) (map[string]bool, error) {
	used := map[string]bool{}
	for _, references := range s.references {
		remaining := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return used[key] })
		if len(remaining) == 0 {
			break
		}
		found, err := references(ctx, s.db, remaining)
		if err != nil {
			return nil, fmt.Errorf("finding the rows of files: %w", err)
		}
		for _, key := range found {
			used[key] = true
		}
	}
	return used, nil
}

// Kind returns the suffix of a key, which is the kind of the file.
func Kind(key string) string {
	_, kind, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], ".")
	return kind
}
