package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// readerKey is the context key of a reader.
type readerKey struct{}

// reader is the value of readerKey. Reads of the database reader.of go to its replica, reader.copy, and
// only to the backend with the given id.
type reader struct {
	of, copy *DB
	backend  string
}

// OpenReplica opens a replica of a PostgreSQL database, which can only be read.
func OpenReplica(ctx context.Context, databaseURL string) (*DB, error) {
	if err := checkURL(databaseURL); err != nil {
		return nil, err
	}
	d, err := openPostgres(ctx, databaseURL, deadlines{response: responseTime, acquire: replicaTime}, useReplica)
	if err != nil {
		return nil, err
	}
	if err := d.read.Close(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.read = sql.OpenDB(selective{stdlib.GetPoolConnector(d.pool)})
	d.read.SetMaxIdleConns(0) // the pool keeps idle connections
	d.write = d.read
	return d, nil
}

// useReplica makes PostgreSQL refuse writes, even if the URL is that of a primary.
func useReplica(cfg *pgxpool.Config) {
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
}

// ReadFrom returns a context with which reads of d outside of transactions go to a backend of replica.
// A read fails if its connection leads to another backend.
func (d *DB) ReadFrom(ctx context.Context, replica *DB, backend string) context.Context {
	return context.WithValue(ctx, readerKey{}, reader{of: d, copy: replica, backend: backend})
}

// FromReplica reports whether reads with the context go to a replica.
func FromReplica(ctx context.Context) bool {
	_, ok := ctx.Value(readerKey{}).(reader)
	return ok
}

// SetReplica sets the function that Read calls. SetReplica must be called before the first Read.
func (d *DB) SetReplica(read func(ctx context.Context, f func(ctx context.Context) error) error) {
	d.replica = read
}

// Read calls f for reads that may go to a replica. f must only read, and must use the context that it
// gets. f may be called twice: if the replica fails, f is called again to read from d itself. Therefore
// f must assign its results, and must not append or add to variables. Without a replica, Read calls f
// once.
func (d *DB) Read(ctx context.Context, f func(ctx context.Context) error) error {
	if d.replica == nil || d.reader(ctx) != d.read {
		return f(ctx)
	}
	return d.replica(ctx, f)
}

// reader returns the pool for reads outside of transactions.
func (d *DB) reader(ctx context.Context) *sql.DB {
	if r, ok := ctx.Value(readerKey{}).(reader); ok && r.of == d {
		return r.copy.read
	}
	return d.read
}

// Backend is a connection to a replica. The URL of the replica may lead to several servers, for example
// through a balancer; all reads with the connection are from one of them.
type Backend struct {
	*sql.Conn

	// ID identifies the server, until its next start, and the database.
	ID string
}

// Backend takes a connection of a replica, which the caller must close.
func (d *DB) Backend(ctx context.Context) (*Backend, error) {
	conn, err := d.read.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting to the replica: %w", err)
	}
	b := &Backend{Conn: conn}
	if err := conn.Raw(func(c any) (err error) {
		b.ID, err = backendOf(ctx, c)
		return err
	}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return b, nil
}

// Installation is like [DB.Installation].
func (b *Backend) Installation(ctx context.Context) (id string, err error) {
	return installation(ctx, b, PostgreSQL)
}

// errBackend is the error of a read whose connection leads to another backend than that of ReadFrom.
var errBackend = errors.New("the connection leads to another server than the last check of the replica")

// selective is a Connector that closes connections to other backends than that of ReadFrom.
type selective struct{ driver.Connector }

// Connect implements [driver.Connector].
func (s selective) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	r, ok := ctx.Value(readerKey{}).(reader)
	if !ok {
		return conn, nil
	}
	id, err := backendOf(ctx, conn)
	if err == nil && id != r.backend {
		err = errBackend
	}
	if err != nil {
		return nil, errors.Join(err, discard(conn), conn.Close())
	}
	return conn, nil
}

// backendKey is the key of the backend's id in the custom data of a connection.
const backendKey = "certvault.backend"

// backendOf returns the id of the backend to which a connection of the driver leads. It asks the server
// once for each connection. Standbys have the identifiers of their primary, so the id contains the time of
// the server's start, in microseconds.
func backendOf(ctx context.Context, conn any) (id string, err error) {
	c, err := underlying(conn)
	if err != nil {
		return "", err
	}
	known := c.PgConn().CustomData()
	if id, ok := known[backendKey].(string); ok {
		return id, nil
	}
	if err := c.QueryRow(ctx, `
		SELECT concat_ws(' ', host(inet_server_addr()), inet_server_port(), extract(epoch FROM pg_postmaster_start_time()),
			(SELECT oid FROM pg_database WHERE datname = current_database()))`, pgx.QueryExecModeSimpleProtocol).Scan(&id); err != nil {
		return "", fmt.Errorf("identifying the server of the replica: %w", err)
	}
	known[backendKey] = id
	return id, nil
}

// discard closes the connection to the server, so that the pool does not keep it.
func discard(conn any) error {
	c, err := underlying(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTime)
	defer cancel()
	return c.Close(ctx)
}

func underlying(conn any) (*pgx.Conn, error) {
	c, ok := conn.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("the connection is a %T, not one of the driver", conn)
	}
	return c.Conn(), nil
}
