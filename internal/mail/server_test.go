package mail

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/certvault/certvault/internal/config"
)

// server is a mail server for tests.
type server struct {
	config.MailServer

	// startTLS, implicitTLS and auth enable STARTTLS, implicit TLS and AUTH.
	startTLS, implicitTLS, auth bool
	// user and password are the accepted credentials.
	user, password string
	// utf8 reports whether the server supports SMTPUTF8.
	utf8 bool
	// mail, rcpt and data return the reply to the commands MAIL, RCPT and DATA of the n-th message. If
	// the function is nil, the server accepts the command.
	mail, rcpt, data func(nth int) error
	// drop reports whether to close the connection during the n-th message.
	drop func(nth int) bool

	roots *x509.CertPool

	mu       sync.Mutex
	messages []delivered
	tries    int
	// helo, secure and signedIn describe the last connection.
	helo             string
	secure, signedIn bool
}

// delivered is a received message with its envelope.
type delivered struct{ from, to, text string }

func (s *server) start(t *testing.T) *server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s.roots = x509.NewCertPool()
	s.roots.AddCert(leaf)
	secure := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}

	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("type of the listener's address = %T, want *net.TCPAddr", l.Addr())
	}
	s.Host, s.Port = "127.0.0.1", address.Port
	x := smtp.NewServer(s)
	x.Domain, x.AllowInsecureAuth, x.EnableSMTPUTF8, x.ErrorLog = "receiver.example", true, s.utf8, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if s.startTLS {
		x.TLSConfig = secure
	}
	if s.implicitTLS {
		l = tls.NewListener(l, secure)
	}
	t.Cleanup(func() { _ = x.Close() })
	go func() { _ = x.Serve(l) }()
	return s
}

// NewSession implements [smtp.Backend].
func (s *server) NewSession(c *smtp.Conn) (smtp.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.helo, s.signedIn = c.Hostname(), false
	_, s.secure = c.TLSConnectionState()
	x := &session{server: s, conn: c}
	if s.auth {
		return &signInSession{x}, nil
	}
	return x, nil
}

// last returns the name of the client, and whether it used TLS and signed in, in the last connection.
func (s *server) last() (helo string, secure, signedIn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.helo, s.secure, s.signedIn
}

func (s *server) received() []delivered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]delivered(nil), s.messages...)
}

type session struct {
	server   *server
	conn     *smtp.Conn
	nth      int
	from, to string
}

func reply(f func(int) error, nth int) error {
	if f == nil {
		return nil
	}
	return f(nth)
}

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	x.server.mu.Lock()
	x.server.tries++
	x.nth = x.server.tries
	x.server.mu.Unlock()
	x.from = from
	return reply(x.server.mail, x.nth)
}

func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	x.to = to
	return reply(x.server.rcpt, x.nth)
}

func (x *session) Data(r io.Reader) error {
	if x.server.drop != nil && x.server.drop(x.nth) {
		if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
			return err
		}
		return x.conn.Conn().Close()
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := reply(x.server.data, x.nth); err != nil {
		return err
	}
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	x.server.messages = append(x.server.messages, delivered{x.from, x.to, string(text)})
	return nil
}

func (x *session) Reset()        {}
func (x *session) Logout() error { return nil }

// signInSession is a session that supports AUTH.
type signInSession struct{ *session }

func (x *signInSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (x *signInSession) Auth(string) (sasl.Server, error) {
	s := x.server
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.user || password != s.password {
			return smtp.ErrAuthFailed
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.signedIn = true
		return nil
	}), nil
}

// refuse returns a function that replies with a code and a text.
func refuse(code int, text string) func(int) error {
	return func(int) error { return &smtp.SMTPError{Code: code, Message: text} }
}

// once returns a function that applies f to the first message and accepts the others.
func once(f func(int) error) func(int) error {
	return func(nth int) error {
		if nth > 1 {
			return nil
		}
		return f(nth)
	}
}
