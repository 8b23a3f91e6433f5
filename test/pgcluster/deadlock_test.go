package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestDeadlockFailsTheRun runs pgcluster with a command that causes two deadlocks. Only the statements of the
// first deadlock contain onPurpose. pgcluster reports only the second deadlock, and exits with 1.
func TestDeadlockFailsTheRun(t *testing.T) {
	t.Parallel()
	serverPrograms(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, "-fsync=off", "--", self)
	cmd.Env = append(os.Environ(), "PGCLUSTER_TEST_MAIN=1", variable+"=", deadlockVariable+"=1")
	cmd.Stderr = &stderr
	_ = cmd.Run() // the test checks the exit code below
	if got := cmd.ProcessState.ExitCode(); got != exitFailed {
		t.Errorf("exit code = %d, want %d", got, exitFailed)
	}
	for part, want := range map[string]int{"ERROR:  deadlock detected": 1, "DETAIL:  Process ": 1, "STATEMENT:  UPDATE pair": 1, onPurpose: 0} {
		if got := strings.Count(stderr.String(), part); got != want {
			t.Errorf("the output has %q %d times, want %d", part, got, want)
		}
	}
	if t.Failed() {
		t.Log(stderr.String())
	}
}

// deadlockVariable makes the test binary cause deadlocks.
const deadlockVariable = "PGCLUSTER_TEST_DEADLOCK"

// causeDeadlocks causes two deadlocks, first with the comment onPurpose and then without it. In each
// deadlock, two transactions update two rows in different orders. The function does not close its
// connections, because the process exits afterwards.
func causeDeadlocks(ctx context.Context) error {
	var pair [2]*pgx.Conn
	for i := range pair {
		conn, err := pgx.Connect(ctx, os.Getenv(variable))
		if err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `SET deadlock_timeout = '20ms'`); err != nil {
			return err
		}
		pair[i] = conn
	}
	if _, err := pair[0].Exec(ctx, `CREATE TABLE pair (id INT PRIMARY KEY, n INT); INSERT INTO pair VALUES (1, 0), (2, 0)`); err != nil {
		return err
	}
	for _, comment := range []string{onPurpose, ""} {
		update := func(i int, id string) error {
			_, err := pair[i].Exec(ctx, `UPDATE pair SET n = n + 1 WHERE id = `+id+` `+comment)
			return err
		}
		for i, id := range []string{"1", "2"} {
			if _, err := pair[i].Exec(ctx, `BEGIN`); err != nil {
				return err
			}
			if err := update(i, id); err != nil {
				return err
			}
		}
		done := make(chan error)
		go func() {
			err := update(1, "1")
			_, e := pair[1].Exec(ctx, `ROLLBACK`)
			if e != nil {
				err = e
			}
			done <- err
		}()
		_ = update(0, "2") // PostgreSQL cancels one of the two transactions
		if _, err := pair[0].Exec(ctx, `ROLLBACK`); err != nil {
			return err
		}
		<-done
	}
	return nil
}
