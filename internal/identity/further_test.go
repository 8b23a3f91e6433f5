package identity

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// further requests a further address and returns the secret of the mailed link.
func (b *bench) further(e *Entry, address string) string {
	b.t.Helper()
	b.mails()
	b.Advance(time.Hour) // requests of one person are limited
	if err := b.RequestAddress(b.t.Context(), &e.Session, address, home); err != nil {
		b.t.Fatal(err)
	}
	list := b.mails()
	if len(list) != 1 || list[0].To.Email != fold(address) {
		b.t.Fatalf("mails = %+v, want one to %s", list, address)
	}
	return b.secretIn(list[0], ToAddAddress)
}

// add adds a further address.
func (b *bench) add(e *Entry, address string) {
	b.t.Helper()
	if err := b.AddAddress(b.t.Context(), &e.Session, b.further(e, address)); err != nil {
		b.t.Fatal(err)
	}
	b.mails()
}

func TestFurtherAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		ada, eve := b.join("ada@example.org"), b.join("eve@example.org")
		b.verified = nil
		secret := b.further(ada, "Ada@Work.example")
		if _, err := account.VerifiedUser(ctx, d, "ada@work.example"); !fault.Is(err, fault.NotFound) {
			t.Errorf("before the link is used: error = %v, want fault.NotFound", err)
		}
		if err := b.AddAddress(ctx, &eve.Session, secret); !errors.Is(err, ErrLink) {
			t.Errorf("another person uses the link: error = %v, want ErrLink", err)
		}
		if err := b.AddAddress(ctx, &ada.Session, secret); err != nil {
			t.Fatal(err)
		}
		if err := b.AddAddress(ctx, &ada.Session, secret); !errors.Is(err, ErrLink) {
			t.Errorf("a second use of the link: error = %v, want ErrLink", err)
		}
		if u, err := account.VerifiedUser(ctx, d, "ada@work.example"); err != nil || u.ID != ada.Session.Person.ID {
			t.Errorf("the address belongs to %+v, %v, want Ada", u, err)
		}
		if len(b.verified) != 1 || b.verified[0].ID != ada.Session.Person.ID || b.verified[0].EmailFolded != "ada@work.example" {
			t.Errorf("OnVerified got %+v, want Ada with the further address", b.verified)
		}
		if list := b.mails(); len(list) != 1 || list[0].To.Email != "ada@example.org" || !strings.Contains(list[0].Text, "Ada@Work.example") {
			t.Errorf("mails after the addition = %+v, want a notice to the main address", list)
		}

		if err := b.RequestAddress(ctx, &ada.Session, "ADA@work.example", home); !errors.Is(err, ErrYours) {
			t.Errorf("adding the address again: error = %v, want ErrYours", err)
		}
		// The further address cannot be used to sign in, and no account can be created for it. A mail
		// to the address explains this, but does not contain the main address.
		if _, err := b.SignIn(ctx, "ada@work.example", password, home); !errors.Is(err, ErrWrong) {
			t.Errorf("signing in with the further address: error = %v, want ErrWrong", err)
		}
		for _, purpose := range []Purpose{ToSignIn, ToReset, ToSignUp} {
			for range 2 { // the second request sends no mail
				if err := b.RequestLink(ctx, purpose, "ada@work.example", "en", "", from("198.51.100.7")); err != nil {
					t.Fatal(err)
				}
			}
			b.work()
			list := b.mails()
			if len(list) != 1 || list[0].To.Email != "ada@work.example" || strings.Contains(list[0].Text, "https://") || strings.Contains(list[0].Text, "ada@example.org") {
				t.Errorf("%s: mails = %+v, want one without a link", purpose, list)
			}
		}
		// Another account can use the address neither as a further address nor as its main address.
		for name, request := range map[string]func() error{
			"further": func() error { return b.RequestAddress(ctx, &eve.Session, "ada@work.example", home) },
			"main":    func() error { return b.RequestAddressChange(ctx, &eve.Session, "ada@work.example", home) },
		} {
			b.Advance(time.Hour)
			if err := request(); err != nil {
				t.Fatal(err)
			}
			if list := b.mails(); len(list) != 1 || list[0].To.Email != "ada@work.example" || strings.Contains(list[0].Text, "/account/address") {
				t.Errorf("%s: mails = %+v, want a notice to the address without a link", name, list)
			}
		}

		// The further address can become the main address of its account.
		b.Advance(time.Hour)
		if err := b.RequestAddressChange(ctx, &ada.Session, "ada@work.example", home); err != nil {
			t.Fatal(err)
		}
		if err := b.ChangeAddress(ctx, &ada.Session, b.secretIn(b.mails()[0], ToChangeAddress)); err != nil {
			t.Fatal(err)
		}
		if list, err := b.Addresses(ctx, ada.Session.Person.ID); err != nil || len(list) != 0 {
			t.Errorf("further addresses after the change = %+v, %v, want none", list, err)
		}
		b.add(ada, "ada@example.org")
		if err := b.RemoveAddress(ctx, &eve.Session, "ada@example.org"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another person removes the address: error = %v, want fault.NotFound", err)
		}
		if p, err := b.TakeAddress(ctx, "ada@work.example"); !fault.Is(err, fault.NotFound) {
			t.Errorf("removing the main address: %+v, %v, want fault.NotFound", p, err)
		}
		if err := b.RemoveAddress(ctx, &ada.Session, "ada@example.org"); err != nil {
			t.Fatal(err)
		}
		if list := b.mails(); len(list) != 1 || list[0].To.Email != "ada@work.example" {
			t.Errorf("mails after the removal = %+v, want a notice to the main address", list)
		}
		b.add(eve, "ada@example.org") // another account can add the removed address
		if p, err := b.TakeAddress(ctx, "ada@example.org"); err != nil || p.ID != eve.Session.Person.ID {
			t.Errorf("an operator removes the address: %+v, %v, want Eve", p, err)
		}
	})
}

// TestAddressHasOneAccount checks that only one account gets an address if several people use links for the
// address at the same time: to sign up, to add a further address and to change the main address.
func TestAddressHasOneAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		ada, eve, ann := b.join("ada@example.org"), b.join("eve@example.org"), b.join("ann@example.org")
		const wanted = "wanted@example.org"
		signUp := b.link(ToSignUp, wanted)
		first, second := b.further(ada, wanted), b.further(eve, wanted)
		if err := b.RequestAddressChange(ctx, &ann.Session, wanted, home); err != nil {
			t.Fatal(err)
		}
		change := b.secretIn(b.mails()[0], ToChangeAddress)
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i, get := range []func() error{
			func() error { _, err := b.SignUp(ctx, signUp, NewPerson{Name: "New"}, home); return err },
			func() error { return b.AddAddress(ctx, &ada.Session, first) },
			func() error { return b.AddAddress(ctx, &eve.Session, second) },
			func() error { return b.ChangeAddress(ctx, &ann.Session, change) },
		} {
			wg.Go(func() { errs[i] = get() })
		}
		wg.Wait()
		n := 0
		for _, err := range errs {
			if err == nil {
				n++
			} else if !errors.Is(err, ErrTaken) {
				t.Errorf("error = %v, want ErrTaken", err)
			}
		}
		rows := b.count(`SELECT (SELECT count(*) FROM users WHERE email_folded = $1) + (SELECT count(*) FROM user_addresses WHERE email_folded = $1)`, wanted)
		if n != 1 || rows != 1 {
			t.Errorf("%d requests succeeded, and %d accounts have the address, want 1 and 1", n, rows)
		}
	})
}

func TestFurtherAddressesAreLimited(t *testing.T) {
	t.Parallel()
	b, ctx := open(t, dbtest.SQLite(t)), t.Context()
	e := b.join("ada@example.org")
	last := b.further(e, "last@example.org")
	for i := range account.MaxAddresses {
		b.add(e, fmt.Sprintf("ada%d@example.org", i))
	}
	if err := b.RequestAddress(ctx, &e.Session, "more@example.org", home); !errors.Is(err, ErrTooManyAddresses) {
		t.Errorf("requesting one more: error = %v, want ErrTooManyAddresses", err)
	}
	if err := b.AddAddress(ctx, &e.Session, last); !errors.Is(err, ErrTooManyAddresses) {
		t.Errorf("adding one more: error = %v, want ErrTooManyAddresses", err)
	}
}

// TestUnverifiedAccountAddsNoAddress checks that a person who has not verified the main address cannot request
// a further address.
func TestUnverifiedAccountAddsNoAddress(t *testing.T) {
	t.Parallel()
	b, ctx := open(t, dbtest.SQLite(t)), t.Context()
	b.institution("ada@example.org")
	e, err := b.SignIn(ctx, "ada@example.org", password, home)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.RequestAddress(ctx, &e.Session, "work@example.org", home); !errors.Is(err, ErrUnverified) {
		t.Errorf("error = %v, want ErrUnverified", err)
	}
}
