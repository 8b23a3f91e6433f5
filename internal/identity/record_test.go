package identity

import (
	"fmt"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// Failed sign-ins of a member are in the audit log of the institution, with the address of the request
// and without the name and the id of the actor. Failed sign-ins of other people are not recorded.
func TestFailedSignInsAreRecorded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		inst := b.institution(address)
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			email, err := account.ParseEmail("holder@example.org")
			if err != nil {
				return err
			}
			_, err = b.CreateTx(t.Context(), tx, email, NewPerson{Name: "Holder"}, "")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		ctx := audit.WithActor(t.Context(), audit.Actor{Address: home.Address, RequestID: "REQUEST1"})
		for _, email := range []string{address, "holder@example.org", "nobody@example.org"} {
			if _, err := b.SignIn(ctx, email, "wrong", home); err == nil {
				t.Fatal("a wrong password is accepted")
			}
		}
		if _, err := b.SignIn(ctx, address, password, home); err != nil {
			t.Fatal(err)
		}
		b.Wait()
		list, _, err := audit.New(d).List(t.Context(), inst.ID, audit.Filter{Action: "session"}, "", 10)
		if err != nil || len(list) != 2 {
			t.Fatalf("the audit log has %+v, error %v, want two entries", list, err)
		}
		for _, e := range list {
			if e.Subject.Name != "Ada" || e.Actor.Address != home.Address || e.Actor.RequestID != "REQUEST1" {
				t.Errorf("the entry is %+v, want the subject Ada with the address and the id of the request", e)
			}
			switch e.Action {
			case audit.SignInFailed:
				if e.Actor.Name != "" || e.Actor.ID != "" || e.Actor.Type != audit.User {
					t.Errorf("the actor of a failed sign-in is %+v, want a user without a name or id", e.Actor)
				}
			case audit.SignedIn:
				if e.Actor.Name != "Ada" {
					t.Errorf("the actor of a sign-in is %+v, want Ada", e.Actor)
				}
			default:
				t.Errorf("the log has an entry with the action %s, want only sign-ins and failed sign-ins", e.Action)
			}
		}
		if rest, _, err := audit.New(d).List(t.Context(), 0, audit.Filter{Action: "session"}, "", 10); err != nil || len(rest) != 0 {
			t.Errorf("the log of the installation has %s, want no entries; error %v", fmt.Sprint(rest), err)
		}
	})
}

// A refused passkey response is in the audit log of the institution if its user handle and its passkey
// id belong to one member. A response with an unknown user handle or passkey id is not recorded.
func TestFailedPasskeysAreRecorded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		inst := b.institution(address)
		e, err := b.SignIn(t.Context(), address, password, home)
		if err != nil {
			t.Fatal(err)
		}
		k := b.addPasskey(&e.Session)
		second := b.addPasskey(&e.Session)
		ctx := audit.WithActor(t.Context(), audit.Actor{Address: home.Address, RequestID: "REQUEST1"})
		try := func(change func(k *token)) {
			t.Helper()
			changed := *k
			changed.count++
			change(&changed)
			c := b.ceremony()
			if _, err := b.SignInByPasskey(ctx, c.Secret, changed.get(c), home); err == nil {
				t.Fatal("an invalid response is accepted")
			}
		}
		try(func(k *token) { k.key = second.key })
		try(func(k *token) { k.origin = "https://evil.example" })
		try(func(k *token) { k.id = []byte("unknown") })
		try(func(k *token) { k.handle = make([]byte, 16) })
		b.Wait()
		list, _, err := audit.New(d).List(t.Context(), inst.ID, audit.Filter{Action: string(audit.SignInFailed)}, "", 10)
		if err != nil || len(list) != 2 {
			t.Fatalf("the audit log has %+v, error %v, want two failed sign-ins", list, err)
		}
		for _, e := range list {
			if e.Subject.Name != "Ada" || e.Actor.Name != "" || e.Actor.Address != home.Address || e.Detail["by"] != string(ByPasskey) {
				t.Errorf("the entry is %+v, want the subject Ada, an actor with the address and without a name, and the method passkey", e)
			}
		}
	})
}
