package recipient_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
)

func notify(n cert.Notify) change { return func(u *cert.Upload) { u.Notify = n } }

// sendPlans calls SweepPlans four times concurrently, as several nodes do.
func (b *fixture) sendPlans() {
	b.t.Helper()
	var work sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		work.Go(func() { errs[i] = b.SweepPlans(b.t.Context()) })
	}
	work.Wait()
	if err := errors.Join(errs...); err != nil {
		b.t.Fatal(err)
	}
}

// plan stores n as the plan of the batch of list, and returns the plan.
func (b *fixture) plan(list []*cert.Certificate, n cert.Notify) *recipient.Plan {
	b.t.Helper()
	b.Tx(func(tx *db.Tx) error {
		return b.PlanTx(b.t.Context(), tx, recipient.Subject{InstitutionID: b.inst.ID, BatchID: list[0].BatchID}, n)
	})
	p, err := b.PlanOfBatch(b.t.Context(), b.inst.ID, list[0].BatchID)
	if err != nil || p == nil {
		b.t.Fatalf("PlanOfBatch = %+v, error %v; want a plan", p, err)
	}
	return p
}

func TestMailWaitsForItsTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		known := b.user("ada@example.org", true)
		at := b.Now().Add(24 * time.Hour)
		c := b.upload(notify(cert.Notify{At: at}))
		late := b.upload(notify(cert.Notify{At: at}), to("late@example.org"))
		b.approve(c)
		if c = b.get(c.UUID); c.CustomerID == 0 {
			t.Error("CustomerID = 0 before the mail is sent, want the number of the recipient")
		}
		if w, err := b.Wallet(t.Context(), known, recipient.Filter{Page: 1}); err != nil || w.Total != 1 {
			t.Errorf("the wallet before the mail is sent = %+v, error %v; want 1 certificate", w, err)
		}
		p, err := b.PlanOf(t.Context(), c)
		if err != nil || p == nil || p.At == nil || !p.At.Equal(at) || p.Certificate != c.UUID || p.Size != 1 {
			t.Errorf("the plan of the certificate = %+v, error %v; want the time %s", p, err, at)
		}
		b.Set(at.Add(-time.Second))
		b.sweep()
		b.sendPlans()
		b.wantSent()
		b.Set(at)
		b.sendPlans()
		b.sweep()
		b.sendPlans()
		b.runJob(c)
		b.wantSent("ada@example.org")
		b.approve(late) // after the time of its plan
		b.wantSent("ada@example.org", "late@example.org")
		b.Advance(2 * time.Hour)
		b.sendPlans()
		b.sweep()
		b.wantSent("ada@example.org", "late@example.org")
		var plans int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM notice_plans`).Scan(&plans); err != nil || plans != 0 {
			t.Errorf("%d plans are stored two hours after their time, error %v; want 0", plans, err)
		}
	})
}

// TestFailingMailDoesNotBlockOther checks that mail that cannot be written is tried again, with a longer
// wait after each try. Meanwhile, other mail is sent, even if a sweep handles only one plan.
func TestFailingMailDoesNotBlockOther(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.SetPlansAtOnce(1)
		at := b.Now().Add(time.Hour)
		bad := b.upload(notify(cert.Notify{At: at}), to("bad@example.org"))
		good := b.upload(notify(cert.Notify{At: at.Add(time.Second)}), to("good@example.org"))
		b.approve(bad, good)
		b.Exec(`UPDATE certificates SET email = 'no address' WHERE id = $1`, bad.ID)
		b.Set(at.Add(time.Minute))
		if err := b.SweepPlans(t.Context()); err == nil {
			t.Error("SweepPlans = nil, want an error for mail that cannot be written")
		}
		b.wantSent()
		b.sendPlans()
		b.wantSent("good@example.org")
		b.Advance(30 * time.Second)
		if err := b.SweepPlans(t.Context()); err == nil {
			t.Error("SweepPlans after the wait = nil, want the error of a second try")
		}
		b.Exec(`UPDATE certificates SET email = 'bad@example.org' WHERE id = $1`, bad.ID)
		b.Advance(30 * time.Second)
		b.sendPlans()
		b.wantSent("good@example.org") // the second wait is 60 s
		b.Advance(30 * time.Second)
		b.sendPlans()
		b.wantSent("bad@example.org", "good@example.org")
	})
}

// TestMailOfABatchWaitsForItsTime checks that the mail about a batch is sent at the time of the plan,
// one mail to each person.
func TestMailOfABatchWaitsForItsTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		list := b.batch(true, "a@example.org", "b@example.org", "A@Example.org", "b@example.org")
		at := b.Now().Add(time.Hour)
		p := b.plan(list, cert.Notify{At: at})
		b.approve(list[:3]...)
		b.sweep()
		b.sendPlans()
		b.wantSent()
		waiting, more, err := b.Plans(t.Context(), b.inst.ID)
		if err != nil || more || len(waiting) != 1 || waiting[0].UUID != p.UUID || waiting[0].Size != 4 || waiting[0].Batch != list[0].BatchID {
			t.Errorf("the waiting mail = %+v, more %v, error %v; want one plan for the batch of 4", waiting, more, err)
		}
		if other, _, err := b.Plans(t.Context(), b.institution("XYZ").ID); err != nil || len(other) != 0 {
			t.Errorf("Plans of another institution = %+v, error %v; want none", other, err)
		}
		b.Set(at)
		b.sendPlans()
		b.sweep()
		b.wantSent("a@example.org") // the mail to b waits for the approval of the last entry
		b.approve(list[3])
		b.sweep()
		b.wantSent("a@example.org", "b@example.org")
		l, err := b.MailLink(t.Context(), b.link(0))
		if err != nil || len(l.Certificates) != 2 {
			t.Errorf("the link in the mail to a shows %+v, error %v; want 2 certificates", l, err)
		}
	})
}

func TestNeverSendsNoMail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.user("ada@example.org", true)
		c, other := b.upload(notify(cert.Notify{Never: true})), b.upload(notify(cert.Notify{Never: true}), to("other@example.org"))
		b.approve(c, other)
		if b.get(c.UUID).CustomerID == 0 {
			t.Error("CustomerID = 0, want the number of the recipient")
		}
		b.Advance(400 * 24 * time.Hour)
		b.sweep()
		b.sendPlans()
		b.runJob(c)
		b.wantSent()
		if err := b.Resend(t.Context(), b.inst.ID, c.UUID, nil); err != nil {
			t.Fatal(err)
		}
		b.runJob(c)
		b.sweep()
		b.wantSent("ada@example.org")
		if p, err := b.PlanOf(t.Context(), c); err != nil || p != nil {
			t.Errorf("the plan of a certificate that was mailed = %+v, error %v; want none", p, err)
		}
	})
}

// TestChangedTimes checks that a plan can be changed until its mail is sent: to another time, to mail at
// once, and to no mail.
func TestChangedTimes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		soon, later := b.Now().Add(time.Hour), b.Now().Add(48*time.Hour)
		addresses := []string{"moved@example.org", "now@example.org", "stopped@example.org", "resumed@example.org"}
		var plans []*recipient.Plan
		for _, a := range addresses {
			list := b.batch(true, a)
			plans = append(plans, b.plan(list, cert.Notify{At: soon}))
			b.approve(list...)
		}
		change := func(i int, n cert.Notify) {
			t.Helper()
			if err := b.ChangePlan(t.Context(), b.inst.ID, plans[i].UUID, n); err != nil {
				t.Fatal(err)
			}
		}
		change(0, cert.Notify{At: later})
		change(1, cert.Notify{})
		change(2, cert.Notify{Never: true})
		change(3, cert.Notify{Never: true})
		b.sendPlans()
		b.wantSent("now@example.org")
		b.Set(soon)
		b.sendPlans()
		b.wantSent("now@example.org")
		change(3, cert.Notify{})
		b.sendPlans()
		b.wantSent("now@example.org", "resumed@example.org")
		b.Set(later)
		b.sendPlans()
		b.wantSent("moved@example.org", "now@example.org", "resumed@example.org")
		if err := b.ChangePlan(t.Context(), b.inst.ID, plans[0].UUID, cert.Notify{Never: true}); !fault.Is(err, fault.BadRequest) {
			t.Errorf("changing the plan of mail that was sent: error = %v, want fault.BadRequest", err)
		}
		if err := b.ChangePlan(t.Context(), b.institution("XYZ").ID, plans[2].UUID, cert.Notify{}); !fault.Is(err, fault.NotFound) {
			t.Errorf("changing the plan of another institution: error = %v, want fault.NotFound", err)
		}
		if err := b.ChangePlan(t.Context(), b.inst.ID, plans[2].UUID, cert.Notify{At: soon}); len(cert.ProblemsOf(err)) != 1 {
			t.Errorf("changing the time to one that has passed: error = %v, want one problem", err)
		}
		var entries int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM audit_entries WHERE action = $1`, string(audit.BatchPlanned)).Scan(&entries); err != nil || entries != 5 {
			t.Errorf("the audit log has %d entries about the changes, error %v; want 5", entries, err)
		}
	})
}

// TestWaitingMailFollowsTheCertificate checks that waiting mail is sent to the corrected address, and
// that no mail is sent about a revoked certificate.
func TestWaitingMailFollowsTheCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		at := b.Now().Add(time.Hour)
		corrected := b.upload(notify(cert.Notify{At: at}), to("wrong@example.org"))
		revoked := b.upload(notify(cert.Notify{At: at}), to("revoked@example.org"))
		b.approve(corrected, revoked)
		if _, err := b.CorrectEmail(t.Context(), b.inst.ID, corrected.UUID, "right@example.org", nil); err != nil {
			t.Fatal(err)
		}
		b.revoke(revoked, true)
		b.wantSent()
		b.Set(at)
		b.sendPlans()
		b.sweep()
		b.wantSent("right@example.org")
		if waiting, _, err := b.Plans(t.Context(), b.inst.ID); err != nil || len(waiting) != 0 {
			t.Errorf("the waiting mail = %+v, error %v; want none", waiting, err)
		}
	})
}

// TestMailOfAReplacementWaits checks that a replacement takes the plan of the certificate that it
// replaces.
func TestMailOfAReplacementWaits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		at := b.Now().Add(time.Hour)
		list := []*cert.Certificate{
			b.upload(notify(cert.Notify{At: at}), to("later@example.org")), b.upload(notify(cert.Notify{Never: true}), to("never@example.org")), b.upload(to("told@example.org")),
		}
		entry := b.batch(true, "entry@example.org")[0]
		b.plan([]*cert.Certificate{entry}, cert.Notify{At: at})
		b.approve(append(list, entry)...)
		b.sweep()
		b.wantSent("told@example.org")
		b.finish(b.mails()[0].uuid, mail.Sent, "")
		for _, old := range append(list, entry) {
			c, err := b.Certs.Replace(t.Context(), old.UUID, b.input(notify(cert.Notify{Kept: true}), to(old.Email), func(u *cert.Upload) { u.File.SHA256[0] = 1 }))
			if err != nil {
				t.Fatal(err)
			}
			b.approve(c)
			b.move(old, cert.Revoked)
		}
		b.sweep()
		b.sendPlans()
		b.wantSent("told@example.org", "told@example.org")
		b.Set(at)
		b.sendPlans()
		b.sweep()
		b.wantSent("entry@example.org", "later@example.org", "told@example.org", "told@example.org")
	})
}

// revoke revokes a certificate as the API does.
func (b *fixture) revoke(c *cert.Certificate, notify bool) {
	b.t.Helper()
	if _, err := b.Certs.Revoke(b.t.Context(), b.inst.ID, c.UUID, cert.Revocation{Reason: "Issued in error", Notify: notify}); err != nil {
		b.t.Fatal(err)
	}
}

func TestRevocationMail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		id := b.user("known@example.org", true)
		b.Exec(`UPDATE users SET language = 'de' WHERE id = $1`, id)
		for _, address := range []string{"known@example.org", "told@example.org", "quiet@example.org", "unsubscribed@example.org", "unsent@example.org"} {
			b.approve(b.upload(to(address)))
		}
		untold := b.upload(to("untold@example.org"))
		for _, m := range b.mails() {
			if m.To.Email != "unsent@example.org" {
				b.finish(m.uuid, "sent", "")
			}
		}
		b.Exec(`INSERT INTO unsubscribes (institution_id, email_folded, created_at) VALUES ($1, 'unsubscribed@example.org', 0)`, b.inst.ID)
		before := len(b.mails())
		rows, err := d.QueryContext(t.Context(), `SELECT uuid FROM certificates ORDER BY id`)
		uuids, err := db.Column[string](rows, err)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range append(uuids, uuids...) { // the second revocation changes nothing
			c := b.get(id)
			b.revoke(c, c.Email != "quiet@example.org")
		}
		var got []string
		for _, m := range b.mails()[before:] {
			got = append(got, m.To.Email)
			if !strings.Contains(m.Text, "Issued in error") || strings.Contains(m.Text, "LinkedIn") {
				t.Errorf("the mail to %s is %q, want the reason and no link to LinkedIn", m.To.Email, m.Text)
			}
			if m.To.Email == "known@example.org" && !strings.HasPrefix(m.Subject, "Ihr Zertifikat wurde widerrufen") {
				t.Errorf("the subject of the German mail = %q, want one that begins with \"Ihr Zertifikat wurde widerrufen\"", m.Subject)
			}
			if m.To.Email == "told@example.org" {
				l, err := b.MailLink(t.Context(), mailLink.FindStringSubmatch(m.Text)[1])
				if err != nil || len(l.Certificates) != 1 || l.Certificates[0].Status != cert.Revoked {
					t.Errorf("the link in the mail shows %+v, error %v; want the revoked certificate", l, err)
				}
			}
		}
		if slices.Sort(got); !slices.Equal(got, []string{"known@example.org", "told@example.org"}) {
			t.Errorf("mail about the revocations goes to %v, want known@example.org and told@example.org", got)
		}
		if list := b.statuses(b.get(untold.UUID)); len(list) != 0 {
			t.Errorf("the statuses of the notices of the certificate in processing = %v, want none", list)
		}
	})
}

// TestRevocationOfSeveralIsOneMail checks that each person gets one mail about the certificates that
// were revoked in one action.
func TestRevocationOfSeveralIsOneMail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		var list []*cert.Certificate
		for _, c := range []*cert.Certificate{b.upload(titled("MSc")), b.upload(to("eve@example.org"), titled("Bachelor")), b.upload(titled("PhD"))} {
			b.approve(c)
			list = append(list, c)
		}
		for _, m := range b.mails() {
			b.finish(m.uuid, "sent", "")
		}
		before := len(b.mails())
		b.Tx(func(tx *db.Tx) error {
			var revoked []*cert.Certificate
			for _, c := range list {
				r, err := b.Certs.RevokeTx(t.Context(), tx, c.UUID, cert.Revocation{Reason: "Issued in error"})
				if err != nil {
					return err
				}
				revoked = append(revoked, r)
			}
			return b.Certs.TellRevokedTx(t.Context(), tx, revoked)
		})
		mails := b.mails()[before:]
		if len(mails) != 2 || mails[0].To.Email != "ada@example.org" || mails[1].To.Email != "eve@example.org" {
			t.Fatalf("the mails are %+v, want one to each person", mails)
		}
		both := mails[0]
		if both.Subject != "Your certificates from University NWU were revoked" || !strings.Contains(both.Text, "Issued in error") || !strings.Contains(both.Text, "MSc") ||
			!strings.Contains(both.Text, "PhD") || strings.Contains(both.Text, "Bachelor") {
			t.Errorf("the mail about two certificates has the subject %q and the text %q, want the reason, MSc and PhD, but not Bachelor", both.Subject, both.Text)
		}
		if l, err := b.MailLink(t.Context(), mailLink.FindStringSubmatch(both.Text)[1]); err != nil || len(l.Certificates) != 2 {
			t.Errorf("the link shows %+v, %v, want both certificates", l, err)
		}
		if !strings.Contains(mails[1].Subject, "was revoked: Bachelor") {
			t.Errorf("the mail about one certificate has the subject %q, want one that contains \"was revoked: Bachelor\"", mails[1].Subject)
		}
	})
}
