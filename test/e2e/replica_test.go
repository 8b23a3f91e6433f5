//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

// standby is a PostgreSQL server that follows the test server by streaming replication.
type standby struct {
	t      *testing.T
	folder string
	bin    string
	attr   *syscall.SysProcAttr
	server *exec.Cmd
}

// newStandby copies the test server and starts the copy as its standby. A test that runs as root
// starts the standby under the account postgres, because PostgreSQL refuses to run as root.
func newStandby(t *testing.T, database string) *standby {
	t.Helper()
	d, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := &standby{t: t, attr: &syscall.SysProcAttr{Setpgid: true}}
	if err := d.QueryRowContext(t.Context(), `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&s.bin); err != nil {
		t.Fatal(err)
	}
	if s.folder, err = os.MkdirTemp("", "certvault-standby-"); err != nil { //nolint:usetesting // the path of a socket has at most 107 bytes
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.folder) })
	if os.Geteuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.ParseUint(account.Uid, 10, 32)
		gid, _ := strconv.ParseUint(account.Gid, 10, 32)
		if err := os.Chown(s.folder, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
		s.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	backup := s.command("pg_basebackup", "--dbname="+database, "--pgdata="+s.data(), "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *standby) data() string { return filepath.Join(s.folder, "data") }

func (s *standby) command(name string, args ...string) *exec.Cmd {
	// t.Context is canceled before the cleanup functions run, and stop is one of them.
	c := exec.CommandContext(context.WithoutCancel(s.t.Context()), filepath.Join(s.bin, name), args...)
	c.Dir, c.SysProcAttr = s.folder, s.attr
	return c
}

func (s *standby) start() {
	s.t.Helper()
	// max_connections must be at least that of the test server (PostgreSQL documentation, "Hot Standby").
	s.server = s.command("postgres", "-D", s.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories="+s.folder,
		"-c", "port=5432", "-c", "max_connections=300", "-c", "shared_buffers=32MB", "-c", "fsync=off")
	if err := s.server.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// stop ends the standby without waiting for its connections.
func (s *standby) stop() {
	if s.server.ProcessState == nil {
		s.signal(syscall.SIGCONT)
		_ = s.server.Process.Signal(syscall.SIGQUIT)
		_ = s.server.Wait()
	}
}

// signal sends a signal to each process of the standby. A signal to a process group is not enough, because
// the processes are in different groups.
func (s *standby) signal(sig syscall.Signal) {
	s.t.Helper()
	pid := strconv.Itoa(s.server.Process.Pid)
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range append(strings.Fields(string(children)), pid) {
		n, err := strconv.Atoi(p)
		if err == nil {
			err = syscall.Kill(n, sig)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			s.t.Fatal(err)
		}
	}
}

// url returns the URL of the copy of database on the standby. database is a URL on the test server.
func (s *standby) url(database string) string {
	s.t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		s.t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", s.folder)
	q.Set("port", "5432")
	u.RawQuery = q.Encode()
	return u.String()
}

// metric returns the value of the metric with the given name and labels, written as in /metrics.
func metric(t *testing.T, address, name string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(body)
	if found == nil {
		t.Fatalf("the metrics do not contain %s", name)
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// rounds is how often the replica fails in each way.
const rounds = 3

// readers sends the requests of the test and records failures.
type readers struct {
	f *fixture
	// reader has another token than the writer. After a write, the reads with the same token go to the
	// primary until the replica has the write.
	reader   *vault.Client
	requests atomic.Int64
	failed   sync.Map
}

func (r *readers) failf(format string, args ...any) {
	r.failed.Store(fmt.Sprintf(format, args...), true)
}

// read reads lists and a public page until ctx is done.
func (r *readers) read(ctx context.Context, reference string) {
	for ctx.Err() == nil {
		for _, target := range []string{"/business/certificate-vault?per_page=5", "/business/certificates?search=person", "/verify/" + reference} {
			a, err := r.reader.Get(ctx, target)
			r.requests.Add(1)
			if ctx.Err() == nil && (err != nil || a.Status != http.StatusOK) {
				r.failf("GET %s = %v, %v", target, a, err)
			}
		}
	}
}

// write uploads certificates until ctx is done. Each must be in the list and have a public page
// immediately after the upload.
func (r *readers) write(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		a, err := r.f.client.Upload(ctx, form(fmt.Sprintf("Writer %d", i)))
		r.requests.Add(1)
		if ctx.Err() != nil {
			return
		}
		if err != nil || a.Status != http.StatusCreated {
			r.failf("upload = %v, %v", a, err)
			continue
		}
		reference := regexp.MustCompile(`NWU-[0-9A-Z]{16}`).Find(a.Body)
		list, err := r.f.client.Get(ctx, "/business/certificate-vault?per_page=5")
		if ctx.Err() == nil && (err != nil || !bytes.Contains(list.Body, reference)) {
			r.failf("%s is not in the list after its upload: %v", reference, err)
		}
		for ctx.Err() == nil { // until the page no longer refreshes itself
			v, err := r.f.client.Get(ctx, "/verify/"+string(reference))
			if ctx.Err() == nil && (err != nil || v.Status != http.StatusOK) {
				r.failf("the page of %s = %v, %v", reference, v, err)
			}
			if err != nil || !bytes.Contains(v.Body, []byte(`http-equiv="refresh"`)) && v.Header.Get("Refresh") == "" {
				break
			}
		}
	}
}

// TestReplica stops and suspends a replica and pauses its replay under load. No request may fail, and each
// acknowledged upload must be in the next list that its uploader reads.
func TestReplica(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts another PostgreSQL server and takes a minute")
	}
	t.Parallel()
	database := dbtest.MigratedURL(t)
	f := start(t, database)
	reference := f.await(t, f.upload(t, form("Person 1")).UUID, "approved").ReferenceID
	if code, err := f.Stop(); err != nil || code != 0 {
		t.Fatalf("exit code = %d, %v; want 0", code, err)
	}
	s := newStandby(t, database)
	metrics := freeAddress(t)
	f.restart(t, "--database-read", s.url(database), "--metrics", metrics)
	from := func(what string) float64 { return metric(t, metrics, `certvault_replica_reads_total{from="`+what+`"}`) }
	caughtUp := func() {
		t.Helper()
		eventually(t, time.Minute, "the replica is up to date", func() bool {
			lag := metric(t, metrics, "certvault_replica_lag_seconds")
			return lag >= 0 && lag < 3
		})
	}
	caughtUp()

	r := &readers{f: f, reader: f.as(t, f.token(t, "", vault.Permissions...))}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() { r.read(ctx, reference) })
	}
	clients.Go(func() { r.write(ctx) })
	// increases waits until the metric counts 20 more reads for the value what of the label from.
	increases := func(what string) {
		t.Helper()
		before := from(what)
		eventually(t, time.Minute, "reads are counted as "+what, func() bool { return from(what) >= before+20 })
	}
	replay := func(function string) {
		t.Helper()
		d, err := sql.Open("pgx", s.url(database))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := d.ExecContext(ctx, `SELECT `+function+`()`); err != nil {
			t.Fatal(err)
		}
	}
	for range rounds {
		increases("replica")
		s.stop()
		increases("primary_down")
		s.start()
		caughtUp()
		increases("replica")
		replay("pg_wal_replay_pause")
		increases("primary_behind")
		replay("pg_wal_replay_resume")
		caughtUp()
		increases("replica")
		s.signal(syscall.SIGSTOP)
		increases("primary_down")
		s.signal(syscall.SIGCONT)
		caughtUp()
	}
	stop()
	clients.Wait()
	r.failed.Range(func(failure, _ any) bool { t.Error(failure); return true })
	t.Logf("%d requests; reads from the replica %.0f, from the primary: down %.0f, behind %.0f, written %.0f, failed %.0f", r.requests.Load(),
		from("replica"), from("primary_down"), from("primary_behind"), from("primary_written"), from("primary_failed"))

	if out := outputOf(t, "doctor", "--data", f.Data, "--database", f.Database, "--database-read", s.url(database)); !strings.Contains(out, "up to date") {
		t.Errorf("doctor printed %s, want that the replica is up to date", out)
	}
	if code, err := f.Stop(); err != nil || code != 0 {
		t.Errorf("exit code = %d, %v; want 0", code, err)
	}
	// A database of another installation is refused as a replica.
	other := dbtest.MigratedURL(t)
	start(t, other)
	if out := outputOf(t, "serve", "--listen", "127.0.0.1:0", "--data", f.Data, "--database", f.Database, "--database-read", other); !strings.Contains(out, "another installation") {
		t.Errorf("starting a server with the database of another installation as a replica printed %s, want an error", out)
	}
}

// outputOf runs certvault with args and returns its output. The exit code may be any number.
func outputOf(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := vault.Binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return string(out)
}
