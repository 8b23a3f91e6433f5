package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		args    []string
		fsync   bool
		command []string // nil if the arguments are invalid
	}{
		{name: "durable by default", args: []string{"--", "go", "test"}, fsync: true, command: []string{"go", "test"}},
		{name: "fast", args: []string{"-fsync=off", "--", "go"}, command: []string{"go"}},
		{name: "flags of the command are not parsed", args: []string{"go", "-fsync=off"}, fsync: true, command: []string{"go", "-fsync=off"}},
		{name: "no command", args: []string{"-fsync=off", "--"}},
		{name: "invalid value of fsync", args: []string{"-fsync=no", "--", "go"}},
		{name: "unknown flag", args: []string{"-port=1", "--", "go"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(tt.args, io.Discard)
			if tt.command == nil {
				if err == nil {
					t.Fatalf("parse = %+v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.fsync != tt.fsync || !slices.Equal(got.command, tt.command) {
				t.Errorf("parse = %+v, want fsync %v and command %q", got, tt.fsync, tt.command)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	t.Setenv(variable, "postgres://elsewhere/postgres")
	tests := []struct {
		script string
		want   int
	}{
		{"exit 0", 0},
		{"exit 7", 7},
		{"kill -TERM $$", 128 + int(syscall.SIGTERM)},
		{"test $" + variable + " = postgres://elsewhere/postgres", 0}, // an existing server is used unchanged
	}
	for _, tt := range tests {
		var stderr bytes.Buffer
		if got := run([]string{"--", "sh", "-c", tt.script}, &stderr); got != tt.want {
			t.Errorf("sh -c %q: exit code = %d, want %d; stderr %q", tt.script, got, tt.want, stderr.String())
		}
	}
	var stderr bytes.Buffer
	if got := run([]string{"--", "/nonexistent/command"}, &stderr); got != exitNotFound || stderr.Len() == 0 {
		t.Errorf("missing command: exit code = %d, want %d; stderr %q, want a message", got, exitNotFound, stderr.String())
	}
}

// serverPrograms returns the folder of the installed server. Without a server it skips the test, or
// fails the test if CI is true.
func serverPrograms(t *testing.T) string {
	t.Helper()
	bin, err := defaultSearch().find(t.Context())
	if err == nil {
		return bin
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
	return ""
}

func TestClusterSettings(t *testing.T) {
	t.Parallel()
	bin := serverPrograms(t)
	for _, fsync := range []bool{true, false} {
		t.Run("fsync "+strconv.FormatBool(fsync), func(t *testing.T) {
			t.Parallel()
			var stderr strings.Builder
			c, err := start(t.Context(), bin, fsync, &stderr)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := pgx.Connect(t.Context(), c.url())
			if err != nil {
				t.Fatal(err)
			}
			var encoding, order, durable string
			var superuser, letters bool
			err = conn.QueryRow(t.Context(), `
				SELECT pg_encoding_to_char(encoding), datcollate, current_setting('fsync'),
				       (SELECT usesuper FROM pg_user WHERE usename = current_user), upper('é') = 'É'
				FROM pg_database WHERE datname = current_database()`).Scan(&encoding, &order, &durable, &superuser, &letters)
			if err != nil {
				t.Fatal(err)
			}
			if encoding != "UTF8" || !strings.HasPrefix(order, "C") || !superuser || !letters {
				t.Errorf("encoding %s, order %s, superuser %v, letters beyond ASCII %v; want UTF8, C, true, true", encoding, order, superuser, letters)
			}
			if want := map[bool]string{true: "on", false: "off"}[fsync]; durable != want {
				t.Errorf("fsync is %s, want %s", durable, want)
			}
			if err := conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := c.stop(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(c.folder); !os.IsNotExist(err) {
				t.Errorf("the folder %s still exists after stop: %v", c.folder, err)
			}
		})
	}
}

func TestStopReportsEarlierExit(t *testing.T) {
	t.Parallel()
	c, err := start(t.Context(), serverPrograms(t), false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.server.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	if err := c.stop(); err == nil || !strings.Contains(err.Error(), "immediate shutdown") {
		t.Errorf("stop = %v, want an error with the line of the server's log about the shutdown", err)
	}
}

func TestFailedStartRemovesFiles(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	programs := layout(t, "initdb!", "postgres!") // empty files cannot be run
	if _, err := start(t.Context(), programs, false, io.Discard); err == nil {
		t.Fatal("start returned no error for empty programs")
	}
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("%s exists after the failed start, want an empty folder", left[0].Name())
	}
}

// TestInterruptReachesTheCommand runs pgcluster and sends SIGTERM to it. pgcluster forwards the signal to the
// command, which exits with 9.
func TestInterruptReachesTheCommand(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "--", "sh", "-c", `trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done`)
	cmd.Env = append(os.Environ(), "PGCLUSTER_TEST_MAIN=1", variable+"=given")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 9 {
		t.Errorf("exit code = %d, want 9 from the command: %v", got, err)
	}
}

// TestMain runs the tests. If environment variables are set, the test binary instead runs as pgcluster, or as
// the command that causes deadlocks.
func TestMain(m *testing.M) {
	if os.Getenv(deadlockVariable) != "" && os.Getenv(variable) != "" {
		if err := causeDeadlocks(context.Background()); err != nil {
			os.Exit(exitUsage)
		}
		os.Exit(0)
	}
	if os.Getenv("PGCLUSTER_TEST_MAIN") == "1" {
		main()
	}
	os.Exit(m.Run())
}
