package db

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// IsDamaged reports whether err shows that a SQLite database is damaged, or that the file is not a
// database.
func IsDamaged(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	code := e.Code() & 0xff // the primary result code (sqlite.org/rescode.html)
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}
