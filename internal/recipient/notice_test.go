package recipient_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
)

func TestApprovalMailsOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.user("known@example.org", true)
		b.user("unproved@example.org", false)
		list := []*cert.Certificate{b.upload(to("known@example.org")), b.upload(to("unproved@example.org")), b.upload(to("new@example.org"))}
		b.wantSent() // nothing before approval
		for _, c := range list {
			b.move(c, cert.Approved)
		}
		b.wantSent() // the job writes the mail
		var work sync.WaitGroup
		errs := make([]error, 9)
		for i := range errs { // the queue may run a job twice, and on two nodes at once
			work.Go(func() { errs[i] = b.Notify(t.Context(), list[i%3].UUID) })
		}
		work.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		b.Advance(time.Hour)
		b.sweep()
		b.wantSent("known@example.org", "new@example.org", "unproved@example.org")
		for i, m := range b.mails() {
			known := m.To.Email == "known@example.org"
			if strings.Contains(m.Text, "https://vault.example/account/certificates/"+list[0].UUID) != known ||
				mailLink.MatchString(m.Text) == known || (m.Unsubscribe == "") != known || unsubscribeLink.MatchString(m.Text) == known {
				t.Errorf("the mail to %s has the links of another: %s", m.To.Email, m.Text)
			}
			if !known {
				l, err := b.MailLink(t.Context(), b.link(i))
				if err != nil || len(l.Certificates) != 1 || l.Certificates[0].Email != m.To.Email {
					t.Errorf("the link to %s shows %+v, %v", m.To.Email, l, err)
				}
			}
		}
		var kept int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM mail_links WHERE length(hash) = 32 AND length(unsubscribe_hash) = 32`).Scan(&kept); err != nil || kept != 2 {
			t.Errorf("%d links are kept as digests, %v", kept, err)
		}
		if _, err := b.MailLink(t.Context(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ"); !fault.Is(err, fault.NotFound) {
			t.Errorf("a link that never was: %v", err)
		}
	})
}

func TestBatchIsMailedWhenItsLastEntryHasEnded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		var addresses []string
		for range 4 {
			addresses = append(addresses, "a@example.org", "B@example.org", "c@example.org")
		}
		list := b.batch(true, addresses...)
		b.approve(list[:9]...)
		b.wantSent()
		b.approve(list[9], list[10])
		b.sweep()
		b.wantSent("B@example.org", "a@example.org")
		b.approve(list[11])
		b.sweep()
		b.wantSent("B@example.org", "a@example.org", "c@example.org")
		l, err := b.MailLink(t.Context(), b.link(0))
		if err != nil || len(l.Certificates) != 4 || l.Certificates[0].ID != list[0].ID {
			t.Fatalf("the link shows %+v, %v", l, err)
		}
		for _, c := range l.Certificates {
			if !strings.Contains(b.mails()[0].Text, c.Title) {
				t.Errorf("the mail does not name %s", c.Title)
			}
		}
	})
}

func TestBatchWaitsFifteenMinutesAtMost(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		list := b.batch(true, "a@example.org", "a@example.org", "a@example.org")
		b.approve(list[0])
		b.Advance(14 * time.Minute)
		b.approve(list[1])
		b.sweep()
		b.wantSent()
		b.Advance(time.Minute)
		b.sweep()
		b.sweep()
		b.wantSent("a@example.org")
		l, err := b.MailLink(t.Context(), b.link(0))
		if err != nil || len(l.Certificates) != 2 {
			t.Fatalf("the link shows %+v, %v", l, err)
		}
		// The last one gets its own mail.
		b.approve(list[2])
		b.wantSent("a@example.org", "a@example.org")
	})
}

func TestBatchEndsWithoutApproval(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench, last *cert.Certificate){
		"failed":  func(b *bench, last *cert.Certificate) { b.move(last, cert.Failed) },
		"revoked": func(b *bench, last *cert.Certificate) { b.move(last, cert.Revoked) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b := open(t, d)
				list := b.batch(true, "a@example.org", "a@example.org")
				b.approve(list[0])
				b.wantSent()
				end(b, list[1])
				b.sweep()
				b.wantSent("a@example.org")
			})
		})
	}
	// Queued entries may have the same address.
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		list := b.batch(false, "a@example.org")
		b.approve(list[0])
		b.sweep()
		b.wantSent()
		b.Exec(`UPDATE batches SET expanded = true`)
		b.sweep()
		b.wantSent("a@example.org")
	})
}

func TestRevokedBeforeItsMailLeft(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		waiting, queued, sent := b.upload(titled("waiting")), b.upload(titled("queued")), b.upload(titled("sent"))
		b.move(waiting, cert.Approved)
		b.approve(queued, sent)
		b.end(b.mails()[1].uuid, mail.Sent, "")
		for _, c := range []*cert.Certificate{waiting, queued, sent} {
			b.move(c, cert.Revoked)
			b.work(c)
		}
		b.Advance(time.Hour)
		b.sweep()
		b.wantSent("ada@example.org")
		for c, want := range map[*cert.Certificate]recipient.Status{waiting: recipient.Dropped, queued: recipient.Dropped, sent: recipient.Sent} {
			if got := b.statuses(c); !slices.Equal(got, []recipient.Status{want}) {
				t.Errorf("%s: %v, not %s", c.Title, got, want)
			}
		}
		if m := b.mails()[0]; m.status != "cancelled" || m.Text != "" {
			t.Errorf("the message is %s and says %q", m.status, m.Text)
		}
		// The other certificates of a mail are mailed again, without this one.
		list := b.batch(true, "a@example.org", "a@example.org", "a@example.org")
		b.approve(list...)
		b.move(list[1], cert.Revoked)
		b.sweep()
		mails := b.mails()
		last := mails[len(mails)-1]
		if mails[len(mails)-2].status != "cancelled" || strings.Contains(last.Text, list[1].Title) || !strings.Contains(last.Text, list[2].Title) {
			t.Errorf("the mail that left says %q", last.Text)
		}
	})
}

func TestSweepFindsWhatLostItsJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		c := b.upload()
		b.move(c, cert.Approved)
		b.Exec(`DELETE FROM river_job`)
		b.sweep()
		b.wantSent() // the sweep leaves it to its job until lostAfter
		b.Advance(recipient.LostAfter)
		b.sweep()
		b.wantSent("ada@example.org")
		// The job of an earlier release has no notice.
		old := b.upload(titled("old"))
		b.Exec(`UPDATE certificates SET status = 'approved', approved_at = 1 WHERE id = $1`, old.ID)
		b.work(old)
		b.wantSent("ada@example.org", "ada@example.org")
	})
}

func TestFailedMailShowsOnTheCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		list := b.batch(true, "a@example.org", "a@example.org")
		b.approve(list...)
		b.end(b.mails()[0].uuid, mail.Failed, "The mail server answered 550.")
		latest, err := b.Latest(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if n := latest[c.ID]; n == nil || n.Status != recipient.Failed || n.Error != "The mail server answered 550." || n.Email != "a@example.org" {
				t.Errorf("the notice of %s: %+v", c.Title, n)
			}
		}
		b.Advance(time.Hour)
		b.sweep()
		b.wantSent("a@example.org") // no second attempt
	})
}

func TestResend(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		c := b.upload()
		if err := b.Resend(ctx, b.inst.ID, c.UUID, nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("one in processing: %v", err)
		}
		b.approve(c)
		if err := b.Resend(ctx, b.institution("KTH").ID, c.UUID, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("another institution's: %v", err)
		}
		boom := errors.New("boom")
		if err := b.Resend(ctx, b.inst.ID, c.UUID, func(_ ctxType, _ *db.Tx, _ *cert.Certificate) error { return boom }); !errors.Is(err, boom) {
			t.Error(err)
		}
		b.wantSent("ada@example.org")
		b.end(b.mails()[0].uuid, mail.Sent, "")
		for range recipient.AllowedResends {
			if err := b.Resend(ctx, b.inst.ID, c.UUID, nil); err != nil {
				t.Fatal(err)
			}
			b.end(b.mails()[len(b.mails())-1].uuid, mail.Sent, "")
		}
		if err := b.Resend(ctx, b.inst.ID, c.UUID, nil); !fault.Is(err, fault.TooMany) {
			t.Errorf("beyond the day's: %v", err)
		}
		if got := len(b.statuses(c)); got != 1+recipient.AllowedResends || len(b.sent()) != got {
			t.Errorf("%d notices and %d mails", got, len(b.sent()))
		}
		// Earlier links still work.
		for _, n := range []int{0, len(b.mails()) - 1} {
			if _, err := b.MailLink(ctx, b.link(n)); err != nil {
				t.Errorf("link %d: %v", n, err)
			}
		}
		b.Advance(24 * time.Hour)
		if err := b.Resend(ctx, b.inst.ID, c.UUID, nil); err != nil {
			t.Errorf("on the next day: %v", err)
		}
	})
}

func TestCorrectEmail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		right := b.user("right@example.org", true)
		list := b.batch(true, "wrong@example.org", "wrong@example.org")
		b.approve(list...)
		b.end(b.mails()[0].uuid, mail.Sent, "")
		c, other := list[0], list[1]
		link, err := b.MailLink(ctx, b.link(0))
		if err != nil {
			t.Fatal(err)
		}
		secret, _, err := b.CreateShare(ctx, link.Holder(), c, recipient.NewShare{})
		if err != nil {
			t.Fatal(err)
		}
		for text, kind := range map[string]fault.Kind{"nobody": fault.Invalid, "": fault.Invalid, "wrong@example.org": fault.Invalid} {
			if _, err := b.CorrectEmail(ctx, b.inst.ID, c.UUID, text, nil); !fault.Is(err, kind) {
				t.Errorf("%q: %v", text, err)
			}
		}
		got, err := b.CorrectEmail(ctx, b.inst.ID, c.UUID, " right@example.org ", nil)
		if err != nil || got.Email != "right@example.org" || got.CustomerID != 1 || b.get(c.UUID).CustomerID != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		b.wantSent("right@example.org", "wrong@example.org")
		if _, err := b.Certificate(ctx, right, c.UUID); err != nil {
			t.Errorf("in the wallet: %v", err)
		}
		// The old link shows only the other certificate, and shares of this one show nothing.
		if link, err = b.MailLink(ctx, b.link(0)); err != nil || len(link.Certificates) != 1 || link.Certificates[0].ID != other.ID {
			t.Errorf("the old link shows %+v, %v", link, err)
		}
		if _, _, err := b.Shared(ctx, secret); !fault.Is(err, fault.NotFound) {
			t.Errorf("the old share: %v", err)
		}
		found, err := b.Search.List(ctx, b.inst.ID, filter("right@example"))
		if err != nil || len(found.Items) != 1 {
			t.Errorf("a search finds %d, %v", len(found.Items), err)
		}
		if found, err = b.Search.List(ctx, b.inst.ID, filter("wrong@example")); err != nil || len(found.Items) != 1 {
			t.Errorf("a search by the old address finds %d, %v", len(found.Items), err)
		}
		// A change that would create a duplicate is refused, and so is a change of a revoked
		// certificate.
		same := b.upload(to("right@example.org"), titled("same"))
		twin := b.upload(to("twin@example.org"), titled("same"))
		if _, err := b.CorrectEmail(ctx, b.inst.ID, twin.UUID, "RIGHT@example.org", nil); !fault.Is(err, fault.Invalid) || b.get(twin.UUID).Email != "twin@example.org" {
			t.Errorf("a duplicate: %v", err)
		}
		b.move(same, cert.Revoked)
		if _, err := b.CorrectEmail(ctx, b.inst.ID, same.UUID, "new@example.org", nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("a revoked one: %v", err)
		}
		// Before approval nothing is mailed.
		n := len(b.sent())
		if _, err := b.CorrectEmail(ctx, b.inst.ID, twin.UUID, "other@example.org", nil); err != nil || len(b.sent()) != n {
			t.Errorf("before approval %d mails, %v", len(b.sent())-n, err)
		}
		b.approve(b.get(twin.UUID))
		if got := b.mails()[len(b.mails())-1]; got.To.Email != "other@example.org" {
			t.Errorf("mailed to %s", got.To.Email)
		}
	})
}

func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		ctx := t.Context()
		first := b.upload()
		b.approve(first)
		secret := unsubscribeLink.FindStringSubmatch(b.mails()[0].Text)[1]
		if b.mails()[0].Unsubscribe != "https://vault.example/unsubscribe/"+secret {
			t.Errorf("the header has %s", b.mails()[0].Unsubscribe)
		}
		u, err := b.Unsubscribe(ctx, secret)
		if err != nil || u.Done || u.Institution != b.inst.Name || u.Email != "ada@example.org" {
			t.Fatalf("%+v, %v", u, err)
		}
		for range 2 {
			if u, err = b.SetUnsubscribed(ctx, secret, true); err != nil || !u.Done {
				t.Fatal(err)
			}
		}
		next := b.upload(titled("next"))
		b.approve(next)
		elsewhere := b.upload(of(b.institution("KTH")))
		b.approve(elsewhere)
		if got := b.statuses(next); !slices.Equal(got, []recipient.Status{recipient.Unsubscribed}) || len(b.sent()) != 2 {
			t.Errorf("after it: %v, %d mails", got, len(b.sent()))
		}
		if err := b.Resend(ctx, b.inst.ID, next.UUID, nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("sent anew: %v", err)
		}
		// Mail to an account does not invite the reader to create one.
		b.user("ada@example.org", true)
		b.approve(b.upload(titled("account")))
		if len(b.sent()) != 3 {
			t.Errorf("%d mails", len(b.sent()))
		}
		if u, err = b.SetUnsubscribed(ctx, secret, false); err != nil || u.Done {
			t.Error(err)
		}
		if _, err := b.SetUnsubscribed(ctx, b.link(0), true); !fault.Is(err, fault.NotFound) {
			t.Errorf("the other link of the mail: %v", err)
		}
	})
}
