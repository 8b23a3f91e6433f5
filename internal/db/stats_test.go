package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestPoolsShowConnectionsInUse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		inUse := func() (n int) {
			for _, p := range d.Pools() {
				n += p.InUse
				if p.Max <= 0 || p.InUse+p.Idle > p.Max {
					t.Errorf("the pool %+v has no maximum, or more connections than its maximum", p)
				}
			}
			return n
		}
		if n := inUse(); n != 0 {
			t.Errorf("%d connections are in use at first, want 0", n)
		}
		if err := d.Tx(ctx, func(*db.Tx) error {
			if n := inUse(); n != 1 {
				t.Errorf("%d connections are in use in a transaction, want 1", n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// On SQLite, transactions wait for the writer and not for the pool. These waits are counted too.
func TestWaitForTheWriterIsCounted(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	started, done := make(chan struct{}), make(chan error, 1)
	const pause = 20 * time.Millisecond
	if err := d.Tx(t.Context(), func(*db.Tx) error {
		go func() {
			close(started)
			done <- d.Tx(t.Context(), func(*db.Tx) error { return nil })
		}()
		<-started
		time.Sleep(pause)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Pools() {
		if p.Name == "write" && (p.Waits != 1 || p.Waited <= 0) {
			t.Errorf("the writer has %d waits of %s in total, want 1 wait of more than 0 s", p.Waits, p.Waited)
		}
	}
}

func TestOutagesAreCounted(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	var n int
	if err := d.QueryRowContext(t.Context(), `SELECT x FROM no_such_table`).Scan(&n); err == nil {
		t.Fatal("reading a missing table succeeded")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.QueryRowContext(cancelled, `SELECT 1`).Scan(&n); err == nil {
		t.Fatal("a cancelled read succeeded")
	}
	if got := d.Errors(); got != 0 {
		t.Errorf("Errors = %d after an invalid and a cancelled statement, want 0", got)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for want, f := range []func() error{
		func() error { return d.QueryRowContext(t.Context(), `SELECT 1`).Scan(&n) },
		func() error {
			rows, err := d.QueryContext(t.Context(), `SELECT 1`)
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			return rows.Err()
		},
		func() error { return d.Tx(t.Context(), func(*db.Tx) error { return nil }) },
	} {
		if err := f(); err == nil || d.Errors() != int64(want+1) {
			t.Errorf("use %d of a closed database: error = %v, Errors = %d, want an error that is counted", want, err, d.Errors())
		}
	}
}
