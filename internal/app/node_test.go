package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// noMail is the address of a mail server that does not exist. Nothing is sent to it.
const noMail = "smtp://127.0.0.1:1?tls=off"

// requested sends a request to a vault and returns the status and the body of the response.
func requested(t *testing.T, a *App, path string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+a.listener.Addr().String()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestHealthOfStartAndStop checks that health checks get a response while the port is open, and that
// other requests wait for the start.
func TestHealthOfStartAndStop(t *testing.T) {
	t.Parallel()
	drain := time.Hour
	a := newApp(t, warmFolder(t), &bytes.Buffer{}, func(c *config.Serve) { c.Drain = &drain })
	a.gate.wait = time.Minute
	expect := func(path string, status int, body string) {
		t.Helper()
		if got, text := requested(t, a, path); got != status || body != "" && text != body {
			t.Errorf("%s: status = %d, body = %.100q; want %d, %q", path, got, text, status, body)
		}
	}
	expect("/healthz", 200, "ok\n")
	expect("/readyz", 503, "starting\n")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	expect("/verify", 200, "") // waits for the start
	expect("/readyz", 200, "ready\n")
	stop()
	for !a.draining.Load() {
		select {
		case err := <-ended:
			t.Fatalf("the vault ended before it drained: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	expect("/readyz", 503, "stopping\n")
	expect("/verify", 200, "")
	a.fatal <- errors.New("the end of the drain")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSeveralServers checks that several servers can use one database if each server with the role work
// has a mail server. A server may have a single role.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	database, first := dbtest.MigratedURL(t), warmFolder(t)
	start := func(dir string, change func(c *config.Serve)) (*App, error) {
		t.Helper()
		a := newApp(t, dir, &bytes.Buffer{}, func(c *config.Serve) {
			c.Database, c.MailFrom, c.BaseURL = database, "vault@example.org", "https://vault.example.org"
			change(c)
		})
		err := a.start(t.Context())
		t.Cleanup(func() { _ = a.close(context.WithoutCancel(t.Context())) })
		return a, err
	}
	if _, err := start(first, func(c *config.Serve) { c.Node.Node, c.Roles, c.SMTP = "worker", []string{"work"}, noMail }); err != nil {
		t.Fatal(err)
	}
	another := func() string {
		t.Helper()
		dir := t.TempDir()
		for _, name := range []string{"files", "keys", "cache"} {
			if err := os.Symlink(filepath.Join(first, name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	if _, err := start(another(), func(*config.Serve) {}); !errors.Is(err, errOutbox) || !strings.Contains(err.Error(), "worker") {
		t.Errorf("a second server without a mail server: error = %v, want errOutbox with the name of the first server", err)
	}
	web, err := start(another(), func(c *config.Serve) { c.Roles = []string{"web"} })
	if err != nil {
		t.Fatalf("a second server with only the role web: %v", err)
	}
	if status, _ := requested(t, web, "/verify"); status != http.StatusOK {
		t.Errorf("a page of the server with the role web: status = %d, want 200", status)
	}
	worker, err := start(another(), func(c *config.Serve) { c.Roles, c.SMTP = []string{"work"}, noMail })
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := requested(t, worker, "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz of a server with the role work: status = %d, want 200", status)
	}
	if status, body := requested(t, worker, "/verify"); status != http.StatusNotFound || !strings.Contains(body, "only the role work") {
		t.Errorf("a page of a server with the role work: status = %d, body = %q, want 404", status, body)
	}
	if n := worker.Queue.Nodes(); n != 3 {
		t.Errorf("%d servers are alive, want 3", n)
	}
	embedded := settings(t, t.TempDir())
	embedded.Roles = []string{"web"}
	if err := checkRoles(embedded); !errors.Is(err, errRoles) {
		t.Errorf("one role on the embedded database: error = %v, want errRoles", err)
	}
}
