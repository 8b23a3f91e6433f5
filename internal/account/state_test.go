package account_test

import (
	"strconv"
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
			t.Fatalf("another institution: error = %v, want none", err)
		}
		for range 2 {
			if err := s.Enable(ctx, one.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := account.CheckEnabled(ctx, d, one.ID); err != nil {
			t.Fatalf("an enabled institution: error = %v, want none", err)
		}
		// The log of the institution and the log of the installation (0) have one entry for each change.
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
		for _, invalid := range []int64{-1, 1<<60 + 1} {
			if err := s.SetLimits(ctx, one.ID, account.Limits{Storage: invalid}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), strconv.FormatInt(1<<60, 10)) {
				t.Fatalf("the limit %d: error = %v, want fault.Invalid with the greatest limit", invalid, err)
			}
		}
		if err := s.SetLimits(ctx, one.ID, account.Limits{Requests: 1 << 60}); err != nil {
			t.Fatalf("the greatest limit: %v", err)
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

func TestSlug(t *testing.T) {
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
		logo, err := account.DrawLogo(picture(t, 10, 10, false))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Change(ctx, one.ID, func(c *account.Changes) error { c.Logo = logo; return nil }); err != nil {
			t.Fatal(err)
		}
		for _, slug := range []string{"", "x", "Upper", "a b", "a--b", "-a", "ä", strings.Repeat("x", 64), other.Slug} {
			if err := s.SetSlug(ctx, one.ID, slug); !fault.Is(err, fault.Invalid) {
				t.Errorf("slug %q: error = %v, want fault.Invalid", slug, err)
			}
		}
		for _, slug := range []string{"uno", "eins"} {
			if err := s.SetSlug(ctx, one.ID, slug); err != nil {
				t.Fatal(err)
			}
		}
		profile, err := s.PublicProfile(ctx, one.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, slug := range []string{"one", "uno", "eins"} {
			if i, err := s.InstitutionBySlug(ctx, slug); err != nil || i.ID != one.ID || i.Slug != "eins" {
				t.Errorf("institution with the slug %q = %+v, error %v; want the one whose slug is eins", slug, i, err)
			}
			// The address of a logo contains the slug, and wallets may have stored the address.
			if _, err := s.Logo(ctx, slug, profile.Logo); err != nil {
				t.Errorf("logo with the slug %q: error = %v, want none", slug, err)
			}
		}
		// Another institution gets a former slug neither by SetSlug nor from its name.
		if err := s.SetSlug(ctx, other.ID, "uno"); !fault.Is(err, fault.Invalid) {
			t.Errorf("the former slug of another institution: error = %v, want fault.Invalid", err)
		}
		if i, err := s.CreateInstitution(ctx, institution("Uno", "UNO")); err != nil || i.Slug != "uno-2" {
			t.Errorf("new institution = %+v, error %v; want the slug uno-2", i, err)
		}
		// The institution itself can use a former slug again.
		if err := s.SetSlug(ctx, one.ID, "one"); err != nil {
			t.Fatal(err)
		}
		if i, err := s.InstitutionBySlug(ctx, "eins"); err != nil || i.Slug != "one" {
			t.Errorf("institution = %+v, error %v; want the slug one", i, err)
		}
	})
}

func TestFindInstitutions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now)
		for name, prefix := range map[string]string{"Zeta": "ZTA", "École": "ECO", "alpha": "ALP"} {
			if _, err := s.CreateInstitution(ctx, institution(name, prefix)); err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct {
			text        string
			skip, limit int
			want        string
			total       int
		}{
			{"", 0, 10, "alpha Zeta École", 3}, {"", 1, 1, "Zeta", 3}, {"", 5, 10, "", 3},
			{"ÉCOLE", 0, 10, "École", 1}, {"zta", 0, 10, "Zeta", 1}, {"ecole", 0, 10, "École", 1}, {"none", 0, 10, "", 0}, {"%", 0, 10, "", 0},
		} {
			list, total, err := s.FindInstitutions(ctx, tc.text, tc.skip, tc.limit)
			var names []string
			for _, i := range list {
				names = append(names, i.Name)
				if i.Members != 1 {
					t.Errorf("%s has %d members, want 1", i.Name, i.Members)
				}
			}
			if got := strings.Join(names, " "); err != nil || got != tc.want || total != tc.total {
				t.Errorf("FindInstitutions(%q, %d, %d) = %s of %d, error %v; want %s of %d", tc.text, tc.skip, tc.limit, got, total, err, tc.want, tc.total)
			}
		}
	})
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "500GB": 500 << 30, " 20 mb ": 20 << 20, "1 TB": 1 << 40, "7": 7, "3 B": 3} {
		if n, err := account.ParseSize(text); err != nil || n != want {
			t.Errorf("ParseSize(%q) = %d, error %v; want %d", text, n, err, want)
		}
		if n, err := account.ParseSize(account.FormatSize(want)); err != nil || n != want {
			t.Errorf("ParseSize(%q) = %d, error %v; want %d", account.FormatSize(want), n, err, want)
		}
	}
	for _, text := range []string{"", "GB", "-1", "1.5GB", "9999999999999TB", "1 PB"} {
		if n, err := account.ParseSize(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("ParseSize(%q) = %d, error %v; want fault.Invalid", text, n, err)
		}
	}
}
