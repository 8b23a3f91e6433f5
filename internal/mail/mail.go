// Package mail owns messages on their way out: their form, a queue that keeps
// them until they are gone, and the two ways by which they leave, SMTP and the
// outbox folder. It does not know why a message is sent, nor to whom it should be.
package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/net/idna"
)

// Address is a person's mailbox.
type Address struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// ParseAddress reads "name@example.org" or "Name <name@example.org>" (RFC 5322,
// 3.4).
func ParseAddress(text string) (Address, error) {
	a, err := mail.ParseAddress(text)
	if err != nil {
		return Address{}, errors.New("the address must look like name@example.org")
	}
	return Address{Name: a.Name, Email: a.Address}, nil
}

// Message is what one person is sent.
type Message struct {
	To      Address `json:"to"`
	Subject string  `json:"subject"`
	Text    string  `json:"text"`
	// HTML is an alternative to the text; it may be empty.
	HTML string `json:"html,omitempty"`
	// Unsubscribe is a link that ends mail of this kind with one click (RFC 8058);
	// it may be empty.
	Unsubscribe string `json:"unsubscribe,omitempty"`
	// Sender is shown as the sender's name, in place of the vault's own; ReplyTo is
	// the address that answers go to. Either may be empty.
	Sender  string `json:"sender,omitempty"`
	ReplyTo string `json:"reply_to,omitempty"`
}

// Fits tells whether the message stays below 30 KB on the wire, beyond which some
// mailboxes cut: its text in the shorter of both encodings, with the ends of their
// lines, and its headers in encoded words (RFC 2047), of which a byte takes up to
// four.
func (m *Message) Fits() bool {
	const others = 2 << 10 // all other headers, and what separates the parts
	return (len(m.Text)+len(m.HTML))*11/8+4*(len(m.Subject)+len(m.To.Name)+len(m.Sender))+others <= 30<<10
}

const (
	// maxMessage bounds text and HTML together, so that the message on the wire
	// stays below 30 KB: what is longer, some mailboxes cut.
	maxMessage = 21 << 10
	// dense is the part of a text, one in so many bytes, from which on base64 is
	// shorter than quoted-printable: each byte beyond ASCII is three there, and
	// four for three here.
	dense = 6
)

// check refuses what cannot be sent.
func (m *Message) check() error {
	if _, err := mail.ParseAddress(m.To.Email); err != nil {
		return errors.New("a message has no address that can be written to")
	}
	if m.Subject == "" || m.Text == "" {
		return errors.New("a message has no subject or no text")
	}
	if len(m.Text)+len(m.HTML) > maxMessage {
		return fmt.Errorf("a message has over %d bytes", maxMessage)
	}
	return nil
}

// Envelope is a message with what the queue knows of it.
type Envelope struct {
	Message

	// ID is a UUID, the same at each attempt to send the message.
	ID        string
	From      Address
	CreatedAt time.Time
	// Return is where reports of failed delivery go (RFC 5321, 4.4); empty is From.
	Return string
}

// Sender hands a message over. SMTP and Outbox do.
type Sender interface {
	Send(ctx context.Context, e *Envelope) error
}

// RefusedError is a message that its receiver will never take: sending it again is
// of no use.
type RefusedError struct{ Err error }

// Error tells why.
func (e *RefusedError) Error() string { return "the message was refused: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// build writes the message as RFC 5322 has it. Date and Message-ID are those of
// its making, so that a second copy of it is known as one.
func (e *Envelope) build() (*gomail.Msg, error) {
	to, err := toASCII(e.To.Email)
	if err != nil {
		return nil, &RefusedError{Err: err}
	}
	encoding := gomail.EncodingQP
	if text := e.Text + e.HTML; beyondASCII(text) > len(text)/dense {
		encoding = gomail.EncodingB64
	}
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithEncoding(encoding))
	m.FromMailAddress(&mail.Address{Name: oneLine(cmp.Or(e.Sender, e.From.Name)), Address: e.From.Email})
	if e.ReplyTo != "" {
		reply, err := toASCII(e.ReplyTo)
		if err != nil {
			return nil, &RefusedError{Err: err}
		}
		m.ReplyToMailAddress(&mail.Address{Address: reply})
	}
	m.ToMailAddress(&mail.Address{Name: oneLine(e.To.Name), Address: to})
	if e.Return != "" {
		m.EnvelopeFromMailAddress(&mail.Address{Address: e.Return})
	}
	m.Subject(oneLine(e.Subject))
	m.SetDateWithValue(e.CreatedAt.UTC())
	m.SetMessageIDWithValue(e.ID + "@" + e.From.Email[strings.LastIndexByte(e.From.Email, '@')+1:])
	// RFC 3834, 5: no vacation notice is to be sent in answer.
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	if e.Unsubscribe != "" {
		if err := m.SetListUnsubscribeOneClick(e.Unsubscribe); err != nil {
			return nil, &RefusedError{Err: fmt.Errorf("writing the link to unsubscribe: %w", err)}
		}
	}
	m.SetBodyString(gomail.TypeTextPlain, e.Text)
	if e.HTML != "" {
		m.AddAlternativeString(gomail.TypeTextHTML, e.HTML)
	}
	return m, nil
}

// toASCII gives an address with its domain as mail servers know it (RFC 5891); the
// part before it stays, and may need a server that takes it (RFC 6531).
func toASCII(address string) (string, error) {
	at := strings.LastIndexByte(address, '@')
	domain, err := idna.Lookup.ToASCII(address[at+1:])
	if err != nil {
		return "", errors.New("the domain of the address is none")
	}
	return address[:at+1] + domain, nil
}

// beyondASCII counts the bytes that are not ASCII.
func beyondASCII(s string) (n int) {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			n++
		}
	}
	return n
}

// oneLine makes one line of what goes into a header. What looks encoded already is
// taken apart: readers would decode it, and with it whatever somebody put there
// (RFC 2047, 2).
func oneLine(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "=?", "= ?")
}
