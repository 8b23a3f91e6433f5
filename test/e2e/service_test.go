//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// serviceManager listens on a port for a vault, and receives the states that the vault reports, as
// systemd does.
type serviceManager struct {
	socket *net.TCPListener
	states *net.UnixConn
	path   string
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	socket, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	m := &serviceManager{socket: socket, path: filepath.Join(t.TempDir(), "notify")}
	if m.states, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.states.Close() })
	return m
}

// options returns the options of a vault under the service manager.
func (m *serviceManager) options(data string) vault.Options {
	return vault.Options{Data: data, Args: unlimited(nil), Socket: m.socket, Env: []string{"NOTIFY_SOCKET=" + m.path}}
}

// await reads messages until one contains the line want, and returns the lines of all these messages.
func (m *serviceManager) await(t *testing.T, want string) []string {
	t.Helper()
	var list []string
	buffer := make([]byte, 4<<10)
	for !slices.Contains(list, want) {
		if err := m.states.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := m.states.Read(buffer)
		if err != nil {
			t.Fatalf("waiting for %s: %v; the vault reported %q", want, err, list)
		}
		list = append(list, strings.Split(string(buffer[:n]), "\n")...)
	}
	return list
}

// TestRestartRefusesNoConnection restarts a vault whose socket belongs to a service manager. Meanwhile,
// clients upload on new connections, and read pages on new and on persistent connections. No request fails.
func TestRestartRefusesNoConnection(t *testing.T) {
	t.Parallel()
	restarts := 10
	if testing.Short() {
		restarts = 1
	}
	m := newServiceManager(t)
	data := warm(t)
	f := startWith(t, m.options(data))
	m.await(t, "READY=1")
	var done atomic.Bool
	var uploads, pages atomic.Int64
	var clients sync.WaitGroup
	token := f.client.Token
	for i := range 4 {
		c := f.as(t, token)
		transport, ok := c.HTTP.Transport.(*http.Transport)
		if !ok {
			t.Fatalf("the transport is a %T, want *http.Transport", c.HTTP.Transport)
		}
		// The vault may close a persistent connection while a request is in transit. Package http then
		// repeats a GET, but repeats a POST only with an Idempotency-Key. Therefore uploads use new
		// connections.
		transport.DisableKeepAlives = i < 3
		clients.Go(func() {
			for n := 0; !done.Load(); n++ {
				time.Sleep(15 * time.Millisecond)
				if i >= 2 {
					if a, err := c.Get(t.Context(), "/verify"); err != nil || a.Status != http.StatusOK {
						t.Errorf("GET /verify = %v, %v; want 200", a, err)
						return
					}
					pages.Add(1)
					continue
				}
				a, err := c.Upload(t.Context(), form(fmt.Sprintf("Person %d of %d", n, i)))
				if err != nil || a.Status != http.StatusCreated {
					t.Errorf("upload = %v, %v; want 201", a, err)
					return
				}
				uploads.Add(1)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	v := f.Vault
	for range restarts {
		time.Sleep(200 * time.Millisecond)
		if code, err := v.Stop(); code != 0 || err != nil {
			t.Errorf("exit code = %d, %v; want 0", code, err)
		}
		if list := m.await(t, "STOPPING=1"); slices.Contains(list, "READY=1") {
			t.Errorf("states after READY=1 until STOPPING=1 = %q, want no second READY=1", list)
		}
		v = serve(t, m.options(data))
		m.await(t, "READY=1")
	}
	m.await(t, "WATCHDOG=1")
	done.Store(true)
	clients.Wait()
	t.Logf("%d uploads and %d pages during %d restarts", uploads.Load(), pages.Load(), restarts)
	if uploads.Load() == 0 || pages.Load() == 0 {
		t.Error("no upload or no page succeeded")
	}
}

// TestSocketOfAnotherPort checks that the vault does not start if the socket of the service manager has
// another port than --listen.
func TestSocketOfAnotherPort(t *testing.T) {
	t.Parallel()
	m := newServiceManager(t)
	o := m.options(empty(t))
	o.Args = append(o.Args, "--listen", "localhost:1")
	v, err := vault.Start(t.Context(), o)
	if err == nil {
		v.Kill()
		t.Fatal("the vault started with a socket of another port than --listen")
	}
	if !strings.Contains(err.Error(), "ListenStream") {
		t.Errorf("error = %v, want one that names ListenStream", err)
	}
}
