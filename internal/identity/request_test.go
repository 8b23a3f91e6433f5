package identity

import (
	"fmt"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// Requests by other people must not lock a person out of sign-in links, resets and sign-ups.
func TestRequesterOfLinkIsNeverRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		b.join(address)
		b.mails()
		for _, purpose := range []Purpose{ToSignIn, ToReset, ToSignUp} {
			for i := range 24 {
				if err := b.RequestLink(ctx, purpose, address, "en", "", from(fmt.Sprintf("198.51.100.%d", i/6))); err != nil {
					t.Fatalf("purpose %s, request %d: error = %v, want none", purpose, i+1, err)
				}
			}
			b.work()
			// Each purpose has its own count, so one mail is sent for each purpose.
			list := b.mails()
			if len(list) != 1 {
				t.Fatalf("purpose %s: %d mails were sent, want 1", purpose, len(list))
			}
			if purpose == ToSignUp {
				purpose = ToSignIn
			}
			if _, err := b.Proof(ctx, purpose, b.secretIn(list[0], purpose)); err != nil {
				t.Errorf("the link with the purpose %s is not valid after further requests: error = %v, want none", purpose, err)
			}
		}
	})
}

// While no further mail is sent, the last mail has a link that is valid for at least 7 minutes.
func TestMailPausesOnlyWhileLinkIsValid(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		b.mails()
		request := func() int {
			t.Helper()
			if err := b.sendLink(ctx, requestArgs{Purpose: ToSignIn, Email: address}); err != nil {
				t.Fatal(err)
			}
			return len(b.mails())
		}
		mails := 0
		for minute := range 60 {
			mails += request()
			if b.count(`SELECT count(*) FROM proofs WHERE user_id = $1 AND purpose = 'sign_in' AND used_at IS NULL AND expires_at > $2`,
				e.Session.Person.ID, db.Micros(b.Now().Add(7*time.Minute))) == 0 {
				t.Fatalf("after %d minutes, no link is valid for another 7 minutes, want one", minute)
			}
			b.Advance(time.Minute)
		}
		if mails < 5 || mails > 10 {
			t.Errorf("%d mails were sent in an hour of requests, want 5 to 10", mails)
		}
		// After the link was used or deleted, the next request sends a mail at once.
		if _, err := b.SignInByLink(ctx, b.link(ToSignIn, address), home); err != nil {
			t.Fatal(err)
		}
		b.mails() // ignore the mail about the sign-in from an unknown browser
		if n := request(); n != 1 {
			t.Errorf("after the link was used, %d mails were sent, want 1", n)
		}
		if err := b.SetPassword(ctx, e.Session.Person.ID, password, Removal{}); err != nil {
			t.Fatal(err)
		}
		b.mails()
		if n := request(); n != 1 {
			t.Errorf("after the link was deleted, %d mails were sent, want 1", n)
		}
	})
}

// Requests to sign up are limited for each network, because their mail may go to any address. Requests
// to sign in are not, because their mail goes only to addresses of accounts.
func TestOnlySignUpsAreLimitedForNetwork(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		var refused error
		for i := 0; i < 210 && refused == nil; i++ {
			_, refused = b.try(ctx, trySignUp, fmt.Sprintf("p%d@example.org", i), home)
		}
		if err := b.RequestLink(ctx, ToSignUp, "other@example.org", "en", "", home); !fault.Is(refused, fault.TooMany) || !fault.Is(err, fault.TooMany) {
			t.Errorf("210 sign-ups from one network: errors %v and %v, want fault.TooMany", refused, err)
		}
		if err := b.RequestLink(ctx, ToSignIn, address, "en", "", home); err != nil {
			t.Errorf("requesting a link to sign in from the same network: error = %v, want none", err)
		}
	})
}

// The limit for changes of the address counts the requests of one person, so that other people cannot
// use up the limit.
func TestAddressChangeIsLimitedForRequester(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		ada, eve := b.join(address), b.join("eve@example.org")
		const wanted = "lovelace@example.org"
		var refused error
		for i := 0; i < 10 && refused == nil; i++ {
			refused = b.RequestAddressChange(ctx, &eve.Session, wanted, eve.with(home))
		}
		if !fault.Is(refused, fault.TooMany) {
			t.Errorf("ten requests of one person: error = %v, want fault.TooMany", refused)
		}
		if err := b.RequestAddressChange(ctx, &ada.Session, wanted, ada.with(home)); err != nil {
			t.Errorf("the first request of another person for the same address: error = %v, want none", err)
		}
	})
}
