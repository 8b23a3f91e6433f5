package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxShared is the maximum number of transactions that share a commit.
	maxShared = 64
	// sharingTime is the time after which a shared transaction accepts no other transaction.
	sharingTime = 10 * time.Millisecond
	// sharedLimit is the time limit of a shared transaction, unless the context of its first caller
	// is Unlimited.
	sharedLimit = time.Minute
	// commitTime is the time that a caller whose context is done waits for a commit.
	commitTime = time.Second
	// maxPassed is the waiting time after which a transaction runs before urgent transactions.
	maxPassed = 50 * time.Millisecond
)

type urgentKey struct{}

// Urgent returns a context for urgent transactions on SQLite. An urgent transaction runs before waiting
// transactions that are not urgent, unless the first of them has waited longer than maxPassed. Its commit
// does not wait for transactions that are not urgent. Urgent is for requests, because a person or a program
// waits for the response.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

func isUrgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }

// group lets the transactions of SQLite share commits, because each durable commit waits for the
// disk and SQLite has one writer. Transactions that wait for the writer run one after the other in
// the same transaction of SQLite, each except the first in its own savepoint, and all return after
// the shared commit. If no other transaction waits, a transaction has its own commit.
//
// The goroutine of each caller runs the caller's transaction when the caller has the turn. The
// goroutine then commits the shared transaction, or passes the turn on and waits for the commit.
type group struct {
	mu      sync.Mutex
	busy    bool      // a caller has the turn
	waiting []*waiter // in the order of their calls
	// current is the open transaction, or nil. Only the caller that has the turn uses it.
	current *shared
}

// waiter is a caller that waits for the turn.
type waiter struct {
	level  durability
	urgent bool
	since  time.Time
	turn   chan struct{} // closed when the caller has the turn
}

// shared is a transaction of SQLite with the transactions of one or more callers.
type shared struct {
	tx      *sql.Tx
	conn    *sql.Conn
	ctx     context.Context //nolint:containedctx // the context of the statements of all callers
	cancel  context.CancelFunc
	level   durability
	restore func() error // restores synchronous=FULL after a relaxed transaction
	began   time.Time
	members int
	urgent  bool  // a member is urgent
	broken  error // the reason for which the transaction is rolled back, or nil

	done chan struct{} // closed when err is set
	err  error         // nil after the commit
}

// sharedTx runs a transaction on SQLite and returns the functions to call after its commit.
func (d *DB) sharedTx(ctx context.Context, level durability, f func(tx *Tx) error) (after []func(), err error) {
	if err := d.group.enter(ctx, level, &d.counters); err != nil {
		return nil, fmt.Errorf("waiting for the database: %w", err)
	}
	tx, err := d.member(ctx, level, f)
	if tx == nil {
		return nil, err
	}
	// A member that fails waits too. Its error may depend on changes of earlier members, such as a row that
	// exists already, and is correct only if they are committed.
	if err := tx.shared.await(ctx); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return tx.after, nil
}

// member runs f as a member of the shared transaction, and passes the turn on. The changes of f are
// discarded if f fails. tx is nil if the result does not depend on the shared commit.
func (d *DB) member(ctx context.Context, level durability, f func(tx *Tx) error) (tx *Tx, err error) {
	// leave and undo are deferred because f may panic: otherwise all later transactions would wait forever.
	defer d.group.leave()
	s, err := d.share(ctx, level)
	if err != nil {
		return nil, err
	}
	succeeded := false
	defer func() {
		if !succeeded && !s.undo() {
			tx = nil
		}
	}()
	tx = &Tx{Tx: s.tx, conn: s.conn, dialect: SQLite, shared: s}
	if err := f(tx); err != nil {
		return tx, err
	}
	succeeded = true
	return tx, s.keep()
}

// enter waits for the turn, and counts the wait.
func (g *group) enter(ctx context.Context, level durability, c *counters) error {
	g.mu.Lock()
	if !g.busy {
		g.busy = true
		g.mu.Unlock()
		return nil
	}
	w := &waiter{level: level, urgent: isUrgent(ctx), since: time.Now(), turn: make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	defer c.waitedSince(w.since)
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(g.waiting, w)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // the caller got the turn at the same moment
		g.leave()
	}
	return ctx.Err()
}

// leave commits the shared transaction, unless the next caller can join it, and passes the turn on.
func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := g.next()
	if s := g.current; s != nil && (next == nil || s.closed() || s.urgent && !next.urgent) {
		g.mu.Unlock()
		g.end()
		g.mu.Lock()
		next = g.next()
	}
	if next == nil {
		g.busy = false
		return
	}
	i := slices.Index(g.waiting, next)
	g.waiting = slices.Delete(g.waiting, i, i+1)
	close(next.turn)
}

// next returns the caller that gets the turn next, or nil. That is the first urgent caller, unless the first
// caller has waited longer than maxPassed or no caller is urgent.
func (g *group) next() *waiter {
	if len(g.waiting) == 0 {
		return nil
	}
	i := slices.IndexFunc(g.waiting, func(w *waiter) bool { return w.urgent })
	if i < 0 || time.Since(g.waiting[0].since) > maxPassed {
		i = 0
	}
	return g.waiting[i]
}

// end ends the shared transaction. Only the caller that has the turn may call it.
func (g *group) end() {
	g.current.end()
	g.current = nil
}

// anyDurable reports whether a durable transaction waits.
func (g *group) anyDurable() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.waiting, func(w *waiter) bool { return w.level == durable })
}

// share adds the caller to the shared transaction, and begins the shared transaction if necessary.
// A durable transaction cannot join a relaxed transaction, because SQLite allows no change of
// synchronous within a transaction.
func (d *DB) share(ctx context.Context, level durability) (*shared, error) {
	g := &d.group
	if g.current != nil && g.current.level == relaxed && level == durable {
		g.end()
	}
	if g.current == nil {
		if g.anyDurable() {
			level = durable
		}
		s, err := d.begin(ctx, level)
		if err != nil {
			return nil, err
		}
		g.current = s
	}
	s := g.current
	// The first caller needs no savepoint: if it fails, the whole transaction is rolled back before
	// another caller joins.
	if s.members > 0 {
		if _, err := s.tx.ExecContext(s.ctx, `SAVEPOINT member`); err != nil {
			s.broken = fmt.Errorf("sharing a transaction: %w", err)
			return nil, s.broken
		}
	}
	s.members++
	s.urgent = s.urgent || isUrgent(ctx)
	return s, nil
}

func (d *DB) begin(ctx context.Context, level durability) (*shared, error) {
	conn, err := d.write.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquiring a connection: %w", err)
	}
	s := &shared{conn: conn, level: level, began: time.Now(), restore: func() error { return nil }, done: make(chan struct{})}
	if level == relaxed {
		if s.restore, err = relaxSync(ctx, conn); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	s.ctx, s.cancel = context.WithoutCancel(ctx), func() {}
	if ctx.Value(unlimitedKey{}) == nil {
		s.ctx, s.cancel = context.WithTimeout(s.ctx, sharedLimit)
	}
	if s.tx, err = conn.BeginTx(s.ctx, nil); err != nil {
		s.cancel()
		return nil, errors.Join(fmt.Errorf("beginning a transaction: %w", err), s.restore(), conn.Close())
	}
	return s, nil
}

// await waits for the commit. It returns at most commitTime after ctx is done, even if the function of
// another caller hangs. The transaction may be committed later.
func (s *shared) await(ctx context.Context) error {
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
	}
	select {
	case <-s.done:
		return s.err
	case <-time.After(commitTime):
		return fmt.Errorf("waiting for a shared commit: %w", ctx.Err())
	}
}

// closed reports whether no other caller may join.
func (s *shared) closed() bool {
	return s.broken != nil || s.members >= maxShared || time.Since(s.began) >= sharingTime
}

// keep keeps the changes of the current member.
func (s *shared) keep() error {
	if s.members == 1 {
		return nil
	}
	if _, err := s.tx.ExecContext(s.ctx, `RELEASE member`); err != nil {
		// After an error such as a full disk, SQLite may have rolled back the whole transaction.
		s.broken = fmt.Errorf("ending a shared transaction: %w", err)
	}
	return s.broken
}

// undo discards the changes of the current member. It reports whether the shared transaction continues
// with the changes of earlier members.
func (s *shared) undo() bool {
	if s.members == 1 {
		s.broken = errDiscarded
		return false
	}
	if _, err := s.tx.ExecContext(s.ctx, `ROLLBACK TO member`); err != nil {
		s.broken = fmt.Errorf("a transaction that shared the commit failed: %w", err)
		return false
	}
	return s.keep() == nil
}

// errDiscarded is the result of a shared transaction whose only member failed. No caller waits for it.
var errDiscarded = errors.New("the transaction was rolled back")

// end commits the transaction, or rolls it back if it is broken.
func (s *shared) end() {
	err := s.broken
	if err == nil {
		if err = s.tx.Commit(); err != nil {
			err = fmt.Errorf("committing: %w", err)
		}
	} else if e := s.tx.Rollback(); e != nil && !errors.Is(e, sql.ErrTxDone) {
		err = errors.Join(err, fmt.Errorf("rolling back: %w", e))
	}
	s.cancel()
	err = errors.Join(err, s.restore())
	if e := s.conn.Close(); e != nil && err == nil {
		err = fmt.Errorf("releasing a connection: %w", e)
	}
	s.err = err
	close(s.done)
}

// relaxSync sets synchronous=NORMAL on a SQLite connection and returns a function that restores
// FULL. If a statement fails, relaxSync closes the connection, because its setting is unknown.
func relaxSync(ctx context.Context, conn *sql.Conn) (restore func() error, err error) {
	// A cancelled statement could have an effect. The connection would then stay at NORMAL.
	ctx = context.WithoutCancel(ctx)
	set := func(level string) error {
		_, err := conn.ExecContext(ctx, `PRAGMA synchronous = `+level)
		if err == nil {
			return nil
		}
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		return fmt.Errorf("setting synchronous=%s: %w", level, err)
	}
	// In WAL mode, a commit with NORMAL does not wait for the disk, and that is the only difference
	// from FULL (sqlite.org/pragma.html, synchronous).
	if err := set("NORMAL"); err != nil {
		return nil, err
	}
	return func() error { return set("FULL") }, nil
}
