//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/test/vault"
)

const (
	// pebbleVariable is the environment variable with the path of pebble, an ACME server for tests.
	pebbleVariable = "CERTVAULT_PEBBLE"
	acmeDomain     = "vault.example.org"
	// acmeValidity is the lifetime of the TLS certificates. It is short, because a certificate is renewed
	// in the last third of its lifetime.
	acmeValidity = time.Minute
)

// TestACME runs a certificate authority, and servers that share a database. The server with the role
// work orders a TLS certificate, and the server with the role web responds to the challenge. Both
// servers then use the certificate. Without -short, the test also waits for two renewals. Before the
// first renewal, it replaces the server that ordered the certificate. During the second renewal, two
// servers have the role work, but only one order is sent.
func TestACME(t *testing.T) {
	if os.Getenv(pebbleVariable) == "" {
		t.Skipf("%s is not set; run make test/acme", pebbleVariable)
	}
	t.Parallel()
	ca := startPebble(t, false)
	database, shared := dbtest.MigratedURL(t), t.TempDir()
	var addresses []string
	for range 3 {
		addresses = append(addresses, nodeAddress(t, addresses))
	}
	node := func(i int, roles string) *vault.Vault {
		data := empty(t)
		share(t, shared, data)
		return serve(t, vault.Options{
			Data: data, Database: database, Listen: addresses[i], Unready: true,
			Env: []string{"SSL_CERT_FILE=" + ca.file},
			Args: []string{
				"--roles", roles, "--node", nodeName(i), "--smtp", "smtp://127.0.0.1:1?tls=off",
				"--acme-domain", acmeDomain, "--acme-directory", ca.directory,
			},
		})
	}
	ca.target.Store(addresses[0])
	node(0, "web")
	worker := node(1, "work")
	first := ca.await(t, addresses[:2], nil)
	if n := ca.orders(t); n != 1 {
		t.Errorf("got %d orders for the first certificate, want 1", n)
	}
	if ca.challenges.Load() == 0 {
		t.Error("the certificate authority did not connect to the server with the role web")
	}
	if testing.Short() {
		return
	}
	if code, err := worker.Stop(); err != nil || code != 0 {
		t.Fatalf("exit code = %d, %v; want 0", code, err)
	}
	node(2, "web,work")
	all := []string{addresses[0], addresses[2]}
	second := ca.await(t, all, first)
	if n := ca.orders(t); n != 2 {
		t.Errorf("got %d orders after the first renewal, want 2", n)
	}
	node(1, "web,work")
	ca.await(t, addresses, second)
	if n := ca.orders(t); n != 3 {
		t.Errorf("got %d orders after the second renewal, want 3", n)
	}
}

// TestACMEBinding uses a certificate authority that requires external account binding (RFC 8555, 7.3.4).
// With the key of the external account, the server gets a certificate. Without -short, the test first
// starts the server without the key: its log names the flag to set.
func TestACMEBinding(t *testing.T) {
	if os.Getenv(pebbleVariable) == "" {
		t.Skipf("%s is not set; run make test/acme", pebbleVariable)
	}
	t.Parallel()
	ca := startPebble(t, true)
	address, data := nodeAddress(t, nil), empty(t)
	ca.target.Store(address)
	start := func(args ...string) *vault.Vault {
		return serve(t, vault.Options{
			Data: data, Listen: address, Unready: true, Env: []string{"SSL_CERT_FILE=" + ca.file},
			Args: append(args, "--acme-domain", acmeDomain, "--acme-directory", ca.directory),
		})
	}
	if !testing.Short() {
		v := start()
		eventually(t, 2*acmeValidity, "the log says what to set", func() bool { return strings.Contains(v.Log(), "--acme-eab-kid") })
		if code, err := v.Stop(); err != nil || code != 0 {
			t.Fatalf("exit code = %d, %v; want 0", code, err)
		}
	}
	v := start("--acme-eab-kid", bindingKeyID, "--acme-eab-key-file", writeTemp(t, "eab", []byte(bindingKey+"\n")))
	ca.await(t, []string{address}, nil)
	if strings.Contains(v.Log(), bindingKey) {
		t.Error("the log contains the key")
	}
}

// bindingKeyID and bindingKey are the id and the key of the external account.
const (
	bindingKeyID = "kid-1"
	bindingKey   = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
)

// authority is a running pebble. Its connections for challenges are forwarded to the address target.
type authority struct {
	directory string
	// file is the path of a PEM file with the certificate and the key of pebble's own server.
	file       string
	output     string
	roots      *x509.CertPool
	target     atomic.Value // of strings
	challenges atomic.Int64
}

// startPebble starts pebble, with a name server for acmeDomain. If bound is true, pebble registers only
// accounts that are bound with bindingKey.
func startPebble(t *testing.T, bound bool) *authority {
	t.Helper()
	ca := &authority{output: filepath.Join(t.TempDir(), "pebble.log")}
	file, own := selfSigned(t)
	ca.file = file
	api, management := nodeAddress(t, nil), nodeAddress(t, nil)
	ca.directory = "https://" + api + "/dir"
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go ca.forward(l)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": api, "managementListenAddress": management, "certificate": file, "privateKey": file,
		"tlsPort": l.Addr().(*net.TCPAddr).Port, "httpPort": 1, "keyAlgorithm": "ecdsa",
		"externalAccountBindingRequired": bound, "externalAccountMACKeys": map[string]string{bindingKeyID: bindingKey},
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   map[string]any{"default": map[string]any{"description": "for tests", "validityPeriod": int(acmeValidity / time.Second)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(ca.output)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Getenv(pebbleVariable), "-config", writeTemp(t, "pebble.json", config), "-dnsserver", nameServer(t))
	// Pebble checks a challenge for each order, including renewals, and without a delay.
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = output.Close()
		if t.Failed() {
			t.Logf("output of pebble:\n%s", ca.log(t))
		}
	})
	trusted := x509.NewCertPool()
	trusted.AddCert(own)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}
	ca.roots = x509.NewCertPool()
	eventually(t, startTime, "pebble responds", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+management+"/roots/0", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		return err == nil && ca.roots.AppendCertsFromPEM(text)
	})
	return ca
}

// forward accepts connections on l and forwards them to the target.
func (ca *authority) forward(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		ca.challenges.Add(1)
		go func() {
			defer from.Close()
			to, err := net.Dial("tcp", ca.target.Load().(string)) //nolint:noctx // it ends with the test
			if err != nil {
				return
			}
			defer to.Close()
			go func() { _, _ = io.Copy(to, from) }()
			_, _ = io.Copy(from, to)
		}()
	}
}

// nameServer starts a DNS server over TCP that resolves every name to 127.0.0.1, and returns its address.
func nameServer(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerName(conn)
		}
	}()
	return l.Addr().String()
}

// answerName responds to one DNS query. Over TCP, a message follows its length in two bytes (RFC 1035,
// 4.2.2).
func answerName(conn net.Conn) {
	defer conn.Close()
	var size uint16
	if binary.Read(conn, binary.BigEndian, &size) != nil {
		return
	}
	b := make([]byte, size)
	var m dnsmessage.Message
	if _, err := io.ReadFull(conn, b); err != nil || m.Unpack(b) != nil || len(m.Questions) != 1 {
		return
	}
	answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}, Questions: m.Questions}
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		answer.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
	}
	if packed, err := answer.AppendPack(make([]byte, 2)); err == nil {
		binary.BigEndian.PutUint16(packed, uint16(len(packed)-2))
		_, _ = conn.Write(packed)
	}
}

func (ca *authority) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(ca.output)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// orders returns the number of orders that pebble has received.
func (ca *authority) orders(t *testing.T) int {
	t.Helper()
	return strings.Count(ca.log(t), "Added order ")
}

// await waits until all servers use the same certificate, which must differ from old, and returns that
// certificate. It fails the test if a server uses an invalid certificate, such as an expired one.
func (ca *authority) await(t *testing.T, addresses []string, old *x509.Certificate) (leaf *x509.Certificate) {
	t.Helper()
	eventually(t, 2*acmeValidity, fmt.Sprintf("%d servers have the new certificate", len(addresses)), func() bool {
		leaf = nil
		for _, address := range addresses {
			got, err := ca.certificate(t, address)
			if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
				t.Fatalf("%s: %v", address, invalid)
			}
			if err != nil || old != nil && got.Equal(old) || leaf != nil && !got.Equal(leaf) {
				return false
			}
			leaf = got
		}
		return true
	})
	return leaf
}

// certificate returns the certificate of a server. It returns an error if the certificate is not valid.
func (ca *authority) certificate(t *testing.T, address string) (*x509.Certificate, error) {
	t.Helper()
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: &tls.Config{ServerName: acmeDomain, RootCAs: ca.roots, MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}
