package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxPrepared is the maximum number of prepared statements of a connection.
	maxPrepared = 128
	// maxPreparedText is the maximum length of the text of a cached statement in bytes. Longer texts
	// insert many rows, and two such texts rarely have the same number of rows.
	maxPreparedText = 16 << 10
)

// preparing is a Connector whose connections cache prepared statements. Without the cache, the driver
// parses the text for each use, which takes a sixth of the processor time that a certificate needs. The
// driver for PostgreSQL has its own cache.
type preparing struct {
	driver.Connector

	limit int // maximum number of statements of a connection
}

// sqliteConn has the methods of a connection of the SQLite driver.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// sqliteStmt has the methods of a prepared statement of the SQLite driver.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// Connect implements [driver.Connector].
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c, ok := conn.(sqliteConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the connection is a %T, which lacks a method", conn), conn.Close())
	}
	return &preparingConn{sqliteConn: c, limit: p.limit, statements: map[string]*prepared{}}, nil
}

// preparingConn is a connection with its prepared statements. It needs no lock, because
// database/sql calls the methods of a connection and of its rows one after the other.
type preparingConn struct {
	sqliteConn

	limit      int
	statements map[string]*prepared // by text
	uses       int                  // total number of uses of cached statements
}

// prepared is a cached statement.
type prepared struct {
	sqliteStmt

	lastUse int  // value of preparingConn.uses at the last use
	busy    bool // true while rows of the statement are open
}

// ExecContext implements [driver.ExecerContext].
func (c *preparingConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if s := c.statement(ctx, text); s != nil {
		return s.ExecContext(ctx, args)
	}
	return c.sqliteConn.ExecContext(ctx, text, args)
}

// QueryContext implements [driver.QueryerContext].
func (c *preparingConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	s := c.statement(ctx, text)
	if s == nil {
		return c.sqliteConn.QueryContext(ctx, text, args)
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &preparedRows{rows, s}, nil
}

// Close implements [driver.Conn].
func (c *preparingConn) Close() (err error) {
	for _, s := range c.statements {
		err = errors.Join(err, s.Close())
	}
	c.statements = nil
	return errors.Join(err, c.sqliteConn.Close())
}

// statement returns the cached statement of a text. It prepares the statement if necessary. It returns
// nil if the statement is in use, if it cannot be prepared, or if statements of its kind are not cached.
// The caller then runs the text itself, which also returns the error of an invalid text.
func (c *preparingConn) statement(ctx context.Context, text string) *prepared {
	s, ok := c.statements[text]
	if !ok {
		if s = c.prepare(ctx, text); s == nil {
			return nil
		}
		c.statements[text] = s
	}
	if s.busy {
		return nil
	}
	c.uses++
	s.lastUse = c.uses
	return s
}

func (c *preparingConn) prepare(ctx context.Context, text string) *prepared {
	if !isCacheable(text) {
		return nil
	}
	// With white space at the end, the driver would treat the text as several statements.
	stmt, err := c.PrepareContext(ctx, steady(strings.TrimSpace(text)))
	if err != nil {
		return nil
	}
	s, ok := stmt.(sqliteStmt)
	if !ok {
		_ = stmt.Close()
		return nil
	}
	if len(c.statements) >= c.limit {
		c.discardOne()
	}
	return &prepared{sqliteStmt: s}
}

// queueLimit matches the limit in a statement of the queue.
var queueLimit = regexp.MustCompile(`(?m)^( *LIMIT \?\d+)$`)

// steady changes the text of a statement of the queue so that SQLite does not plan it for each use. If a
// limit is only a parameter, SQLite plans the statement again for each use, even with the same value.
// The planning takes several times as long as the fetch of a job. Other statements are not changed, because
// their plans may depend on the limit.
func steady(text string) string {
	if !strings.HasPrefix(text, "-- name:") {
		return text
	}
	return queueLimit.ReplaceAllString(text, "$1 + 0")
}

// discardOne closes the least recently used statement that is not in use.
func (c *preparingConn) discardOne() {
	oldest := ""
	for text, s := range c.statements {
		if !s.busy && (oldest == "" || s.lastUse < c.statements[oldest].lastUse) {
			oldest = text
		}
	}
	if oldest == "" {
		return
	}
	_ = c.statements[oldest].Close() // Close returns the error of the last execution again
	delete(c.statements, oldest)
}

// cacheable are the first words of statements that are cached. SQLite runs some pragmas when they
// are prepared (sqlite.org/pragma.html), so a later use of a cached pragma would have no effect.
var cacheable = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}

// isCacheable reports whether a text is one statement that reads or changes rows, and is not too long.
func isCacheable(text string) bool {
	if len(text) > maxPreparedText || strings.Contains(strings.TrimRight(text, "; \t\n"), ";") {
		return false
	}
	text = strings.TrimSpace(text)
	for strings.HasPrefix(text, "--") { // statements of the queue begin with a comment
		_, text, _ = strings.Cut(text, "\n")
		text = strings.TrimSpace(text)
	}
	end := strings.IndexFunc(text, func(r rune) bool { return r < 'A' || r > 'Z' })
	return end > 0 && slices.Contains(cacheable, text[:end])
}

// preparedRows are rows of a cached statement.
type preparedRows struct {
	driver.Rows

	statement *prepared
}

// Close implements [driver.Rows].
func (r *preparedRows) Close() error {
	r.statement.busy = false
	return r.Rows.Close()
}
