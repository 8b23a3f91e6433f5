package recipient

import "github.com/certvault/certvault/internal/cert"

// stateOf returns the state of a certificate in a list: its status, or replaced or expired.
func (p *Pages) stateOf(c *cert.Certificate) string {
	switch {
	case c.Replaced():
		return replaced
	case c.Status == cert.Approved && p.Certs.HasExpired(c):
		return expired
	}
	return string(c.Status)
}
