package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

const (
	// maxPrepared is the maximum number of cached statements.
	maxPrepared = 128
	// maxCounted is the maximum number of other texts whose uses are counted. usesToPrepare is the
	// number of uses after which a statement is cached.
	maxCounted    = 1024
	usesToPrepare = 8
)

// statements caches prepared statements of SQLite's reader pool that are used often. Without the
// cache, the driver parses the text each time, which is a sixth of the cost of a public page.
// PostgreSQL's driver has its own cache.
//
// Statements are never evicted, because closing a statement would wait for the queries that use it.
// Statements that all requests use reach usesToPrepare first, and are therefore cached first.
// Lists, whose text depends on filter and order, use the remaining capacity.
type statements struct {
	pool  *sql.DB
	limit int

	mu       sync.RWMutex
	prepared map[string]*sql.Stmt
	// uses counts the uses of texts that are not prepared. The map is cleared when it is full.
	uses map[string]int
}

func newStatements(pool *sql.DB, limit int) *statements {
	return &statements{pool: pool, limit: limit, prepared: map[string]*sql.Stmt{}, uses: map[string]int{}}
}

// get returns the prepared statement of a text, or nil if there is none. It counts the use, and
// prepares a statement that is used often if the cache has space.
func (s *statements) get(ctx context.Context, text string) *sql.Stmt {
	s.mu.RLock()
	stmt, known := s.prepared[text]
	full := len(s.prepared) >= s.limit
	s.mu.RUnlock()
	if known || full || !s.countUse(text) {
		return stmt
	}
	stmt, err := s.pool.PrepareContext(ctx, text) //nolint:sqlclosecheck // the statement is closed with the database
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// The caller runs the query with its text, and that query returns the error.
		delete(s.prepared, text)
		return nil
	}
	s.prepared[text] = stmt
	return stmt
}

// countUse counts a use of a text. If the text is used often and the cache has space, countUse
// reserves an entry for the text and returns true. The caller then prepares the statement, while
// other callers run the query with its text.
func (s *statements) countUse(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.prepared[text]; known || len(s.prepared) >= s.limit {
		return false
	}
	s.uses[text]++
	if s.uses[text] >= usesToPrepare {
		delete(s.uses, text)
		s.prepared[text] = nil
		return true
	}
	if len(s.uses) > maxCounted {
		clear(s.uses)
	}
	return false
}

func (s *statements) query(ctx context.Context, text string, args []any) (*sql.Rows, error) {
	if stmt := s.get(ctx, text); stmt != nil { //nolint:sqlclosecheck // the statement remains in the cache
		return stmt.QueryContext(ctx, args...)
	}
	return s.pool.QueryContext(ctx, text, args...)
}

func (s *statements) queryRow(ctx context.Context, text string, args []any) *sql.Row {
	if stmt := s.get(ctx, text); stmt != nil { //nolint:sqlclosecheck // the statement remains in the cache
		return stmt.QueryRowContext(ctx, args...)
	}
	return s.pool.QueryRowContext(ctx, text, args...)
}

func (s *statements) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for text, stmt := range s.prepared {
		if stmt != nil {
			err = errors.Join(err, stmt.Close())
		}
		delete(s.prepared, text)
	}
	return err
}
