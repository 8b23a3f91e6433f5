package db_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// pooler accepts connections on a local port, and calls f for each connection with its startup message.
// It returns the address.
func pooler(t *testing.T, f func(conn net.Conn, start *pgproto3.StartupMessage) error) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				message, err := pgproto3.NewBackend(conn, conn).ReceiveStartupMessage()
				start, ok := message.(*pgproto3.StartupMessage)
				if err == nil && ok {
					err = f(conn, start)
				}
				if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
					t.Log(err)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// through returns the URL that connects to a database through a pooler that changes the startup message and the
// responses of the server.
func through(t *testing.T, databaseURL string, startup func(*pgproto3.StartupMessage), response func([]byte) []byte) string {
	t.Helper()
	_, proxied := dbtest.NewProxy(t, databaseURL)
	u, err := url.Parse(proxied)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	u.Host = pooler(t, func(conn net.Conn, start *pgproto3.StartupMessage) error {
		startup(start)
		up, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server)
		if err != nil {
			return err
		}
		defer func() { _ = up.Close() }()
		text, err := start.Encode(nil)
		if err != nil {
			return err
		}
		if _, err := up.Write(text); err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(up, conn)
			_ = up.Close()
		}()
		buffer := make([]byte, 1<<16)
		for {
			n, err := up.Read(buffer)
			if err != nil {
				return err
			}
			if _, err := conn.Write(response(buffer[:n])); err != nil {
				return err
			}
		}
	})
	return u.String()
}

func expectPooler(t *testing.T, databaseURL string) {
	t.Helper()
	d, err := db.Open(t.Context(), "", databaseURL)
	if err == nil {
		err = errors.Join(errors.New("no error"), d.Close())
	}
	if !strings.Contains(err.Error(), "pgbouncer in transaction mode") || strings.Contains(err.Error(), "hidden-password") {
		t.Errorf("error = %v, want one about the pooler, without the password", err)
	}
}

// By default, pgbouncer refuses startup parameters that it does not know.
func TestPoolerThatRefusesParametersIsRefused(t *testing.T) {
	t.Parallel()
	address := pooler(t, func(conn net.Conn, _ *pgproto3.StartupMessage) error {
		text, err := (&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: plan_cache_mode"}).Encode(nil)
		if err != nil {
			return err
		}
		_, err = conn.Write(text)
		return err
	})
	expectPooler(t, "postgres://me:hidden-password@"+address+"/vault?sslmode=disable")
}

// With the setting ignore_startup_parameters, pgbouncer ignores the parameters.
func TestPoolerThatIgnoresParametersIsRefused(t *testing.T) {
	t.Parallel()
	target := dbtest.PostgresURL(t)
	expectPooler(t, through(t, target, func(start *pgproto3.StartupMessage) {
		for name := range start.Parameters {
			if name != "user" && name != "database" {
				delete(start.Parameters, name)
			}
		}
	}, func(response []byte) []byte { return response }))
}

func TestPoolSizeOfTheURL(t *testing.T) {
	t.Parallel()
	target := dbtest.PostgresURL(t)
	open := func(size string) (*db.DB, error) {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		if size != "" {
			query.Set("pool_max_conns", size)
		}
		u.RawQuery = query.Encode()
		return db.Open(t.Context(), "", u.String())
	}
	for size, want := range map[string]int32{"": 16, "6": 6, "40": 40} {
		d, err := open(size)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Pool().Config().MaxConns; got != want {
			t.Errorf("with pool_max_conns %q, the pool has %d connections, want %d", size, got, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if d, err := open("3"); err == nil || !strings.Contains(err.Error(), "pool_max_conns in the database URL must be 4 or more") {
		t.Errorf("with 3 connections: error = %v, want one about pool_max_conns", err)
		if d != nil {
			_ = d.Close()
		}
	}
}

// url.Parse refuses a URL of several hosts of which only the first has a port, but the driver accepts it.
func TestPoolSizeOfSeveralHosts(t *testing.T) {
	t.Parallel()
	const hosts = "postgres://vault@one.example:5432,two.example/certvault"
	for query, want := range map[string]int32{"": 16, "?pool_max_conns=6": 6} {
		if got, err := db.PoolSize(hosts + query); err != nil || got != want {
			t.Errorf("with the query %q, the pool has %d connections, error = %v; want %d", query, got, err, want)
		}
	}
	if _, err := db.PoolSize(hosts + "?pool_max_conns=3"); err == nil {
		t.Error("with 3 connections: no error, want one")
	}
}

// TestStandbyIsRefused checks that no connection of the vault goes to a standby. A proxy changes the result of
// pg_is_in_recovery.
func TestStandbyIsRefused(t *testing.T) {
	t.Parallel()
	target := dbtest.PostgresURL(t)
	standby := through(t, target, func(*pgproto3.StartupMessage) {}, func(response []byte) []byte {
		if !bytes.Contains(response, []byte("pg_is_in_recovery")) {
			return response
		}
		return bytes.Replace(response, []byte("\x00\x01\x00\x00\x00\x01f"), []byte("\x00\x01\x00\x00\x00\x01t"), 1) // DataRow
	})
	if d, err := db.Open(t.Context(), "", standby); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("opening a standby: error = %v, want one about it", err)
		if err == nil {
			_ = d.Close()
		}
	}
	d, err := db.OpenReplica(t.Context(), standby)
	if err != nil {
		t.Fatalf("opening a standby as a replica: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestCommitsWaitForTheDisk checks that a setting of the database does not make acknowledged commits
// unsafe, and that a setting in the URL remains.
func TestCommitsWaitForTheDisk(t *testing.T) {
	t.Parallel()
	address := dbtest.PostgresURL(t)
	setting := func(address string) (value, source string) {
		t.Helper()
		d, err := db.Open(t.Context(), "", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		if _, err := d.Writer().ExecContext(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`); err != nil {
			t.Fatal(err)
		}
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			return tx.QueryRowContext(t.Context(), `SELECT setting, source FROM pg_settings WHERE name = 'synchronous_commit'`).Scan(&value, &source)
		}); err != nil {
			t.Fatal(err)
		}
		return value, source
	}
	setting(address)
	for parameter, want := range map[string]string{"": "on", "remote_write": "remote_write", "off": "off"} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if query := u.Query(); parameter != "" {
			query.Set("synchronous_commit", parameter)
			u.RawQuery = query.Encode()
		}
		got, source := setting(u.String())
		if got != want {
			t.Errorf("synchronous_commit = %s, want %s with %q in the URL", got, want, parameter)
		}
		// Only a value of the session or of its client remains if the server loads its configuration again.
		if source != "session" && source != "client" {
			t.Errorf("synchronous_commit is from %q, want session or client", source)
		}
	}
}
