package application_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/search"
)

// events returns the names of the webhook events of an application, without their prefix.
func (f *fixture) events(a *application.Application) string {
	f.TB.Helper()
	events, err := f.Hooks.History(f.TB.Context(), f.inst.ID, a.ID)
	f.ok(err)
	var names []string
	for _, e := range events {
		_, name, _ := strings.Cut(string(e.Name), ".")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// The test tries each step after several sequences of steps. Only the steps of the table succeed.
func TestStepsAreOnlyThoseOfTheTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o := f.offer("course")
	ctx, r := t.Context(), f.by(f.ada)
	svc := f.Applications
	steps := map[string]func(uuid string, user int64) error{
		"claim": func(uuid string, _ int64) error { _, err := svc.Claim(ctx, r, uuid); return err },
		"hold": func(uuid string, _ int64) error {
			_, err := svc.Hold(ctx, r, uuid, application.Payment, "20 EUR")
			return err
		},
		"answer":   func(uuid string, user int64) error { _, err := f.answer(user, uuid, "Paid."); return err },
		"release":  func(uuid string, _ int64) error { _, err := svc.Release(ctx, r, uuid); return err },
		"approve":  func(uuid string, _ int64) error { _, err := f.approve(r, uuid); return err },
		"reject":   func(uuid string, _ int64) error { _, err := svc.Reject(ctx, r, uuid, "No.", ""); return err },
		"withdraw": func(uuid string, user int64) error { _, err := svc.WithdrawOwn(ctx, user, uuid); return err },
	}
	// A key is a sequence of steps. After the sequence, only the steps of the value succeed.
	for path, allowed := range map[string]string{
		"":                    "claim hold approve reject withdraw",
		"claim":               "hold approve reject withdraw",
		"hold":                "claim hold answer release approve reject withdraw",
		"claim hold":          "hold answer release approve reject withdraw",
		"claim hold answer":   "hold release approve reject withdraw",
		"claim hold release":  "hold approve reject withdraw",
		"approve":             "",
		"reject":              "",
		"withdraw":            "",
		"hold answer reject":  "",
		"hold answer approve": "",
	} {
		for name := range steps {
			who := f.applicant("P " + strings.ReplaceAll(path, " ", "") + name)
			a := f.submit(o, who)
			for before := range strings.FieldsSeq(path) {
				f.ok(steps[before](a.UUID, who.UserID))
			}
			before := f.get(a.UUID)
			err := steps[name](a.UUID, who.UserID)
			if may := slices.Contains(strings.Fields(allowed), name); may && err != nil {
				t.Errorf("%s after %q: err = %v, want nil", name, path, err)
			} else if !may {
				wantFault(t, name+" after "+path, err, fault.BadRequest)
				if after := f.get(a.UUID); after.Revision != before.Revision {
					t.Errorf("%s after %q: revision = %d, want %d", name, path, after.Revision, before.Revision)
				}
			}
		}
	}
}

func TestTwoReviewersAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o := f.offer("course")
		for i := range 3 {
			a := f.submit(o, f.applicant("Person "+string(rune('A'+i))))
			var group sync.WaitGroup
			errs := make([]error, 2)
			steps := []func() error{
				func() error {
					_, err := f.Applications.Reject(context.WithoutCancel(t.Context()), f.by(f.ada), a.UUID, "No.", "")
					return err
				},
				func() error { _, err := f.approve(f.by(f.bob), a.UUID); return err },
			}
			for i, step := range steps {
				group.Go(func() { errs[i] = step() })
			}
			group.Wait()
			won := 0
			for _, err := range errs {
				switch {
				case err == nil:
					won++
				case !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.BadRequest):
					t.Errorf("err = %v, want nil, Conflict or BadRequest", err)
				}
			}
			if won != 1 {
				t.Errorf("%d reviewers succeeded, want 1; errors = %v", won, errs)
			}
		}
		// A reviewer who saw an earlier revision cannot change the application.
		a := f.submit(o, f.applicant("Person Z"))
		stale := f.by(f.bob)
		stale.Revision = a.Revision
		_, err := f.Applications.Claim(t.Context(), f.by(f.ada), a.UUID)
		f.ok(err)
		_, err = f.Applications.Reject(t.Context(), stale, a.UUID, "No.", "")
		wantFault(t, "rejection of an old revision", err, fault.Conflict)
		if got := f.events(a); got != "created" {
			t.Errorf("events = %s, want only created", got)
		}
	})
}

func TestFourEyes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o := f.offer("degree", func(in *application.OfferInput) { in.FourEyes, in.Reviewers = true, []int64{f.ada, f.bob} })
	a := f.submit(o, f.applicant("Chi Eze"))
	_, err := f.approve(f.by(f.ada), a.UUID)
	wantFault(t, "approval of an unclaimed application", err, fault.BadRequest)
	_, err = f.Applications.Claim(t.Context(), f.by(f.ada), a.UUID)
	f.ok(err)
	_, err = f.approve(f.by(f.ada), a.UUID)
	wantFault(t, "approval of the own claim", err, fault.Forbidden)
	carol := f.member("Carol")
	_, err = f.approve(f.by(carol), a.UUID)
	wantFault(t, "approval by a member who is no reviewer", err, fault.Forbidden)
	if _, err = f.approve(f.by(f.bob), a.UUID); err != nil {
		t.Errorf("approval by a second reviewer: err = %v, want nil", err)
	}
}

func TestHoldQuestionAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o, who := f.offer("course"), f.applicant("Chi Eze")
	a := f.submit(o, who)
	_, err := f.Applications.Hold(t.Context(), f.by(f.ada), a.UUID, "money", " ")
	wantCode(t, "unknown hold", err, "hold", application.CodeHoldKind)
	wantCode(t, "hold without text", err, "text", cert.CodeRequired)
	a, err = f.Applications.Hold(t.Context(), f.by(f.ada), a.UUID, application.Information, "Which group?")
	f.ok(err)
	if a.Hold == nil || a.Hold.Text != "Which group?" || !a.Hold.Until.Equal(f.Now().AddDate(0, 0, 14)) {
		t.Fatalf("hold = %+v, want the question for 14 days", a.Hold)
	}
	a, err = f.answer(who.UserID, a.UUID, "Group B.")
	f.ok(err)
	if a.Hold.Answer != "Group B." || a.Hold.AnsweredAt == nil || a.ClaimedBy != (application.Person{}) {
		t.Errorf("hold = %+v, claimed by %+v, want the answer and no claim", a.Hold, a.ClaimedBy)
	}
	f.Advance(30 * 24 * time.Hour)
	f.ok(f.Applications.Sweep(t.Context()))
	if a = f.get(a.UUID); a.Status != cert.Pending {
		t.Errorf("status of the answered application = %s, want pending", a.Status)
	}
	if a, err = f.Applications.Release(t.Context(), f.by(f.ada), a.UUID); err != nil || a.Hold != nil {
		t.Errorf("hold after the release = %+v, err = %v, want none", a.Hold, err)
	}
	if got := f.events(a); got != "created"+strings.Repeat(" updated", 3) {
		t.Errorf("events = %s, want created and three times updated", got)
	}
	// The language of the applicant's account is German.
	var subjects []string
	for _, m := range f.mails(2) {
		subjects = append(subjects, m.Subject)
		if m.To.Email != who.Email || m.Sender != f.inst.Name {
			t.Errorf("mail %q to %s from %q, want to %s from %q", m.Subject, m.To.Email, m.Sender, who.Email, f.inst.Name)
		}
	}
	slices.Sort(subjects)
	if want := []string{"Antrag eingegangen: Participation in course", "Rückfrage zu Ihrem Antrag: Participation in course"}; !slices.Equal(subjects, want) {
		t.Errorf("subjects = %q, want %q", subjects, want)
	}
}

func TestEventsInOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o := f.offer("course")
		a := f.submit(o, f.applicant("Chi Eze"))
		received := f.approveFile(a.UUID, "refuse.pdf")
		f.ok(received)
		f.Settle()
		if a = f.get(a.UUID); a.Status != cert.Failed || a.Failure == nil {
			t.Fatalf("status = %s, failure = %v, want failed", a.Status, a.Failure)
		}
		_, err := f.Certs.Retry(t.Context(), f.inst.ID, a.UUID, nil)
		f.ok(err)
		f.Settle()
		if got := f.events(a); got != "created processing failed retried failed" {
			t.Errorf("events = %s, want created processing failed retried failed", got)
		}
		if got := f.actions(a); got != "submitted approved failed retried failed" {
			t.Errorf("timeline = %s, want submitted approved failed retried failed", got)
		}
		b := f.submit(o, f.applicant("Dee Eze"))
		_, err = f.approve(f.by(f.ada), b.UUID)
		f.ok(err)
		f.Settle()
		if got := f.events(b); got != "created processing approved" {
			t.Errorf("events = %s, want created processing approved", got)
		}
		c := f.submit(o, f.applicant("Fay Eze"))
		_, err = f.Applications.Reject(t.Context(), f.by(f.ada), c.UUID, "No.", "")
		f.ok(err)
		if got := f.events(c); got != "created rejected" {
			t.Errorf("events = %s, want created rejected", got)
		}
	})
}

// If the job of an approved application is lost, SweepJobs creates another one.
func TestCrashAfterApproval(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		a := f.submit(f.offer("course"), f.applicant("Chi Eze"))
		_, err := f.approve(f.by(f.ada), a.UUID)
		f.ok(err)
		f.Exec(`DELETE FROM river_job`)
		f.Advance(time.Hour)
		f.ok(f.Certs.SweepJobs(t.Context()))
		f.Settle()
		if a = f.get(a.UUID); a.Status != cert.Approved {
			t.Errorf("status = %s, want approved", a.Status)
		}
	})
}

// The lists of certificates contain open applications with the status pending or in_review. They do not
// contain applications that ended without a certificate.
func TestCertificateLists(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o := f.offer("course")
		var list []*application.Application
		for _, name := range []string{"Open", "Claimed", "Rejected", "Withdrawn", "Expired"} {
			list = append(list, f.submit(o, f.applicant(name)))
		}
		_, err := f.Applications.Claim(t.Context(), f.by(f.ada), list[1].UUID)
		f.ok(err)
		_, err = f.Applications.Reject(t.Context(), f.by(f.ada), list[2].UUID, "No.", "")
		f.ok(err)
		_, err = f.Applications.Withdraw(t.Context(), f.by(f.ada), list[3].UUID)
		f.ok(err)
		_, err = f.Applications.Hold(t.Context(), f.by(f.ada), list[4].UUID, application.Identity, "Passport")
		f.ok(err)
		f.Advance(15 * 24 * time.Hour)
		f.ok(f.Applications.Sweep(t.Context()))
		if got := f.get(list[4].UUID).Status; got != cert.Lapsed {
			t.Fatalf("status = %s, want expired", got)
		}
		for _, filter := range []search.Filter{{}, {Search: "course"}, {Sources: []cert.Source{cert.Customer}}} {
			filter.Range = listing.Range{Page: 1, PerPage: 15}
			l, err := f.Search.List(t.Context(), f.inst.ID, filter)
			f.ok(err)
			var got []string
			for _, c := range l.Items {
				got = append(got, c.FullName+" "+string(c.Status))
			}
			if want := []string{"Claimed in_review", "Open pending"}; !slices.Equal(got, want) || *l.Total != 2 {
				t.Errorf("list = %q of %d, want %q", got, *l.Total, want)
			}
		}
		for status, want := range map[cert.Status]int{cert.Pending: 1, cert.InReview: 1, cert.Rejected: 1, cert.Withdrawn: 1, cert.Lapsed: 1, cert.Approved: 0} {
			l, err := f.Applications.List(t.Context(), f.inst.ID, application.Filter{Statuses: []cert.Status{status}, Range: listing.Range{Page: 1, PerPage: 15}})
			f.ok(err)
			if len(l.Items) != want {
				t.Errorf("applications with the status %s: %d, want %d", status, len(l.Items), want)
			}
		}
		n, err := f.Applications.Counts(t.Context(), f.inst.ID, f.ada)
		f.ok(err)
		if n.Pending != 1 || n.InReview != 1 || n.OnHold != 0 || n.Mine != 1 || n.OldestAt == nil || n.DecidedThisWeek != 1 {
			t.Errorf("counts = %+v, want one pending, one in review by the member and one that expired this week", n)
		}
		wantWaiting := func(what string, want int) {
			t.Helper()
			if got, err := f.Applications.Waiting(t.Context(), f.inst.ID, f.ada); err != nil || got != want {
				t.Errorf("%s, %d applications wait, err = %v, want %d", what, got, err, want)
			}
		}
		wantWaiting("with one new and one claimed application", 2)
		_, err = f.Applications.Hold(t.Context(), f.by(f.ada), list[0].UUID, application.Information, "When?")
		f.ok(err)
		wantWaiting("after a question about one of them", 1)
		_, err = f.answer(list[0].ApplicantID, list[0].UUID, "Now.")
		f.ok(err)
		wantWaiting("after the answer", 2)
		in := input("course")
		in.Reviewers = []int64{f.bob}
		_, err = f.Applications.ChangeOffer(t.Context(), f.inst.ID, o.UUID, o.Revision, in)
		f.ok(err)
		wantWaiting("of an offer with another reviewer", 0)
	})
}

// With cursors, List returns each application once, in each order.
func TestListByCursor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o := f.offer("course")
	for _, name := range []string{"Eve", "Ann", "Dan", "Bea", "Cid"} {
		f.submit(o, f.applicant(name))
		f.Advance(time.Second)
	}
	for sort, want := range map[string]string{
		"": "Cid Bea Dan Ann Eve", "name": "Eve Dan Cid Bea Ann", "email": "Eve Dan Cid Bea Ann", "updated_at": "Cid Bea Dan Ann Eve",
	} {
		cursor, got, prev := "", []string{}, ""
		for {
			l, err := f.Applications.List(t.Context(), f.inst.ID, application.Filter{Sort: sort, Range: listing.Range{PerPage: 2, Cursor: &cursor}})
			f.ok(err)
			for _, a := range l.Items {
				got = append(got, a.FullName)
			}
			prev = l.Prev
			if cursor = l.Next; !l.More {
				break
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("order %q: %q, want %s", sort, got, want)
		}
		l, err := f.Applications.List(t.Context(), f.inst.ID, application.Filter{Sort: sort, Range: listing.Range{PerPage: 2, Cursor: &prev, Back: true}})
		f.ok(err)
		if len(l.Items) != 2 || l.Items[0].FullName != strings.Fields(want)[2] || l.Items[1].FullName != strings.Fields(want)[3] {
			t.Errorf("order %q: the page before the last has %d items, want the third and the fourth application", sort, len(l.Items))
		}
	}
	_, err := f.Applications.List(t.Context(), f.inst.ID, application.Filter{Sort: "title", Statuses: []cert.Status{"x"}, Range: listing.Range{PerPage: 2, Page: 1}})
	wantFault(t, "an unknown order and status", err, fault.Invalid)
}

// The methods return no data of another institution or of another person.
func TestTenantsAndPersonsAreIsolated(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o, who, other := f.offer("course"), f.applicant("Chi Eze"), f.applicant("Eve Low")
	a := f.submitFile(o, who)
	inst := f.Institution("EVL", "Evil")
	r := application.Reviewer{Institution: inst, Person: application.Person{ID: f.ada, Type: "user", Name: "Ada"}}
	ctx, svc := t.Context(), f.Applications
	for name, run := range map[string]func() error{
		"Offer":          func() error { _, err := svc.Offer(ctx, inst.ID, o.UUID); return err },
		"OpenOffer":      func() error { _, err := svc.OpenOffer(ctx, inst.ID, o.Slug); return err },
		"ChangeOffer":    func() error { _, err := svc.ChangeOffer(ctx, inst.ID, o.UUID, o.Revision, input("x")); return err },
		"SetOfferStatus": func() error { _, err := svc.SetOfferStatus(ctx, inst.ID, o.UUID, application.Closed); return err },
		"DeleteOffer":    func() error { return svc.DeleteOffer(ctx, inst.ID, o.UUID) },
		"SetRegister":    func() error { return svc.SetRegister(ctx, inst.ID, o.UUID, []application.RegisterRow{{Number: "1"}}) },
		"Submit": func() error {
			in := f.submission(o, other)
			in.Institution = inst
			_, err := svc.Submit(ctx, in)
			return err
		},
		"ByUUID":      func() error { _, err := svc.ByUUID(ctx, inst.ID, a.UUID); return err },
		"Claim":       func() error { _, err := svc.Claim(ctx, r, a.UUID); return err },
		"Hold":        func() error { _, err := svc.Hold(ctx, r, a.UUID, application.Payment, "x"); return err },
		"Release":     func() error { _, err := svc.Release(ctx, r, a.UUID); return err },
		"Approve":     func() error { _, err := svc.Approve(ctx, r, a.UUID, application.Approval{}); return err },
		"Reject":      func() error { _, err := svc.Reject(ctx, r, a.UUID, "x", ""); return err },
		"Withdraw":    func() error { _, err := svc.Withdraw(ctx, r, a.UUID); return err },
		"SetNote":     func() error { _, err := svc.SetNote(ctx, r, a.UUID, "x"); return err },
		"OpenFile":    func() error { _, _, err := svc.OpenFile(ctx, inst.ID, a.UUID, a.Files[0].ID); return err },
		"ByApplicant": func() error { _, err := svc.ByApplicant(ctx, other.UserID, a.UUID); return err },
		"Answer":      func() error { _, err := svc.Answer(ctx, other.UserID, a.UUID, a.CreatedAt, "x", nil); return err },
		"WithdrawOwn": func() error { _, err := svc.WithdrawOwn(ctx, other.UserID, a.UUID); return err },
		"OpenOwnFile": func() error { _, _, err := svc.OpenOwnFile(ctx, other.UserID, a.UUID, a.Files[0].ID); return err },
		"Decide": func() error {
			_, err := svc.Decide(ctx, r, a.UUID, application.DecideReject, "x")
			return err
		},
		"ByUUIDs": func() error {
			found, err := svc.ByUUIDs(ctx, inst.ID, []string{a.UUID})
			f.ok(err)
			if len(found) == 0 {
				return fault.New(fault.NotFound, "")
			}
			return nil
		},
		"Select": func() error {
			list, err := svc.Select(ctx, inst.ID, application.Filter{})
			f.ok(err)
			if len(list) == 0 {
				return fault.New(fault.NotFound, "")
			}
			return nil
		},
		"SubmitDraft":     func() error { _, err := svc.SubmitDraft(ctx, f.inst, other, o, ""); return err },
		"RemoveDraftFile": func() error { return svc.RemoveDraftFile(ctx, other, o, a.Files[0].ID) },
	} {
		wantFault(t, name, run(), fault.NotFound)
	}
	list, err := svc.List(ctx, inst.ID, application.Filter{Range: listing.Range{Page: 1, PerPage: 15}})
	f.ok(err)
	offers, err := svc.Offers(ctx, inst.ID, "")
	f.ok(err)
	own, err := svc.OfApplicant(ctx, other.UserID)
	f.ok(err)
	n, err := svc.Counts(ctx, inst.ID, f.ada)
	f.ok(err)
	waiting, err := svc.Waiting(ctx, inst.ID, f.ada)
	f.ok(err)
	twins, err := svc.Duplicates(ctx, inst.ID, []*application.Application{a})
	f.ok(err)
	if len(list.Items)+len(offers)+len(own)+n.Pending+waiting+len(twins) != 0 {
		t.Errorf("another institution sees %d applications, %d offers and %+v, another person %d applications, want none", len(list.Items), len(offers), n, len(own))
	}
	// The reviewers and the template of an offer must belong to the institution.
	in := input("second")
	in.Reviewers, in.TemplateID = []int64{other.UserID}, "01900000-0000-7000-8000-000000000004"
	_, err = svc.CreateOffer(ctx, f.inst, in)
	wantCode(t, "reviewer", err, "reviewers", application.CodeMember)
	wantCode(t, "template", err, "template_id", application.CodeTemplate)
	if got := f.get(a.UUID); got.Revision != 1 || len(got.Files) != 1 {
		t.Errorf("application = %+v, want revision 1 with one file", got)
	}
}

// Select returns the UUIDs and revisions of the applications that a reviewer may decide, in the order of
// the list.
func TestSelect(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o, other := f.offer("course"), f.offer("other", func(in *application.OfferInput) { in.Reviewers = []int64{f.bob} })
	a, b := f.submit(o, f.applicant("Ann")), f.submit(o, f.applicant("Bea"))
	f.submit(other, f.applicant("Cid"))
	_, err := f.Applications.Claim(t.Context(), f.by(f.bob), a.UUID)
	f.ok(err)
	got, err := f.Applications.Select(t.Context(), f.inst.ID, application.Filter{For: f.ada, Ascending: true})
	f.ok(err)
	if want := []application.Selected{{UUID: a.UUID, Revision: 2}, {UUID: b.UUID, Revision: 1}}; !slices.Equal(got, want) {
		t.Errorf("selected = %v, want %v", got, want)
	}
	_, err = f.Applications.Select(t.Context(), f.inst.ID, application.Filter{Sort: "age"})
	wantFault(t, "an unknown order", err, fault.Invalid)
}

// Check rejects a text that is missing or too long, and trims other texts.
func TestDecisionText(t *testing.T) {
	t.Parallel()
	for decision, limit := range map[application.Decision]int{application.DecideHold: 2000, application.DecideReject: 1000} {
		_, err := decision.Check(" ")
		wantCode(t, string(decision)+" without a text", err, "text", cert.CodeRequired)
		_, err = decision.Check(strings.Repeat("x", limit+1))
		wantCode(t, string(decision)+" with a long text", err, "text", cert.CodeTooLong)
		if got, err := decision.Check(" The course is full. "); err != nil || got != "The course is full." {
			t.Errorf("%s: text = %q, err = %v, want it without surrounding space", decision, got, err)
		}
	}
	if got, err := application.DecideApprove.Check("ignored"); err != nil || got != "" {
		t.Errorf("text of an approval = %q, err = %v, want none", got, err)
	}
}

func TestEarlierRecordsOfAnAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		who := f.applicant("Chi Eze")
		c := f.Upload(f.inst, "Chi Eze", "diploma.pdf")
		first, other := f.submit(f.offer("one"), who), f.submit(f.offer("two"), f.applicant("Dee Low"))
		_, err := f.Applications.Reject(t.Context(), f.by(f.ada), first.UUID, "No.", "")
		f.ok(err)
		a := f.submit(f.offer("three"), who)
		certificates, applications, err := f.Applications.Earlier(t.Context(), a)
		f.ok(err)
		if len(certificates) != 1 || certificates[0].UUID != c.UUID || len(applications) != 1 || applications[0].UUID != first.UUID {
			t.Errorf("earlier = %v and %v, want one certificate and the rejected application", certificates, applications)
		}
		found, err := f.Applications.Duplicates(t.Context(), f.inst.ID, []*application.Application{a, other})
		f.ok(err)
		if len(found) != 1 || found[a.UUID] != 2 {
			t.Errorf("duplicates = %v, want 2 for %s", found, a.UUID)
		}
	})
}
