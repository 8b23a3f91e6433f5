package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// signalled creates a vault, calls change, starts the vault, calls f and then stops the vault as a signal
// does. The test fails if Run returns an error or does not return in time.
func signalled(t *testing.T, change, f func(a *App)) {
	t.Helper()
	a := newApp(t, warmFolder(t), &bytes.Buffer{})
	change(a)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	f(a)
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Run did not return")
	}
}

// dial connects to a vault after its start.
func dial(t *testing.T, a *App) net.Conn {
	t.Helper()
	select {
	case <-a.gate.opened:
	case <-t.Context().Done():
		t.Fatal("the vault did not start")
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", a.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestSignalEndsStalledUploadAndUnreadDownload checks that Run returns although one client has stopped
// sending its upload, and another client does not read its responses.
func TestSignalEndsStalledUploadAndUnreadDownload(t *testing.T) {
	t.Parallel()
	signalled(t, func(a *App) { a.requestTime = 100 * time.Millisecond }, func(a *App) {
		upload := dial(t, a)
		if _, err := fmt.Fprint(upload, "POST /business/certificate-vault HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\npart"); err != nil {
			t.Fatal(err)
		}
		download := dial(t, a)
		page := make([]byte, 64<<10)
		if _, err := fmt.Fprint(download, "GET /verify HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		n, err := download.Read(page)
		for style := []byte(nil); err == nil && style == nil; {
			if style = regexp.MustCompile(`/assets/[^"]+\.css`).Find(page[:n]); style != nil {
				// The client sends requests until the responses have filled all buffers and the server
				// stops reading.
				requests := strings.Repeat("GET "+string(style)+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 100)
				for err == nil {
					if err = download.SetWriteDeadline(time.Now().Add(time.Second)); err == nil {
						_, err = download.Write([]byte(requests))
					}
				}
				break
			}
			var more int
			more, err = download.Read(page[n:])
			n += more
		}
		if e, ok := err.(net.Error); !ok || !e.Timeout() { //nolint:errorlint // the error is not wrapped
			t.Errorf("writing requests: error = %v, want a time-out", err)
		}
	})
}

// TestSignalEndsWithADeadDatabase checks that Run returns although a transaction does not end and blocks
// all other transactions.
func TestSignalEndsWithADeadDatabase(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var vault *App
	signalled(t, func(a *App) { a.exitTime = 100 * time.Millisecond }, func(a *App) {
		vault = a
		dial(t, a)
		began := make(chan struct{})
		go func() {
			_ = a.DB.Tx(context.WithoutCancel(t.Context()), func(*db.Tx) error {
				close(began)
				<-release
				return nil
			})
		}()
		<-began
	})
	close(release)
	for vault.DB.Ping(t.Context()) == nil { // until the vault has closed the database
		time.Sleep(10 * time.Millisecond)
	}
}

// TestSignalAnswersNewConnection checks that a client gets a response if it connects before the signal
// and sends its request after the signal.
func TestSignalAnswersNewConnection(t *testing.T) {
	t.Parallel()
	answered := make(chan error, 1)
	signalled(t, func(*App) {}, func(a *App) {
		conn := dial(t, a)
		go func() {
			time.Sleep(100 * time.Millisecond) // the vault begins to stop meanwhile
			if _, err := fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
				answered <- err
				return
			}
			response, err := io.ReadAll(conn)
			if err == nil && !bytes.HasPrefix(response, []byte("HTTP/1.1 200")) {
				err = fmt.Errorf("response = %q", response)
			}
			answered <- err
		}()
	})
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
