package recipient_test

import (
	"archive/zip"
	"bytes"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
)

// eventTexts returns the payloads of the events of all certificates.
func (b *fixture) eventTexts() (list []string) {
	b.t.Helper()
	rows, err := b.DB.QueryContext(b.t.Context(), `SELECT payload FROM webhook_events ORDER BY id`)
	if err != nil {
		b.t.Fatal(err)
	}
	if list, err = db.Collect(rows, func(rows *sql.Rows) (s string, err error) {
		err = rows.Scan(&s)
		return s, err
	}); err != nil {
		b.t.Fatal(err)
	}
	return list
}

func (b *fixture) emails(c *cert.Certificate) (list []string) {
	b.t.Helper()
	notices, err := b.Notices(b.t.Context(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, n := range notices {
		list = append(list, n.Email)
	}
	return list
}

func TestExpiredAddressesArePurged(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		other := b.institution("OTH")
		old, theirs := b.upload(titled("old")), b.upload(titled("theirs"), of(other))
		b.approve(old, theirs)
		for _, m := range b.mails() {
			b.finish(m.uuid, mail.Sent, "")
		}
		link := b.link(0)
		b.Advance(31 * 24 * time.Hour)
		young := b.upload(titled("young"))
		b.approve(young)
		if mails, events, err := b.Expired(ctx, b.inst.ID, 30); err != nil || mails != 1 || events != 1 {
			t.Errorf("Expired = %d mails and %d events, want 1 and 1; error %v", mails, events, err)
		}
		sweep := func() {
			t.Helper()
			if err := b.SweepExpired(ctx); err != nil {
				t.Fatal(err)
			}
		}
		sweep()
		if got := b.emails(old); !slices.Equal(got, []string{"ada@example.org"}) {
			t.Fatalf("addresses after a sweep without a limited retention = %v, want ada@example.org", got)
		}
		if err := b.Accounts.SetRetention(ctx, b.inst.ID, account.Retention{Mail: 30}); err != nil {
			t.Fatal(err)
		}
		sweep()
		if got := b.emails(old); !slices.Equal(got, []string{""}) {
			t.Errorf("addresses of the old certificate = %q, want one empty address", got)
		}
		for _, c := range []*cert.Certificate{young, theirs} {
			if got := b.emails(c); !slices.Equal(got, []string{"ada@example.org"}) {
				t.Errorf("addresses of %s = %v, want ada@example.org", c.Title, got)
			}
		}
		for _, e := range b.eventTexts() {
			retained := !strings.Contains(e, `"certificate_title":"old"`)
			if strings.Contains(e, "ada@example.org") != retained || strings.Contains(e, "Ada Obi") != retained {
				t.Errorf("event = %s, want no name and no address if the title is old, and both otherwise", e)
			}
		}
		// The history, the certificate and the mailed link do not change.
		history, err := b.Certs.History(ctx, old)
		if err != nil || len(history) == 0 || b.get(old.UUID).Email != "ada@example.org" {
			t.Errorf("the history is %+v and the address %s, want events and ada@example.org; error %v", history, b.get(old.UUID).Email, err)
		}
		if l, err := b.MailLink(ctx, link); err != nil || len(l.Certificates) != 1 {
			t.Errorf("the link shows %+v, want 1 certificate; error %v", l, err)
		}
		count := func() int {
			list, _, err := audit.New(d).List(ctx, b.inst.ID, audit.Filter{Action: string(audit.MailExpired)}, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		if n := count(); n != 1 {
			t.Errorf("%d audit entries, want 1", n)
		}
		// The next sweep purges nothing. The sweep 31 days later purges the event of the young
		// certificate, but not the address of its notice, because the mail has not been sent.
		sweep()
		b.Advance(31 * 24 * time.Hour)
		sweep()
		if n := count(); n != 2 || !slices.Equal(b.emails(young), []string{"ada@example.org"}) {
			t.Errorf("%d audit entries and addresses %v, want 2 entries and ada@example.org", n, b.emails(young))
		}
		b.finish(b.mails()[2].uuid, mail.Failed, "550 no such mailbox")
		b.Advance(31 * 24 * time.Hour)
		sweep()
		if got := b.emails(young); !slices.Equal(got, []string{""}) {
			t.Errorf("addresses of the young certificate = %q, want one empty address", got)
		}
	})
}

// TestManyAddressesArePurged checks that one sweep purges more notices than one transaction does.
func TestManyAddressesArePurged(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		c := b.upload()
		b.approve(c)
		b.Exec(`UPDATE notices SET status = 'sent'`)
		for occasion := 2; occasion <= recipient.PurgeBatch+5; occasion++ {
			b.Exec(`INSERT INTO notices (certificate_id, occasion, institution_id, reason, email, email_folded, status, created_at, updated_at)
				SELECT certificate_id, $1, institution_id, reason, email, email_folded, status, created_at, updated_at FROM notices WHERE occasion = 1`, occasion)
		}
		if err := b.Accounts.SetRetention(t.Context(), b.inst.ID, account.Retention{Mail: 30}); err != nil {
			t.Fatal(err)
		}
		b.Advance(31 * 24 * time.Hour)
		if err := b.SweepExpired(t.Context()); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM notices WHERE email <> ''`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d addresses are not purged, want 0; error %v", n, err)
		}
	})
}

// TestExportWithoutPurgedFiles checks that the export of a person states that the files of one
// certificate were purged, and has the files of the other certificate.
func TestExportWithoutPurgedFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		id := b.user("ada@example.org", true)
		c, other := b.upload(titled("purged")), b.upload(titled("other"))
		b.approve(c, other)
		b.store(c, "the original")
		b.store(other, "the original")
		if _, err := b.Certs.Revoke(ctx, b.inst.ID, c.UUID, cert.Revocation{Reason: "A mistake"}); err != nil {
			t.Fatal(err)
		}
		if err := b.Accounts.SetRetention(ctx, b.inst.ID, account.Retention{Revoked: 30}); err != nil {
			t.Fatal(err)
		}
		b.Advance(31 * 24 * time.Hour)
		if err := b.Certs.SweepExpired(ctx); err != nil {
			t.Fatal(err)
		}
		e, err := b.Export(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := e.Write(ctx, &out); err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil || len(z.File) != 3 {
			t.Fatal(z, err)
		}
		f, err := z.Open("export.json")
		if err != nil {
			t.Fatal(err)
		}
		if about := readAll(t, f); strings.Count(about, `"files_ended_at"`) != 1 || !strings.Contains(about, c.ReferenceID) {
			t.Errorf("export.json is %s, want one certificate with files_ended_at", about)
		}
	})
}
