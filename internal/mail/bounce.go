package mail

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/hex"
	"fmt"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

const (
	// bouncePrefix begins the addresses to which failed deliveries are reported.
	bouncePrefix = "bounce+"
	// bounceMAC is how many bytes of the MAC they carry: with the rest in
	// hexadecimal, the 64 characters that the part before the @ may have (RFC 5321,
	// 4.5.3.1.1).
	bounceMAC = 12
	// maxParts bounds the parts of a report.
	maxParts = 10
)

// Report says that a message was not delivered, or is late.
type Report struct {
	// Recipient is the address that the report came to, which names the message.
	Recipient string
	// Status is an enhanced status code (RFC 3463).
	Status string
}

// returnPath gives the address to which the failed delivery of a message is
// reported: it names the message, and nobody can make one up (VERP).
func (m *Mailer) returnPath(id string) (string, error) {
	if m.bounces == "" {
		return "", nil
	}
	mac, err := m.bounceMAC(id)
	if err != nil {
		return "", err
	}
	return bouncePrefix + strings.ReplaceAll(id, "-", "") + "-" + mac + "@" + m.bounces, nil
}

func (m *Mailer) bounceMAC(id string) (string, error) {
	mac, err := m.ring.MAC(keyring.BounceAddress, []byte(id))
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(mac[:bounceMAC]), nil
}

// errNoBounce does not tell what of the address is wrong.
var errNoBounce = fault.OfField("recipient", "No message of ours has its failures reported to this address.")

// bounced gives the message that an address of ours names.
func (m *Mailer) bounced(address string) (id string, err error) {
	local, domain, _ := strings.Cut(address, "@")
	local, ok := strings.CutPrefix(strings.ToLower(local), bouncePrefix)
	text, mac, _ := strings.Cut(local, "-")
	parsed, err := uuid.Parse(text)
	if m.bounces == "" || !ok || err != nil || !strings.EqualFold(domain, m.bounces) {
		return "", errNoBounce
	}
	want, err := m.bounceMAC(parsed.String())
	if err != nil {
		return "", err
	}
	if !hmac.Equal([]byte(mac), []byte(want)) {
		return "", errNoBounce
	}
	return parsed.String(), nil
}

// statusCode is an enhanced status code: class, subject and detail (RFC 3463, 2).
var statusCode = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}$`)

// Bounced takes a report of a message's delivery. Only a permanent failure, of
// class 5, says something that is not known: what is late comes or is reported
// again. A second report changes nothing.
func (m *Mailer) Bounced(ctx context.Context, r Report) error {
	r.Status = strings.TrimSpace(r.Status)
	if !statusCode.MatchString(r.Status) {
		return fault.OfField("status", "The status must be an enhanced status code such as 5.1.1.")
	}
	id, err := m.bounced(strings.TrimSpace(r.Recipient))
	if err != nil || !strings.HasPrefix(r.Status, "5.") {
		return err
	}
	err = m.db.Tx(ctx, func(tx *db.Tx) error {
		e := End{UUID: id, Status: Failed, Reason: "The message was not delivered: " + meaning(r.Status) + "."}
		return m.endTx(ctx, tx, e, Sent)
	})
	if err != nil {
		return fmt.Errorf("taking a report of delivery: %w", err)
	}
	return nil
}

var errNoReport = fault.New(fault.Invalid, "The message is no report of delivery (RFC 3464).")

// ParseReport reads a report of delivery as mail servers send it (RFC 3464).
func ParseReport(message []byte) (Report, error) {
	msg, err := mail.ReadMessage(bytes.NewReader(message))
	if err != nil {
		return Report{}, errNoReport
	}
	r := Report{Recipient: reported(msg.Header)}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || r.Recipient == "" {
		return Report{}, errNoReport
	}
	switch kind {
	case "message/delivery-status":
		r.Status = deliveryStatus(bufio.NewReader(msg.Body))
	case "multipart/report":
		parts := multipart.NewReader(msg.Body, params["boundary"])
		for range maxParts {
			part, err := parts.NextPart()
			if err != nil {
				break
			}
			if kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type")); err == nil &&
				(kind == "message/delivery-status" || kind == "message/global-delivery-status") {
				r.Status = deliveryStatus(bufio.NewReader(part))
				break
			}
		}
	}
	if r.Status == "" {
		return Report{}, errNoReport
	}
	return r, nil
}

// reported finds the address of ours that a report came to.
func reported(h mail.Header) string {
	for _, name := range []string{"Delivered-To", "X-Original-To", "Envelope-To", "To"} {
		for _, value := range h[textproto.CanonicalMIMEHeaderKey(name)] {
			if a, err := mail.ParseAddress(value); err == nil && strings.HasPrefix(strings.ToLower(a.Address), bouncePrefix) {
				return a.Address
			}
		}
	}
	return ""
}

// deliveryStatus reads the groups of fields of a report: those of the message,
// then those of each recipient, of which ours have one.
func deliveryStatus(r *bufio.Reader) (status string) {
	fields := textproto.NewReader(r)
	for range maxParts {
		group, err := fields.ReadMIMEHeader()
		if s := group.Get("Status"); s != "" {
			// What stands behind the code is a comment.
			code, _, _ := strings.Cut(s, " ")
			return code
		}
		if err != nil {
			return ""
		}
	}
	return ""
}
