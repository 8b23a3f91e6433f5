package config

import (
	"fmt"
	"net"
)

// Sockets contains the sockets that a service manager opened for the server. They remain open while the
// server restarts, so that no connection is refused.
type Sockets struct {
	// Public replaces --listen, and Metrics replaces --metrics. Both may be nil.
	Public, Metrics net.Listener
}

// useSocket sets --listen to the address of the public socket, because the base URL may be derived from
// --listen. If --listen does not have its default value, useSocket does not change it, but returns an error
// if its port is not that of the socket.
func (c *Serve) useSocket() error {
	if c.Public == nil {
		return nil
	}
	address := c.Public.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("the service manager passed the socket %q, which has no port; only TCP is supported", address)
	}
	if c.Listen != defaultListen {
		if _, asked, err := net.SplitHostPort(c.Listen); err != nil || asked != port {
			return fmt.Errorf("--listen is %q, but the service manager passed a socket for port %s; "+
				"remove --listen, or change ListenStream of the socket unit", c.Listen, port)
		}
		return nil
	}
	c.Listen = address
	return nil
}
