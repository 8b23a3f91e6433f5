package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/certvault/certvault/internal/config"
)

// sendTime is the time limit for sending one message.
const sendTime = 45 * time.Second

// SMTP sends messages to a mail server (RFC 5321, RFC 6409).
type SMTP struct {
	server config.MailServer
	signer *Signer
	roots  *x509.CertPool
	helo   string
	time   time.Duration
}

// NewSMTP returns a sender. helo is the name in the EHLO command (RFC 5321, 4.1.1.1). signer may be nil.
func NewSMTP(server config.MailServer, helo string, signer *Signer) *SMTP {
	return &SMTP{server: server, helo: helo, signer: signer, time: sendTime}
}

// errNoUTF8 means that the mail server does not support the address (RFC 6531, 3.1).
var errNoUTF8 = errors.New("the mail server does not support addresses with characters outside ASCII (SMTPUTF8)")

// Send sends the message over a new connection. The error is a *RefusedError if the message must
// not be sent again.
func (s *SMTP) Send(ctx context.Context, e *Envelope) error {
	c, err := s.client()
	if err != nil {
		return fmt.Errorf("creating the mail client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.time)
	defer cancel()
	conn, err := c.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return classify(err)
	}
	// At the time limit, or when the caller's context ends, the connection is closed. The remaining
	// commands then fail.
	defer func() { _ = conn.Text.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Text.Close() })()
	nonASCII := countNonASCII(e.To.Email[:strings.LastIndexByte(e.To.Email, '@')]) > 0
	if supported, _ := conn.Extension("SMTPUTF8"); nonASCII && !supported {
		return &RefusedError{Err: errNoUTF8}
	}
	m, err := e.build(ctx)
	if err != nil {
		return err
	}
	if err := s.signer.sign(m); err != nil {
		return err
	}
	// SMTPUTF8 is requested only if it is needed, because not all servers support it.
	conn.SkipSMTPUTF8(!nonASCII)
	if err := c.SendWithSMTPClient(conn, m); err != nil && !m.IsDelivered() {
		return classify(err)
	}
	// The server has accepted the message, even if QUIT fails.
	_ = conn.Quit()
	return nil
}

func (s *SMTP) client() (*gomail.Client, error) {
	options := []gomail.Option{
		gomail.WithPort(s.server.Port), gomail.WithTimeout(s.time), gomail.WithHELO(s.helo),
		gomail.WithTLSConfig(&tls.Config{ServerName: s.server.Host, MinVersion: tls.VersionTLS12, RootCAs: s.roots}),
	}
	switch s.server.TLS {
	case config.TLSFromTheStart:
		options = append(options, gomail.WithSSL())
	case config.TLSRequired:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case config.TLSOffered:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	case config.TLSOff:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if s.server.User != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(s.server.User), gomail.WithPassword(s.server.Password))
	}
	return gomail.NewClient(s.server.Host, options...)
}

// classify returns a *RefusedError if the server has refused the message permanently, with a 5xx reply
// to the sender, the recipient or the message (RFC 5321, 4.2.1). Other errors are temporary. A refused
// sign-in is temporary too, because the operator can correct the credentials. The error does not contain
// the text of the server's reply, which may contain addresses.
func classify(err error) error {
	const action = "sending a message to the mail server"
	if e, ok := errors.AsType[*gomail.SendError](err); ok {
		switch e.Reason {
		case gomail.ErrSMTPMailFrom, gomail.ErrSMTPRcptTo, gomail.ErrSMTPData, gomail.ErrSMTPDataClose:
			if code := e.ErrorCode(); code >= 500 && code < 600 {
				return &RefusedError{Err: errors.New(meaning(e.EnhancedStatusCode(), strconv.Itoa(code)))}
			}
		default:
		}
		return fmt.Errorf("%s: the server responded with %d (%s)", action, e.ErrorCode(), e.Reason)
	}
	if e, ok := errors.AsType[*textproto.Error](err); ok {
		return fmt.Errorf("%s: the server responded with %d before the message", action, e.Code)
	}
	return fmt.Errorf("%s: %w", action, err)
}
