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
	// bouncePrefix is the prefix of the addresses to which delivery reports are sent.
	bouncePrefix = "bounce+"
	// bounceMAC is the number of bytes of the MAC in these addresses. The prefix, the id of the
	// message, a hyphen and the MAC in hexadecimal have 64 characters, the maximum length of a local
	// part (RFC 5321, 4.5.3.1.1).
	bounceMAC = 12
	// maxParts is the maximum number of parts of a report that are read, and of groups of fields in a
	// part.
	maxParts = 10
)

// Report is a delivery report, for example about a message that was not delivered.
type Report struct {
	// Recipient is the address to which the report was sent. The address identifies the message.
	Recipient string
	// Status is an enhanced status code (RFC 3463).
	Status string
}

// returnPath returns the address to which mail servers report that a message was not delivered. The
// address identifies the message (VERP), and a MAC in the address prevents forged reports. The
// result is empty if there is no domain for reports.
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

// errNoBounce does not state which part of the address is wrong.
var errNoBounce = fault.OfField("recipient", "This is not an address for reports about a message of this vault.")

// bounced returns the id of the message that an address from returnPath identifies. For other
// addresses, the error is errNoBounce.
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

// Bounced processes a delivery report. Only a permanent failure (class 5) changes the status of the
// message, because a delayed message is delivered later or reported again. A second report changes
// nothing. The error is fault.Invalid if the status is not an enhanced status code, or if returnPath did
// not create the address.
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
		e := Result{UUID: id, Status: Failed, Reason: "The message was not delivered: " + meaning(r.Status) + "."}
		return m.finishTx(ctx, tx, e, Sent)
	})
	if err != nil {
		return fmt.Errorf("processing a delivery report: %w", err)
	}
	return nil
}

var errNoReport = fault.New(fault.Invalid, "The message is not a delivery report (RFC 3464).")

// ParseReport parses a delivery status notification (RFC 3464).
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

// reported returns the bounce address to which a report was sent, or "" if the header contains
// none.
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

// deliveryStatus returns the status in a report, or "". A report has a group of fields for the
// message, and then a group for each recipient. Messages of the vault have one recipient.
func deliveryStatus(r *bufio.Reader) (status string) {
	fields := textproto.NewReader(r)
	for range maxParts {
		group, err := fields.ReadMIMEHeader()
		if s := group.Get("Status"); s != "" {
			// The text after the code is a comment.
			code, _, _ := strings.Cut(s, " ")
			return code
		}
		if err != nil {
			return ""
		}
	}
	return ""
}
