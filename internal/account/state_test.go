package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestDisabledInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now)
		one, err := s.CreateInstitution(ctx, institution("One", "ONE"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.CreateInstitution(ctx, institution("Other", "OTH"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Disable(ctx, one.ID, strings.Repeat("x", 501)); !fault.Is(err, fault.Invalid) {
			t.Fatalf("a reason of 501 characters: error = %v, want fault.Invalid", err)
		}
		for range 2 { // the second time changes nothing
			if err := s.Disable(ctx, one.ID, " The contract\nended. "); err != nil {
				t.Fatal(err)
			}
		}
		err = account.CheckEnabled(ctx, d, one.ID)
		const want = "The institution “One” is disabled: The contract ended. Ask the operator of this vault to enable it."
		if !fault.Is(err, fault.Forbidden) || err.Error() != want {
			t.Fatalf("error = %v, want fault.Forbidden with %q", err, want)
		}
		if err := account.CheckEnabled(ctx, d, other.ID); err != nil {
			t.Fatalf("another institution: error = %v", err)
		}
		for range 2 {
			if err := s.Enable(ctx, one.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := account.CheckEnabled(ctx, d, one.ID); err != nil {
			t.Fatalf("an enabled institution: error = %v", err)
		}
		// Both the institution's auditors and the operators see what happened, once.
		for _, log := range []int64{one.ID, 0} {
			list, _, err := audit.New(d).List(ctx, log, audit.Filter{}, "", 100)
			if err != nil {
				t.Fatal(err)
			}
			n := map[audit.Action]int{}
			for _, e := range list {
				n[e.Action]++
			}
			if n[audit.InstitutionDisabled] != 1 || n[audit.InstitutionEnabled] != 1 {
				t.Fatalf("audit log %d has %v, want one entry for each change", log, n)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now)
		one, err := s.CreateInstitution(ctx, institution("One", "ONE"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetLimits(ctx, one.ID, account.Limits{Storage: -1}); !fault.Is(err, fault.Invalid) {
			t.Fatalf("a negative limit: error = %v, want fault.Invalid", err)
		}
		want := account.Limits{Storage: 1 << 30, Certificates: 500, Requests: 60}
		if err := s.SetLimits(ctx, one.ID, want); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Institution(ctx, one.ID); err != nil || got.Limits != want {
			t.Fatalf("limits = %+v, error %v; want %+v", got, err, want)
		}
	})
}
