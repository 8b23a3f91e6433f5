package vault_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/verification"
)

// fixture is a vault with an institution and three approved certificates. Its clock starts at 12:00 UTC on
// 1 July 2026.
type fixture struct {
	*vaulttest.Vault

	t    *testing.T
	inst *account.Institution
	list []*cert.Certificate
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	f := &fixture{Vault: vaulttest.New(t, d), t: t}
	f.Set(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	f.inst = f.Institution("NWU", "Northwest University")
	for _, name := range []string{"Ada Obi", "Eve Obi", "Zoe Obi"} {
		f.list = append(f.list, f.Upload(f.inst, name, "diploma.pdf"))
	}
	f.Work(3)
	return f
}

// verify counts n verifications of a certificate.
func (f *fixture) verify(c *cert.Certificate, n int) {
	for range n {
		f.Verifications.Count(c.ID)
	}
}

func (f *fixture) fold() {
	f.t.Helper()
	if err := f.Verifications.Fold(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) numbers(c *cert.Certificate) verification.Numbers {
	f.t.Helper()
	n, err := f.Verifications.Of(f.t.Context(), c.InstitutionID, c.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func TestCountsByCertificateAndDay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ada, eve := f.list[0], f.list[1]
		f.verify(ada, 2)
		f.verify(eve, 1)
		if got := f.numbers(ada); got != (verification.Numbers{}) {
			t.Errorf("numbers before the counts are stored = %+v, want none", got)
		}
		f.fold()
		f.fold()
		f.Advance(12 * time.Hour)
		f.verify(ada, 1)
		f.fold()
		f.verify(ada, 3)
		f.fold()
		if got := f.numbers(ada); got != (verification.Numbers{Total: 6, Recent: 6}) {
			t.Errorf("numbers = %+v, want 6 and 6", got)
		}
		days, err := f.Verifications.Days(t.Context(), f.inst.ID, 30)
		if err != nil || len(days) != 30 || days[28].N != 3 || days[29].N != 4 || !days[29].Date.Equal(time.Date(2026, 7, 2, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("days = %+v, %v, want 30 days until 2 July, and 3 and 4 on the last two days", days, err)
		}
		f.Advance(29 * 24 * time.Hour)
		if got := f.numbers(ada); got != (verification.Numbers{Total: 6, Recent: 4}) {
			t.Errorf("numbers after 29 days = %+v, want 6, of which 4 in the last 30 days", got)
		}
		top, err := f.Verifications.Top(t.Context(), f.inst.ID, 90, 10)
		if want := []verification.Verified{{CertificateID: ada.ID, N: 6}, {CertificateID: eve.ID, N: 1}}; err != nil || !slices.Equal(top, want) {
			t.Errorf("top = %+v, %v, want %+v", top, err, want)
		}
		other := f.Institution("UTH", "Another University")
		if n, err := f.Verifications.Of(t.Context(), other.ID, ada.ID); err != nil || n.Total != 0 {
			t.Errorf("numbers for another institution = %+v, %v, want none", n, err)
		}
		if top, err := f.Verifications.Top(t.Context(), other.ID, 90, 10); err != nil || len(top) != 0 {
			t.Errorf("top of another institution = %+v, %v, want none", top, err)
		}
	})
}

// TestSmallNumbersOfHiddenNames checks that an institution that hides names sees no number below three, and
// that the recipient sees the exact number.
func TestSmallNumbersOfHiddenNames(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		for i, c := range f.list {
			f.verify(c, i+1)
		}
		f.fold()
		each := func() (ids []int64) {
			if err := f.Verifications.Each(t.Context(), f.inst.ID, 1, func(some []int64) error {
				ids = append(ids, some...)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return ids
		}
		if got := each(); !slices.Equal(got, []int64{f.list[0].ID, f.list[1].ID, f.list[2].ID}) {
			t.Errorf("the verified certificates are %v, want all three", got)
		}
		for _, hidden := range []bool{false, true} {
			if err := f.Accounts.SetPublic(t.Context(), f.inst.ID, account.Public{HideName: hidden}); err != nil {
				t.Fatal(err)
			}
			shown, err := f.Verifications.Shown(t.Context(), nil, f.inst.ID, f.list[0].ID, f.list[1].ID, f.list[2].ID)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range f.list {
				n := shown[c.ID]
				if visible := !hidden || i == 2; (n.Total != nil) != visible || (n.Recent != nil) != visible || visible && (*n.Total != i+1 || *n.Recent != i+1) {
					t.Errorf("hidden = %t: the institution sees %+v of %d verifications, want nil only for a number below three with hidden names", hidden, n, i+1)
				}
				if got := f.numbers(c).Total; got != i+1 {
					t.Errorf("hidden = %t: the recipient sees %d verifications, want %d", hidden, got, i+1)
				}
			}
		}
		if got := each(); !slices.Equal(got, []int64{f.list[2].ID}) {
			t.Errorf("the verified certificates with hidden names are %v, want only the certificate with three", got)
		}
		top, err := f.Verifications.Top(t.Context(), f.inst.ID, 30, 10)
		if err != nil || len(top) != 1 || top[0].CertificateID != f.list[2].ID {
			t.Errorf("top with hidden names = %+v, %v, want only the certificate with three", top, err)
		}
		none, err := f.Verifications.Shown(t.Context(), nil, f.inst.ID, f.Upload(f.inst, "New", "new.pdf").ID)
		for _, n := range none {
			if err != nil || n.Total != nil {
				t.Errorf("the number of a certificate without verifications = %+v, %v, want nil, as for one verification", n, err)
			}
		}
	})
}

// TestErasureDeletesCounts checks that the counts of a certificate are deleted with its files, and that
// its counts in memory are not stored afterwards.
func TestErasureDeletesCounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		for name, end := range map[string]func(c *cert.Certificate) error{
			"erasure": func(c *cert.Certificate) error { _, err := f.Certs.Erase(t.Context(), c.ReferenceID, ""); return err },
			"retention": func(*cert.Certificate) error {
				if err := f.Accounts.SetRetention(t.Context(), f.inst.ID, account.Retention{Revoked: 30}); err != nil {
					return err
				}
				f.Advance(31 * 24 * time.Hour)
				return f.Certs.SweepExpired(t.Context())
			},
		} {
			c := f.list[0]
			f.list = f.list[1:]
			f.verify(c, 4)
			f.fold()
			f.verify(c, 5)
			if _, err := f.Certs.Revoke(t.Context(), f.inst.ID, c.UUID, cert.Revocation{Reason: "x"}); err != nil {
				t.Fatal(err)
			}
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			f.fold()
			if got := f.numbers(c); got.Total != 0 {
				t.Errorf("%s: %d verifications remain, want 0", name, got.Total)
			}
		}
	})
}

// TestFailedFoldKeepsCounts checks that no count is lost if the transaction of Fold fails, or if Count and
// Fold run concurrently.
func TestFailedFoldKeepsCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	f.verify(f.list[0], 2)
	f.Exec(`ALTER TABLE verification_counts RENAME TO away`)
	if err := f.Verifications.Fold(t.Context()); err == nil {
		t.Fatal("Fold without its table: err = nil, want an error")
	}
	f.Exec(`ALTER TABLE away RENAME TO verification_counts`)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				f.Verifications.Count(f.list[0].ID)
				f.Verifications.Count(f.list[1].ID)
			}
		})
	}
	for range 5 {
		f.fold()
	}
	group.Wait()
	f.fold()
	if a, b := f.numbers(f.list[0]).Total, f.numbers(f.list[1]).Total; a != 802 || b != 800 {
		t.Errorf("totals = %d and %d, want 802 and 800", a, b)
	}
}
