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

func TestApprovalSendsOneMail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.user("known@example.org", true)
		b.user("unverified@example.org", false)
		list := []*cert.Certificate{b.upload(to("known@example.org")), b.upload(to("unverified@example.org")), b.upload(to("new@example.org"))}
		b.wantSent() // no mail before the approval
		for _, c := range list {
			b.move(c, cert.Approved)
		}
		late := b.upload(to("late@example.org"))
		b.user("late@example.org", true)
		b.move(late, cert.Approved)
		// A job writes the mail to late@example.org.
		b.wantSent("known@example.org", "new@example.org", "unverified@example.org")
		var work sync.WaitGroup
		errs := make([]error, 12)
		for i := range errs { // the queue may run a job twice, and on two nodes at once
			work.Go(func() { errs[i] = b.Notify(t.Context(), append(list, late)[i%4].UUID) })
		}
		work.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		b.Advance(time.Hour)
		b.sweep()
		b.wantSent("known@example.org", "late@example.org", "new@example.org", "unverified@example.org")
		for i, m := range b.mails() {
			known, c := true, list[0]
			switch m.To.Email {
			case "known@example.org":
			case "late@example.org":
				c = late
			default:
				known = false
			}
			if strings.Contains(m.Text, "https://vault.example/account/certificates/"+c.UUID) != known ||
				mailLink.MatchString(m.Text) == known || (m.Unsubscribe == "") != known || unsubscribeLink.MatchString(m.Text) == known {
				t.Errorf("the mail to %s does not have the expected links: %s", m.To.Email, m.Text)
			}
			if !known {
				l, err := b.MailLink(t.Context(), b.link(i))
				if err != nil || len(l.Certificates) != 1 || l.Certificates[0].Email != m.To.Email {
					t.Errorf("the link mailed to %s shows %+v, want only the certificate of this address; error %v", m.To.Email, l, err)
				}
			}
		}
		var hashed int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM mail_links WHERE length(hash) = 32 AND length(unsubscribe_hash) = 32`).Scan(&hashed); err != nil || hashed != 2 {
			t.Errorf("%d links are stored as hashes, want 2; error %v", hashed, err)
		}
		if _, err := b.MailLink(t.Context(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ"); !fault.Is(err, fault.NotFound) {
			t.Errorf("unknown link: error = %v, want fault.NotFound", err)
		}
	})
}

func TestBatchIsMailedAfterItsLastEntry(t *testing.T) {
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
			t.Fatalf("the link shows %+v, want 4 certificates in the order of the batch; error %v", l, err)
		}
		for _, c := range l.Certificates {
			if !strings.Contains(b.mails()[0].Text, c.Title) {
				t.Errorf("the mail does not contain the title %s", c.Title)
			}
		}
	})
}

// TestOpeningOfALink checks that notices have the time at which their link was first opened.
func TestOpeningOfALink(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		list := b.batch(true, "a@example.org")
		b.approve(list[0])
		b.sweep()
		opened := func() *time.Time {
			latest, err := b.Latest(t.Context(), list)
			notices, e := b.Notices(t.Context(), list[0])
			if err != nil || e != nil || len(notices) != 1 || latest[list[0].ID] == nil {
				t.Fatalf("notices = %+v and %+v, errors %v and %v; want one", latest, notices, err, e)
			}
			if at := latest[list[0].ID].OpenedAt; (at == nil) != (notices[0].OpenedAt == nil) {
				t.Errorf("Latest has the opening time %v and Notices has %v, want the same", at, notices[0].OpenedAt)
			}
			return notices[0].OpenedAt
		}
		if at := opened(); at != nil {
			t.Errorf("the opening time of a link that was not opened = %v, want nil", at)
		}
		first := b.Now()
		for range 2 {
			if _, err := b.MailLink(t.Context(), b.link(0)); err != nil {
				t.Fatal(err)
			}
			b.Advance(time.Hour)
		}
		if at := opened(); at == nil || at.Sub(first).Abs() > time.Minute {
			t.Errorf("the link was opened at %v, want the first time, %v", at, first)
		}
	})
}

func TestBatchWaitsAtMostFifteenMinutes(t *testing.T) {
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
			t.Fatalf("the link shows %+v, want 2 certificates; error %v", l, err)
		}
		// The last certificate gets its own mail.
		b.approve(list[2])
		b.wantSent("a@example.org", "a@example.org")
	})
}

func TestBatchIsMailedIfAnEntryIsNotApproved(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *fixture, last *cert.Certificate){
		"failed":  func(b *fixture, last *cert.Certificate) { b.move(last, cert.Failed) },
		"revoked": func(b *fixture, last *cert.Certificate) { b.move(last, cert.Revoked) },
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
	// A batch that is not expanded may have more entries with the same address.
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

func TestRevokedBeforeMailIsSent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		waiting, queued, sent := b.upload(titled("waiting"), to("late@example.org")), b.upload(titled("queued")), b.upload(titled("sent"))
		b.user("late@example.org", true)
		b.move(waiting, cert.Approved)
		b.approve(queued, sent)
		b.finish(b.mails()[1].uuid, mail.Sent, "")
		for _, c := range []*cert.Certificate{waiting, queued, sent} {
			b.move(c, cert.Revoked)
			b.runJob(c)
		}
		b.Advance(time.Hour)
		b.sweep()
		b.wantSent("ada@example.org")
		for c, want := range map[*cert.Certificate]recipient.Status{waiting: recipient.Dropped, queued: recipient.Dropped, sent: recipient.Sent} {
			if got := b.statuses(c); !slices.Equal(got, []recipient.Status{want}) {
				t.Errorf("statuses of the notices of %s = %v, want %s", c.Title, got, want)
			}
		}
		if m := b.mails()[0]; m.status != "cancelled" || m.Text != "" {
			t.Errorf("the message has status %s and text %q, want cancelled and no text", m.status, m.Text)
		}
		// The other certificates of a mail are mailed again, without the revoked certificate.
		list := b.batch(true, "a@example.org", "a@example.org", "a@example.org")
		b.approve(list...)
		b.move(list[1], cert.Revoked)
		b.sweep()
		mails := b.mails()
		last := mails[len(mails)-1]
		if mails[len(mails)-2].status != "cancelled" || strings.Contains(last.Text, list[1].Title) || !strings.Contains(last.Text, list[2].Title) {
			t.Errorf("the text of the new mail is %q, want the other certificates only, and the old mail cancelled", last.Text)
		}
	})
}

func TestSweepHandlesNoticeWithoutJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		c := b.upload(to("late@example.org"))
		b.user("late@example.org", true)
		b.move(c, cert.Approved)
		b.Exec(`DELETE FROM river_job`)
		b.sweep()
		b.wantSent() // the sweep waits JobWait for the job of the notice
		b.Advance(recipient.JobWait)
		b.sweep()
		b.wantSent("late@example.org")
		// A mail that cannot be written does not delay other mail.
		bad, good := b.upload(titled("bad"), to("bad@example.org")), b.upload(titled("good"), to("good@example.org"))
		for _, c := range []*cert.Certificate{bad, good} {
			b.user(c.Email, true)
			b.move(c, cert.Approved)
		}
		b.Exec(`DELETE FROM river_job`)
		b.Exec(`UPDATE certificates SET email = 'no address' WHERE id = $1`, bad.ID)
		b.Advance(recipient.JobWait)
		if err := b.Sweep(t.Context()); err == nil {
			t.Error("the sweep reports no error for mail that cannot be written")
		}
		b.wantSent("good@example.org", "late@example.org")
		b.Exec(`UPDATE certificates SET email = 'bad@example.org' WHERE id = $1`, bad.ID)
		b.sweep()
		b.wantSent("bad@example.org", "good@example.org", "late@example.org")
		// A certificate that was approved by an earlier release has no notice.
		old := b.upload(titled("old"))
		b.Exec(`UPDATE certificates SET status = 'approved', approved_at = 1 WHERE id = $1`, old.ID)
		b.runJob(old)
		b.wantSent("ada@example.org", "bad@example.org", "good@example.org", "late@example.org")
	})
}

func TestFailedMailIsRecordedForEachCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		list := b.batch(true, "a@example.org", "a@example.org")
		b.approve(list...)
		b.finish(b.mails()[0].uuid, mail.Failed, "The mail server responded with 550.")
		latest, err := b.Latest(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if n := latest[c.ID]; n == nil || n.Status != recipient.Failed || n.Error != "The mail server responded with 550." || n.Email != "a@example.org" {
				t.Errorf("the notice of %s is %+v, want failed with the response of the server", c.Title, n)
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
			t.Errorf("certificate in processing: error = %v, want fault.BadRequest", err)
		}
		b.approve(c)
		if err := b.Resend(ctx, b.institution("KTH").ID, c.UUID, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("certificate of another institution: error = %v, want fault.NotFound", err)
		}
		failure := errors.New("failure")
		if err := b.Resend(ctx, b.inst.ID, c.UUID, func(_ ctxType, _ *db.Tx, _ *cert.Certificate) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("Resend returned %v, want the error of the callback", err)
		}
		b.wantSent("ada@example.org")
		b.finish(b.mails()[0].uuid, mail.Sent, "")
		for range recipient.AllowedResends {
			if err := b.Resend(ctx, b.inst.ID, c.UUID, nil); err != nil {
				t.Fatal(err)
			}
			b.finish(b.mails()[len(b.mails())-1].uuid, mail.Sent, "")
		}
		if err := b.Resend(ctx, b.inst.ID, c.UUID, nil); !fault.Is(err, fault.TooMany) {
			t.Errorf("beyond the daily limit: error = %v, want fault.TooMany", err)
		}
		if got := len(b.statuses(c)); got != 1+recipient.AllowedResends || len(b.sent()) != got {
			t.Errorf("%d notices and %d mails, want AllowedResends+1 of each", got, len(b.sent()))
		}
		// Earlier links still work.
		for _, n := range []int{0, len(b.mails()) - 1} {
			if _, err := b.MailLink(ctx, b.link(n)); err != nil {
				t.Errorf("the link in mail %d does not open: %v", n, err)
			}
		}
		b.Advance(24 * time.Hour)
		if err := b.Resend(ctx, b.inst.ID, c.UUID, nil); err != nil {
			t.Errorf("resending on the next day failed: %v", err)
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
		b.finish(b.mails()[0].uuid, mail.Sent, "")
		c, other := list[0], list[1]
		link, err := b.MailLink(ctx, b.link(0))
		if err != nil {
			t.Fatal(err)
		}
		secret, _, err := b.CreateShare(ctx, link.Holder(), c, recipient.NewShare{})
		if err != nil {
			t.Fatal(err)
		}
		for text, kind := range map[string]fault.Kind{"no address": fault.Invalid, "": fault.Invalid, "wrong@example.org": fault.Invalid} {
			if _, err := b.CorrectEmail(ctx, b.inst.ID, c.UUID, text, nil); !fault.Is(err, kind) {
				t.Errorf("correction to %q: error = %v, want %v", text, err, kind)
			}
		}
		got, err := b.CorrectEmail(ctx, b.inst.ID, c.UUID, " right@example.org ", nil)
		if err != nil || got.Email != "right@example.org" || got.CustomerID != 1 || b.get(c.UUID).CustomerID != 1 {
			t.Fatalf("the corrected certificate is %+v, want the new address and customer 1; error %v", got, err)
		}
		b.wantSent("right@example.org", "wrong@example.org")
		if _, err := b.Certificate(ctx, right, c.UUID); err != nil {
			t.Errorf("the certificate is not in the wallet: %v", err)
		}
		// The old link shows only the other certificate, and the share of the corrected certificate
		// no longer works.
		if link, err = b.MailLink(ctx, b.link(0)); err != nil || len(link.Certificates) != 1 || link.Certificates[0].ID != other.ID {
			t.Errorf("the old link shows %+v, want only the other certificate; error %v", link, err)
		}
		if _, _, err := b.Shared(ctx, secret); !fault.Is(err, fault.NotFound) {
			t.Errorf("the old share: error = %v, want fault.NotFound", err)
		}
		found, err := b.Search.List(ctx, b.inst.ID, filter("right@example"))
		if err != nil || len(found.Items) != 1 {
			t.Errorf("a search by the new address found %d, want 1; error %v", len(found.Items), err)
		}
		if found, err = b.Search.List(ctx, b.inst.ID, filter("wrong@example")); err != nil || len(found.Items) != 1 {
			t.Errorf("a search by the old address found %d, want 1; error %v", len(found.Items), err)
		}
		// A change that would create a duplicate is refused, and so is a change of a revoked
		// certificate.
		same := b.upload(to("right@example.org"), titled("same"))
		duplicate := b.upload(to("second@example.org"), titled("same"))
		if _, err := b.CorrectEmail(ctx, b.inst.ID, duplicate.UUID, "RIGHT@example.org", nil); !fault.Is(err, fault.Invalid) || b.get(duplicate.UUID).Email != "second@example.org" {
			t.Errorf("change to a duplicate: error = %v, want fault.Invalid", err)
		}
		b.move(same, cert.Revoked)
		if _, err := b.CorrectEmail(ctx, b.inst.ID, same.UUID, "new@example.org", nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("revoked certificate: error = %v, want fault.BadRequest", err)
		}
		// A correction before the approval queues no mail.
		n := len(b.sent())
		if _, err := b.CorrectEmail(ctx, b.inst.ID, duplicate.UUID, "other@example.org", nil); err != nil || len(b.sent()) != n {
			t.Errorf("a correction before approval queued %d mails, want 0; error %v", len(b.sent())-n, err)
		}
		b.approve(b.get(duplicate.UUID))
		if got := b.mails()[len(b.mails())-1]; got.To.Email != "other@example.org" {
			t.Errorf("the mail went to %s, want other@example.org", got.To.Email)
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
			t.Errorf("the unsubscribe header has the URL %s, want the link in the text", b.mails()[0].Unsubscribe)
		}
		u, err := b.Unsubscribe(ctx, secret)
		if err != nil || u.Done || u.Institution != b.inst.Name || u.Email != "ada@example.org" {
			t.Fatalf("Unsubscribe = %+v, %v, want the institution and ada@example.org, not unsubscribed", u, err)
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
			t.Errorf("after unsubscribing: statuses %v and %d mails, want unsubscribed and 2 mails", got, len(b.sent()))
		}
		if err := b.Resend(ctx, b.inst.ID, next.UUID, nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("resending to an unsubscribed address: error = %v, want fault.BadRequest", err)
		}
		// Mail about a certificate in an account is sent even if the address is unsubscribed.
		b.user("ada@example.org", true)
		b.approve(b.upload(titled("account")))
		if len(b.sent()) != 3 {
			t.Errorf("%d mails were queued, want 3", len(b.sent()))
		}
		if u, err = b.SetUnsubscribed(ctx, secret, false); err != nil || u.Done {
			t.Error(err)
		}
		if _, err := b.SetUnsubscribed(ctx, b.link(0), true); !fault.Is(err, fault.NotFound) {
			t.Errorf("SetUnsubscribed with the secret of a mailed link: error = %v, want fault.NotFound", err)
		}
	})
}
