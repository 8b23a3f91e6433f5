package web_test

import (
	"testing"

	"github.com/certvault/certvault/internal/web"
)

func TestIsLocal(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]bool{
		"https://localhost:8443": true, "https://LOCALHOST.": true, "https://vault.localhost": true, "https://vault": true, "https://vault.local": true,
		"https://vault.corp.internal": true, "https://vault.home.arpa": true, "https://127.0.0.1": true, "https://10.1.2.3:8443": true, "https://172.31.0.1": true,
		"https://192.168.0.7": true, "https://169.254.1.1": true, "https://100.64.0.1": true, "https://[::1]": true, "https://[fd00::1]:8443": true,
		"https://[fe80::1]": true, "https://[::ffff:10.0.0.1]": true, "https://0.0.0.0": true,
		"https://vault.example": false, "https://certs.example.org:8443": false, "https://localhost.example.org": false, "https://203.0.113.5": false,
		"https://172.32.0.1": false, "https://[2001:db8::1]": false, "https://internal.example.org": false, "https://mylocal.org": false,
	} {
		if got := web.IsLocal(base); got != want {
			t.Errorf("IsLocal(%q) = %v, want %v", base, got, want)
		}
	}
}
