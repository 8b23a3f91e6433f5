package config_test

import (
	"net"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/certvault/certvault/internal/config"
)

func TestSocketReplacesListen(t *testing.T) {
	t.Parallel()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4zero})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, base, err string
		args            []string
	}{
		{name: "no flag", base: "https://localhost:" + port},
		{name: "same port", args: []string{"--listen", "192.0.2.7:" + port}, base: "https://192.0.2.7:" + port},
		{name: "base URL", args: []string{"--base-url", "https://vault.example.org"}, base: "https://vault.example.org"},
		{name: "another port", args: []string{"--listen", "localhost:1"}, err: "ListenStream"},
	} {
		var c struct{ config.Serve }
		p, err := kong.New(&c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(tc.args); err != nil {
			t.Fatal(err)
		}
		c.Public = l
		err = c.Finish()
		if tc.err == "" && (err != nil || c.BaseURL != tc.base) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%s: base URL = %q, error = %v, want the base URL %q or an error that contains %q", tc.name, c.BaseURL, err, tc.base, tc.err)
		}
	}
}
