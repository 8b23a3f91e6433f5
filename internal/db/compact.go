package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// Space is the space that a SQLite database uses, in bytes.
type Space struct {
	// Size is the size of the file. Free is the part of it that deleted rows left, which SQLite uses for new
	// rows.
	Size, Free int64
}

// Space returns the space that the database uses. On PostgreSQL, it returns the zero value.
func (d *DB) Space(ctx context.Context) (s Space, err error) {
	if d.Dialect == PostgreSQL {
		return s, nil
	}
	err = d.read.QueryRowContext(ctx, `
		SELECT p.page_count * s.page_size, f.freelist_count * s.page_size
		FROM pragma_page_count() AS p, pragma_freelist_count() AS f, pragma_page_size() AS s`).Scan(&s.Size, &s.Free)
	if err != nil {
		return s, fmt.Errorf("reading the size of the database: %w", err)
	}
	return s, nil
}

// Compact writes a SQLite database again without its free space, and returns the sizes of its file before
// and afterwards, in bytes. No other process can write meanwhile. A crash leaves the database as it was.
// Compact needs free space for two copies of the data: for the write-ahead log beside the database, and
// for a file in SQLITE_TMPDIR, TMPDIR or /var/tmp.
func (d *DB) Compact(ctx context.Context) (before, after int64, err error) {
	if d.Dialect == PostgreSQL {
		return 0, 0, errors.New("only a SQLite database can be compacted")
	}
	if before, err = d.fileSize(); err != nil {
		return 0, 0, err
	}
	// The connections of the pools keep temporary data in memory, and VACUUM copies the whole database to a
	// temporary database.
	conn, err := sql.Open("sqlite", sqliteDSN(d.file, "_pragma=temp_store(FILE)"))
	if err != nil {
		return 0, 0, fmt.Errorf("compacting the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	conn.SetMaxOpenConns(1)
	// The checkpoint moves the new pages to the file and truncates the file.
	for _, statement := range []string{`VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return 0, 0, fmt.Errorf("compacting the database: %w", err)
		}
	}
	after, err = d.fileSize()
	return before, after, err
}

func (d *DB) fileSize() (int64, error) {
	info, err := os.Stat(d.file)
	if err != nil {
		return 0, fmt.Errorf("reading the size of the database: %w", err)
	}
	return info.Size(), nil
}
