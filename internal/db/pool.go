package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// poolSize is the maximum number of connections of a process to PostgreSQL, unless the URL sets
	// another number.
	poolSize = 16
	// minPoolSize is the smallest number of connections with which a server works. One listens for
	// notifications, and one may hold the lock of migrations.
	minPoolSize = 4
	// poolParameter is the parameter of the URL that sets the maximum number of connections.
	poolParameter = "pool_max_conns"
)

// errPooler means that the URL leads to a connection pooler that may run each transaction of a
// connection in a different session. Prepared statements, notifications, advisory locks and the settings
// of a session then fail.
var errPooler = errors.New("the database URL leads to a connection pooler that does not keep sessions, such as pgbouncer in transaction mode; " +
	"set --database to the address of PostgreSQL itself, or of a pooler in session mode that passes on startup parameters")

// setPoolSize sets the maximum number of connections. It returns an error if the URL sets less than
// minPoolSize.
func setPoolSize(cfg *pgxpool.Config, databaseURL string) error {
	c, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	if _, ok := c.RuntimeParams[poolParameter]; !ok {
		cfg.MaxConns = poolSize
		return nil
	}
	if cfg.MaxConns < minPoolSize {
		return fmt.Errorf("%s in the database URL must be %d or more", poolParameter, minPoolSize)
	}
	return nil
}

// checkSession connects, and returns errPooler if a pooler refuses or ignores the startup parameters.
func checkSession(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(Unlimited(ctx), acquireTime)
	defer cancel()
	var cost string
	err := pool.QueryRow(ctx, `SHOW random_page_cost`, pgx.QueryExecModeSimpleProtocol).Scan(&cost)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(e.Message, "unsupported startup parameter") {
		return fmt.Errorf("%w: %w", errPooler, err)
	}
	if err != nil {
		return err
	}
	// A pooler ignored the startup parameters.
	if cost != pageCost {
		return errPooler
	}
	return nil
}
