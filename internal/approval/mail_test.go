package approval_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// If a signatory deletes the picture of the signature after an approval, the approved certificate still
// shows the picture. Sweep deletes the picture after the certificate is sealed. Before all signatories have
// approved a certificate, it is drawn without pictures of signatures.
func TestReplacedPictureIsDrawn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.Open(t, t.TempDir(), ""), false)
	ctx := t.Context()
	ok(t, f.Templates.SetSignature(ctx, f.inst, f.dean.UserID, bytes.NewReader(scribble(t))))
	_, list := f.issue(t, "Amelia Hart")
	one := approval.Choice{UUIDs: []string{list[0].UUID}}
	_, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, one)
	ok(t, err)
	ok(t, f.Templates.DeleteSignature(ctx, f.inst.ID, f.dean.UserID))
	ok(t, f.Approvals.Sweep(ctx))
	pictures := func() int { return f.one(t, `SELECT count(*) FROM signature_pictures`) }
	if pictures() != 1 {
		t.Fatalf("%d pictures before the certificate is sealed, want 1", pictures())
	}
	draw := func() []byte {
		c, _ := f.get(t, list[0].UUID)
		drawn, err := f.Templates.Draw(ctx, c)
		ok(t, err)
		return drawn.Fields
	}
	if bytes.Contains(draw(), []byte("/SMask")) {
		t.Error("a certificate that waits for signatories shows the picture of a signature, want no picture")
	}
	_, err = f.Approvals.Approve(ctx, f.inst.ID, f.rec.UserID, one)
	ok(t, err)
	signed := draw()
	if !bytes.Contains(signed, []byte("/SMask")) || len(signed) > 20_000 {
		t.Errorf("the fields of the approved certificate have %d bytes, want the picture and at most 20,000 bytes", len(signed))
	}
	f.Settle()
	ok(t, f.Approvals.Sweep(ctx))
	if c, _ := f.get(t, list[0].UUID); c.Status != cert.Approved || pictures() != 0 {
		t.Errorf("the certificate is %s (%+v) and %d pictures are left, want approved and 0", c.Status, c.Failure, pictures())
	}
}

// The mail that asks a signatory for approvals contains no name of a recipient. It is not repeated without
// a new certificate, and is not sent to a signatory for whom no certificate waits.
func TestMail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, true)
		ctx := t.Context()
		f.Exec(`UPDATE users SET language = 'de' WHERE id = $1`, f.dean.UserID)
		mails := func() int {
			t.Helper()
			ok(t, f.Approvals.Sweep(ctx))
			return f.one(t, `SELECT count(*) FROM mails`)
		}
		b, _ := f.issue(t, "Amelia Hart", "Jo Li")
		if n := mails(); n != 0 {
			t.Errorf("%d mails directly after the batch was issued, want 0", n)
		}
		f.Advance(3 * time.Minute)
		if n := mails(); n != 1 {
			t.Errorf("%d mails after three minutes, want 1 to the first signatory", n)
		}
		f.Run()
		m := <-f.Mails
		if !strings.Contains(m.Text, "warten auf Ihre Freigabe") || !strings.Contains(m.Text, b.Name) || strings.Contains(m.Text, "Amelia") || m.To.Email != "ada.obi@example.org" {
			t.Errorf("the mail to %s is\n%s\nwant a German mail to ada.obi@example.org with the batch and without recipients", m.To.Email, m.Text)
		}
		f.Advance(2 * time.Hour)
		if n := mails(); n != 1 {
			t.Errorf("%d mails without a new certificate, want 1", n)
		}
		_, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, approval.Choice{BatchID: b.UUID})
		ok(t, err)
		_, err = f.Approvals.Approve(ctx, f.inst.ID, f.rec.UserID, approval.Choice{BatchID: b.UUID})
		ok(t, err)
		f.Advance(2 * time.Hour)
		mails()
		if n := f.one(t, `SELECT count(*) FROM signature_mails`); n != 1 {
			t.Errorf("mail was sent to %d signatories, want only the first one", n)
		}
	})
}

// The mail lists ten batches. It has one count for the certificates in all further batches, and one for the
// certificates that are in no batch.
func TestMailOfManyBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), true)
	for range 12 {
		f.issue(t, "Amelia Hart", "Jo Li")
	}
	f.Exec(`UPDATE certificate_signatures SET batch_id = NULL WHERE batch_id = (SELECT max(batch_id) FROM certificate_signatures)`)
	f.Advance(3 * time.Minute)
	ok(t, f.Approvals.Sweep(t.Context()))
	f.Run()
	m := <-f.Mails
	if !strings.Contains(m.Text, "need your approval before they can be issued: 24.") || !strings.Contains(m.Text, "Certificates outside batches: 2\n") ||
		strings.Count(m.Text, "Batch “") != 10 || !strings.Contains(m.Text, "Certificates in further batches: 2\n") {
		t.Errorf("the mail is\n%s\nwant 24 certificates: 2 outside batches, ten batches, and 2 in the batch that is not listed", m.Text)
	}
}
