package db

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"
)

// counters counts the events of a database since it was opened.
type counters struct {
	retries, errors atomic.Int64
	// waits is the number of callers that waited for the writer of SQLite, and waited is the time that
	// they waited, in nanoseconds. The pool does not count these callers.
	waits, waited atomic.Int64
}

// Pool is the state of a pool of connections, and its counts since the database was opened.
type Pool struct {
	// Name is "read" or "write" on SQLite, and "shared" on PostgreSQL, where one pool is for both.
	Name             string
	InUse, Idle, Max int
	// Waits is the number of callers that waited for a connection, and Waited is the time that they
	// waited.
	Waits  int64
	Waited time.Duration
}

// Pools returns the state of all pools. It runs no statement.
func (d *DB) Pools() []Pool {
	if d.pool != nil {
		s := d.pool.Stat()
		return []Pool{{
			Name: "shared", InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()), Max: int(s.MaxConns()),
			Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(),
		}}
	}
	list := []Pool{poolOf("read", d.read.Stats()), poolOf("write", d.write.Stats())}
	list[1].Waits += d.counters.waits.Load()
	list[1].Waited += time.Duration(d.counters.waited.Load())
	return list
}

func poolOf(name string, s sql.DBStats) Pool {
	return Pool{Name: name, InUse: s.InUse, Idle: s.Idle, Max: s.MaxOpenConnections, Waits: s.WaitCount, Waited: s.WaitDuration}
}

// Retries returns how often transactions were repeated after a deadlock or a serialization failure.
func (d *DB) Retries() int64 { return d.counters.retries.Load() }

// Errors returns the number of transactions and reads that failed because the database could not
// work, as [IsOutage] defines it.
func (d *DB) Errors() int64 { return d.counters.errors.Load() }

// count counts the error of a transaction or read. The end of a cancelled request is not an error of
// the database, although the driver may report it as a timeout.
func (c *counters) count(ctx context.Context, err error) {
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) && IsOutage(err) {
		c.errors.Add(1)
	}
}

// waitedSince counts a caller that has waited for the writer of SQLite since begin.
func (c *counters) waitedSince(begin time.Time) {
	c.waits.Add(1)
	c.waited.Add(int64(time.Since(begin)))
}
