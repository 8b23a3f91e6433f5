package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

const (
	// keptStatements bounds how many statements are kept.
	keptStatements = 128
	// notedStatements bounds how many more are counted, and statementUses is how
	// often one is asked for before it is kept.
	notedStatements = 1024
	statementUses   = 8
)

// statements keeps those statements of SQLite's reader pool prepared that are
// asked for again and again: its driver parses a text anew each time, which is a
// sixth of what a public page costs. PostgreSQL's driver keeps its own.
//
// What is kept is kept for good. What everything asks for comes often and comes
// first; lists, which write their text by filter and order, may take what is left
// of the places. To close a statement in order to make room would wait for
// whatever runs on the connections that have it.
type statements struct {
	pool  *sql.DB
	bound int

	mu   sync.RWMutex
	kept map[string]*sql.Stmt
	// noted counts how often other texts were asked for, and is forgotten when
	// there are too many.
	noted map[string]int
}

func newStatements(pool *sql.DB, bound int) *statements {
	return &statements{pool: pool, bound: bound, kept: map[string]*sql.Stmt{}, noted: map[string]int{}}
}

// of gives the prepared statement of a text, nil where there is none.
func (s *statements) of(ctx context.Context, text string) *sql.Stmt {
	s.mu.RLock()
	stmt, kept := s.kept[text]
	full := len(s.kept) >= s.bound
	s.mu.RUnlock()
	if kept || full || !s.often(text) {
		return stmt
	}
	stmt, err := s.pool.PrepareContext(ctx, text) //nolint:sqlclosecheck // it is kept until the database is closed
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// Whoever asks is told so when the text is asked.
		delete(s.kept, text)
		return nil
	}
	s.kept[text] = stmt
	return stmt
}

// often counts a use, and takes a place for a text that comes often: who does is
// to prepare it, and meanwhile others ask by the text.
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
	if stmt := s.of(ctx, text); stmt != nil { //nolint:sqlclosecheck // it is kept
		return stmt.QueryContext(ctx, args...)
	}
	return s.pool.QueryContext(ctx, text, args...)
}

func (s *statements) queryRow(ctx context.Context, text string, args []any) *sql.Row {
	if stmt := s.of(ctx, text); stmt != nil { //nolint:sqlclosecheck // it is kept
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
