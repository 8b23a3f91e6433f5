package application_test

import (
	"testing"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/webhook"
)

func TestApprovedApplicationIsACertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o := f.offer("summer-school")
		a := f.submit(o, f.applicant("Chi Eze"))
		if a.Status != cert.Pending || a.Values["matric"] != "M-1001" || a.OfferName != o.Name || a.ReferenceID == "" || a.Revision != 1 {
			t.Fatalf("application = %+v, want the submitted values, the status pending and revision 1", a)
		}
		wantFault(t, "approval without a file", func() error {
			_, err := f.Applications.Approve(t.Context(), f.by(f.ada), a.UUID, application.Approval{})
			return err
		}(), fault.Invalid)
		claimed, err := f.Applications.Claim(t.Context(), f.by(f.ada), a.UUID)
		f.ok(err)
		if claimed.Status != cert.InReview || claimed.ClaimedBy.ID != f.ada || claimed.ClaimedAt == nil || claimed.Revision != 2 {
			t.Fatalf("claimed = %+v, want it in review by Ada, with revision 2", claimed)
		}
		approved, err := f.approve(f.by(f.bob), a.UUID)
		f.ok(err)
		if approved.Status != cert.Processing || approved.ID != a.ID || approved.DecidedBy.ID != f.bob || approved.DecidedAt == nil {
			t.Fatalf("approved = %+v, want it in processing, decided by Bob", approved)
		}
		f.Settle()
		if a = f.get(a.UUID); a.Status != cert.Approved || a.Title != "Summer school" {
			t.Errorf("status = %s, title = %q after processing, want approved and \"Summer school\"", a.Status, a.Title)
		}
		if got := f.actions(a); got != "submitted claimed approved certificate_approved" {
			t.Errorf("timeline = %s, want the submission, the claim and both approvals", got)
		}
		_, err = f.Applications.Reject(t.Context(), f.by(f.ada), a.UUID, "Too late.", "")
		wantFault(t, "rejection of an approved application", err, fault.BadRequest)
	})
}

func TestRejectedApplication(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o, who := f.offer("summer-school"), f.applicant("Chi Eze")
		a := f.submit(o, who)
		_, err := f.Applications.Reject(t.Context(), f.by(f.ada), a.UUID, "  ", "")
		wantCode(t, "rejection without a reason", err, cert.FieldReason, cert.CodeRequired)
		a, err = f.Applications.Reject(t.Context(), f.by(f.ada), a.UUID, "You did not attend.", "Absent on all days")
		f.ok(err)
		if a.Status != cert.Rejected || a.Reason != "You did not attend." || a.Note != "Absent on all days" {
			t.Fatalf("rejected = %+v, want the status rejected with the reason and the note", a)
		}
		events, err := f.Hooks.History(t.Context(), f.inst.ID, a.ID)
		f.ok(err)
		if last := events[len(events)-1]; last.Name != webhook.Rejected || last.Reason != "You did not attend." {
			t.Errorf("the last event = %+v, want the rejection with the reason", last)
		}
		own, err := f.Applications.ByApplicant(t.Context(), who.UserID, a.UUID)
		f.ok(err)
		if own.Reason != "You did not attend." || own.Note != "" || own.DecidedBy != (application.Person{}) {
			t.Errorf("the applicant sees %+v, want the reason, but no note and no reviewer", own)
		}
		if _, err := f.Certs.ByUUID(t.Context(), f.inst.ID, a.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("the certificate of a rejected application: err = %v, want NotFound", err)
		}
		l, err := f.Applications.List(t.Context(), f.inst.ID, application.Filter{Range: listing.Range{Page: 1, PerPage: 15}, Statuses: []cert.Status{cert.Rejected}})
		f.ok(err)
		if len(l.Items) != 1 || *l.Total != 1 {
			t.Errorf("list = %d items of %d, want 1 of 1", len(l.Items), *l.Total)
		}
		f.submit(o, who) // the person may apply again
	})
}
