//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/certvault/certvault/test/vault"
)

// TestSecondServe starts a second vault on a data folder in use. The second vault exits with 1, and
// the first continues.
func TestSecondServe(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	res, err := vault.Run(t.Context(), f.Options, "", "serve", "--listen", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	if res.Code != 1 || !strings.Contains(res.Stderr, "another certvault serve is using this data folder") || !strings.Contains(res.Stderr, f.Data) {
		t.Errorf("exit code = %d, want 1 and an error message with the data folder: %s", res.Code, res.Stderr)
	}
	f.await(t, f.upload(t, form("Ada Obi")).UUID, "approved")
}

// TestUsage checks the exit codes of commands. A command that fails must print an error message, which
// must not contain a password.
func TestUsage(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.Chmod(data, 0o700); err != nil {
		t.Fatal(err)
	}
	o := vault.Options{Data: data}
	institution := []string{"institution", "create", "--name", "N", "--prefix", "NWU", "--owner-email", "o@example.org", "--owner-name", "O", "--owner-password-stdin"}
	for _, c := range []struct {
		args  string
		stdin string
		code  int
	}{
		{"no-such-command", "", 2},
		{"serve --no-such-flag", "", 2},
		{"serve --listen nonsense", "", 2},
		{"serve --base-url http://plain.example.org", "", 2},
		{"serve --base-url https://example.org/path", "", 2},
		{"serve --tls-cert only.pem", "", 2},
		{"serve --process-attempts 0", "", 2},
		{"serve --process-attempts many", "", 2},
		{"serve --rate-limit -1", "", 2},
		{"serve --behind-proxy nonsense", "", 2},
		{"token create --institution nwu", "", 2},
		{"institution create --name N", "", 2},
		{"serve --database mysql://localhost/x", "", 1},
		{"serve --database postgres://nobody:hidden-password@127.0.0.1:1/x", "", 1},
		{"serve --tls-cert missing.pem --tls-key missing.pem", "", 1},
		{"token create --institution unknown --name N --permission certificate-vault:list", "", 1},
		{strings.Join(institution, " "), "short\n", 1},
		{strings.Join(institution, " "), "correct horse battery staple\n", 0},
		{strings.Join(institution, " "), "correct horse battery staple\n", 1},
		{"token create --institution n --name N --permission certificate-vault:list", "", 0},
		{"token create --institution n --name N --permission no-such:thing", "", 1},
		{"token create --institution n --name N --permission certificate-vault:list --expires soon", "", 2},
		{"webhook create --institution n --url https://hooks.example.org", "", 0},
		{"webhook create --institution n --url ftp://hooks.example.org", "", 1},
		{"webhook create --institution n --url https://hooks.example.org --event no.such", "", 1},
		{"doctor", "", 0},
		{"version", "", 0},
		{"--help", "", 0},
	} {
		res, err := vault.Run(t.Context(), o, c.stdin, strings.Fields(c.args)...)
		if err != nil {
			t.Fatal(err)
		}
		if res.Code != c.code {
			t.Errorf("certvault %s: exit code = %d, want %d: %s%s", c.args, res.Code, c.code, res.Stdout, res.Stderr)
		}
		if c.code != 0 && strings.TrimSpace(res.Stderr) == "" {
			t.Errorf("certvault %s: no error message", c.args)
		}
		if strings.Contains(res.Stdout+res.Stderr, "hidden-password") {
			t.Errorf("certvault %s prints a password: %s", c.args, res.Stderr)
		}
	}
}

// TestPlainHTTP sends requests without TLS. The vault must not respond with a success.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	c := f.as(t, f.client.Token)
	for _, path := range []string{vault.CertificatesPath, "/verify", "/readyz"} {
		a, err := c.Get(t.Context(), "http://"+f.Address+path)
		if err == nil && a.Status < 400 {
			t.Errorf("%s over plain HTTP: status = %d, want an error", path, a.Status)
		}
	}
}

// TestBehindProxy sends requests as a proxy does. The vault accepts a forwarded request only if the
// client used https and the proxy has a trusted address.
func TestBehindProxy(t *testing.T) {
	t.Parallel()
	f := startWith(t, vault.Options{Data: warm(t), Proxy: true, Args: []string{"--public-rate-limit", "3"}})
	v, token := f.Vault, f.client.Token
	request := func(from, path string, headers map[string]string) int {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(v.Address)
			if err != nil {
				return nil, err
			}
			return d.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		}}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+v.Address+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		for k, value := range headers {
			req.Header.Set(k, value)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	const base = vault.CertificatesPath
	https := map[string]string{"X-Forwarded-Proto": "https"}
	for _, path := range []string{base, "/verify"} {
		if got := request("127.0.0.1", path, nil); got != 400 {
			t.Errorf("%s without X-Forwarded-Proto: status = %d, want 400", path, got)
		}
		if got := request("127.0.0.1", path, map[string]string{"X-Forwarded-Proto": "http"}); got != 400 {
			t.Errorf("%s forwarded from plain HTTP: status = %d, want 400", path, got)
		}
	}
	if got := request("127.0.0.1", base, https); got != 200 {
		t.Errorf("forwarded from https: status = %d, want 200", got)
	}
	if runtime.GOOS == "linux" { // on Linux, each address in 127.0.0.0/8 is local
		if got := request("127.0.0.2", base, https); got != 400 {
			t.Errorf("forwarded by an untrusted address: status = %d, want 400", got)
		}
	}
	// The limit applies to each client address, which is the last address in X-Forwarded-For. The client
	// can choose only the addresses before it.
	for i, want := range []int{200, 200, 200, 429} {
		headers := map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.7" + strings.Repeat("0", i%2) + ", 203.0.113.9"}
		if got := request("127.0.0.1", "/verify", headers); got != want {
			t.Errorf("request %d from the same address: status = %d, want %d", i+1, got, want)
		}
	}
	if got := request("127.0.0.1", "/verify", map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.10"}); got != 200 {
		t.Errorf("request from another address: status = %d, want 200", got)
	}
}

// TestRateLimit exhausts the limit of a token and the limit of public requests.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	f := start(t, "", "--rate-limit", "5", "--public-rate-limit", "5")
	for i := range 6 {
		a, err := f.client.Get(t.Context(), vault.CertificatesPath)
		if err != nil {
			t.Fatal(err)
		}
		if a.Header.Get("X-RateLimit-Limit") != "5" {
			t.Errorf("X-RateLimit-Limit = %q, want 5", a.Header.Get("X-RateLimit-Limit"))
		}
		if i < 5 {
			wantStatus(t, a, 200)
			continue
		}
		wantProblem(t, a, 429, "")
		if a.Header.Get("Retry-After") == "" || a.Header.Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("headers of a response with the status 429 = %v, want Retry-After and X-RateLimit-Remaining: 0", a.Header)
		}
	}
	get(t, f.as(t, f.token(t, "", "certificate-vault:list")), vault.CertificatesPath, 200) // each token has a separate limit
	public := f.as(t, "")
	for range 5 {
		get(t, public, "/verify", 200)
	}
	a := get(t, public, "/verify", 429)
	if a.Header.Get("Retry-After") == "" {
		t.Errorf("headers of a public response with the status 429 = %v, want Retry-After", a.Header)
	}
}

var setupLink = regexp.MustCompile(`https://\S+/setup\?token=(\S+)`)

// TestSecrets sends many kinds of requests and checks that the log contains no secrets and no personal
// data.
func TestSecrets(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		v := serve(t, vault.Options{Data: warm(t), Database: database})
		var link []string
		eventually(t, startTime, "the set-up link is on standard output", func() bool {
			link = setupLink.FindStringSubmatch(v.Stdout())
			return link != nil
		})
		f := &fixture{Vault: v}
		get(t, f.as(t, ""), link[0], 200)
		var err error
		if f.institution, err = v.CreateInstitution(t.Context(), "Northwind University", "NWU"); err != nil {
			t.Fatal(err)
		}
		// The link is invalid if the vault has an owner.
		get(t, f.as(t, ""), link[0], 404)
		f.client = f.as(t, f.token(t, "", vault.Permissions...))
		hook, err := v.CreateWebhook(t.Context(), f.institution.Slug, "https://hooks.example.org/path-secret")
		if err != nil {
			t.Fatal(err)
		}
		made := f.upload(t, vault.NewForm("Diploma", "Hidden Name", "Hidden.Mailbox@example.org", "hidden-file.pdf", sample("x")))
		approved := f.await(t, made.UUID, "approved")
		checkDuplicate(t, f, vault.NewForm("Diploma", "Hidden Name", "hidden.mailbox@example.org", "hidden-file.pdf", sample("x")), made.UUID)
		uploadInvalid(t, f, vault.NewForm("Diploma", "Hidden Name", "hidden.mailbox", "hidden-file.pdf", sample("x")), "applicant_email")
		get(t, f.client, vault.CertificatesPath+"?applicant_email=hidden.mailbox@example.org&search=hidden", 200)
		public := f.as(t, "")
		get(t, public, *approved.PDFPath, 200)
		get(t, public, *approved.ImagePath, 200)
		get(t, public, approved.VerificationURL, 200)
		get(t, f.as(t, "cvt_garbage-token"), vault.CertificatesPath, 401)
		f.revoke(t, made.UUID, "A reason", "hidden-note")
		if code, err := v.Stop(); err != nil || code != 0 {
			t.Errorf("exit code = %d, %v; want 0", code, err)
		}
		log := v.Log()
		_, signature, _ := strings.Cut(*approved.PDFPath, "signature=")
		for what, secret := range map[string]string{
			"set-up secret": link[1], "token": f.client.Token, "garbage token": "cvt_garbage", "webhook secret": hook.Secret,
			"webhook URL": "path-secret", "password": "correct horse",
			"e-mail": "mailbox", "name": "hidden name", "file name": "hidden-file", "note": "hidden-note", "capability": signature, "database URL": "postgres://",
		} {
			if strings.Contains(strings.ToLower(log), strings.ToLower(secret)) {
				t.Errorf("the log contains the %s", what)
			}
		}
		if strings.Contains(v.Stdout(), f.client.Token) {
			t.Error("standard output contains the token")
		}
		lines := bufio.NewScanner(strings.NewReader(log))
		for lines.Scan() {
			if !strings.HasPrefix(lines.Text(), `{"time":`) {
				t.Errorf("a line of the log is not JSON: %s", lines.Text())
			}
		}
	})
}

// TestMetrics checks that metrics are available on the address of --metrics, and not on the address
// of the vault.
func TestMetrics(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f := start(t, "", "--metrics", address)
	f.await(t, f.upload(t, form("Ada Obi")).UUID, "approved")
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
	for _, line := range []string{
		`certvault_http_requests_total{route="POST /business/certificate-vault",status="201"} 1`, "certvault_jobs_waiting 0", "process_resident_memory_bytes",
	} {
		if !strings.Contains(string(body), line) {
			t.Errorf("the metrics do not contain %q", line)
		}
	}
	get(t, f.client, "/metrics", 404)
}
