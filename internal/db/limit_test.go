package db_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// onPurpose is a comment in SQL. test/pgcluster reports deadlocks of statements without this comment.
const onPurpose = ` /* deadlock on purpose */`

// addNodes inserts the nodes a and b.
func addNodes(t *testing.T, d *db.DB) {
	t.Helper()
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO nodes (id, started_at, heartbeat_at) VALUES ('a', 0, 0), ('b', 0, 0)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestDeadlockIsRetried lets two transactions update two rows in different orders, which causes a
// deadlock on PostgreSQL. Both transactions must succeed, and the effects of the repeated
// transaction must occur once.
func TestDeadlockIsRetried(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		addNodes(t, d)
		calls, committed := make(chan bool, 20), make(chan bool, 20)
		met := make(chan bool) // the first calls wait for each other after the first statement
		one := make(chan bool) // closed when one transaction has committed
		var ended sync.Once
		run := func(first, second string) error {
			attempt := 0
			return d.Tx(ctx, func(tx *db.Tx) error {
				calls <- true
				attempt++
				tx.AfterCommit(func() {
					committed <- true
					ended.Do(func() { close(one) })
				})
				if attempt > 1 {
					<-one // otherwise the two transactions could deadlock again
				}
				update := func(id string) error {
					_, err := tx.ExecContext(ctx, `UPDATE nodes SET heartbeat_at = heartbeat_at + 1 WHERE id = $1`+onPurpose, id)
					return err
				}
				if err := update(first); err != nil {
					return err
				}
				// On SQLite, transactions run one after the other.
				if attempt == 1 && d.Dialect == db.PostgreSQL {
					select {
					case met <- true:
					case <-met:
					}
				}
				return update(second)
			})
		}
		other := make(chan error, 1)
		go func() { other <- run("b", "a") }()
		if err := errors.Join(run("a", "b"), <-other); err != nil {
			t.Fatal(err)
		}
		want := map[db.Dialect]int{db.SQLite: 2, db.PostgreSQL: 3}[d.Dialect]
		if len(calls) != want || len(committed) != 2 {
			t.Errorf("%d calls and %d commits, want %d and 2", len(calls), len(committed), want)
		}
		var sum int
		if err := d.QueryRowContext(ctx, `SELECT sum(heartbeat_at) FROM nodes`).Scan(&sum); err != nil || sum != 4 {
			t.Errorf("the sum of all updates is %d, %v, want 4", sum, err)
		}
	})
}

// TestSerializationFailureIsRetried checks that a failure with SQLSTATE 40001 is retried, and that
// a transaction that fails each time ends with the error.
func TestSerializationFailureIsRetried(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, "", dbtest.PostgresURL(t))
	for _, failures := range []int{1, 1000} {
		calls := 0
		err := d.Tx(t.Context(), func(tx *db.Tx) error {
			if calls++; calls > failures {
				return nil
			}
			_, err := tx.ExecContext(t.Context(), `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`)
			return err
		})
		if failures == 1 && (err != nil || calls != 2) {
			t.Errorf("one failure: %v after %d calls, want success after 2", err, calls)
		}
		if failures == 1000 && (err == nil || calls < 3 || calls > 10) {
			t.Errorf("endless failures: %v after %d calls, want an error after a few", err, calls)
		}
		if failures == 1 && (d.Retries() != 1 || d.Errors() != 0) {
			t.Errorf("one failure: %d retries and %d errors, want 1 and 0", d.Retries(), d.Errors())
		}
		if failures == 1000 && (d.Retries() != int64(calls) || d.Errors() != 1) {
			t.Errorf("endless failures: %d retries and %d errors after %d calls, want %[3]d and 1", d.Retries(), d.Errors(), calls)
		}
	}
}

// TestPostgresHasTimeLimits checks the limits of a connection, and that the URL can change the
// limits.
func TestPostgresHasTimeLimits(t *testing.T) {
	t.Parallel()
	source := dbtest.PostgresURL(t)
	for _, suffix := range []string{"", "&statement_timeout=7777"} {
		d, err := db.Open(t.Context(), "", source+suffix)
		if err != nil {
			t.Fatal(err)
		}
		for setting, want := range map[string]string{
			"idle_in_transaction_session_timeout": "8s", "lock_timeout": "10s", "client_connection_check_interval": "5s",
			"statement_timeout": map[string]string{"": "12s"}[suffix],
		} {
			if suffix != "" && setting == "statement_timeout" {
				want = "7777ms"
			}
			var got string
			if err := d.QueryRowContext(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got); err != nil || got != want {
				t.Errorf("%s = %s, %v, want %s", setting, got, err, want)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTransactionOfVanishedHostReleasesItsLocks checks that PostgreSQL ends a transaction whose
// process sends no statement, so that another process gets the locks.
func TestTransactionOfVanishedHostReleasesItsLocks(t *testing.T) {
	t.Parallel()
	source := dbtest.PostgresURL(t)
	d := dbtest.Open(t, "", source)
	addNodes(t, d)
	// The limit of the vanished host is shorter, so that the test is fast.
	vanished, err := db.Open(t.Context(), "", source+"&idle_in_transaction_session_timeout=50")
	if err != nil {
		t.Fatal(err)
	}
	locked, updated := make(chan bool), make(chan bool)
	ended := make(chan error)
	go func() {
		ended <- vanished.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE nodes SET heartbeat_at = 1`)
			close(locked)
			<-updated
			return err
		})
	}()
	<-locked
	if err := d.Tx(t.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(t.Context(), `UPDATE nodes SET heartbeat_at = 2`)
		return err
	}); err != nil {
		t.Errorf("the statement that waited for the lock failed: %v", err)
	}
	close(updated)
	if err := <-ended; err == nil {
		t.Error("the transaction of the vanished host was committed")
	}
	if err := vanished.Close(); err != nil {
		t.Error(err)
	}
}

// TestStatementWithoutResponseEnds checks that a statement of a background task, whose context has no
// deadline, ends if the server does not respond, and that the database works again afterwards.
func TestStatementWithoutResponseEnds(t *testing.T) {
	t.Parallel()
	proxy, through := dbtest.NewProxy(t, dbtest.PostgresURL(t))
	d, err := db.OpenWithin(t.Context(), through, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Silence()
	var n int
	if err := d.QueryRowContext(t.Context(), `SELECT 1`).Scan(&n); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a statement without a response: error = %v, want context.DeadlineExceeded", err)
	}
	if err := d.Tx(t.Context(), func(*db.Tx) error { return nil }); err == nil {
		t.Error("a transaction without a response was committed")
	}
	proxy.Resume()
	for err = d.Ping(t.Context()); err != nil; err = d.Ping(t.Context()) {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
