//go:build e2e

package e2e

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// TestHangUpReloadsTheCertificate replaces the files of --tls-cert and --tls-key, and sends SIGHUP. The
// vault continues with the new certificate.
func TestHangUpReloadsTheCertificate(t *testing.T) {
	t.Parallel()
	// Two vaults create self-signed certificates. The vault under test starts with the first certificate, and
	// the test later replaces it with the second one.
	data := warm(t)
	other := serve(t, vault.Options{Data: warm(t)})
	f := serve(t, vault.Options{Data: data})
	if code, err := f.Stop(); code != 0 || err != nil {
		t.Fatalf("exit code = %d, %v; want 0", code, err)
	}
	pair := func(name string) string { return filepath.Join(data, "tls", name) }
	f = serve(t, vault.Options{Data: data, Args: []string{"--tls-cert", pair("cert.pem"), "--tls-key", pair("key.pem")}})
	served := func() string {
		t.Helper()
		d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the test compares the serial number of the certificate
		conn, err := d.DialContext(t.Context(), "tcp", f.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c, ok := conn.(*tls.Conn)
		if !ok {
			t.Fatalf("the connection is a %T, want a TLS connection", conn)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := served()
	for _, name := range []string{"key.pem", "cert.pem"} {
		content, err := os.ReadFile(filepath.Join(other.Data, "tls", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(pair(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	// The vault reloads the files immediately after SIGHUP. Without SIGHUP, the vault notices the
	// change after up to 10 s.
	deadline := time.Now().Add(5 * time.Second)
	for served() == first && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if served() == first {
		t.Errorf("5 s after SIGHUP, the vault still uses the old certificate, want the new one: %s", f.Log())
	}
	if code, err := f.Stop(); code != 0 || err != nil {
		t.Errorf("exit code = %d, %v; want 0", code, err)
	}
}

// TestDeadReaderOfTheLogDoesNotEndTheVault starts a vault whose standard output and standard error are a
// pipe without a reader. The vault serves requests, and exits with 0 after SIGTERM.
func TestDeadReaderOfTheLogDoesNotEndTheVault(t *testing.T) {
	t.Parallel()
	data := warm(t)
	binary, err := vault.Binary()
	if err != nil {
		t.Fatal(err)
	}
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--data", data, "--listen", address)
	cmd.Stdout, cmd.Stderr = w, w
	for _, err := range []error{l.Close(), r.Close(), cmd.Start(), w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the certificate is self-signed
	defer client.CloseIdleConnections()
	ready := 0
	for deadline := time.Now().Add(30 * time.Second); ready < 20 && time.Now().Before(deadline); {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/readyz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			if strings.Contains(err.Error(), "refused") && ready > 0 {
				break
			}
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusOK {
			ready++
		}
	}
	if ready < 20 {
		t.Errorf("%d requests succeeded, want 20", ready)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the vault ended with %v, want exit code 0", err)
	}
}
