package mail

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/config"
)

// server is a mail server of a few commands.
type server struct {
	config.MailServer

	// What it does: TLS on offer or from the start, sign-in on offer, and replies
	// that differ from what all is well with.
	offers, fromTheStart, signIn bool
	replies                      map[string]string

	roots *x509.CertPool
	tls   *tls.Config

	mu       sync.Mutex
	messages []string
	// commands has each with a mark of whether it came over TLS.
	commands []string
}

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
	s.tls = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP address")
	}
	s.Host, s.Port = "127.0.0.1", address.Port
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

// serve speaks RFC 5321 as far as a sender needs it.
func (s *server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	secure := s.fromTheStart
	if secure {
		conn = tls.Server(conn, s.tls)
	}
	r := bufio.NewReader(conn)
	say := func(text string) { _, _ = fmt.Fprintf(conn, "%s\r\n", text) }
	say("220 receiver.example")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		command, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		command = strings.ToUpper(command)
		s.note(secure, strings.TrimSpace(line))
		if reply, ok := s.replies[command]; ok {
			say(reply)
			continue
		}
		switch command {
		case "EHLO":
			say("250-receiver.example")
			if s.offers && !secure {
				say("250-STARTTLS")
			}
			if s.signIn {
				say("250-AUTH PLAIN LOGIN")
			}
			say("250 8BITMIME")
		case "STARTTLS":
			say("220 go on")
			conn = tls.Server(conn, s.tls)
			r, secure = bufio.NewReader(conn), true
		case "AUTH":
			say("235 welcome")
		case "DATA":
			say("354 go on")
			s.take(r)
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 fine")
		}
	}
}

func (s *server) take(r *bufio.Reader) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == ".\r\n" {
			break
		}
		b.WriteString(line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, b.String())
}

func (s *server) note(secure bool, line string) {
	mark := "plain: "
	if secure {
		mark = "TLS: "
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, mark+line)
}

// heard tells whether a command came, and how.
func (s *server) heard(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if strings.HasPrefix(c, what) {
			return true
		}
	}
	return false
}
