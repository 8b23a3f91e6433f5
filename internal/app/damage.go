package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// A copy of the data folder of a running server is not a backup: the database, its write-ahead log and
// the files are copied at different times. The start of a server with the copy may fail, or the copy may
// lack certificates.

var (
	errDamagedDatabase = errors.New("the database is damaged")
	errDamagedCopy     = errors.New("the data folder is a copy of the folder of a running server, and the copy is damaged")
)

const restoreAdvice = "restore a backup with certvault restore; a copy of the data folder of a running server is not a backup: create backups with certvault backup"

// explainDamage adds advice to an error that shows that the SQLite database is damaged.
func explainDamage(c config.Storage, err error) error {
	if err == nil || c.Database != "" || !db.IsDamaged(err) || errors.Is(err, errDamagedDatabase) || errors.Is(err, errDamagedCopy) {
		return err
	}
	return fmt.Errorf("%w: %s: %w; %s", errDamagedDatabase, databasePlace(c), err, restoreAdvice)
}

// checkCopy checks the structure of the SQLite database in a copy of the data folder of a running
// server. It reads the whole database, because SQLite reports damage only when it reads the damaged
// part, which may be weeks later.
func checkCopy(ctx context.Context, c config.Storage) error {
	if c.Database != "" {
		return nil
	}
	file := filepath.Join(c.Data, db.FileName)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	problems, err := structureOf(ctx, c)
	if db.IsDamaged(err) {
		problems, err = []string{err.Error()}, nil
	}
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %s: %s; %s", errDamagedCopy, file, strings.Join(problems, "; "), restoreAdvice)
	}
	return nil
}

// structureOf opens the SQLite database and returns the result of QuickCheck.
func structureOf(ctx context.Context, c config.Storage) (problems []string, err error) {
	d, err := db.Open(ctx, c.Data, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.QuickCheck(ctx)
}
