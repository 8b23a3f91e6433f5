package recipient_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
)

func TestRecipientIsFoundAtCreationAndAtApproval(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		b.user("ada@example.org", true)
		b.user("unverified@example.org", false)
		other := b.institution("KTH")
		for name, tc := range map[string]struct {
			changes  []change
			customer int64
		}{
			"verified address":                     {[]change{to("ada@example.org")}, 1},
			"verified address in another spelling": {[]change{to("ADA@Example.ORG"), titled("MSc")}, 1},
			"another institution":                  {[]change{to("ada@example.org"), of(other)}, 1},
			"unverified address":                   {[]change{to("unverified@example.org")}, 0},
			"unknown address":                      {[]change{to("new@example.org")}, 0},
		} {
			if c := b.upload(tc.changes...); c.CustomerID != tc.customer || b.get(c.UUID).CustomerID != tc.customer {
				t.Errorf("%s: customer = %d and %d when read again, want %d", name, c.CustomerID, b.get(c.UUID).CustomerID, tc.customer)
			}
		}
		// The recipient of a batch entry gets the next number.
		b.user("eve@example.org", true)
		if list := b.batch(true, "eve@example.org", "new@example.org"); list[0].CustomerID != 2 || list[1].CustomerID != 0 {
			t.Errorf("customers of the batch = %d and %d, want 2 and 0", list[0].CustomerID, list[1].CustomerID)
		}
		// The address is verified between the creation and the approval, without a claim.
		late := b.upload(to("late@example.org"))
		b.user("late@example.org", true)
		b.approve(late)
		if got := b.get(late.UUID).CustomerID; got != 3 {
			t.Errorf("customer after approval = %d, want 3", got)
		}
	})
}

func TestClaimAssignsAllCertificatesOfAnAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		other := b.institution("KTH")
		mine := []*cert.Certificate{
			b.upload(to("zoe@bücher.example")), b.upload(to("ZOE@xn--bcher-kva.example"), titled("MSc")), b.upload(to("Zoe@BÜCHER.example"), of(other)),
			b.upload(to("zoe@bücher.example"), titled("failed")), b.upload(to("zoe@bücher.example"), titled("revoked")),
		}
		b.move(mine[3], cert.Failed)
		b.move(mine[4], cert.Revoked)
		theirs := b.upload(to("zoe@example.org"))
		assigned := b.upload(to("zoe@bücher.example"), titled("assigned"))
		b.Exec(`UPDATE certificates SET customer_id = 99 WHERE id = $1`, assigned.ID)
		zoe := b.user("zoe@bücher.example", false)
		updated := b.get(mine[0].UUID).UpdatedAt
		counted := b.counts()

		failure := errors.New("failure")
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			return errors.Join(b.ClaimTx(t.Context(), tx, zoe, "zoe@xn--bcher-kva.example"), failure)
		}); !errors.Is(err, failure) {
			t.Fatal(err)
		}
		if got := b.get(mine[0].UUID).CustomerID; got != 0 {
			t.Fatalf("customer after a rolled back claim = %d, want 0", got)
		}
		for range 2 { // the second claim changes nothing
			b.verify(zoe, "zoe@bücher.example")
			for _, c := range mine {
				if got := b.get(c.UUID); got.CustomerID != 1 {
					t.Errorf("customer of %s in institution %d = %d, want 1", c.Title, c.InstitutionID, got.CustomerID)
				}
			}
		}
		if got := b.get(theirs.UUID).CustomerID; got != 0 {
			t.Errorf("a certificate with another address has customer %d, want none", got)
		}
		if got := b.get(assigned.UUID).CustomerID; got != 99 {
			t.Errorf("customer of the certificate that was assigned before = %d, want 99", got)
		}
		if got := b.get(mine[0].UUID).UpdatedAt; !got.Equal(updated) {
			t.Error("a claim changed the time of the last update")
		}
		if got := b.counts(); got != counted {
			t.Errorf("counts after the claim = %s, want %s", got, counted)
		}
		l, err := b.Search.List(t.Context(), b.inst.ID, search.Filter{Search: "zoe", CustomerID: 1, Range: listing.Range{Page: 1, PerPage: 10}})
		if err != nil || len(l.Items) != 4 {
			t.Errorf("the search found %d certificates, want 4; error %v", len(l.Items), err)
		}
		// Later certificates are assigned at once.
		if c := b.upload(to("ZOE@bücher.example"), titled("PhD")); c.CustomerID != 1 {
			t.Errorf("customer of a later certificate = %d, want 1", c.CustomerID)
		}
	})
}

// counts returns the stored numbers of certificates by institution and status.
func (b *fixture) counts() string {
	b.t.Helper()
	rows, err := b.DB.QueryContext(b.t.Context(), `SELECT institution_id, status, sum(n) FROM certificate_counts GROUP BY institution_id, status ORDER BY 1, 2`)
	if err != nil {
		b.t.Fatal(err)
	}
	var text string
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var i, n int64
		var status string
		if err := rows.Scan(&i, &status, &n); err != nil {
			b.t.Fatal(err)
		}
		text += fmt.Sprintln(i, status, n)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return text
}

func TestChangedAddressKeepsEarlierCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		old, next := b.upload(to("old@example.org")), b.upload(to("next@example.org"), titled("MSc"))
		id := b.user("old@example.org", false)
		b.verify(id, "old@example.org")
		b.verify(id, "next@example.org")
		if b.get(old.UUID).CustomerID != 1 || b.get(next.UUID).CustomerID != 1 {
			t.Error("the certificates of both addresses do not have customer 1")
		}
		// Another person who verifies the old address gets later certificates, but no earlier
		// certificates.
		b.verify(b.user("old@example.org", false), "old@example.org")
		if c := b.upload(to("old@example.org"), titled("PhD")); c.CustomerID != 2 || b.get(old.UUID).CustomerID != 1 {
			t.Errorf("customers of the new and the old certificate = %d and %d, want 2 and 1", c.CustomerID, b.get(old.UUID).CustomerID)
		}
	})
}

func TestConcurrentClaimsGetConsecutiveNumbers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		const people = 8
		users := make([]int64, people)
		for i := range users {
			email := fmt.Sprintf("p%d@example.org", i)
			b.upload(to(email))
			users[i] = b.user(email, true)
		}
		var work sync.WaitGroup
		errs := make([]error, 2*people)
		for i := range errs {
			work.Go(func() {
				errs[i] = d.Tx(t.Context(), func(tx *db.Tx) error {
					return b.ClaimTx(t.Context(), tx, users[i%people], fmt.Sprintf("p%d@example.org", i%people))
				})
			})
		}
		work.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		got, err := db.Column[int64](d.QueryContext(t.Context(), `SELECT number FROM customers WHERE institution_id = $1 ORDER BY number`, b.inst.ID))
		if err != nil || !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6, 7, 8}) {
			t.Errorf("customer numbers = %v, want 1 to 8; error %v", got, err)
		}
		var unassigned int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificates WHERE customer_id IS NULL`).Scan(&unassigned); err != nil || unassigned != 0 {
			t.Errorf("%d certificates have no customer, want 0; error %v", unassigned, err)
		}
	})
}

func TestDeletedAccountLeavesCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		id := b.user("ada@example.org", true)
		c := b.upload()
		b.approve(c)
		secret, _, err := b.CreateShare(t.Context(), recipient.Person(id, "Ada", "ada@example.org"), c, recipient.NewShare{})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.RequestCorrection(t.Context(), recipient.Person(id, "Ada", "ada@example.org"), c, "My name is Zoë."); err != nil {
			t.Fatal(err)
		}
		b.Tx(func(tx *db.Tx) error {
			if err := b.ForgetTx(t.Context(), tx, id); err != nil {
				return err
			}
			// Package identity does this next.
			_, err := tx.ExecContext(t.Context(), `DELETE FROM users WHERE id = $1`, id)
			return err
		})
		if got := b.get(c.UUID); got.CustomerID != 0 || got.Status != cert.Approved || got.Email != "ada@example.org" {
			t.Errorf("the certificate has status %s, customer %d and address %s, want approved, 0 and ada@example.org", got.Status, got.CustomerID, got.Email)
		}
		if _, _, err := b.Shared(t.Context(), secret); err == nil {
			t.Error("a link that the deleted account shared still opens")
		}
		if _, n, err := b.OpenCorrections(t.Context(), b.inst.ID, 10); err != nil || n != 1 {
			t.Errorf("the institution has %d requests, want 1; error %v", n, err)
		}
		// A person who registers again gets a new number.
		b.verify(b.user("ada@example.org", false), "ada@example.org")
		if got := b.get(c.UUID).CustomerID; got != 2 {
			t.Errorf("customer = %d, want 2", got)
		}
	})
}
