package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Role is a part of what a server does.
type Role string

const (
	// Web is the role of a server that responds to requests.
	Web Role = "web"
	// Work is the role of a server that runs jobs and most periodic tasks, and sends webhooks and mail.
	Work Role = "work"
)

const (
	// proxyDrain is the default of --drain behind a proxy.
	proxyDrain = 5 * time.Second
	maxDrain   = 5 * time.Minute
)

// Node contains the settings of a server that may be one of several.
type Node struct {
	Roles []string       `help:"What this server does: web responds to requests, work runs jobs and sends webhooks and mail. Default: both." name:"roles" placeholder:"web,work"`
	Node  string         `help:"Name of this server in logs, metrics and node list. Default: the name of the host." name:"node" placeholder:"NAME"`
	Drain *time.Duration `help:"How long the server responds after SIGTERM, while /readyz says stopping. Default: 0s, with --behind-proxy 5s." name:"drain" placeholder:"DURATION"`
}

var nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$`)

func (n *Node) checkNode() error {
	for _, r := range n.Roles {
		if r != string(Web) && r != string(Work) {
			return fmt.Errorf("--roles: %q is neither web nor work", r)
		}
	}
	if n.Node != "" && !nodeName.MatchString(n.Node) {
		return fmt.Errorf("--node: %q must have at most 50 letters, digits, dots, underscores and hyphens, and begin with a letter or digit", n.Node)
	}
	if n.Drain != nil && (*n.Drain < 0 || *n.Drain > maxDrain) {
		return errors.New("--drain must be between 0s and 5m")
	}
	return nil
}

// Has reports whether the server has a role. A server without --roles has all roles.
func (n *Node) Has(r Role) bool { return len(n.Roles) == 0 || slices.Contains(n.Roles, string(r)) }

// RoleList returns the roles as a list such as "web,work".
func (n *Node) RoleList() string {
	var list []string
	for _, r := range []Role{Web, Work} {
		if n.Has(r) {
			list = append(list, string(r))
		}
	}
	return strings.Join(list, ",")
}

// NodeName returns the name of the server. Without --node, it is the first 50 characters of the name of the
// host, or "node" if that name is not known.
func (n *Node) NodeName() string {
	if n.Node != "" {
		return n.Node
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "node"
	}
	return fmt.Sprintf("%.50s", host)
}

// DrainTime returns the time for which the server responds after SIGTERM.
func (c *Serve) DrainTime() time.Duration {
	switch {
	case c.Drain != nil:
		return *c.Drain
	case len(c.BehindProxy) > 0:
		return proxyDrain
	}
	return 0
}
