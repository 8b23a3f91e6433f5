package db

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
)

// readerKey is the context key of a reader.
type readerKey struct{}

// reader is the value of readerKey. Reads of the database reader.of go to its replica, reader.copy.
type reader struct{ of, copy *DB }

// OpenReplica opens a replica of a PostgreSQL database, which can only be read.
func OpenReplica(ctx context.Context, databaseURL string) (*DB, error) {
	if err := checkURL(databaseURL); err != nil {
		return nil, err
	}
	return openPostgres(ctx, databaseURL, deadlines{response: responseTime, acquire: replicaTime}, useReplica)
}

// useReplica makes PostgreSQL refuse writes, even if the URL is that of a primary.
func useReplica(cfg *pgxpool.Config) {
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
}

// ReadFrom returns a context with which reads of d outside of transactions go to replica.
func (d *DB) ReadFrom(ctx context.Context, replica *DB) context.Context {
	return context.WithValue(ctx, readerKey{}, reader{of: d, copy: replica})
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
