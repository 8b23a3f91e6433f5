package config

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"strconv"
)

// Mail contains the settings of outgoing mail.
type Mail struct {
	SMTP     string `help:"Mail server, smtp://user:password@host:port or smtps://...; without it, mail is written to the outbox folder." name:"smtp" placeholder:"URL"`
	MailFrom string `help:"Sender address of mail. Default: no-reply@ and the host of --base-url." name:"mail-from" placeholder:"ADDRESS"`

	DKIMKey      string `help:"Private key that signs mail, PEM: RSA or Ed25519."                                       name:"dkim-key"      placeholder:"FILE" type:"path"`
	DKIMSelector string `help:"DNS selector of the public key."                                                         name:"dkim-selector" placeholder:"NAME"`
	DKIMDomain   string `help:"Signing domain. Default: the domain of the sender."                                      name:"dkim-domain"   placeholder:"DOMAIN"`
	BounceDomain string `help:"Domain of the addresses bounce+...@ that receive reports about undelivered mail."        name:"bounce-domain" placeholder:"DOMAIN"`
	BounceToken  string `help:"Secret of requests to /hooks/bounce that report undelivered mail; 16 characters or more." name:"bounce-token" placeholder:"TEXT" secret:""`
}

// TLSMode specifies how the connection to a mail server is secured.
type TLSMode int

const (
	// TLSOffered uses STARTTLS (RFC 3207) if the server offers it.
	TLSOffered TLSMode = iota
	// TLSRequired sends no mail without STARTTLS.
	TLSRequired
	// TLSOff does not use STARTTLS.
	TLSOff
	// TLSFromTheStart is implicit TLS (RFC 8314, 3.3).
	TLSFromTheStart
)

// MailServer is the address and the credentials of a mail server.
type MailServer struct {
	Host           string
	Port           int
	User, Password string
	TLS            TLSMode
}

// The default ports (RFC 5321, RFC 6409 and RFC 8314).
const (
	portRelay       = 25
	portSubmission  = 587
	portSubmissions = 465
)

// errSMTP does not include the URL, because the URL may contain a password.
var errSMTP = errors.New("--smtp must be smtp://host:port or smtps://host:port, optionally with user:password@ and ?tls=required or ?tls=off")

// MailServer returns the server of --smtp.
func (m *Mail) MailServer() (MailServer, error) {
	u, err := url.Parse(m.SMTP)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return MailServer{}, errSMTP
	}
	s := MailServer{Host: u.Hostname(), Port: portRelay, User: u.User.Username()}
	s.Password, _ = u.User.Password()
	if s.User != "" {
		// A user name and its password are never sent without TLS.
		s.Port, s.TLS = portSubmission, TLSRequired
	}
	for key := range u.Query() {
		if key != "tls" {
			return MailServer{}, errSMTP
		}
	}
	switch mode := u.Query().Get("tls"); {
	case u.Scheme == "smtps" && (mode == "" || mode == "required"):
		s.Port, s.TLS = portSubmissions, TLSFromTheStart
	case u.Scheme != "smtp":
		return MailServer{}, errSMTP
	case mode == "required":
		s.TLS = TLSRequired
	case mode == "off" && s.User != "":
		return MailServer{}, errors.New("--smtp: a user name requires TLS; remove tls=off")
	case mode == "off":
		s.TLS = TLSOff
	case mode != "":
		return MailServer{}, errSMTP
	}
	if p := u.Port(); p != "" {
		if s.Port, err = strconv.Atoi(p); err != nil || s.Port < 1 || s.Port > 65535 {
			return MailServer{}, errSMTP
		}
	}
	return s, nil
}

// minBounceToken is the minimum length of --bounce-token in bytes.
const minBounceToken = 16

// checkDelivery checks the settings of DKIM and of the reports about undelivered mail.
func (m *Mail) checkDelivery() error {
	if (m.DKIMKey == "") != (m.DKIMSelector == "") {
		return errors.New("--dkim-key and --dkim-selector must be set together")
	}
	if m.DKIMDomain != "" && m.DKIMKey == "" {
		return errors.New("--dkim-domain requires --dkim-key")
	}
	if (m.BounceDomain == "") != (m.BounceToken == "") {
		return errors.New("--bounce-domain and --bounce-token must be set together")
	}
	if m.BounceToken != "" && len(m.BounceToken) < minBounceToken {
		return fmt.Errorf("--bounce-token must have at least %d characters", minBounceToken)
	}
	if m.BounceDomain != "" {
		if _, err := mail.ParseAddress("bounce@" + m.BounceDomain); err != nil {
			return fmt.Errorf("--bounce-domain: %q is not a domain", m.BounceDomain)
		}
	}
	return nil
}

func (c *Serve) checkMail() error {
	if err := c.checkDelivery(); err != nil {
		return err
	}
	if c.MailFrom != "" {
		if _, err := mail.ParseAddress(c.MailFrom); err != nil {
			return fmt.Errorf("--mail-from: %q must look like name@example.org", c.MailFrom)
		}
	}
	if c.SMTP == "" {
		return nil
	}
	_, err := c.MailServer()
	return err
}

// MailSender returns the sender address and the host of the base URL. If the base URL has an IP address and
// --mail-from is not set, the host is localhost without --smtp, and MailSender returns an error with --smtp.
func (c *Serve) MailSender() (from, host string, err error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return "", "", fmt.Errorf("--base-url: %w", err)
	}
	host = u.Hostname()
	if c.MailFrom != "" {
		return c.MailFrom, host, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		if c.SMTP != "" {
			return "", "", errors.New("--mail-from is required, because the base URL has an IP address and no host name")
		}
		host = "localhost"
	}
	return "no-reply@" + host, host, nil
}
