package replica

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

const installation = "0198c0de-0000-7000-8000-000000000001"

// fixture is a primary and a second database that is used as its replica. Nothing is replicated: a test
// writes to both databases.
type fixture struct {
	*Replica

	t             *testing.T
	primary, copy *db.DB
	copyURL       string
	proxy         *dbtest.Proxy
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, primary: dbtest.Open(t, "", dbtest.MigratedURL(t)), copyURL: dbtest.MigratedURL(t)}
	f.copy = dbtest.Open(t, "", f.copyURL)
	for _, d := range []*db.DB{f.primary, f.copy} {
		f.exec(d, `INSERT INTO installations (id, uuid) VALUES (1, $1)`, installation)
		f.exec(d, `CREATE TABLE place (name TEXT)`)
	}
	f.exec(f.primary, `INSERT INTO place VALUES ('primary')`)
	f.exec(f.copy, `INSERT INTO place VALUES ('replica')`)
	f.beat(0)
	return f
}

// open opens the replica through a proxy that can stop responding.
func (f *fixture) open() {
	f.t.Helper()
	var url string
	f.proxy, url = dbtest.NewProxy(f.t, f.copyURL)
	r, err := Open(f.t.Context(), f.primary, url, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	f.Replica = r
	f.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			f.t.Error(err)
		}
	})
}

func (f *fixture) exec(d *db.DB, statement string, args ...any) {
	f.t.Helper()
	if _, err := d.Writer().ExecContext(f.t.Context(), statement, args...); err != nil {
		f.t.Fatal(err)
	}
}

// beat sets the age of the newest heartbeat of the replica.
func (f *fixture) beat(age time.Duration) {
	f.t.Helper()
	f.exec(f.copy, `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('a', 0, $1) ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at`,
		db.Micros(f.primary.Now().Add(-age)))
}

func (f *fixture) poll() {
	f.t.Helper()
	if err := f.Poll(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// place returns the name of the database from which Read reads with ctx: primary or replica.
func (f *fixture) place(ctx context.Context) (name string) {
	f.t.Helper()
	if err := f.primary.Read(ctx, func(ctx context.Context) error {
		return f.primary.QueryRowContext(ctx, `SELECT name FROM place`).Scan(&name)
	}); err != nil {
		f.t.Error(err)
	}
	return name
}

func (f *fixture) want(ctx context.Context, when, want string) {
	f.t.Helper()
	if got := f.place(ctx); got != want {
		f.t.Errorf("%s: read from the %s, want the %s", when, got, want)
	}
}

// begin begins a request and returns its context, which allows the replica.
func (f *fixture) begin(method, actor string) (ctx context.Context, end func()) {
	f.t.Helper()
	ctx, end, err := f.Begin(f.t.Context(), method, actor)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.Allow(ctx), end
}

// TestReadsAreRecent checks that a read uses the replica only if its context allows it, and only while
// the newest heartbeat of the replica is at most five seconds old.
func TestReadsAreRecent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open()
	allowed := f.Allow(t.Context())
	f.want(t.Context(), "a read that is not allowed", "primary")
	f.want(allowed, "an allowed read", "replica")
	if name := ""; f.primary.QueryRowContext(allowed, `SELECT name FROM place`).Scan(&name) != nil || name != "primary" {
		t.Errorf("a query outside of Read was sent to the database %q, want primary", name)
	}
	f.beat(4 * time.Second)
	f.poll()
	f.want(allowed, "four seconds behind", "replica")
	f.beat(6 * time.Second)
	f.poll()
	f.want(allowed, "six seconds behind", "primary")
	f.beat(0)
	f.poll()
	f.want(allowed, "up to date again", "replica")
	f.exec(f.copy, `DELETE FROM nodes`)
	f.poll()
	f.want(allowed, "without heartbeats", "primary")
	if err := f.primary.Read(allowed, func(ctx context.Context) error {
		return f.primary.Tx(ctx, func(tx *db.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE place SET name = name`)
			return err
		})
	}); err != nil {
		t.Errorf("a transaction in a read: error = %v, want none", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.Replica)
	if families, err := registry.Gather(); err != nil || len(families) != 2 {
		t.Errorf("%d metrics, err = %v, want 2", len(families), err)
	}
}

// TestFutureHeartbeat checks that the heartbeat of a node that died while the clock of the database was ahead
// does not make a replica appear to be current.
func TestFutureHeartbeat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(f.copy, `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('dead', 0, $1)`, db.Micros(f.primary.Now().Add(time.Hour)))
	f.open()
	allowed := f.Allow(t.Context())
	f.want(allowed, "with a heartbeat in the future", "replica")
	f.beat(time.Hour)
	f.poll()
	f.want(allowed, "an hour behind, with a heartbeat in the future", "primary")
	f.exec(f.primary, `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('a', 0, $1)`, db.Micros(f.primary.Now()))
	if lag, err := Examine(t.Context(), f.primary, f.copyURL); err != nil || lag < time.Hour-time.Minute {
		t.Errorf("Examine = %s, %v, want about an hour", lag, err)
	}
}

// TestSeveralServers checks that reads use only the server that Poll checked if the URL leads to several, that
// this takes no additional statement for each read, and that Poll leaves a server that is behind.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	behindURL := dbtest.MigratedURL(t)
	behind := dbtest.Open(t, "", behindURL)
	f.exec(behind, `INSERT INTO installations (id, uuid) VALUES (1, $1)`, installation)
	f.exec(behind, `CREATE TABLE place (name TEXT)`)
	f.exec(behind, `INSERT INTO place VALUES ('replica that is behind')`)
	f.open()
	allowed := f.Allow(t.Context())
	f.want(allowed, "with one server", "replica")

	const reads = 100
	before := f.proxy.Statements()
	for range reads {
		f.want(allowed, "with a connection of the pool", "replica")
	}
	if n := f.proxy.Statements() - before; n > reads+reads/2 { // a connection that was idle for a second is checked
		t.Errorf("%d reads sent %d statements, want one for each", reads, n)
	}

	f.proxy.Divert(t, f.copyURL, behindURL)
	held, err := f.Replica.copy.Backend(t.Context()) // it takes the idle connection, so that reads need new ones
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	for range 3 {
		f.want(allowed, "with a connection to a server that was not checked", "primary")
		f.poll()
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}

	f.beat(6 * time.Second)
	for range 2 { // the second is that of the other server
		f.poll()
		f.want(allowed, "when both servers are behind", "primary")
	}
	f.exec(behind, `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('a', 0, $1)`, db.Micros(f.primary.Now()))
	f.poll()
	f.want(allowed, "when the other server is up to date", "replica that is behind")
	f.beat(0)
	f.proxy.Divert(t, f.copyURL, f.copyURL)
	f.exec(behind, `DELETE FROM nodes`)
	f.poll()
	f.want(allowed, "when this server has no heartbeats", "primary")
	f.poll()
	f.want(allowed, "when the first server is used again", "replica")
}

// TestReadYourWrites checks that a token that has written reads from the primary, on each server, until
// the replica has the write. Other tokens read from the replica meanwhile.
func TestReadYourWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open()
	other, err := Open(t.Context(), f.primary, f.copyURL, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	f.primary.SetReplica(f.read)
	reader, _ := f.begin(http.MethodGet, "token:1")
	f.want(reader, "before the first write", "replica")
	export, end := f.begin(http.MethodPost, "token:1")
	f.want(export, "in the request of the first write", "replica")
	end()
	for _, r := range []*Replica{f.Replica, other} {
		f.primary.SetReplica(r.read)
		ctx, _, err := r.Begin(t.Context(), http.MethodGet, "token:1")
		if err != nil {
			t.Fatal(err)
		}
		f.want(r.Allow(ctx), "after a write", "primary")
	}
	f.primary.SetReplica(f.read)
	export, end = f.begin(http.MethodPost, "token:1")
	f.want(export, "in the request of the second write", "primary")
	end()
	someone, _ := f.begin(http.MethodGet, "token:2")
	f.want(someone, "another token after a write", "replica")
	// The newest heartbeat is at least two seconds after the end of the time that the mark covers.
	f.exec(f.primary, `UPDATE recent_writes SET at = at - $1`, (markInterval + clockMargin + 2*time.Second).Microseconds())
	f.beat(0)
	f.poll()
	f.want(reader, "when the replica has the write", "replica")

	f.exec(f.primary, `UPDATE recent_writes SET at = at - $1`, (markLife + time.Minute).Microseconds())
	if err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := f.primary.QueryRowContext(t.Context(), `SELECT count(*) FROM recent_writes`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d marks are left, err = %v, want 0", n, err)
	}
}

// TestMarkOfALongRequest checks that a request that takes longer than markInterval marks its write again
// at its end.
func TestMarkOfALongRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open()
	_, end := f.begin(http.MethodPost, "token:1")
	time.Sleep(markInterval + 100*time.Millisecond)
	began := f.primary.Now()
	end()
	if at := f.written(t.Context(), "token:1"); at.Before(began.Add(markInterval)) {
		t.Errorf("the mark covers writes until %v, want at least one interval after the end of the request at %v", at, began)
	}
}

// TestReplicaFails checks that reads succeed within a few seconds if the replica does not respond. It also
// checks that a read that fails on the replica is repeated on the primary, but not after fault.Invalid.
func TestReplicaFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open()
	allowed := f.Allow(t.Context())
	f.proxy.Silence()
	read := make(chan string)
	go func() { read <- f.place(allowed) }()
	began := time.Now()
	if err := f.Poll(t.Context()); err == nil {
		t.Error("Poll of a replica that does not respond = nil, want an error")
	}
	if got := <-read; got != "primary" || time.Since(began) > pollTime+time.Second {
		t.Errorf("a read that waited for the replica was from the %s after %s, want the primary after about %s", got, time.Since(began), pollTime)
	}
	f.want(allowed, "while the replica is down", "primary")
	f.proxy.Resume()
	f.beat(0)
	f.poll()
	f.want(allowed, "after the replica is up again", "replica")

	notFound, invalid := fault.New(fault.NotFound, "no"), fault.New(fault.Invalid, "no")
	for name, c := range map[string]struct {
		first error
		calls int
	}{
		"a record that the replica lacks": {notFound, 2}, "a conflict with replication": {errors.New("40001"), 2}, "a filter that is not valid": {invalid, 1},
	} {
		calls := 0
		err := f.primary.Read(allowed, func(ctx context.Context) error {
			if calls++; db.FromReplica(ctx) {
				return c.first
			}
			return nil
		})
		if calls != c.calls || (err == nil) != (c.calls == 2) {
			t.Errorf("%s: %d calls, err = %v, want %d calls", name, calls, err, c.calls)
		}
	}
	if err := f.primary.Read(allowed, func(ctx context.Context) error {
		if !db.FromReplica(ctx) {
			return nil
		}
		var name string
		err := f.primary.QueryRowContext(ctx, `DELETE FROM place RETURNING name`).Scan(&name)
		if err == nil {
			t.Error("a write on the replica: error = nil, want an error")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestReplicaOfAnotherInstallation checks that Open, Examine and Poll refuse a replica of another
// installation.
func TestReplicaOfAnotherInstallation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.open()
	if lag, err := Examine(t.Context(), f.primary, f.copyURL); err != nil || lag != 0 {
		t.Errorf("Examine = %s, %v, want no lag", lag, err)
	}
	f.exec(f.copy, `UPDATE installations SET uuid = 'another'`)
	if _, err := Open(t.Context(), f.primary, f.copyURL, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrInstallation) {
		t.Errorf("Open = %v, want ErrInstallation", err)
	}
	if _, err := Examine(t.Context(), f.primary, f.copyURL); !errors.Is(err, ErrInstallation) {
		t.Errorf("Examine = %v, want ErrInstallation", err)
	}
	// Poll checks the installation again after a failure.
	f.proxy.Silence()
	if err := f.Poll(t.Context()); err == nil {
		t.Error("Poll of a replica that does not respond = nil, want an error")
	}
	f.proxy.Resume()
	if err := f.Poll(t.Context()); !errors.Is(err, ErrInstallation) {
		t.Errorf("Poll = %v, want ErrInstallation", err)
	}
	f.want(f.Allow(t.Context()), "with the replica of another installation", "primary")
}

// TestNoReplica checks that reads use the primary if the Replica is nil, and if the replica does not
// respond.
func TestNoReplica(t *testing.T) {
	t.Parallel()
	var r *Replica
	ctx, end, err := r.Begin(t.Context(), http.MethodPost, "token:1")
	if err != nil || r.Allow(ctx) != ctx || r.Close() != nil {
		t.Errorf("Begin returned the error %v, Allow changed the context, or Close failed; want none of these", err)
	}
	end()
	calls := 0
	if err := dbtest.SQLite(t).Read(ctx, func(context.Context) error { calls++; return nil }); err != nil || calls != 1 {
		t.Errorf("%d calls, err = %v, want 1", calls, err)
	}
	down := dbtest.Open(t, "", dbtest.MigratedURL(t))
	lost, err := Open(t.Context(), down, "postgres://127.0.0.1:1/nothing", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("Open of a replica that does not respond = %v, want no error", err)
	}
	if err := down.Read(lost.Allow(t.Context()), func(ctx context.Context) error { return down.Ping(ctx) }); err != nil {
		t.Errorf("reading without the replica: error = %v, want none", err)
	}
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
}
