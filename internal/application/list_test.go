package application_test

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

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
