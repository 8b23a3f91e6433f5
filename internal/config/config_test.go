package config_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/certvault/certvault/internal/config"
)

// parse parses a command line as certvault does.
func parse(t *testing.T, args ...string) (*config.Serve, error) {
	t.Helper()
	var c struct {
		Config kong.ConfigFlag
		config.Serve
	}
	p, err := kong.New(&c, kong.DefaultEnvars("CERTVAULT"), kong.Configuration(config.Load), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Parse(args); err != nil {
		return nil, err
	}
	return &c.Serve, c.Finish()
}

func TestBaseURLFollowsListen(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"":               "https://localhost:8443",
		":9000":          "https://localhost:9000",
		"0.0.0.0:9000":   "https://localhost:9000",
		"[::]:9000":      "https://localhost:9000",
		"192.0.2.7:9000": "https://192.0.2.7:9000",
		"[::1]:9000":     "https://[::1]:9000",
		"localhost:443":  "https://localhost",
	} {
		var args []string
		if listen != "" {
			args = []string{"--listen", listen}
		}
		c, err := parse(t, args...)
		if err != nil || c.BaseURL != want {
			t.Errorf("--listen %q: base URL = %q, error = %v, want %q", listen, c.BaseURL, err, want)
		}
	}
}

func TestInvalidSettingsAreRejected(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no port":                 {[]string{"--listen", "localhost"}, "--listen"},
		"plain base URL":          {[]string{"--base-url", "http://vault.example.org"}, "--base-url"},
		"base URL with path":      {[]string{"--base-url", "https://example.org/vault"}, "path"},
		"certificate without key": {[]string{"--tls-cert", "a.pem"}, "--tls-key"},
		"directory, no domain":    {[]string{"--acme-directory", "https://ca.example.org/directory"}, "--acme-domain"},
		"directory without TLS":   {[]string{"--acme-domain", "a.example.org", "--acme-directory", "http://ca.example.org/directory"}, "https://"},
		"EAB without a key":       {[]string{"--acme-domain", "a.example.org", "--acme-eab-kid", "kid-1"}, "--acme-eab-key-file or CERTVAULT_ACME_EAB_KEY"},
		"EAB without a key id":    {[]string{"--acme-domain", "a.example.org", "--acme-eab-key-file", "key"}, "--acme-eab-key-file requires --acme-eab-kid"},
		"EAB without ACME":        {[]string{"--acme-eab-kid", "kid-1", "--acme-eab-key-file", "key"}, "--acme-domain"},
		"EAB without the file":    {[]string{"--acme-domain", "a.example.org", "--acme-eab-kid", "kid-1", "--acme-eab-key-file", "no-such-file"}, "no-such-file"},
		"EAB with another file":   {[]string{"--acme-domain", "a.example.org", "--acme-eab-kid", "kid-1", "--acme-eab-key-file", "config_test.go"}, "base64url"},
		"two TLS modes":           {[]string{"--acme-domain", "a.example.org", "--behind-proxy", "10.0.0.0/8"}, "only one"},
		"proxy, no base URL":      {[]string{"--behind-proxy", "10.0.0.0/8"}, "--base-url"},
		"no host":                 {[]string{"--base-url", "https://:8443"}, "--base-url"},
		"invalid network":         {[]string{"--behind-proxy", "everyone", "--base-url", "https://a.example"}, "--behind-proxy"},
		"replica of SQLite":       {[]string{"--database-read", "postgres://replica.example/vault"}, "--database-read"},
		"public profiles":         {[]string{"--debug"}, "--metrics"},
		"no checks of files":      {[]string{"--file-check-rate", "0"}, "--file-check-rate"},
		"no attempt":              {[]string{"--process-attempts", "0"}, "--process-attempts"},
		"negative rate":           {[]string{"--rate-limit=-1"}, "--rate-limit"},
		"webhook network":         {[]string{"--webhook-allow", "10.0.0.0/99"}, "--webhook-allow"},
		"webhook wait":            {[]string{"--webhook-retry", "5s,0s"}, "--webhook-retry"},
		"mail server":             {[]string{"--smtp", "mail.example.org"}, "--smtp"},
		"backup interval":         {[]string{"--backup", ".", "--backup-every", "0s"}, "--backup-every"},
		"part of a second":        {[]string{"--backup", ".", "--backup-every", "1500ms"}, "--backup-every"},
		"no backup is kept":       {[]string{"--backup", ".", "--backup-keep", "0"}, "--backup-keep"},
		"time-stamps":             {[]string{"--tsa", "tsa.example.org"}, "--tsa"},
		"collector":               {[]string{"--otlp", "localhost:4318"}, "--otlp"},
		"level of the log":        {[]string{"--log-level", "loud"}, "--log-level"},
		"wildcard origin":         {[]string{"--cors-origin", "*"}, "--cors-origin"},
		"wildcard in a host":      {[]string{"--cors-origin", "https://*.example.org"}, "--cors-origin"},
		"origin with path":        {[]string{"--cors-origin", "https://app.example.org/x"}, "--cors-origin"},
		"null origin":             {[]string{"--cors-origin", "null"}, "--cors-origin"},
		"origin with query":       {[]string{"--cors-origin", "https://app.example.org?x"}, "--cors-origin"},
		"origin with user":        {[]string{"--cors-origin", "https://a@app.example.org"}, "--cors-origin"},
		"blob in a folder":        {[]string{"--blob", "files"}, "--blob must begin with s3://"},
		"blob beside SQLite":      {[]string{"--blob", "s3://b"}, "--blob requires --database"},
		"blob without a key":      {[]string{"--blob", "s3://b", "--database", "postgres://h/d", "--key-identity-file", "/i"}, "--master-key-file"},
		"blob without identity":   {[]string{"--blob", "s3://b", "--database", "postgres://h/d", "--master-key-file", "/m"}, "--key-identity-file"},
		"key in the data folder":  {[]string{"--blob", "s3://b", "--database", "postgres://h/d", "--key-identity-file", "/i", "--master-key-file", "certvault-data/keys/master.key"}, "--master-key-file must not be inside"},
		"unknown flag":            {[]string{"--no-such-flag"}, "no-such-flag"},
	} {
		_, err := parse(t, tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v, want an error that contains %q", name, err, tc.want)
		}
	}
}

func TestOriginsAreNormalized(t *testing.T) {
	t.Parallel()
	c, err := parse(t, "--cors-origin", "HTTPS://App.Example.org:443/", "--cors-origin", "http://localhost:3000", "--cors-origin", "https://a.example:8443")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"https://app.example.org", "http://localhost:3000", "https://a.example:8443"}; !slices.Equal(c.CORSOrigin, want) {
		t.Errorf("origins = %v, want %v", c.CORSOrigin, want)
	}
}

func TestErrorOmitsMailServerPassword(t *testing.T) {
	t.Parallel()
	_, err := parse(t, "--smtp", "ftp://user:hunter2@mail.example.org")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("error = %v, want an error without the password", err)
	}
}

func TestFlagOverridesEnvironmentOverridesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "certvault.toml")
	if err := os.WriteFile(file, []byte("base-url = \"https://file.example.org\"\nrate_limit = 7\nprocess-attempts = 3\nbehind-proxy = [\"10.0.0.1\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CERTVAULT_BASE_URL", "https://environment.example.org")
	t.Setenv("CERTVAULT_RATE_LIMIT", "8")
	c, err := parse(t, "--config", file, "--rate-limit", "9")
	if err != nil {
		t.Fatal(err)
	}
	if c.RateLimit != 9 || c.BaseURL != "https://environment.example.org" || c.ProcessAttempts != 3 {
		t.Fatalf("rate limit = %d, base URL = %s, process attempts = %d, want 9, the URL of the environment and 3", c.RateLimit, c.BaseURL, c.ProcessAttempts)
	}
	proxies, err := c.Proxies()
	if err != nil || len(proxies) != 1 || proxies[0].String() != "10.0.0.1/32" {
		t.Fatalf("proxies = %v, error = %v, want 10.0.0.1/32", proxies, err)
	}
}

func TestUnknownKeyInFileIsRejected(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "certvault.toml")
	if err := os.WriteFile(file, []byte("base-ulr = \"https://vault.example.org\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, "--config", file); err == nil || !strings.Contains(err.Error(), "base-ulr") {
		t.Fatalf("error = %v, want an error that contains base-ulr", err)
	}
}
