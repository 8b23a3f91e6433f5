package identity

import (
	"fmt"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// Failed tries of a member's password are in the log of the institution, with the address of the
// request and without a name. For other people nothing is recorded.
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
			t.Fatalf("%+v, %v", list, err)
		}
		for _, e := range list {
			if e.Subject.Name != "Ada" || e.Actor.Address != home.Address || e.Actor.RequestID != "REQUEST1" {
				t.Errorf("%+v", e)
			}
			switch e.Action {
			case audit.SignInFailed:
				if e.Actor.Name != "" || e.Actor.ID != "" || e.Actor.Type != audit.User {
					t.Errorf("a failure is put down to %+v", e.Actor)
				}
			case audit.SignedIn:
				if e.Actor.Name != "Ada" {
					t.Errorf("%+v", e.Actor)
				}
			default:
				t.Errorf("%s", e.Action)
			}
		}
		if rest, _, err := audit.New(d).List(t.Context(), 0, audit.Filter{Action: "session"}, "", 10); err != nil || len(rest) != 0 {
			t.Errorf("%s, %v", fmt.Sprint(rest), err)
		}
	})
}

// A refused passkey is in the log of its member's institution too, once for each response, if the
// response names one of the member's passkeys. An invented passkey id is not recorded.
func TestFailedPasskeysAreRecorded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := open(t, d)
		inst := b.institution(address)
		e, err := b.SignIn(t.Context(), address, password, home)
		if err != nil {
			t.Fatal(err)
		}
		k := b.addPasskey(e.Session.Person)
		second := b.addPasskey(e.Session.Person)
		ctx := audit.WithActor(t.Context(), audit.Actor{Address: home.Address, RequestID: "REQUEST1"})
		try := func(spoil func(k *token)) {
			t.Helper()
			spoilt := *k
			spoilt.count++
			spoil(&spoilt)
			c := b.ceremony()
			if _, err := b.SignInByPasskey(ctx, c.Secret, spoilt.get(c), home); err == nil {
				t.Fatal("a damaged answer is accepted")
			}
		}
		try(func(k *token) { k.key = second.key })
		try(func(k *token) { k.origin = "https://evil.example" })
		try(func(k *token) { k.id = []byte("unknown") })
		try(func(k *token) { k.handle = make([]byte, 16) })
		b.Wait()
		list, _, err := audit.New(d).List(t.Context(), inst.ID, audit.Filter{Action: string(audit.SignInFailed)}, "", 10)
		if err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, e := range list {
			if e.Subject.Name != "Ada" || e.Actor.Name != "" || e.Actor.Address != home.Address || e.Detail["by"] != string(ByPasskey) {
				t.Errorf("%+v", e)
			}
		}
	})
}
