package cert

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// replacement returns the input of a replacement that has the texts of old and another file.
func (v *vault) replacement(old *Certificate, file string) Upload {
	v.tb.Helper()
	text := old.Text()
	u := v.input(v.inst)
	u.Title, u.FullName, u.Email, u.IssueDate, u.Details = text.Title, text.FullName, text.Email, text.IssueDate, text.Details
	u.File = v.receive(v.inst, samplePDF(file, 0))
	return u
}

func (v *vault) replace(old *Certificate, file string) *Certificate {
	v.tb.Helper()
	c, err := v.Replace(v.tb.Context(), old.UUID, v.replacement(old, file))
	if err != nil {
		v.tb.Fatal(err)
	}
	return c
}

func isDuplicate(err error) bool {
	return slices.ContainsFunc(ProblemsOf(err), func(p Problem) bool { return p.Code == CodeDuplicate })
}

func (v *vault) wantStatus(c *Certificate, want Status) *Certificate {
	v.tb.Helper()
	got := v.get(c.UUID)
	if got.Status != want {
		v.tb.Fatalf("status of %s = %s, want %s", c.ReferenceID, got.Status, want)
	}
	return got
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		old := v.approved(v.upload(nil))
		c := v.replace(old, "a better diploma")
		if c.Replaces == nil || *c.Replaces != (Link{old.UUID, old.ReferenceID}) {
			t.Fatalf("replaces = %+v, want %s", c.Replaces, old.UUID)
		}
		if got := v.wantStatus(old, Approved); got.ReplacedBy != nil {
			t.Fatal("the old certificate is replaced before the new one is approved")
		}
		if _, err := v.Replace(t.Context(), old.UUID, v.replacement(old, "a third diploma")); !fault.Is(err, fault.BadRequest) {
			t.Fatalf("a second replacement at the same time: err = %v, want BadRequest", err)
		}
		v.approved(c)
		got := v.wantStatus(old, Revoked)
		if !got.Replaced() || *got.ReplacedBy != (Link{c.UUID, c.ReferenceID}) || got.RevokedAt == nil || got.RevocationReason != "" {
			t.Fatalf("the old certificate = %+v, want revoked without a reason and replaced by the new one", got)
		}
		if _, err := v.Replace(t.Context(), old.UUID, v.replacement(old, "a fourth diploma")); !fault.Is(err, fault.BadRequest) {
			t.Fatalf("replacing a replaced certificate: err = %v, want BadRequest", err)
		}
		if _, err := v.Upload(t.Context(), v.input(v.inst)); !isDuplicate(err) {
			t.Fatalf("an upload with the same values: err = %v, want a duplicate", err)
		}
		// A replacement can be replaced. An upload with the values of the chain is still a duplicate.
		next := v.approved(v.replace(v.get(c.UUID), "a fifth diploma"))
		if v.wantStatus(c, Revoked); next.Replaces.UUID != c.UUID {
			t.Fatalf("replaces = %+v, want %s", next.Replaces, c.UUID)
		}
		if _, err := v.Upload(t.Context(), v.input(v.inst)); !isDuplicate(err) {
			t.Fatalf("an upload with the values of the chain: err = %v, want a duplicate", err)
		}
		var names []string
		for _, e := range v.events() {
			names = append(names, e.Name)
		}
		for _, name := range []string{"certificate_application.created", "certificate_application.approved"} {
			if n := len(slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s != name })); n != 3 {
				t.Errorf("got %d events %s, want 3", n, name)
			}
		}
	})
}

func TestReplacementIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		old := v.approved(v.upload(nil))
		other := v.upload(titled("MSc Physics"))
		same := v.replacement(old, "a diploma")
		if _, err := v.Replace(t.Context(), old.UUID, same); !slices.ContainsFunc(ProblemsOf(err), func(p Problem) bool {
			return p.Code == CodeSameFile && p.Field == FieldFile
		}) {
			t.Errorf("the same file: err = %v, want CodeSameFile", err)
		}
		taken := v.replacement(old, "another diploma")
		taken.Title = other.Title
		if _, err := v.Replace(t.Context(), old.UUID, taken); !isDuplicate(err) {
			t.Errorf("the values of another certificate: err = %v, want a duplicate", err)
		}
		// A transaction that continues after a duplicate may leave a job without a certificate.
		v.tx(func(tx *db.Tx) error {
			if _, err := v.ReplaceTx(t.Context(), tx, old.UUID, taken); !isDuplicate(err) {
				t.Errorf("the values of another certificate in a transaction: err = %v, want a duplicate", err)
			}
			return nil
		})
		if err := v.work(t.Context(), &Certificate{UUID: "00000000-0000-4000-8000-000000000000"}, 1); err != nil {
			t.Errorf("a job without a certificate: err = %v, want nil", err)
		}
		abroad := v.replacement(old, "another diploma")
		abroad.Institution = v.institution("OTH")
		if _, err := v.Replace(t.Context(), old.UUID, abroad); !fault.Is(err, fault.NotFound) {
			t.Errorf("a certificate of another institution: err = %v, want NotFound", err)
		}
		if _, err := v.Revoke(t.Context(), v.inst.ID, other.UUID, Revocation{Reason: "withdrawn"}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Replace(t.Context(), other.UUID, v.replacement(other, "another diploma")); !fault.Is(err, fault.BadRequest) {
			t.Errorf("a revoked certificate: err = %v, want BadRequest", err)
		}
		// The refused replacements changed nothing.
		if _, err := v.Upload(t.Context(), v.input(v.inst)); !isDuplicate(err) {
			t.Errorf("an upload with the same values: err = %v, want a duplicate", err)
		}
		v.approved(v.replace(old, "another diploma"))
	})
}

// A replacement that fails, or that is revoked before its approval, does not revoke the old certificate.
func TestReplacementThatFails(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		old := v.approved(v.upload(nil))
		first := v.replace(old, "one")
		fail := v.sealer.seal
		v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
			return nil, &seal.Refusal{Code: "x", Reason: "No."}
		}
		if err := v.work(t.Context(), first, 1); err != nil {
			t.Fatal(err)
		}
		v.sealer.seal = fail
		v.wantStatus(first, Failed)
		v.wantStatus(old, Approved)
		if _, err := v.Replace(t.Context(), first.UUID, v.replacement(first, "two")); !fault.Is(err, fault.BadRequest) {
			t.Errorf("replacing a failed replacement: err = %v, want BadRequest", err)
		}

		second := v.replace(old, "two")
		if _, err := v.Retry(t.Context(), v.inst.ID, first.UUID, nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("retrying while another replacement is being made: err = %v, want BadRequest", err)
		}
		if _, err := v.Revoke(t.Context(), v.inst.ID, second.UUID, Revocation{Reason: "withdrawn"}); err != nil {
			t.Fatal(err)
		}
		v.wantStatus(old, Approved)

		if _, err := v.Retry(t.Context(), v.inst.ID, first.UUID, nil); err != nil {
			t.Fatal(err)
		}
		v.approved(first)
		v.wantStatus(old, Revoked)
	})
}

func TestRevocationDuringReplacement(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		old := v.approved(v.upload(nil))
		c := v.replace(old, "a better diploma")
		if _, err := v.Revoke(t.Context(), v.inst.ID, old.UUID, Revocation{Reason: "A wrong name"}); err != nil {
			t.Fatal(err)
		}
		v.approved(c)
		got := v.wantStatus(old, Revoked)
		if got.RevocationReason != "A wrong name" || !got.Replaced() {
			t.Errorf("reason = %q, replaced by %+v; want the reason of the revocation, and the replacement", got.RevocationReason, got.ReplacedBy)
		}
	})
}

// The approval of the new certificate and the revocation of the old one are in one transaction.
func TestReplacementIsAtomic(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		broken := errors.New("the process ended")
		var failAt Status
		v := newVault(t, d, func(c *Config) {
			c.StatusChanged = func(_ context.Context, _ *db.Tx, c *Certificate) error {
				if c.Status == failAt {
					return broken
				}
				return nil
			}
		})
		old := v.approved(v.upload(nil))
		c := v.replace(old, "a better diploma")
		for _, failAt = range []Status{Revoked, Approved} {
			if err := v.work(t.Context(), c, 1); !errors.Is(err, broken) {
				t.Fatalf("fault at the change to %s: err = %v, want %v", failAt, err, broken)
			}
			v.wantStatus(c, Processing)
			v.wantStatus(old, Approved)
		}
		failAt = none
		v.approved(c)
		v.wantStatus(old, Revoked)
	})
}

// Only one of several concurrent replacements and uploads with the same values succeeds.
func TestConcurrentReplacements(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		old := v.approved(v.upload(nil))
		const each = 6
		var uploads []Upload
		for range each {
			u := v.replacement(old, "a better diploma")
			u.Title = "BSc Astronomy"
			uploads = append(uploads, u)
		}
		results := make([]error, 2*each)
		var wait sync.WaitGroup
		for i := range results {
			wait.Go(func() {
				if i%2 == 0 {
					_, results[i] = v.Replace(t.Context(), old.UUID, uploads[i/2])
				} else {
					_, results[i] = v.Upload(t.Context(), uploads[i/2])
				}
			})
		}
		wait.Wait()
		won := 0
		for i, err := range results {
			switch {
			case err == nil:
				won++
			case !isDuplicate(err) && !fault.Is(err, fault.BadRequest):
				t.Errorf("request %d: err = %v, want a duplicate or BadRequest", i, err)
			}
		}
		if won != 1 {
			t.Errorf("%d requests succeeded, want 1", won)
		}
		var same int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificates WHERE title = 'BSc Astronomy'`).Scan(&same); err != nil || same != 1 {
			t.Errorf("%d certificates have the title, want 1; err = %v", same, err)
		}
	})
}

// An upload with the address, title and issue date of a certificate in a chain of replacements is a
// duplicate, even after later changes to the certificates of the chain.
func TestValuesOfReplacedCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		taken := func(when string, title string) {
			t.Helper()
			if _, err := v.Upload(t.Context(), func() Upload { u := v.input(v.inst); u.Title = title; return u }()); !isDuplicate(err) {
				t.Errorf("%s: an upload of %s: err = %v, want a duplicate", when, title, err)
			}
		}
		old := v.approved(v.upload(nil))
		c := v.replace(old, "one")
		v.upload(titled("another")) // c is not the newest record, which retention never deletes
		v.force(c, Failed)
		v.clock.Advance(1)
		v.tx(func(tx *db.Tx) error {
			_, err := v.removeFailedTx(t.Context(), tx, v.get(c.UUID).ID, anyTime)
			return err
		})
		taken("after the deletion of a failed replacement", old.Title)

		// The title is changed by one replacement, and changed back by the next.
		second := v.replacement(old, "two")
		second.Title = "BSc Astronomy"
		renamed, err := v.Replace(t.Context(), old.UUID, second)
		if err != nil {
			t.Fatal(err)
		}
		v.approved(renamed)
		taken("after a replacement with another title", old.Title)
		back := v.replacement(v.get(renamed.UUID), "three")
		back.Title = old.Title
		third, err := v.Replace(t.Context(), renamed.UUID, back)
		if err != nil {
			t.Fatal(err)
		}
		third = v.approved(third)
		taken("after the return to a title", old.Title)
		taken("after the return to a title", renamed.Title)

		email, err := ReadEmail("grace@example.org")
		if err != nil {
			t.Fatal(err)
		}
		v.tx(func(tx *db.Tx) error {
			_, err := v.SetEmailTx(t.Context(), tx, v.inst.ID, third.UUID, email)
			return err
		})
		taken("after the correction of an address", old.Title)
	})
}

// A failed certificate can be replaced. If it is deleted before the replacement is approved, the record of
// the replacement does not refer to it.
func TestReplacementOfFailed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		old := v.upload(nil)
		v.force(old, Failed)
		c := v.replace(old, "one")
		v.tx(func(tx *db.Tx) error {
			_, err := v.removeFailedTx(t.Context(), tx, old.ID, anyTime)
			return err
		})
		if got := v.approved(c); got.Replaces != nil {
			t.Errorf("replaces = %+v, want none", got.Replaces)
		}
		next := v.upload(titled("another"))
		v.force(next, Failed)
		better := v.approved(v.replace(next, "two"))
		if got := v.wantStatus(next, Revoked); got.ReplacedBy == nil || got.ReplacedBy.UUID != better.UUID {
			t.Errorf("ReplacedBy = %+v, want %s", got.ReplacedBy, better.UUID)
		}
	})
}
