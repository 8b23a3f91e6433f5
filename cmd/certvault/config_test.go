package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfig checks that the command prints the source of each value, and prints no secrets.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "certvault.toml")
	if err := os.WriteFile(file, []byte("rate-limit = 5\nlisten = \"localhost:1\"\nbounce_domain = \"b.example\"\nbounce-token = \"0123456789secret\"\nwebhook-retry = [\"1s\", \"2m\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CERTVAULT_LISTEN", "localhost:2")
	t.Setenv("CERTVAULT_SMTP", "smtp://ada:secret@mx.example:587?tls=required")
	t.Setenv("CERTVAULT_MASTER_KEY", "secret")
	t.Setenv("CERTVAULT_ACME_EAB_KEY", "c2VjcmV0")
	t.Setenv("CERTVAULT_TSA", "https://tsa.example/?key=0")
	t.Setenv("CERTVAULT_OTLP", "https://ada:secret@collector.example/otlp")
	args := []string{"config", "--log-level", "warn", "--acme-domain", "vault.example", "--acme-eab-kid", "kid-1", "--base-url", "https://localhost:2", "--config", file, "--rate-limit", "7", "--blob-keep", "36h", "--cors-origin", "https://a.example,https://b.example", "--database", "postgres://vault@db.example/vault?password=secret&sslmode=require"}
	var list []setting
	runJSON(t, "", &list, args...)
	got := map[string]setting{}
	for _, s := range list {
		got[s.Name] = s
	}
	for _, want := range []setting{
		{"rate-limit", "7", "command line"},
		{"listen", "localhost:2", "CERTVAULT_LISTEN"},
		{"public-rate-limit", "120", "default"},
		{"base-url", "https://localhost:2", "command line"},
		{"acme-eab-kid", "kid-1", "command line"},
		{"acme-eab-key", "(set)", "CERTVAULT_ACME_EAB_KEY"},
		{"bounce-domain", "b.example", "configuration file"},
		{"bounce-token", "(set)", "configuration file"},
		{"webhook-retry", "1s,2m", "configuration file"},
		{"blob-keep", "36h", "command line"},
		{"backup-every", "24h", "default"},
		{"smtp", "smtp://ada:xxxxx@mx.example:587?tls=required", "CERTVAULT_SMTP"},
		{"database", "postgres://vault@db.example/vault?password=xxxxx&sslmode=require", "command line"},
		{"master-key", "(set)", "CERTVAULT_MASTER_KEY"},
		{"tsa", "https://tsa.example/?key=0", "CERTVAULT_TSA"},
		{"metrics", "", "default"},
		{"otlp", "https://ada:xxxxx@collector.example/otlp", "CERTVAULT_OTLP"},
		{"log-level", "warn", "command line"},
		{"cors-origin", "https://a.example,https://b.example", "command line"},
	} {
		if got[want.Name] != want {
			t.Errorf("setting = %+v, want %+v", got[want.Name], want)
		}
	}
	code, out, errs := certvault(t, "", args...)
	if code != exitDone || strings.Contains(out+errs, "secret") || strings.Contains(out+errs, "c2VjcmV0") || !strings.Contains(out, "postgres://vault@db.example") {
		t.Errorf("exit code = %d, output %s%s, want %d and the settings without secrets", code, out, errs, exitDone)
	}
	code, out, errs = certvault(t, "", append(args, "--roles", "print")...)
	if code != exitUsage || !strings.Contains(errs, "--roles") || !strings.Contains(out, "print") {
		t.Errorf("a wrong setting: exit code = %d, output %s%s, want exit code 2, the settings and the error", code, out, errs)
	}
}
