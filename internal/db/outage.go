package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// outageStates are the SQLSTATEs of a database that cannot work at the moment (PostgreSQL
// documentation, appendix A). A state of two characters is a class.
var outageStates = []string{
	"08",    // connection exceptions
	"53",    // insufficient resources: disk, memory, connections
	"57",    // operator intervention: shutdown, start, cancelled statement
	"58",    // system errors, such as a failed read
	"XX",    // internal errors, such as damaged data
	"25006", // read-only transaction, for example on a standby server
	"25P03", // idle transaction timeout
	"40001", // serialization failure
	"40P01", // deadlock
	"55P03", // lock not available
}

// errClosed is the error of a closed pool, which package database/sql does not export.
var errClosed = func() error {
	d := sql.OpenDB(noConnector{})
	_ = d.Close()
	return d.PingContext(context.Background())
}()

// noConnector makes no connections.
type noConnector struct{}

func (noConnector) Connect(context.Context) (driver.Conn, error) { return nil, errNoConnection }
func (noConnector) Driver() driver.Driver                        { return nil }

var errNoConnection = errors.New("this pool has no connections")

// IsOutage reports whether err, the error of a database operation, shows that the database cannot work
// at the moment. The database is then not reachable, does not respond, is read-only or damaged, or has
// no resources left, or it ended the transaction because of a timeout or of other transactions. The same
// operation may succeed later.
func IsOutage(err error) bool {
	// A connection error is an outage even if it contains the server's response, for example about
	// a wrong password.
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		for _, state := range outageStates {
			if strings.HasPrefix(e.Code, state) {
				return true
			}
		}
		return false
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff { // the primary result code (sqlite.org/rescode.html)
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT,
			sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM:
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	for _, known := range []error{context.DeadlineExceeded, driver.ErrBadConn, sql.ErrConnDone, errClosed, pgconn.ErrConnClosed} {
		if errors.Is(err, known) {
			return true
		}
	}
	return pgconn.Timeout(err)
}

// brokenConn is a connection that reports its end as a network error. Without brokenConn, the error
// would be io.EOF or io.ErrUnexpectedEOF, as for a file that ends too early.
type brokenConn struct{ net.Conn }

// Read implements net.Conn.
func (c brokenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // a reader returns these values themselves
		err = &net.OpError{Op: "read", Net: c.RemoteAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
	}
	return n, err
}

// markBroken is called by the driver for each new connection, and returns it as a brokenConn.
func markBroken(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
	return brokenConn{conn}, nil
}
