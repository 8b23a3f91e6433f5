//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/test/vault"
)

const (
	// proxiedLimit is the limit of public requests per minute for each address.
	proxiedLimit = 300
	// proxiedDrain is the time for which a node still responds after SIGTERM. In this time, /readyz reports
	// that the node stops, so the proxies send new requests to other nodes.
	proxiedDrain = "3s"
)

// proxy is a running proxy in front of nodes.
type proxy struct {
	address, url string
	// transport trusts the certificate of the proxy.
	transport *http.Transport
}

// newProxy returns a proxy that is not running yet, and the path of a file with its certificate and key.
func newProxy(t *testing.T, nodes []string) (p *proxy, certificate string) {
	t.Helper()
	certificate, trusted := selfSigned(t)
	pool := x509.NewCertPool()
	pool.AddCert(trusted)
	address := nodeAddress(t, nodes)
	return &proxy{address: address, url: "https://" + address, transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, MaxIdleConnsPerHost: 64,
	}}, certificate
}

// configure copies an example configuration from the folder deploy, and returns the path of the copy. It
// replaces the addresses in the example with those of nodes. pairs are further replacements: each text is
// followed by its replacement.
func (p *proxy) configure(t *testing.T, name string, nodes []string, pairs ...string) (file string) {
	t.Helper()
	root, err := vault.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	for i, node := range nodes {
		pairs = append(pairs, fmt.Sprintf("10.0.0.%d:8080", i+1), node)
	}
	config := string(text)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(config, pairs[i]) {
			t.Fatalf("deploy/%s does not contain %q", name, pairs[i])
		}
		config = strings.ReplaceAll(config, pairs[i], pairs[i+1])
	}
	return writeTemp(t, name, []byte(config))
}

// run starts the program whose path is in an environment variable, waits until the program listens, and
// stops it at the end of the test.
func (p *proxy) run(t *testing.T, variable string, args ...string) {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Skipf("%s is not set; run make test/proxies or make test/nodes", variable)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &output, time.Second
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// SIGKILL would not stop the worker processes of nginx.
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(startTime, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait() // the program may return an error after a signal
		if t.Failed() {
			t.Logf("output of %s:\n%s", program, &output)
		}
	})
	eventually(t, startTime, program+" listens", func() bool {
		conn, err := net.DialTimeout("tcp", p.address, time.Second) //nolint:noctx // it is short
		return err == nil && conn.Close() == nil
	})
}

func startCaddy(t *testing.T, nodes []string) *proxy {
	t.Helper()
	p, certificate := newProxy(t, nodes)
	p.run(t, "CERTVAULT_CADDY", "run", "--adapter", "caddyfile", "--config", p.configure(t, "Caddyfile", nodes,
		"\nvault.example.org {", "\n{\n\tadmin off\n\tauto_https disable_redirects\n}\n\nhttps://"+p.address+" {\n\ttls "+certificate+" "+certificate))
	return p
}

func startNginx(t *testing.T, nodes []string) *proxy {
	t.Helper()
	p, certificate := newProxy(t, nodes)
	site := p.configure(t, "nginx.conf", nodes, "listen 443", "listen "+p.address, "/etc/nginx/vault.pem", certificate)
	dir := t.TempDir()
	// This main configuration replaces /etc/nginx/nginx.conf and uses no paths of the system.
	var temporary strings.Builder
	for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "%s_temp_path %s/%s;\n", what, dir, what)
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n" // the folder belongs to root
	}
	main := writeTemp(t, "nginx-main.conf", []byte(user+"daemon off;\nworker_processes 2;\npid "+dir+"/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"+temporary.String()+"include "+site+";\n}\n"))
	p.run(t, "CERTVAULT_NGINX", "-p", dir, "-e", "stderr", "-c", main)
	return p
}

// TestProxies runs each proxy with its example configuration in front of three nodes. It checks a file of
// the maximum size, range requests and the address of the client. It then restarts the nodes one after the
// other under load. Clients do not repeat requests, and no request may fail.
func TestProxies(t *testing.T) {
	if testing.Short() {
		t.Skip("it restarts three nodes behind three proxies; run make test/proxies")
	}
	c := startCluster(t, clusterOptions{size: 3, drain: proxiedDrain, args: []string{"--public-rate-limit", fmt.Sprint(proxiedLimit)}})
	whole := t
	var nodes []string
	for _, n := range c.nodes {
		nodes = append(nodes, n.Address)
	}
	for name, start := range map[string]func(*testing.T, []string) *proxy{
		"nginx": startNginx, "Caddy": startCaddy,
		"HAProxy": func(t *testing.T, nodes []string) *proxy { t.Helper(); return startHAProxy(t, nodes).proxy },
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, nodes)
			client := &vault.Client{URL: p.url, Token: c.client.Token, HTTP: &http.Client{Transport: p.transport, Timeout: strictLimit}}
			eventually(t, startTime, "the proxy knows that a node is ready", func() bool {
				a, err := client.Get(t.Context(), "/readyz")
				return err == nil && a.Status == http.StatusOK
			})
			checkLargeBody(t, client, name)
			checkClientAddress(t, p)
			c.t, c.url, c.transport = t, p.url, p.transport
			load := c.startLoad(name, 3, true)
			for i := range c.nodes {
				c.progress()
				c.stop(i)
				c.nodes[i] = serve(whole, c.nodes[i].Options) // the next subtests also use this node
				c.ready(i)
			}
			c.progress()
			load.end()
			t.Log(c.summary())
		})
	}
}

// ready waits until a node is ready, and then two seconds, so that the health checks of the proxies detect
// that the node is ready.
func (c *cluster) ready(i int) {
	c.t.Helper()
	eventually(c.t, startTime, "the node is ready", func() bool {
		req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+c.nodes[i].Address+"/readyz", http.NoBody)
		if err != nil {
			c.t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-Proto", "https")
		res, err := http.DefaultClient.Do(req)
		return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
	time.Sleep(2 * time.Second)
}

// checkLargeBody uploads a file of the maximum size, and downloads the verified PDF as a whole and in
// ranges. It also checks that the vault, and not the proxy, refuses a larger file.
func checkLargeBody(t *testing.T, client *vault.Client, name string) {
	t.Helper()
	who := "Large " + name
	file, err := vault.Sample{Institution: institutionName, Title: "Diploma", Name: who, Line: "has completed the course.", Date: "1 June 2026"}.PDFOfSize(cert.MaxFile)
	if err != nil {
		t.Fatal(err)
	}
	large := vault.NewForm("Diploma", who, mailbox(who), "diploma.pdf", file)
	a, err := client.Upload(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a, http.StatusCreated)
	made, err := a.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	approved, err := client.Await(t.Context(), made.UUID)
	if err != nil || approved.Status.Value != "approved" {
		t.Fatalf("the certificate with the large file is %+v, %v; want approved", approved, err)
	}
	path := vault.CertificatesPath + "/" + made.UUID + "/download"
	whole := get(t, client, path, http.StatusOK).Body
	if sum := sha256.Sum256(whole); len(whole) < len(file) || hex.EncodeToString(sum[:]) != *approved.VerifiedSHA256 {
		t.Errorf("the download has %d bytes, want at least the size of the original, and the digest in verified_sha256", len(whole))
	}
	for _, r := range []struct{ from, to int }{{0, 99}, {len(whole) / 2, len(whole)/2 + 1<<20}, {len(whole) - 10, len(whole) - 1}} {
		req, err := client.Request(t.Context(), http.MethodGet, path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.from, r.to))
		part, err := client.Send(req)
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, part, http.StatusPartialContent)
		if !bytes.Equal(part.Body, whole[r.from:r.to+1]) {
			t.Errorf("bytes %d to %d are not those of the whole file", r.from, r.to)
		}
	}
	a, err = client.Upload(t.Context(), large.WithFile("diploma.pdf", append(bytes.Clone(file), make([]byte, 1<<20)...)))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := a.Problem(); a.Status != http.StatusUnprocessableEntity && a.Status != http.StatusRequestEntityTooLarge || err != nil || p.Message == "" {
		t.Errorf("a file that is too large: status = %d, %v; want 422 or 413 and a message of the vault: %.200s", a.Status, err, a.Body)
	}
}

// checkClientAddress checks that the limit of public requests applies to the address of the client, even
// if the client claims another address in X-Forwarded-For.
func checkClientAddress(t *testing.T, p *proxy) {
	t.Helper()
	from := func(ip string) *http.Client {
		transport := p.transport.Clone()
		transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: time.Minute}
	}
	status := func(c *http.Client, claimed string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/verify", http.NoBody)
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("X-Forwarded-For", claimed)
		res, err := c.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	first := from("127.0.0.2")
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range proxiedLimit { // nodes exchange their counts only once per second
				status(first, fmt.Sprintf("198.51.%d.%d", worker, i%250))
			}
		})
	}
	all.Wait()
	if got := status(first, "203.0.113.1"); got != http.StatusTooManyRequests {
		t.Errorf("after %d requests from one address: status = %d, want 429", 4*proxiedLimit, got)
	}
	if got := status(from("127.0.0.3"), "127.0.0.2"); got != http.StatusOK {
		t.Errorf("a request from another address: status = %d, want 200", got)
	}
}
