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
	// maxCounted is the maximum number of other texts that are counted,
	// and usesToPrepare is the number of uses after which a statement is
	// cached.
	maxCounted    = 1024
	usesToPrepare = 8
)

// statements caches prepared statements of SQLite's reader pool that are used
// often: the driver otherwise parses the text each time, which is a sixth of
// the cost of a public page. PostgreSQL's driver has its own cache.
//
// Statements are never evicted. Statements common to all requests come early
// and often; lists, whose text depends on filter and order, use the remaining
// places. Closing a statement to make room would wait for the queries that use
// it.
type statements struct {
	pool  *sql.DB
	bound int

	mu       sync.RWMutex
	prepared map[string]*sql.Stmt
	// uses counts the uses of other texts. It is cleared when it is full.
	uses map[string]int
}

func newStatements(pool *sql.DB, bound int) *statements {
	return &statements{pool: pool, bound: bound, prepared: map[string]*sql.Stmt{}, uses: map[string]int{}}
}

// get returns the prepared statement of a text, or nil if there is none.
func (s *statements) get(ctx context.Context, text string) *sql.Stmt {
	s.mu.RLock()
	stmt, known := s.prepared[text]
	full := len(s.prepared) >= s.bound
	s.mu.RUnlock()
	if known || full || !s.countUse(text) {
		return stmt
	}
	stmt, err := s.pool.PrepareContext(ctx, text) //nolint:sqlclosecheck // it stays open until the database is closed
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// The caller runs the query by its text and gets the error from that.
		delete(s.prepared, text)
		return nil
	}
	s.prepared[text] = stmt
	return stmt
}

// countUse counts a use of a text. If the text is used often, it reserves a place
// for it and returns true: the caller then prepares the statement, while others
// run the query by its text.
func (s *statements) countUse(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.prepared[text]; known || len(s.prepared) >= s.bound {
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
	if stmt := s.get(ctx, text); stmt != nil { //nolint:sqlclosecheck // it stays in the cache
		return stmt.QueryContext(ctx, args...)
	}
	return s.pool.QueryContext(ctx, text, args...)
}

func (s *statements) queryRow(ctx context.Context, text string, args []any) *sql.Row {
	if stmt := s.get(ctx, text); stmt != nil { //nolint:sqlclosecheck // it stays in the cache
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
