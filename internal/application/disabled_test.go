package application_test

import (
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestDisabledInstitutionAcceptsNoApplications(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o := f.offer("summer-school")
		who := f.applicant("Chi Eze")
		waiting := f.submit(o, f.applicant("Dia Fall"))
		f.ok(f.Accounts.Disable(t.Context(), f.inst.ID, ""))

		_, err := f.Applications.Submit(t.Context(), f.submission(o, who))
		wantFault(t, "an application", err, fault.Forbidden)
		_, err = f.Applications.OpenOffer(t.Context(), f.inst.ID, "summer-school")
		wantFault(t, "the open offer", err, fault.NotFound)
		if list, err := f.Applications.OpenOffers(t.Context(), f.inst.ID); err != nil || len(list) != 0 {
			t.Errorf("open offers = %v, error %v; want none", list, err)
		}
		// An application that was submitted before remains.
		if got := f.get(waiting.UUID); got.UUID != waiting.UUID {
			t.Errorf("application = %+v, want that with the UUID %s", got, waiting.UUID)
		}
		f.ok(f.Accounts.Enable(t.Context(), f.inst.ID))
		f.submit(o, who)
	})
}
