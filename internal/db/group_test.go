package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// openGroup opens a new SQLite database with the table note.
func openGroup(t *testing.T) *DB {
	t.Helper()
	d, err := Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.Tx(t.Context(), func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), `CREATE TABLE note (n INTEGER PRIMARY KEY)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return d
}

// together runs transactions so that they share a commit. The first transaction waits until all others wait
// for their turn, in the order of list. together returns the results in the same order.
func together(t *testing.T, d *DB, list ...func(tx *Tx) error) []error {
	t.Helper()
	results := make([]error, len(list))
	var wg sync.WaitGroup
	started, queued := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		results[0] = d.Tx(t.Context(), func(tx *Tx) error {
			close(started)
			<-queued
			return list[0](tx)
		})
	})
	<-started
	for i, f := range list[1:] {
		wg.Go(func() { results[i+1] = d.Tx(t.Context(), f) })
		awaitWaiting(t, d, i+1)
	}
	close(queued)
	wg.Wait()
	return results
}

// awaitWaiting waits until n callers wait for their turn.
func awaitWaiting(t *testing.T, d *DB, n int) {
	t.Helper()
	for {
		d.group.mu.Lock()
		waiting := len(d.group.waiting)
		d.group.mu.Unlock()
		if waiting == n {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the test was cancelled")
		}
	}
}

func insertNote(ctx context.Context, n int) func(tx *Tx) error {
	return func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO note (n) VALUES ($1)`, n)
		return err
	}
}

// insertMany is a statement that takes a long time.
const insertMany = `INSERT INTO note (n) WITH RECURSIVE c (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM c WHERE n < 100000) SELECT n FROM c`

// notes returns the stored numbers, separated by spaces.
func notes(t *testing.T, d *DB) string {
	t.Helper()
	list, err := Column[string](d.QueryContext(t.Context(), `SELECT n FROM note ORDER BY n`))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

// TestFailureOfAMemberChangesNothingElse checks that a transaction that fails, even after a panic from which
// its function recovers, leaves the transactions that share its commit unchanged.
func TestFailureOfAMemberChangesNothingElse(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	boom := errors.New("boom")
	ctx := t.Context()
	then := func(f func(tx *Tx) error, err error) func(tx *Tx) error {
		return func(tx *Tx) error { return errors.Join(f(tx), err) }
	}
	panicked := false
	results := together(t, d,
		insertNote(ctx, 1), then(insertNote(ctx, 2), boom), insertNote(ctx, 1), insertNote(ctx, 3), //nolint:gocritic // the second insert of 1 fails
		func(tx *Tx) (err error) {
			defer func() { panicked = recover() != nil; err = boom }()
			if err := insertNote(ctx, 4)(tx); err != nil {
				return err
			}
			panic("boom")
		}, insertNote(ctx, 5))
	for i, want := range []func(error) bool{isNil, func(err error) bool { return errors.Is(err, boom) }, IsUnique, isNil, func(err error) bool { return errors.Is(err, boom) }, isNil} {
		if !want(results[i]) {
			t.Errorf("transaction %d: unexpected result: error = %v", i, results[i])
		}
	}
	if got := notes(t, d); got != "1 3 5" || !panicked {
		t.Errorf("stored rows = %s, panicked = %v, want 1 3 5 and true", got, panicked)
	}
}

func isNil(err error) bool { return err == nil }

// TestErrorIsTrueAfterTheCommit checks that a caller can read the row that makes its transaction fail,
// although another transaction with the same commit inserted the row.
func TestErrorIsTrueAfterTheCommit(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	var wg sync.WaitGroup
	started, queued, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		if err := d.Tx(t.Context(), func(tx *Tx) error {
			close(started)
			<-queued
			return insertNote(t.Context(), 1)(tx)
		}); err != nil {
			t.Error(err)
		}
	})
	<-started
	wg.Go(func() {
		defer close(returned)
		if err := d.Tx(t.Context(), insertNote(t.Context(), 1)); !IsUnique(err) {
			t.Errorf("error = %v, want a unique violation", err)
		}
		if got := notes(t, d); got != "1" {
			t.Errorf("stored rows = %q, want 1", got)
		}
	})
	awaitWaiting(t, d, 1)
	wg.Go(func() {
		// This transaction delays the commit, so that the second caller has time to return too early.
		if err := d.Tx(t.Context(), func(*Tx) error {
			select {
			case <-returned:
			case <-time.After(20 * time.Millisecond):
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	awaitWaiting(t, d, 2)
	close(queued)
	wg.Wait()
}

// TestFirstMemberFails checks that the other callers begin a new transaction if the first caller fails.
func TestFirstMemberFails(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	boom := errors.New("boom")
	results := together(t, d, func(tx *Tx) error { return errors.Join(insertNote(t.Context(), 1)(tx), boom) }, insertNote(t.Context(), 2), insertNote(t.Context(), 3))
	if !errors.Is(results[0], boom) || results[1] != nil || results[2] != nil {
		t.Errorf("errors = %v, want boom, nil and nil", results)
	}
	if got := notes(t, d); got != "2 3" {
		t.Errorf("stored rows = %s, want 2 3", got)
	}
}

// TestPanicReleasesTheWriter checks that a panic reaches its caller and that the next transaction succeeds.
func TestPanicReleasesTheWriter(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach the caller")
				}
			}()
			_ = d.Tx(t.Context(), func(tx *Tx) error {
				if err := insertNote(t.Context(), 1)(tx); err != nil {
					t.Error(err)
				}
				panic("boom")
			})
		}()
	}
	if err := d.Tx(t.Context(), insertNote(t.Context(), 2)); err != nil {
		t.Fatal(err)
	}
	if got := notes(t, d); got != "2" {
		t.Errorf("stored rows = %s, want 2", got)
	}
}

// TestCancelledMemberChangesNothingElse checks that the cancellation of a caller, in its
// transaction or while it waits, does not roll back the other transactions.
func TestCancelledMemberChangesNothingElse(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	canceled, cancel := context.WithCancel(t.Context())
	waits, stopWaiting := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	results := together(t, d, func(tx *Tx) error {
		go func() { waited <- d.Tx(waits, insertNote(waits, 9)) }()
		awaitWaiting(t, d, 3)
		stopWaiting()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that was cancelled while it waited: error = %v, want context.Canceled", err)
		}
		return insertNote(t.Context(), 1)(tx)
	}, func(tx *Tx) error {
		// The context is cancelled while the statement runs.
		go cancel()
		_, err := tx.ExecContext(canceled, insertMany)
		if err != nil {
			return err
		}
		<-canceled.Done()
		return insertNote(canceled, 8)(tx)
	}, insertNote(t.Context(), 3))
	if results[0] != nil || !errors.Is(results[1], context.Canceled) || results[2] != nil {
		t.Errorf("errors = %v, want only context.Canceled, from the second transaction", results)
	}
	if got := notes(t, d); got != "1 3" {
		t.Errorf("stored rows = %.40s, want 1 3", got)
	}
}

// TestFullDiskInAGroup checks that a transaction is stored or returns an error if it shares its commit with
// a transaction that fills the disk.
func TestFullDiskInAGroup(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	if _, err := d.write.ExecContext(t.Context(), `PRAGMA max_page_count = 20`); err != nil {
		t.Fatal(err)
	}
	fill := func(tx *Tx) error {
		_, err := tx.ExecContext(t.Context(), insertMany)
		return err
	}
	results := together(t, d, insertNote(t.Context(), 1), fill, insertNote(t.Context(), 2))
	if !Full(results[1]) {
		t.Errorf("error = %v, want the error of a full disk", results[1])
	}
	// SQLite may roll back the statement or the whole transaction (sqlite.org/lang_transaction.html, 3.1).
	var want []string
	for i, n := range map[int]string{0: "1", 2: "2"} {
		if results[i] == nil {
			want = append(want, n)
		}
	}
	slices.Sort(want)
	if got := notes(t, d); got != strings.Join(want, " ") {
		t.Errorf("stored rows = %.40s, errors = %v, want the rows of the transactions without an error", got, results)
	}
	if err := d.Tx(t.Context(), insertNote(t.Context(), 3)); err != nil {
		t.Error(err)
	}
}

// TestDurableMemberIsDurable checks the setting of synchronous in each transaction: a durable
// transaction never shares a relaxed commit.
func TestDurableMemberIsDurable(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	var mu sync.Mutex
	relaxedCommits := 0
	var wg sync.WaitGroup
	// The first transaction is relaxed. The others begin while it is open.
	started, begun := make(chan struct{}), make(chan struct{})
	for i := range 400 {
		if i == 1 {
			<-started
		}
		wg.Go(func() {
			run, allowed := d.Tx, "2"
			if i%2 == 0 {
				run, allowed = d.TxRelaxed, "1 2"
			}
			if err := run(t.Context(), func(tx *Tx) error {
				var level string
				if err := tx.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&level); err != nil {
					return err
				}
				if !strings.Contains(allowed, level) {
					return fmt.Errorf("synchronous = %s, want one of %s", level, allowed)
				}
				if i == 0 {
					close(started)
					<-begun
				}
				if level == "1" {
					mu.Lock()
					relaxedCommits++
					mu.Unlock()
				}
				return insertNote(t.Context(), i)(tx)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	close(begun)
	wg.Wait()
	if relaxedCommits == 0 {
		t.Error("no transaction had a relaxed commit, want some")
	}
	if n := len(strings.Fields(notes(t, d))); n != 400 {
		t.Errorf("%d rows, want 400", n)
	}
}

// TestCallerDoesNotWaitForAHangingMember checks that a caller whose context is done returns although
// the function of another caller that shares the commit hangs.
func TestCallerDoesNotWaitForAHangingMember(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	started, queued := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	var result error
	wg.Go(func() {
		result = d.Tx(ctx, func(tx *Tx) error {
			close(started)
			<-queued
			tx.shared.began = time.Now().Add(time.Hour) // keeps the transaction open for the other caller, even on a slow machine
			return insertNote(ctx, 1)(tx)
		})
	})
	<-started
	hanging := make(chan error, 1)
	go func() {
		hanging <- d.Tx(t.Context(), func(tx *Tx) error {
			cancel()
			<-release
			return insertNote(t.Context(), 2)(tx)
		})
	}()
	awaitWaiting(t, d, 1)
	close(queued)
	wg.Wait()
	if !errors.Is(result, context.Canceled) {
		t.Errorf("the caller with a cancelled context got %v, want context.Canceled", result)
	}
	close(release)
	if err := <-hanging; err != nil {
		t.Error(err)
	}
	if got := notes(t, d); got != "1 2" {
		t.Errorf("stored rows = %q, want 1 2", got)
	}
}

// TestCancelledRequestKeepsSync cancels relaxed transactions at any time. Each later commit must wait for
// the disk.
func TestCancelledRequestKeepsSync(t *testing.T) {
	t.Parallel()
	d := openGroup(t)
	conn, err := d.write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for range 20_000 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		restore, err := relaxSync(ctx, conn)
		if err == nil {
			err = restore()
		}
		var level int
		if e := conn.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&level); e != nil || level != 2 {
			t.Fatalf("after the error %v, synchronous is %d, %v, want 2 (FULL)", err, level, e)
		}
		cancel()
	}
}
