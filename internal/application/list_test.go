package application_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/listing"
)

// If no chosen reviewer may review any more, the members who manage offers review. The counts and the list agree
// with the check of a step.
func TestReviewersWhoLeft(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ctx := t.Context()
		add := func(name string, role account.Role) *account.Member {
			t.Helper()
			m, err := f.Accounts.AddMember(ctx, f.inst.ID, account.NewMember{Name: name, Email: name + "@nwu.example", Role: role})
			f.ok(err)
			return m
		}
		owner, cid, dan := add("owner", account.Owner), add("cid", account.Reviewer), add("dan", account.Reviewer)
		o := f.offer("course", func(in *application.OfferInput) { in.Reviewers = []int64{cid.UserID, dan.UserID} })
		people := map[string]int64{"owner": owner.UserID, "admin": f.ada, "cid": cid.UserID, "dan": dan.UserID, "issuer": add("issuer", account.Issuer).UserID}
		want := func(what string, reviewers ...string) {
			t.Helper()
			a := f.submit(o, f.applicant("Applicant "+what))
			for name, id := range people {
				may := slices.Contains(reviewers, name)
				n, err := f.Applications.Waiting(ctx, f.inst.ID, id)
				f.ok(err)
				counts, err := f.Applications.Counts(ctx, f.inst.ID, id)
				f.ok(err)
				list, err := f.Applications.List(ctx, f.inst.ID, application.Filter{For: id, Range: listing.Range{Page: 1, PerPage: 5}})
				f.ok(err)
				_, err = f.Applications.Hold(ctx, f.by(id), a.UUID, application.Information, " ") // not valid, so that nothing changes
				if refused := errors.Is(err, application.ErrReviewer); n > 0 != may || counts.Open() > 0 != may || len(list.Items) > 0 != may || refused == may {
					t.Errorf("%s, %s: %d wait, %d are open, %d are listed, error = %v, want a reviewer: %t", what, name, n, counts.Open(), len(list.Items), err, may)
				}
			}
		}
		want("with both", "cid", "dan")
		f.ok(f.Accounts.RemoveMember(ctx, owner.UserID, f.inst.ID, cid.UUID))
		want("with one", "dan")
		f.Exec(`UPDATE members SET role = 'auditor' WHERE user_id = $1`, dan.UserID)
		want("with none", "owner", "admin")
		f.Exec(`UPDATE members SET role = 'issuer' WHERE user_id = $1`, dan.UserID)
		want("with one again", "dan")
		f.ok(f.Accounts.Leave(ctx, f.inst.ID, dan.UserID))
		want("after both left", "owner", "admin")
	})
}

// Next returns the application that follows in the order of the list. After the last application, it
// returns the first one.
func TestNext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o := f.offer("course")
		next := func(filter application.Filter, a *application.Application) string {
			t.Helper()
			uuid, err := f.Applications.Next(t.Context(), filter, a)
			f.ok(err)
			if uuid == "" {
				return ""
			}
			return f.get(uuid).FullName
		}
		cid := f.submit(o, f.applicant("Cid"))
		if got := next(application.Filter{}, cid); got != "" {
			t.Errorf("after the only application: %q, want none", got)
		}
		f.Advance(time.Second)
		ann := f.submit(o, f.applicant("Ann"))
		f.Advance(time.Second)
		bea := f.submit(o, f.applicant("Bea"))
		for _, tc := range []struct {
			name   string
			filter application.Filter
			of     *application.Application
			want   string
		}{
			{"the newest first", application.Filter{}, bea, "Ann"},
			{"the newest first", application.Filter{}, cid, "Bea"},
			{"the oldest first", application.Filter{Ascending: true}, cid, "Ann"},
			{"the oldest first", application.Filter{Ascending: true}, bea, "Cid"},
			{"by name", application.Filter{Sort: "name", Ascending: true}, bea, "Cid"},
			{"of Ann", application.Filter{Email: ann.Email}, cid, "Ann"},
			{"of Ann", application.Filter{Email: ann.Email}, ann, ""},
		} {
			if got := next(tc.filter, tc.of); got != tc.want {
				t.Errorf("%s, after %s: %q, want %q", tc.name, tc.of.FullName, got, tc.want)
			}
		}
	})
}
