// Package mail formats outgoing messages and stores them in a queue. It sends them by SMTP, or writes them
// to the outbox folder. The callers decide which messages are sent, and to whom.
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

// Address is the address of a mailbox, with a name that mail programs show.
type Address struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// ParseAddress parses "name@example.org" or "Name <name@example.org>" (RFC 5322, 3.4).
func ParseAddress(text string) (Address, error) {
	a, err := mail.ParseAddress(text)
	if err != nil {
		return Address{}, errors.New("the address must look like name@example.org")
	}
	return Address{Name: a.Name, Email: a.Address}, nil
}

// Message is a message to one person.
type Message struct {
	To      Address `json:"to"`
	Subject string  `json:"subject"`
	Text    string  `json:"text"`
	// HTML is an alternative to the text; it may be empty.
	HTML string `json:"html,omitempty"`
	// Pictures are the pictures in the HTML, which are loaded when the message is sent.
	Pictures []Picture `json:"pictures,omitempty"`
	// Unsubscribe is a URL at which one request unsubscribes the receiver (RFC 8058); it may be
	// empty.
	Unsubscribe string `json:"unsubscribe,omitempty"`
	// Sender is the name that is shown as the sender instead of the vault's name. ReplyTo is the
	// address for replies. Both may be empty.
	Sender  string `json:"sender,omitempty"`
	ReplyTo string `json:"reply_to,omitempty"`
}

// Fits reports whether the transmitted message without its pictures has at most 30 KB, because some
// mailboxes truncate larger messages. It estimates the size. Encoding adds up to 3/8 to the text and the
// HTML, and encoded words (RFC 2047) have up to four bytes for each byte of a header.
func (m *Message) Fits() bool {
	const others = 2 << 10 // all other headers, and the separators of the parts
	return (len(m.Text)+len(m.HTML))*11/8+4*(len(m.Subject)+len(m.To.Name)+len(m.Sender))+others <= 30<<10
}

const (
	// maxMessage is the maximum size of text and HTML together, in bytes. A message of this size has about
	// 30 KB when it is transmitted.
	maxMessage = 21 << 10
	// dense determines the encoding: if more than 1/dense of the bytes are not ASCII, base64 is
	// shorter than quoted-printable. Quoted-printable needs three bytes for a non-ASCII byte, and
	// base64 needs four bytes for any three bytes.
	dense = 6
)

// check returns an error if the message has no valid address, no subject or no text, or is too
// long.
func (m *Message) check() error {
	if _, err := mail.ParseAddress(m.To.Email); err != nil {
		return errors.New("the message has no valid address")
	}
	if m.Subject == "" || m.Text == "" {
		return errors.New("the message needs a subject and a text")
	}
	if len(m.Text)+len(m.HTML) > maxMessage {
		return fmt.Errorf("the message has more than %d bytes", maxMessage)
	}
	return nil
}

// Envelope is a message with the data that is needed to send it.
type Envelope struct {
	Message

	// ID is a UUID. All attempts to send the message use the same ID.
	ID        string
	From      Address
	CreatedAt time.Time
	// ReturnPath is the address for reports of failed delivery (RFC 5321, 4.4); empty means From.
	ReturnPath string
	// Images loads the images of the message's pictures. If it is nil, the message has no pictures.
	// SMTP calls Images after it has connected to the mail server, so that no images are loaded if the
	// server cannot be reached.
	Images func(ctx context.Context) map[string]*Image
}

// Sender sends a message. SMTP, Outbox and NoSender implement Sender.
type Sender interface {
	Send(ctx context.Context, e *Envelope) error
}

// RefusedError means that the message was refused permanently and must not be sent again.
type RefusedError struct{ Err error }

// Error returns the reason.
func (e *RefusedError) Error() string { return "the message was refused: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// build returns the message in the format of RFC 5322. The Date and Message-ID headers are the same
// at each attempt, so that mail programs can detect duplicates. The error is a *RefusedError if an
// address or the link to unsubscribe is not valid.
func (e *Envelope) build(ctx context.Context) (*gomail.Msg, error) {
	to, err := toASCII(e.To.Email)
	if err != nil {
		return nil, &RefusedError{Err: err}
	}
	encoding := gomail.EncodingQP
	if text := e.Text + e.HTML; countNonASCII(text) > len(text)/dense {
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
	if e.ReturnPath != "" {
		m.EnvelopeFromMailAddress(&mail.Address{Address: e.ReturnPath})
	}
	m.Subject(oneLine(e.Subject))
	m.SetDateWithValue(e.CreatedAt.UTC())
	messageID := e.ID + "@" + e.From.Email[strings.LastIndexByte(e.From.Email, '@')+1:]
	m.SetMessageIDWithValue(messageID)
	// Auto-Submitted prevents automatic replies (RFC 3834, 5).
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	if e.Unsubscribe != "" {
		if err := m.SetListUnsubscribeOneClick(e.Unsubscribe); err != nil {
			return nil, &RefusedError{Err: fmt.Errorf("writing the link to unsubscribe: %w", err)}
		}
	}
	m.SetBodyString(gomail.TypeTextPlain, e.Text)
	if e.HTML == "" {
		return m, nil
	}
	var images map[string]*Image
	if e.Images != nil {
		images = e.Images(ctx)
	}
	if len(images) == 0 {
		m.AddAlternativeString(gomail.TypeTextHTML, e.fillPictures(nil, nil))
		return m, nil
	}
	// The pictures are in the same part as the HTML (RFC 2046, 5.1.4), so a mail program that shows the text
	// does not show the pictures as attachments.
	r, err := newRelated(e, images, messageID, encoding == gomail.EncodingB64)
	if err != nil {
		return nil, fmt.Errorf("writing the pictures of a message: %w", err)
	}
	m.AddAlternativeWriter(gomail.ContentType(r.contentType), r.writeTo, gomail.WithPartEncoding(gomail.NoEncoding))
	return m, nil
}

// toASCII returns an address with its domain in ASCII form (RFC 5891). The local part is not
// changed, and may require a server with SMTPUTF8 (RFC 6531).
func toASCII(address string) (string, error) {
	at := strings.LastIndexByte(address, '@')
	domain, err := idna.Lookup.ToASCII(address[at+1:])
	if err != nil {
		return "", errors.New("the domain of the address is not valid")
	}
	return address[:at+1] + domain, nil
}

// countNonASCII returns the number of bytes that are not ASCII.
func countNonASCII(s string) (n int) {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			n++
		}
	}
	return n
}

// oneLine returns a header value on one line, with a space inside each "=?". Encoded words begin with these
// characters (RFC 2047, 2). Mail programs decode encoded words, so an attacker could hide text in them.
func oneLine(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "=?", "= ?")
}
