package identity

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// foldedMailboxes maps typed addresses to their folded forms. A mail that verifies an address goes to the
// folded form. In the local part, letters other than ASCII keep their case, because an address with the
// lowercase letter is a different mailbox.
var foldedMailboxes = map[string]string{
	"Ada@Example.ORG":         "ada@example.org",
	"\u212aevin@example.org":  "kevin@example.org",
	"x@\ufb01rm.example":      "x@firm.example",
	"x@b\u00fccher.example":   "x@xn--bcher-kva.example",
	"jose\u0301@example.org":  "jos\u00e9@example.org",
	"\u0130ris@example.org":   "\u0130ris@example.org",
	"\u03f4eo@example.org":    "\u03f4eo@example.org",
	"gro\u1e9e@example.org":   "gro\u1e9e@example.org",
	"J\u00dcRGEN@example.org": "j\u00dcrgen@example.org",
}

func TestVerificationMailGoesToTheFoldedAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		for typed, want := range foldedMailboxes {
			if err := b.RequestLink(ctx, ToSignUp, typed, "en", "", from("198.51.100.7")); err != nil {
				t.Fatal(err)
			}
			b.work()
			list := b.mails()
			if len(list) != 1 || list[0].To.Email != want {
				t.Errorf("%+q: mails = %+v, want one to %+q", typed, list, want)
				continue
			}
			e, err := b.SignUp(ctx, b.secretIn(list[0], ToSignUp), NewPerson{Name: "Ada"}, home)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Session.Person.EmailFolded; got != want {
				t.Errorf("%+q: the account has the address %+q, want %+q", typed, got, want)
			}
			// The links for an existing account also go to the folded form.
			for _, purpose := range []Purpose{ToSignIn, ToReset} {
				if err := b.RequestLink(ctx, purpose, typed, "en", "", from("198.51.100.8")); err != nil {
					t.Fatal(err)
				}
				b.work()
				if list := b.mails(); len(list) != 1 || list[0].To.Email != want {
					t.Errorf("%+q: mails of %s = %+v, want one to %+q", typed, purpose, list, want)
				}
			}
		}
	})
}

func TestAddressChangeMailGoesToTheFoldedAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join("owner@example.org")
		b.mails()
		for typed, want := range foldedMailboxes {
			b.Advance(time.Hour) // requests of one person are limited
			if err := b.RequestAddressChange(ctx, &e.Session, typed, from("198.51.100.7")); err != nil {
				t.Fatal(err)
			}
			list := b.mails()
			if len(list) != 1 || list[0].To.Email != want {
				t.Errorf("%+q: mails = %+v, want one to %+q", typed, list, want)
				continue
			}
			if err := b.ChangeAddress(ctx, &e.Session, b.secretIn(list[0], ToChangeAddress)); err != nil {
				t.Fatal(err)
			}
			p, err := b.Person(ctx, d, e.Session.Person.ID)
			if err != nil || p.EmailFolded != want || !p.Verified {
				t.Errorf("%+q: the account is %+v, error %v, want the verified address %+q", typed, p, err, want)
			}
			b.mails()
		}
	})
}

// TestAddressOfAnotherLetterIsAnotherAccount checks that two addresses with different letters belong to
// two accounts, even if the lower case of both letters is the same, as with U+0130 and I.
func TestAddressOfAnotherLetterIsAnotherAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		other, err := b.SignUp(ctx, b.link(ToSignUp, "\u0130ris@example.org"), NewPerson{Name: "Other"}, home)
		if err != nil {
			t.Fatal(err)
		}
		iris, err := b.SignUp(ctx, b.link(ToSignUp, "Iris@example.org"), NewPerson{Name: "Iris"}, home)
		if err != nil {
			t.Fatalf("signing up with the address iris@example.org: error = %v, want none", err)
		}
		if iris.Session.Person.ID == other.Session.Person.ID || len(b.verified) != 2 || b.verified[0].EmailFolded == "iris@example.org" {
			t.Errorf("the verified persons are %+v, want two accounts with different addresses", b.verified)
		}
	})
}
