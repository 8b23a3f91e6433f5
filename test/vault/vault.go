// Package vault runs the built binary as a process, and uses it like an external client: on the command
// line and over HTTP. The package imports no package of Certvault except pdftest. It is only for tests
// and for the programs in the folder test.
package vault

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// readyTime is the maximum wait until a started vault is ready.
	readyTime = 30 * time.Second
	// stopTime is the maximum wait for a vault to exit. It is longer than exitTime in package app.
	stopTime = 40 * time.Second
	// pollTime is the interval of requests that wait for a state.
	pollTime = 10 * time.Millisecond
	// portTries is the maximum number of attempts to start a vault if its port is in use.
	portTries = 3
)

// Options configures a vault. Functions that run a command, such as Run, use only Data, Database, Env and
// Binary.
type Options struct {
	// Data is the data folder of the vault. The folder must exist.
	Data string
	// Database is a postgres:// URL. If it is empty, the vault uses SQLite.
	Database string
	// Args are additional flags of serve.
	Args []string
	// Env are additional environment variables in the form NAME=value.
	Env []string
	// Binary is the path of the binary, such as that of an earlier release. If it is empty, the function
	// Binary returns the path.
	Binary string
	// Listen is the host and port on which the vault listens. If it is empty, the vault listens on localhost,
	// on the port of Socket or on a free port.
	Listen string
	// Proxy is true if the vault runs without TLS, behind a proxy on this machine.
	Proxy bool
	// BaseURL is the value of --base-url if Proxy is true. If it is empty, the value is URL. If Proxy is
	// false, BaseURL is ignored.
	BaseURL string
	// If Unready is true, Start does not wait until the vault is ready, for example because the vault does
	// not have a TLS certificate yet.
	Unready bool
	// Tracer is a command that starts the command serve, such as strace with options. The process of the
	// tracer must become the process of the vault, as with strace -D.
	Tracer []string
	// Socket is a socket that is passed to the vault, as by a service manager. It remains open when the
	// vault stops. If Socket is nil, the vault opens a port. If Socket is not nil, Tracer is ignored.
	Socket *net.TCPListener
}

// Vault is a process that runs certvault serve.
type Vault struct {
	Options

	// URL is https:// followed by Address. It is the base URL in links and QR codes, unless Proxy is true and
	// BaseURL is set.
	URL string
	// Address is the host and port on which the vault listens.
	Address string
	// ReadyAfter is the time from the start of the process to the first response of /readyz with the
	// status 200, or 0 if Unready is true.
	ReadyAfter time.Duration

	cmd  *exec.Cmd
	done chan struct{}
	err  error
	out  string
	log  string
}

// Binary returns the path of the built binary: $CERTVAULT_BINARY, or bin/certvault of this
// repository.
func Binary() (string, error) {
	if path := os.Getenv("CERTVAULT_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "certvault")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the binary is missing, run make build: %w", err)
	}
	return path, nil
}

// Root returns the folder of this repository. The current folder must be in the repository.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the repository: no go.mod above this folder")
		}
		dir = parent
	}
}

// Warm links a cache folder that all tests share into a new data folder. The cache contains the compiled
// renderer, whose compilation takes most of the time of a first start.
func Warm(data string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("finding the cache folder of the user: %w", err)
	}
	shared := filepath.Join(cache, "certvault-test", "pdfium")
	if err := os.MkdirAll(shared, 0o700); err != nil {
		return fmt.Errorf("linking the compiled renderer: %w", err)
	}
	if err := os.Symlink(shared, filepath.Join(data, "cache")); err != nil {
		return fmt.Errorf("linking the compiled renderer: %w", err)
	}
	return nil
}

// Start starts a vault and waits until it is ready, unless o.Unready is true. ctx limits only the wait: the
// vault continues to run after ctx is done. The caller must call Stop or Kill.
func Start(ctx context.Context, o Options) (*Vault, error) {
	var err error
	for range portTries {
		var v *Vault
		if v, err = start(ctx, o); err == nil {
			return v, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, err
}

func start(ctx context.Context, o Options) (*Vault, error) {
	v := &Vault{Options: o, Address: o.Listen, done: make(chan struct{})}
	if v.Address == "" {
		port, err := choosePort(ctx, o)
		if err != nil {
			return nil, err
		}
		v.Address = net.JoinHostPort("localhost", port)
	}
	v.URL = "https://" + v.Address
	args := []string{"serve", "--listen", v.Address}
	if o.Proxy {
		args = append(args, "--behind-proxy", "127.0.0.1,::1", "--base-url", cmp.Or(o.BaseURL, v.URL))
		if o.Binary == "" {
			args = append(args, "--drain", "0s") // earlier releases do not have this flag
		}
	}
	tracer := o.Tracer
	if o.Socket != nil {
		// LISTEN_PID must be the process id of the vault (sd_listen_fds(3)). Only the new process knows its id.
		tracer = []string{"sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"`}
	}
	var err error
	v.cmd, err = command(context.WithoutCancel(ctx), o, tracer, append(args, o.Args...)...)
	if err != nil {
		return nil, err
	}
	if o.Socket != nil {
		file, err := o.Socket.File()
		if err != nil {
			return nil, fmt.Errorf("passing the socket: %w", err)
		}
		defer func() { _ = file.Close() }() // the process has its own descriptor
		v.cmd.ExtraFiles = []*os.File{file}
	}
	out, err := os.CreateTemp("", "certvault-stdout-")
	if err != nil {
		return nil, fmt.Errorf("starting the vault: %w", err)
	}
	log, err := os.CreateTemp("", "certvault-stderr-")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the vault: %w", err), out.Close())
	}
	v.cmd.Stdout, v.cmd.Stderr = out, log
	v.out, v.log = out.Name(), log.Name()
	began := time.Now()
	err = v.cmd.Start()
	// The process has its own descriptors.
	if err = errors.Join(err, out.Close(), log.Close()); err != nil {
		return nil, fmt.Errorf("starting the vault: %w", err)
	}
	go func() {
		v.err = v.cmd.Wait()
		close(v.done)
	}()
	if o.Unready {
		return v, nil
	}
	if err := v.awaitReady(ctx); err != nil {
		v.Kill()
		return nil, fmt.Errorf("%w\n%s", err, v.Log())
	}
	v.ReadyAfter = time.Since(began)
	return v, nil
}

// choosePort returns the port of the socket, or a free port.
func choosePort(ctx context.Context, o Options) (string, error) {
	if o.Socket == nil {
		return freePort(ctx)
	}
	_, port, err := net.SplitHostPort(o.Socket.Addr().String())
	if err != nil {
		return "", fmt.Errorf("reading the port of the socket: %w", err)
	}
	return port, nil
}

func freePort(ctx context.Context) (string, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err = errors.Join(err, l.Close()); err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return port, nil
}

// awaitReady waits until the status of /readyz is 200.
func (v *Vault) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		if v.ready(ctx) {
			return nil
		}
		select {
		case <-v.done:
			return fmt.Errorf("the vault exited before it was ready: %w", v.err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the vault: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func (v *Vault) ready(ctx context.Context) bool {
	transport, err := v.Transport()
	if err != nil {
		return false // the TLS certificate does not exist yet
	}
	defer transport.CloseIdleConnections()
	url := v.URL
	if v.Proxy {
		url = "http://" + v.Address
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	req.Header.Set("X-Forwarded-Proto", "https")
	res, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	return errors.Join(res.Body.Close()) == nil && res.StatusCode == http.StatusOK
}

// Transport returns a new transport that trusts only the vault's self-signed TLS certificate. If Proxy is
// true, the transport trusts the certificates that the system trusts.
func (v *Vault) Transport() (*http.Transport, error) {
	t := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 64}
	if v.Proxy {
		return t, nil
	}
	pem, err := os.ReadFile(filepath.Join(v.Data, "tls", "cert.pem"))
	if err != nil {
		return nil, fmt.Errorf("reading the vault's certificate: %w", err)
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("reading the vault's certificate: the file has no certificate")
	}
	return t, nil
}

// PID returns the id of the process.
func (v *Vault) PID() int { return v.cmd.Process.Pid }

// CPU returns the processor time of the process, or 0 if the system does not report this time.
func (v *Vault) CPU() time.Duration {
	const tick = 10 * time.Millisecond // Linux reports times in hundredths of a second
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", v.PID()))
	if err != nil {
		return 0
	}
	// The name is in parentheses and may contain spaces. The user time and the system time are the 12th and
	// the 13th field after the name (proc_pid_stat(5)).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	var spent time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0
		}
		spent += time.Duration(n) * tick
	}
	return spent
}

// Signal sends a signal to the process.
func (v *Vault) Signal(s os.Signal) error {
	if err := v.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending a signal to the vault: %w", err)
	}
	return nil
}

// Kill kills the process, like a crash, and waits until the process has exited.
func (v *Vault) Kill() {
	_ = v.cmd.Process.Kill() // the process may have exited already
	<-v.done
}

// Stop sends SIGTERM to the process and returns the exit code. If the process does not exit within
// stopTime, Stop kills the process and returns an error.
func (v *Vault) Stop() (code int, err error) {
	if err := v.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	return v.Wait(stopTime)
}

// Wait waits for the process to exit and returns the exit code. If the process does not exit within
// limit, Wait kills the process and returns an error.
func (v *Vault) Wait(limit time.Duration) (code int, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-v.done:
		return v.cmd.ProcessState.ExitCode(), nil
	case <-timer.C:
		v.Kill()
		return 0, fmt.Errorf("the vault did not exit within %v", limit)
	}
}

// Done returns a channel that is closed when the process has exited.
func (v *Vault) Done() <-chan struct{} { return v.done }

// Stdout returns the standard output of the process up to now.
func (v *Vault) Stdout() string { return contents(v.out) }

// Log returns the standard error of the process up to now, which is its log.
func (v *Vault) Log() string { return contents(v.log) }

func contents(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Forget removes the files with the output of the process.
func (v *Vault) Forget() error {
	var errs []error
	for _, file := range []string{v.out, v.log} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
