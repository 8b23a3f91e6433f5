package app

import (
	"context"
	"errors"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// errNotSQLite is the error of Compact for PostgreSQL.
var errNotSQLite = errors.New("only a SQLite database can be compacted: PostgreSQL reuses free space by autovacuum, and VACUUM FULL returns it to the disk")

// Compact returns the free space of a SQLite database to the disk, and returns the sizes of its file before
// and afterwards, in bytes. The error wraps ErrRunning if a server uses the data folder.
func Compact(ctx context.Context, c config.Storage) (before, after int64, err error) {
	if c.Database != "" {
		return 0, 0, errNotSQLite
	}
	lock, err := tryLock(c.Data)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	s, err := openStorage(ctx, c, "", checkSchema)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.DB.Close()) }()
	return s.DB.Compact(db.Unlimited(ctx))
}
