package mail

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
)

func withBounces(t *testing.T, b *fixture) {
	t.Helper()
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b.ring, b.bounces = ring, "bounces.vault.example"
}

func TestPermanentBounceFailsMessage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		withBounces(t, b)
		var finished []Result
		b.finished = func(_ ctxType, _ *db.Tx, e Result) error {
			finished = append(finished, e)
			return nil
		}
		id, other := b.enqueue(nil), b.enqueue(nil)
		if err := errors.Join(b.runJob(id, 1), b.runJob(other, 1)); err != nil {
			t.Fatal(err)
		}
		address := b.fake.last.ReturnPath
		local, domain, _ := strings.Cut(address, "@")
		if len(local) > 64 || domain != "bounces.vault.example" || !strings.HasPrefix(local, "bounce+") {
			t.Fatalf("the return path is %s, want a local part of at most 64 characters that begins with bounce+, and the domain bounces.vault.example", address)
		}
		for name, r := range map[string]Report{
			"another domain": {local + "@vault.example", "5.1.1"}, "changed MAC": {local[:len(local)-1] + "x@" + domain, "5.1.1"},
			"MAC of another message": {"bounce+" + strings.ReplaceAll(id, "-", "") + local[len("bounce+")+32:] + "@" + domain, "5.1.1"},
			"another local part":     {"postmaster@" + domain, "5.1.1"}, "invalid status": {address, "550"}, "empty report": {},
		} {
			if err := b.Bounced(t.Context(), r); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: error = %v, want fault.Invalid", name, err)
			}
		}
		if err := b.Bounced(t.Context(), Report{address, "4.2.2"}); err != nil || b.status(other) != Sent {
			t.Errorf("after a report of a delay: error %v, status %s; want sent", err, b.status(other))
		}
		for range 2 {
			if err := b.Bounced(t.Context(), Report{strings.ToUpper(address), "5.1.1"}); err != nil || b.status(other) != Failed || b.status(id) != Sent {
				t.Fatalf("after a report of a failure: error %v, status %s; want failed, and the other message sent", err, b.status(other))
			}
		}
		if len(finished) != 3 || finished[2].UUID != other || finished[2].Status != Failed || !strings.Contains(finished[2].Reason, "5.1.1") {
			t.Errorf("finished = %+v, want 3 results, the last one failed with the status 5.1.1", finished)
		}
	})
}

func TestMessagesAreEncryptedAndRemoved(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		withBounces(t, b)
		var id string
		if err := d.Tx(t.Context(), func(tx *db.Tx) (err error) {
			id, err = b.EnqueueTx(t.Context(), tx, Message{To: Address{Email: "a@example.org"}, Subject: "s", Text: "https://vault.example/c/SECRET"})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		text := func() (text string) {
			if err := d.QueryRowContext(t.Context(), `SELECT message FROM mails WHERE uuid = $1`, id).Scan(&text); err != nil {
				t.Fatal(err)
			}
			return text
		}
		if stored := text(); strings.Contains(stored, "SECRET") || strings.Contains(stored, "example.org") || stored == "" {
			t.Errorf("stored message = %q, want an encrypted message", stored)
		}
		if err := b.runJob(id, 1); err != nil || b.fake.last.Text != "https://vault.example/c/SECRET" {
			t.Fatalf("the sent text is %q, want the text of the message; error %v", b.fake.last.Text, err)
		}
		if text() != "" {
			t.Error("the text is still stored after the message was sent")
		}
	})
}

func TestCancelledMessageIsNotSent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		id, sent := b.enqueue(nil), b.enqueue(nil)
		if err := b.runJob(sent, 1); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]bool{id: true, sent: false} {
			if err := d.Tx(t.Context(), func(tx *db.Tx) error {
				ok, err := CancelTx(t.Context(), tx, id, b.now())
				if ok != want {
					t.Errorf("CancelTx = %v, want %v (true for the queued message, false for the sent message)", ok, want)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.runJob(id, 1); err != nil || len(b.fake.sent) != 1 || b.status(id) != Cancelled {
			t.Errorf("%d messages were sent, want 1; status %s, want cancelled; error %v", len(b.fake.sent), b.status(id), err)
		}
	})
}

// reportTemplate is the format string of a delivery status notification as Postfix writes it. Its
// arguments are the address to which the notification is sent and the status.
const reportTemplate = `Return-Path: <>
Delivered-To: %[1]s
From: MAILER-DAEMON@mx.example (Mail Delivery System)
To: %[1]s
Subject: Undelivered Mail Returned to Sender
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b1"

--b1
Content-Type: text/plain

The mail system could not deliver it.
--b1
Content-Description: Delivery report
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example
Arrival-Date: Wed, 1 Jul 2026 08:30:00 +0000

Final-Recipient: rfc822; zoe@example.org
Action: failed
Status: %[2]s
Diagnostic-Code: smtp; 550 5.1.1 no such user

--b1
Content-Type: text/rfc822-headers

Subject: Status: 2.0.0
--b1--
`

func TestParseReport(t *testing.T) {
	t.Parallel()
	const address = "bounce+0197c2a0000070008000000000000001-0123@bounces.vault.example"
	crlf := func(s string) []byte { return []byte(strings.ReplaceAll(s, "\n", "\r\n")) }
	for name, tc := range map[string]struct {
		message []byte
		want    Report
	}{
		"report of Postfix":     {crlf(fmt.Sprintf(reportTemplate, address, "5.1.1")), Report{address, "5.1.1"}},
		"status with a comment": {crlf(fmt.Sprintf(reportTemplate, address, "4.4.7 (delayed)")), Report{address, "4.4.7"}},
		"bare line feeds":       {[]byte(fmt.Sprintf(reportTemplate, address, "5.1.1")), Report{address, "5.1.1"}},
		"another receiver":      {crlf(fmt.Sprintf(reportTemplate, "postmaster@vault.example", "5.1.1")), Report{}},
		"no status":             {crlf(fmt.Sprintf(reportTemplate, address, "")), Report{}},
		"reply of a person":     {crlf("To: " + address + "\nContent-Type: text/plain\n\nStatus: 5.1.1\n"), Report{}},
		"delivery status alone": {crlf("To: " + address + "\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\nStatus: 5.2.1\n"), Report{address, "5.2.1"}},
		"no closing boundary":   {crlf("To: " + address + "\nContent-Type: multipart/report; boundary=b\n\n--b\n"), Report{}},
		"empty message":         {nil, Report{}},
		"long header":           {[]byte("To: " + strings.Repeat("x", 1<<16)), Report{}},
	} {
		got, err := ParseReport(tc.message)
		if got != tc.want || (err == nil) != (tc.want != Report{}) {
			t.Errorf("%s: ParseReport = %+v, error %v; want %+v", name, got, err, tc.want)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(reportTemplate, "bounce+a-b@c.example", "5.1.1")))
	f.Fuzz(func(t *testing.T, message []byte) {
		if r, err := ParseReport(message); err == nil && (r.Status == "" || r.Recipient == "") {
			t.Errorf("ParseReport = %+v, want a recipient and a status, or an error", r)
		}
	})
}
