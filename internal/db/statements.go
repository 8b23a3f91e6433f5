package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

const (
	// keptStatements is the maximum number of cached statements.
	keptStatements = 128
	// notedStatements is the maximum number of other texts that are counted,
	// and statementUses is the number of uses after which a statement is
	// cached.
	notedStatements = 1024
	statementUses   = 8
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

	mu   sync.RWMutex
	kept map[string]*sql.Stmt
	// noted counts the uses of other texts. It is cleared when it is full.
	noted map[string]int
}

func newStatements(pool *sql.DB, bound int) *statements {
	return &statements{pool: pool, bound: bound, kept: map[string]*sql.Stmt{}, noted: map[string]int{}}
}

// of returns the prepared statement of a text, or nil if there is none.
func (s *statements) of(ctx context.Context, text string) *sql.Stmt {
	s.mu.RLock()
	stmt, kept := s.kept[text]
	full := len(s.kept) >= s.bound
	s.mu.RUnlock()
	if kept || full || !s.often(text) {
		return stmt
	}
	stmt, err := s.pool.PrepareContext(ctx, text) //nolint:sqlclosecheck // it stays open until the database is closed
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// The caller runs the query by its text and gets the error from that.
		delete(s.kept, text)
		return nil
	}
	s.kept[text] = stmt
	return stmt
}

// often counts a use of a text. If the text is used often, it reserves a place
// for it and returns true: the caller then prepares the statement, while others
// run the query by its text.
func (s *statements) often(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, kept := s.kept[text]; kept || len(s.kept) >= s.bound {
		return false
	}
	s.noted[text]++
	if s.noted[text] >= statementUses {
		delete(s.noted, text)
		s.kept[text] = nil
		return true
	}
	if len(s.noted) > notedStatements {
		clear(s.noted)
	}
	return false
}

func (s *statements) query(ctx context.Context, text string, args []any) (*sql.Rows, error) {
	if stmt := s.of(ctx, text); stmt != nil { //nolint:sqlclosecheck // it stays in the cache
		return stmt.QueryContext(ctx, args...)
	}
	return s.pool.QueryContext(ctx, text, args...)
}

func (s *statements) queryRow(ctx context.Context, text string, args []any) *sql.Row {
	if stmt := s.of(ctx, text); stmt != nil { //nolint:sqlclosecheck // it stays in the cache
		return stmt.QueryRowContext(ctx, args...)
	}
	return s.pool.QueryRowContext(ctx, text, args...)
}

func (s *statements) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for text, stmt := range s.kept {
		if stmt != nil {
			err = errors.Join(err, stmt.Close())
		}
		delete(s.kept, text)
	}
	return err
}
