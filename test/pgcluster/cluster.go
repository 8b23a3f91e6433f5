package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	superuser    = "postgres"
	startTimeout = time.Minute           // time limit for the server's start
	stopTimeout  = 10 * time.Second      // time limit for the server's exit, after which the server is killed
	pollInterval = 20 * time.Millisecond // wait between two attempts to connect
	logTail      = 4 << 10               // bytes of the server's log that an error contains
)

// cluster is a running server. Its data, socket and log are in one folder, which other accounts cannot
// access. Therefore the socket needs no password.
type cluster struct {
	folder string
	server *exec.Cmd
	ended  chan struct{} // closed when the server has exited
}

// start creates a cluster with the programs in bin, starts the server and waits until the server
// responds. If start fails, it stops the server and removes the folder.
func start(ctx context.Context, bin string, fsync bool, stderr io.Writer) (*cluster, error) {
	acc, err := serverAccount()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "certvault-pg-") // short, because a socket's path has at most 103 bytes on macOS
	if err != nil {
		return nil, fmt.Errorf("creating the cluster's folder: %w", err)
	}
	c := &cluster{folder: folder, ended: make(chan struct{})}
	err = acc.chown(folder)
	if err == nil {
		err = c.initialise(ctx, bin, acc, stderr)
	}
	if err == nil {
		err = c.launch(bin, acc, fsync)
	}
	if err == nil {
		err = c.await(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting PostgreSQL from %s: %w", bin, err), c.stop())
	}
	return c, nil
}

// locales are the arguments of initdb that initialise tries in turn. It prints the message, if any, before
// it tries an entry. The vault requires that texts are sorted by bytes and that upper and lower work for all
// Unicode letters. C.UTF-8 provides both. Systems without C.UTF-8 may have en_US.UTF-8 for the letters.
var locales = []struct {
	args    []string
	message string
}{
	{args: []string{"--locale=C.UTF-8"}},
	{
		args:    []string{"--locale=C", "--lc-ctype=en_US.UTF-8"},
		message: "this system has no locale C.UTF-8; the cluster uses the letters of en_US.UTF-8 and the order of C",
	},
}

// initialise creates the data folder with the first locale that the system has.
func (c *cluster) initialise(ctx context.Context, bin string, acc account, stderr io.Writer) error {
	var err error
	for _, locale := range locales {
		if locale.message != "" {
			fmt.Fprintln(stderr, "pgcluster:", locale.message)
		}
		args := append([]string{
			"--pgdata=" + c.data(), "--username=" + superuser, "--encoding=UTF8",
			"--auth-local=trust", "--auth-host=reject",
			"--no-sync", // the data is not needed after a power failure
		}, locale.args...)
		var out []byte
		out, err = c.program(ctx, acc, bin, "initdb", args...).CombinedOutput()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("initdb: %w\n%s", err, bytes.TrimSpace(out))
		if !bytes.Contains(out, []byte("invalid locale name")) {
			break
		}
	}
	return err
}

// launch starts the server and does not wait until the server responds.
func (c *cluster) launch(bin string, acc account, fsync bool) error {
	settings := []string{
		"listen_addresses=", // only the socket: no port conflict, no access from outside
		"unix_socket_directories=" + c.folder,
		"port=" + port,
		"max_connections=300",
		"shared_buffers=128MB",
	}
	if !fsync {
		settings = append(settings, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	}
	args := []string{"-D", c.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}

	log, err := os.Create(c.log())
	if err != nil {
		return fmt.Errorf("creating the server's log: %w", err)
	}
	// The caller's context is not used, because the server must run until stop, even after an interrupt.
	server := c.program(context.Background(), acc, bin, "postgres", args...)
	server.Stdout, server.Stderr = log, log
	err = server.Start()
	closed := log.Close() // a started server has its own descriptor
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	c.server = server
	go func() {
		defer close(c.ended)
		_ = server.Wait() // the log contains the reason for the exit
	}()
	return closed
}

// await waits until the server responds to a query. It returns an error if the server exits, does not respond
// within startTimeout, or ctx is done.
func (c *cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := c.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("the server exited\n%s", c.tail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for the server: %w, last error: %w\n%s", context.Cause(ctx), err, c.tail())
		case <-time.After(pollInterval):
		}
	}
}

// ping connects once and executes an empty query.
func (c *cluster) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.url())
	if err != nil {
		return err
	}
	return errors.Join(conn.Ping(ctx), conn.Close(ctx))
}

// stop stops the server and removes the folder. If the server exited earlier, stop returns an error
// with the last part of the server's log.
func (c *cluster) stop() error {
	var failure error
	if c.server != nil {
		failure = c.halt()
	}
	if err := os.RemoveAll(c.folder); err != nil {
		failure = errors.Join(failure, fmt.Errorf("removing the cluster: %w", err))
	}
	return failure
}

// halt stops the server immediately, because the data is not needed. If the server does not exit
// within stopTimeout, halt kills the server.
func (c *cluster) halt() error {
	select {
	case <-c.ended:
		return fmt.Errorf("the server exited before it was stopped\n%s", c.tail())
	default:
	}
	if err := c.server.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the server: %w", err)
	}
	select {
	case <-c.ended:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := c.server.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing the server: %w", err)
	}
	<-c.ended
	return nil
}

// program returns a command that runs one of the server's programs as the account acc, without the
// PG* and locale variables of this process. The output is in English.
func (c *cluster) program(ctx context.Context, acc account, bin, name string, args ...string) *exec.Cmd {
	//nolint:gosec // the programs belong to the installed PostgreSQL
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.Dir = c.folder // a folder that the account can access
	cmd.SysProcAttr = acc.attributes()
	cmd.Env = []string{"LC_ALL=C"}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PG") && !strings.HasPrefix(entry, "LC_") && !strings.HasPrefix(entry, "LANG") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	return cmd
}

// port is part of the socket's file name; no network port is used.
const port = "5432"

// url returns the URL of the database "postgres" for the superuser.
func (c *cluster) url() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Path:     "/postgres",
		RawQuery: url.Values{"host": {c.folder}, "port": {port}}.Encode(),
	}
	return u.String()
}

func (c *cluster) data() string { return filepath.Join(c.folder, "data") }
func (c *cluster) log() string  { return filepath.Join(c.folder, "server.log") }

// tail returns the last part of the server's log.
func (c *cluster) tail() string {
	log, err := os.ReadFile(c.log())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(log[max(0, len(log)-logTail):]))
}
