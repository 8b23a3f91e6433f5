package db

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The time limits of PostgreSQL. Without these limits, a host that vanishes leaves transactions
// whose locks block all other processes, and a network that drops packets blocks this process.
// Parameters of the database URL override the limits that are parameters of a connection.
const (
	// connectTime limits the time to establish a connection.
	connectTime = 5 * time.Second
	// acquireTime limits the time to get a connection from the pool, which may establish one.
	acquireTime = 10 * time.Second
	// replicaTime replaces acquireTime on a replica. A read that waits longer goes to the primary.
	replicaTime = 2 * time.Second
	// pingTime limits the check of a connection that was idle.
	pingTime = 2 * time.Second
	// silentTime is the time after which the kernels of both hosts close a connection on which the other
	// host does not respond. Two limits are needed: keepalives detect that the other host vanished
	// while nothing is sent, and tcp_user_timeout applies to data that is not acknowledged.
	silentTime        = 10 * time.Second
	keepaliveIdle     = 4 * time.Second
	keepaliveInterval = 2 * time.Second
	keepaliveCount    = 3
	// checkTime is the interval at which the server checks, while it runs a statement, whether the
	// client is still connected.
	checkTime = 5 * time.Second
	// idleTransactionTime ends a transaction whose process sends no statement. No transaction of the
	// vault waits for anything except the database.
	idleTransactionTime = 8 * time.Second
	// lockTime limits the wait for a lock. It is longer than idleTransactionTime, so that a
	// statement that waits for a lock of a vanished host gets the lock.
	lockTime = 10 * time.Second
	// statementTime limits a statement on the server. It is longer than lockTime, so that a statement
	// that waits for a lock gets the error of lockTime. On a million records, the slowest statement
	// takes about a second.
	statementTime = 12 * time.Second
	// responseTime limits a statement in this process. It is longer than statementTime, so that it
	// applies only if the server does not respond.
	responseTime = statementTime + time.Second
	// closeTime limits the wait for connections in use when the pool is closed.
	closeTime = 5 * time.Second
)

// limitConnections sets the time limits of a pool's connections.
func limitConnections(ctx context.Context, cfg *pgxpool.Config, limits deadlines) {
	statements := statementTime
	if ctx.Value(unlimitedKey{}) != nil {
		statements, limits.response = 0, 0
	}
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
	millis := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	for name, value := range map[string]string{
		"statement_timeout":                   millis(statements),
		"lock_timeout":                        millis(lockTime),
		"idle_in_transaction_session_timeout": millis(idleTransactionTime),
		"tcp_user_timeout":                    millis(silentTime),
		"tcp_keepalives_idle":                 seconds(keepaliveIdle),
		"tcp_keepalives_interval":             seconds(keepaliveInterval),
		"tcp_keepalives_count":                strconv.Itoa(keepaliveCount),
	} {
		if _, ok := cfg.ConnConfig.RuntimeParams[name]; !ok {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTime
	}
	cfg.ConnConfig.DialFunc = (&net.Dialer{
		Control:         limitSilence,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval, Count: keepaliveCount},
	}).DialContext
	cfg.PingTimeout = pingTime
	cfg.ConnConfig.Tracer = limits
	if _, ok := cfg.ConnConfig.RuntimeParams["client_connection_check_interval"]; ok {
		return
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET client_connection_check_interval = "+millis(checkTime))
		// On some operating systems, the server cannot check whether the client is connected
		// (PostgreSQL documentation, 20.3.2).
		if hasState(err, "22023") {
			return nil
		}
		return err
	}
}

// deadlines limits the time of each statement, and of each wait for a connection. It is a tracer,
// because the driver calls a tracer for all statements, including the statements of the queue, and
// uses the context that the tracer returns.
type deadlines struct{ response, acquire time.Duration }

// defaultDeadlines are the deadlines of a vault.
var defaultDeadlines = deadlines{response: responseTime, acquire: acquireTime}

var (
	_ pgx.QueryTracer       = deadlines{}
	_ pgx.BatchTracer       = deadlines{}
	_ pgx.CopyFromTracer    = deadlines{}
	_ pgxpool.AcquireTracer = deadlines{}
)

type (
	// cancelKey is the context key of the function that ends a deadline.
	cancelKey struct{}
	// unlimitedKey is the context key of statements without deadlines.
	unlimitedKey struct{}
)

// Unlimited returns a context whose statements have no deadline in this process. If a database is
// opened with the context, its statements have no statement_timeout on the server either; the
// limits of locks and idle transactions remain. Unlimited is for migrations and for tools that
// write very many rows.
func Unlimited(ctx context.Context) context.Context {
	return context.WithValue(ctx, unlimitedKey{}, true)
}

func begin(ctx context.Context, limit time.Duration) context.Context {
	if limit == 0 || ctx.Value(unlimitedKey{}) != nil {
		return ctx
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

func end(ctx context.Context) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
}

// TraceQueryStart implements [pgx.QueryTracer].
func (d deadlines) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return begin(ctx, d.response)
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (deadlines) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { end(ctx) }

// TraceBatchStart implements [pgx.BatchTracer].
func (d deadlines) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return begin(ctx, d.response)
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (deadlines) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (deadlines) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { end(ctx) }

// TraceCopyFromStart implements [pgx.CopyFromTracer].
func (d deadlines) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return begin(ctx, d.response)
}

// TraceCopyFromEnd implements [pgx.CopyFromTracer].
func (deadlines) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromEndData) {
	end(ctx)
}

// TraceAcquireStart implements [pgxpool.AcquireTracer].
func (d deadlines) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return begin(ctx, d.acquire)
}

// TraceAcquireEnd implements [pgxpool.AcquireTracer].
func (deadlines) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireEndData) {
	end(ctx)
}

const (
	// maxAttempts is the maximum number of attempts of a transaction. In each deadlock, one transaction
	// can continue, so even many transactions that block each other end soon.
	maxAttempts = 6
	// firstPause is the mean pause after the first attempt. The mean of each further pause is twice as long.
	firstPause = 10 * time.Millisecond
)

// isRepeatable reports whether PostgreSQL rolled back a transaction only because of other
// transactions, so the same transaction may succeed now: after a deadlock or a serialization
// failure (PostgreSQL documentation, 13.5).
func isRepeatable(err error) bool { return hasState(err, "40P01") || hasState(err, "40001") }

// hasState reports whether err has an SQLSTATE.
func hasState(err error, state string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == state
}

// pause waits for a random time around d, so that two transactions do not conflict again. It returns false
// if ctx is done first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d)) //nolint:gosec // the time is not secret
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
