//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// haproxyVariable is the environment variable with the path of HAProxy.
const haproxyVariable = "CERTVAULT_HAPROXY"

// haproxy is a running HAProxy.
type haproxy struct {
	url string
	// transport trusts its certificate.
	transport http.RoundTripper
	// socket is the path of the socket for commands.
	socket string
}

// startHAProxy starts HAProxy with the configuration of the documentation, deploy/haproxy.cfg, in front
// of three nodes. Only the addresses and the paths of files differ from the documentation.
func startHAProxy(t *testing.T, nodes []string) *haproxy {
	t.Helper()
	program := os.Getenv(haproxyVariable)
	if program == "" {
		t.Skipf("%s is not set; run make test/nodes", haproxyVariable)
	}
	root, err := vault.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "haproxy.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, trusted := selfSigned(t)
	address := nodeAddress(t, nodes)
	dir, err := os.MkdirTemp("", "haproxy-") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "admin.sock")
	config := string(text)
	replace := func(old, replacement string) {
		t.Helper()
		if !strings.Contains(config, old) {
			t.Fatalf("deploy/haproxy.cfg does not contain %q", old)
		}
		config = strings.ReplaceAll(config, old, replacement)
	}
	replace("bind :443", "bind "+address)
	replace("/etc/haproxy/vault.pem", certificate)
	replace("/run/haproxy/admin.sock mode", socket+" mode")
	for i, node := range nodes {
		replace(fmt.Sprintf("10.0.0.%d:8080", i+1), node)
	}
	file := writeTemp(t, "haproxy.cfg", []byte(config))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "-db", "-f", file)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("output of HAProxy:\n%s", &output)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	pool := x509.NewCertPool()
	pool.AddCert(trusted)
	return &haproxy{url: "https://" + address, socket: socket, transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, MaxIdleConnsPerHost: 64,
	}}
}

// drain makes HAProxy send no more requests to a node. After the node was restarted, ready ends that.
func (h *haproxy) drain(t *testing.T, i int) { h.set(t, i, "drain") }

func (h *haproxy) ready(t *testing.T, i int) { h.set(t, i, "ready") }

func (h *haproxy) set(t *testing.T, i int, state string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", h.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "set server servers/vault-%d state %s\n", i+1, state); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(conn); err != nil || strings.TrimSpace(string(out)) != "" {
		t.Fatalf("setting the state of a server: %q, %v", out, err)
	}
}

// selfSigned returns a new certificate for 127.0.0.1, and a file with it and its key.
func selfSigned(t *testing.T) (file string, certificate *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	return writeTemp(t, "vault.pem", text), certificate
}
