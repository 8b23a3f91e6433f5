package replica

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/db"
)

const (
	// markInterval is the time for which a mark covers later writes of the same actor, so that a server
	// does not mark each write of a token. A mark is a row of recent_writes: the time at which an actor
	// wrote.
	markInterval = time.Second
	// clockMargin is the assumed maximum difference between the results of db.DB.Now on two servers.
	clockMargin = time.Second
	// markLife is the time after which Sweep deletes a mark.
	markLife = time.Hour
	// SweepInterval is the interval of Sweep.
	SweepInterval = time.Hour
)

// marks has, for each actor, the time at which this server last marked a write.
type marks struct {
	mu sync.Mutex
	at map[string]time.Time
}

// recent returns the time of the last mark of an actor by this server. ok reports whether the mark
// covers a write at the time now.
func (m *marks) recent(actor string, now time.Time) (at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok = m.at[actor]
	return at, ok && now.Sub(at) < markInterval
}

func (m *marks) set(actor string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a, at := range m.at { // a mark that covers no more writes is needed only in the database
		if now.Sub(at) >= markInterval {
			delete(m.at, a)
		}
	}
	if m.at == nil {
		m.at = map[string]time.Time{}
	}
	m.at[actor] = now
}

// writtenFunc returns a time before which all earlier writes of an actor were committed.
type writtenFunc func(ctx context.Context) time.Time

type (
	// allowedKey is the context key of the writtenFunc of reads that may go to the replica.
	allowedKey struct{}
	// requestKey is the context key of the writtenFunc of a request.
	requestKey struct{}
)

// Begin begins a request of an actor, which is a person or a token. Unless the method is GET or HEAD, it
// marks a write of the actor. The caller must call end before the response is complete.
func (r *Replica) Begin(ctx context.Context, method, actor string) (_ context.Context, end func(), err error) {
	if r == nil {
		return ctx, func() {}, nil
	}
	if method == http.MethodGet || method == http.MethodHead {
		return context.WithValue(ctx, requestKey{}, writtenFunc(func(ctx context.Context) time.Time { return r.written(ctx, actor) })), func() {}, nil
	}
	before, err := r.mark(ctx, actor)
	if err != nil {
		return nil, nil, err
	}
	ctx = context.WithValue(ctx, requestKey{}, writtenFunc(func(context.Context) time.Time { return before }))
	return ctx, func() {
		// The request may have taken longer than markInterval.
		if _, err := r.mark(context.WithoutCancel(ctx), actor); err != nil {
			r.log.WarnContext(ctx, "marking a write failed", slog.Any("error", err))
		}
	}, nil
}

// Allow returns a context with which operations may read from the replica, unless the replica lacks what
// the actor of the request has written. If ctx is not from Begin, it has no actor, and no writes are
// considered.
func (r *Replica) Allow(ctx context.Context) context.Context {
	if r == nil {
		return ctx
	}
	written, ok := ctx.Value(requestKey{}).(writtenFunc)
	if !ok {
		written = func(context.Context) time.Time { return time.Time{} }
	}
	return context.WithValue(ctx, allowedKey{}, written)
}

// covered returns the time before which the writes that a mark covers were committed.
func covered(mark time.Time) time.Time { return mark.Add(markInterval + clockMargin) }

// written returns the time before which the writes of an actor were committed, or the zero time if there
// is no mark. If the mark cannot be read, written returns a time in the future, so that the primary is
// used.
func (r *Replica) written(ctx context.Context, actor string) time.Time {
	var at int64
	err := r.primary.QueryRowContext(ctx, `SELECT at FROM recent_writes WHERE actor = $1`, actor).Scan(&at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return time.Time{}
	case err != nil:
		return r.primary.Now().Add(time.Hour)
	}
	return covered(db.Time(at))
}

// mark marks a write of an actor. It returns the time before which the earlier writes of the actor were
// committed, or the zero time if there is no earlier mark.
func (r *Replica) mark(ctx context.Context, actor string) (before time.Time, err error) {
	now := r.primary.Now()
	if at, ok := r.marks.recent(actor, now); ok {
		return covered(at), nil
	}
	var last sql.NullInt64
	// The mark need not be durable: the primary loses it only in a crash, and after the restart the
	// replica has the writes of the actor.
	err = r.primary.TxRelaxed(ctx, func(tx *db.Tx) error {
		return tx.QueryRowContext(ctx, `
			INSERT INTO recent_writes (actor, at) VALUES ($1, $2)
			ON CONFLICT (actor) DO UPDATE SET at = CASE WHEN recent_writes.at > excluded.at THEN recent_writes.at ELSE excluded.at END
			RETURNING (SELECT at FROM recent_writes WHERE actor = $1)`, actor, db.Micros(now)).Scan(&last)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("marking a write: %w", err)
	}
	r.marks.set(actor, now)
	if !last.Valid {
		return time.Time{}, nil
	}
	return covered(db.Time(last.Int64)), nil
}

// Sweep deletes marks that are older than markLife. They have no effect, because a replica that is more
// than MaxLag behind is not used.
func (r *Replica) Sweep(ctx context.Context) error {
	err := r.primary.TxRelaxed(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM recent_writes WHERE at < $1`, db.Micros(r.primary.Now().Add(-markLife)))
		return err
	})
	if err != nil {
		return fmt.Errorf("removing marks of writes: %w", err)
	}
	return nil
}
