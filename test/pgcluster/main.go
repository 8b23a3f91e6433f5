// Command pgcluster runs a command beside a private PostgreSQL cluster:
//
//	go run ./test/pgcluster -- go test ./...
//
// It makes a new cluster in a temporary folder from the server programs that
// are installed, starts it on a Unix socket in that folder, hands its address
// to the command as CERTVAULT_TEST_POSTGRES, and stops and removes it when the
// command has ended. The exit code is the command's.
//
// When CERTVAULT_TEST_POSTGRES is set already, it runs the command and nothing
// else. When no server is installed and none can be, it says so and runs the
// command without the variable, so that tests of PostgreSQL skip; with CI=true
// it exits 1.
//
// It owns the cluster's life and nothing in it: databases and schemas are made
// by package dbtest.
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

// variable hands the address of the cluster to the command: a URL of the
// superuser to the database "postgres".
const variable = "CERTVAULT_TEST_POSTGRES"

// Exit codes of our own, beside those of the command.
const (
	exitFailed = 1
	exitUsage  = 2
)

// forwarded are the signals that end a run; the command gets each of them too.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

func main() {
	// The server asks the kernel for a signal when the thread that started it
	// ends, see dieWithParent; the main thread lives as long as the process.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run does what the package comment says and returns the exit code.
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
		fmt.Fprintln(stderr, "pgcluster: no PostgreSQL server is installed (Debian: apt-get install postgresql); tests that need one will skip")
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
	if err := ctx.Err(); err != nil { // interrupted while the server started
		fmt.Fprintln(stderr, "pgcluster:", errors.Join(err, c.stop()))
		return exitFailed
	}
	code := execute(opts.command, append(os.Environ(), variable+"="+c.url()), stderr)
	if err := c.stop(); err != nil {
		fmt.Fprintln(stderr, "pgcluster:", err)
		return max(code, exitFailed)
	}
	return code
}

// options are what the command line says.
type options struct {
	fsync   bool     // whether commits reach the disk
	command []string // the command and its arguments, never empty
}

// parse reads the command line.
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
		return options{}, fmt.Errorf("-fsync is on or off, not %q", *fsync)
	}
	if flags.NArg() == 0 {
		return options{}, errors.New("no command to run; usage: pgcluster [-fsync=on|off] -- COMMAND [ARGUMENT...]")
	}
	return options{fsync: *fsync == "on", command: flags.Args()}, nil
}
