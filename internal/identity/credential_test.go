package identity

import (
	"errors"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// A request must not change the credentials if its session ended after the request began.
func TestEndedSessionCannotChangeCredentials(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		b.enrol(e)
		b.addPasskey(&e.Session)
		list, err := b.Passkeys(ctx, e.Session.Person.ID)
		if err != nil || len(list) != 1 {
			t.Fatalf("Passkeys = %+v, error %v, want one passkey", list, err)
		}
		c, err := b.BeginNewPasskey(ctx, e.Session.Person)
		if err != nil {
			t.Fatal(err)
		}
		b.mails()
		if err := b.RequestAddressChange(ctx, &e.Session, "lovelace@example.org", home); err != nil {
			t.Fatal(err)
		}
		link := b.secretIn(b.mails()[0], ToChangeAddress)
		if err := b.CheckSession(ctx, e.with(home)); err != nil {
			t.Errorf("CheckSession before the end of the session: error = %v, want none", err)
		}
		if err := b.EndOthers(ctx, e.Session.Person.ID, 0); err != nil {
			t.Fatal(err)
		}
		if err := b.CheckSession(ctx, e.with(home)); !errors.Is(err, ErrNoSession) {
			t.Errorf("CheckSession after the end of the session: error = %v, want ErrNoSession", err)
		}
		for name, change := range map[string]func() error{
			"adding a passkey": func() error {
				return b.AddPasskey(ctx, &e.Session, c.Secret, "x", newToken(t, e.Session.Person).create(c))
			},
			"removing a passkey":   func() error { return b.RemovePasskey(ctx, &e.Session, list[0].ID) },
			"beginning codes":      func() error { return b.BeginCodes(ctx, &e.Session) },
			"ending codes":         func() error { return b.EndCodes(ctx, &e.Session) },
			"new recovery codes":   func() error { _, err := b.NewRecoveryCodes(ctx, &e.Session); return err },
			"changing the address": func() error { return b.ChangeAddress(ctx, &e.Session, link) },
		} {
			if err := change(); !errors.Is(err, ErrNoSession) {
				t.Errorf("%s: error = %v, want ErrNoSession", name, err)
			}
		}
		if n := b.count(`SELECT count(*) FROM passkeys`); n != 1 {
			t.Errorf("there are %d passkeys after the refused changes, want 1", n)
		}
	})
}

// A reset of the password removes the passkeys that the person chooses, because another person may have
// added a passkey.
func TestResetRemovesChosenPasskeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e, eve := b.join(address), b.join("eve@example.org")
		left, removed := b.addPasskey(&e.Session), b.addPasskey(&e.Session)
		b.addPasskey(&eve.Session)
		secret := b.link(ToReset, address)
		proof, err := b.Proof(ctx, ToReset, secret)
		if err != nil || proof.PersonID() != e.Session.Person.ID {
			t.Fatalf("Proof = %+v, error %v, want the link of the person", proof, err)
		}
		list, err := b.Passkeys(ctx, proof.PersonID())
		if err != nil || len(list) != 2 {
			t.Fatalf("Passkeys = %+v, error %v, want two passkeys", list, err)
		}
		of, err := b.Passkeys(ctx, eve.Session.Person.ID)
		if err != nil || len(of) != 1 {
			t.Fatalf("Passkeys of the other person = %+v, error %v, want one passkey", of, err)
		}
		// The id of a passkey of another person is ignored.
		if _, err := b.Reset(ctx, secret, "another horse", list[1].ID, of[0].ID); err != nil {
			t.Fatal(err)
		}
		if list := b.mails(); len(list) != 2 || list[0].Subject != "Ein Passkey wurde entfernt" {
			t.Errorf("the mails are %+v, want a notice of the removed passkey and a notice of the new password", list)
		}
		left.count++
		c := b.ceremony()
		if _, err := b.SignInByPasskey(ctx, c.Secret, left.get(c), home); err != nil {
			t.Errorf("signing in with the passkey that was not removed: error = %v, want none", err)
		}
		removed.count++
		c = b.ceremony()
		if _, err := b.SignInByPasskey(ctx, c.Secret, removed.get(c), home); !errors.Is(err, ErrPasskey) {
			t.Errorf("signing in with a removed passkey: error = %v, want ErrPasskey", err)
		}
		if err := b.SetPassword(ctx, e.Session.Person.ID, password, Removal{Passkeys: true}); err != nil {
			t.Fatal(err)
		}
		if n := b.count(`SELECT count(*) FROM passkeys`); n != 1 {
			t.Errorf("there are %d passkeys, want only the passkey of the other person", n)
		}
	})
}
