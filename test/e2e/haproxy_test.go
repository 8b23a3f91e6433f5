//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// haproxy is a running HAProxy.
type haproxy struct {
	*proxy

	// socket is the path of the socket for commands.
	socket string
}

// startHAProxy starts HAProxy in front of nodes, with the example configuration deploy/haproxy.cfg.
func startHAProxy(t *testing.T, nodes []string) *haproxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "haproxy-") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p, certificate := newProxy(t, nodes)
	socket := filepath.Join(dir, "admin.sock")
	p.run(t, "CERTVAULT_HAPROXY", "-db", "-f", p.configure(t, "haproxy.cfg", nodes,
		"bind :443", "bind "+p.address, "/etc/haproxy/vault.pem", certificate, "/run/haproxy/admin.sock mode", socket+" mode"))
	return &haproxy{proxy: p, socket: socket}
}

// drain makes HAProxy stop sending requests to a node.
func (h *haproxy) drain(t *testing.T, i int) { h.set(t, i, "drain") }

// ready makes HAProxy send requests to a node again, after drain.
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

// selfSigned returns a new TLS certificate for 127.0.0.1, and the path of a PEM file with the
// certificate and its key.
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
