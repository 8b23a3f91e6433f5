package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/config"
)

func TestNodeSettings(t *testing.T) {
	t.Parallel()
	second, negative := time.Second, -time.Second
	proxy := []string{"127.0.0.1"}
	for name, c := range map[string]struct {
		set     config.Serve
		message string
		roles   string
		drain   time.Duration
	}{
		"defaults":       {config.Serve{}, "", "web,work", 0},
		"behind a proxy": {config.Serve{BehindProxy: proxy}, "", "web,work", 5 * time.Second},
		"drain":          {config.Serve{BehindProxy: proxy, Node: config.Node{Drain: &second}}, "", "web,work", time.Second},
		"one role":       {config.Serve{Node: config.Node{Roles: []string{"work"}, Node: "vault-1.example"}}, "", "work", 0},
		"both roles":     {config.Serve{Node: config.Node{Roles: []string{"work", "web"}}}, "", "web,work", 0},
		"unknown role":   {config.Serve{Node: config.Node{Roles: []string{"db"}}}, `--roles: "db"`, "", 0},
		"invalid name":   {config.Serve{Node: config.Node{Node: "a b"}}, "--node", "", 0},
		"negative drain": {config.Serve{Node: config.Node{Drain: &negative}}, "--drain", "", 0},
	} {
		c.set.Listen, c.set.BaseURL, c.set.ProcessAttempts, c.set.FileCheckRate = "localhost:8443", "https://vault.example.org", 1, 1
		err := c.set.Finish()
		if c.message != "" {
			if err == nil || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: error = %v, want an error that contains %q", name, err, c.message)
			}
			continue
		}
		if err != nil || c.set.RoleList() != c.roles || c.set.DrainTime() != c.drain {
			t.Errorf("%s: roles = %q, drain = %s, error = %v, want %q and %s", name, c.set.RoleList(), c.set.DrainTime(), err, c.roles, c.drain)
		}
	}
}
