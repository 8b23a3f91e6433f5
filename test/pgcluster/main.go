// Command pgcluster runs a command with a private PostgreSQL cluster:
//
//	go run ./test/pgcluster -- go test ./...
//
// It creates a new cluster in a temporary folder with the installed server programs, starts the
// server on a Unix socket in that folder, and passes the address of the server to the command as
// CERTVAULT_TEST_POSTGRES. After the command has exited, pgcluster stops the server and removes the
// cluster. The exit code of pgcluster is that of the command. If the server's log reports a
// deadlock, pgcluster prints the report and exits with an error even if the command succeeded. A
// test that provokes a deadlock writes the comment /* deadlock on purpose */ into its statements.
//
// If CERTVAULT_TEST_POSTGRES is already set, pgcluster only runs the command. If no server is
// installed and pgcluster cannot install a server, it prints a message and runs the command without
// the variable, so that tests of PostgreSQL are skipped. If CI is true, it exits with 1 instead.
//
// Command pgcluster manages only the cluster. Package dbtest creates databases and schemas.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// variable is the environment variable with the address of the cluster: a URL of the superuser for the
// database "postgres".
const variable = "CERTVAULT_TEST_POSTGRES"

// Exit codes of pgcluster itself. The exit codes of the command and those in execute.go are also possible.
const (
	exitFailed = 1
	exitUsage  = 2
)

// forwarded are the signals that pgcluster forwards to the command. Before the command starts,
// these signals stop pgcluster.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

func main() {
	// The kernel sends a signal to the server when the thread that started the server exits, see
	// dieWithParent. The main thread exits only with the process.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run runs the command in args with a cluster and returns the exit code.
func run(args []string, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "pgcluster:", err)
		return exitUsage
	}
	if os.Getenv(variable) != "" {
		return execute(opts.command, os.Environ(), stderr)
	}

	ctx, stop := signal.NotifyContext(context.Background(), forwarded...)
	defer stop()
	bin, err := locate(ctx, stderr)
	if errors.Is(err, errNoServer) && os.Getenv("CI") != "true" {
		fmt.Fprintln(stderr, "pgcluster: no PostgreSQL server is installed (Debian: apt-get install postgresql); tests that need it are skipped")
		return execute(opts.command, os.Environ(), stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "pgcluster:", err)
		return exitFailed
	}

	c, err := start(ctx, bin, opts.fsync, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "pgcluster:", err)
		return exitFailed
	}
	if err := ctx.Err(); err != nil { // a signal arrived while the server started
		fmt.Fprintln(stderr, "pgcluster:", errors.Join(err, c.stop()))
		return exitFailed
	}
	code := execute(opts.command, append(os.Environ(), variable+"="+c.url()), stderr)
	reports, err := c.deadlocks()
	for _, report := range reports {
		fmt.Fprintf(stderr, "pgcluster: the server reported a deadlock:\n%s\n", report)
	}
	if err := errors.Join(err, c.stop()); err != nil {
		fmt.Fprintln(stderr, "pgcluster:", err)
		return max(code, exitFailed)
	}
	if len(reports) > 0 {
		return max(code, exitFailed)
	}
	return code
}

// options are the parsed arguments.
type options struct {
	fsync   bool     // true if commits are synced to the disk
	command []string // the command and its arguments, never empty
}

// parse parses the command line. It returns flag.ErrHelp if the help was requested.
func parse(args []string, stderr io.Writer) (options, error) {
	flags := flag.NewFlagSet("pgcluster", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: pgcluster [-fsync=on|off] -- COMMAND [ARGUMENT...]")
		flags.PrintDefaults()
	}
	fsync := flags.String("fsync", "on", "`on` makes commits durable as in production; off is faster")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if *fsync != "on" && *fsync != "off" {
		return options{}, fmt.Errorf("-fsync must be on or off, not %q", *fsync)
	}
	if flags.NArg() == 0 {
		return options{}, errors.New("no command to run; usage: pgcluster [-fsync=on|off] -- COMMAND [ARGUMENT...]")
	}
	return options{fsync: *fsync == "on", command: flags.Args()}, nil
}
