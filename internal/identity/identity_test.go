package identity

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestSignUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		secret := b.link(ToSignUp, address)
		if n := b.count(`SELECT count(*) FROM users`); n != 0 {
			t.Fatal("an account exists before the address was verified")
		}
		if p, err := b.Proof(ctx, ToSignUp, secret); err != nil || p.Email != address {
			t.Fatalf("the link is for %+v, error %v, want the address of the request", p, err)
		}
		for name, n := range map[string]NewPerson{
			"no name": {Name: " ", Password: password}, "a short password": {Name: "Ada", Password: "short"},
		} {
			if _, err := b.SignUp(ctx, secret, n, home); !fault.Is(err, fault.Invalid) {
				t.Errorf("signing up with %s: error = %v, want fault.Invalid", name, err)
			}
		}
		for _, name := range []string{"a\u202eb", "a\x00b", "a\xffb"} {
			if _, err := b.SignUp(ctx, secret, NewPerson{Name: name, Password: password}, home); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "invisible character") {
				t.Errorf("signing up with the name %q: error = %v, want fault.Invalid and that a character is invisible", name, err)
			}
		}
		e, err := b.SignUp(ctx, secret, NewPerson{Name: "  Ada\r\nBcc: x@example.org ", Password: password, Language: "de"}, home)
		if err != nil {
			t.Fatal(err)
		}
		p := e.Session.Person
		if !p.Verified || p.Email != address || p.EmailFolded != "ada@example.org" || p.Name != "Ada Bcc: x@example.org" || p.Language != "de" || p.Member || !p.HasPassword {
			t.Errorf("the new person is %+v, want a verified person with a password and the normalized name", p)
		}
		if len(b.verified) != 1 || b.verified[0].ID != p.ID || !b.verified[0].Verified {
			t.Errorf("OnVerified was called with %+v, want the new person once", b.verified)
		}
		s, err := b.Session(ctx, e.with(home))
		if err != nil || s.Person != p || !s.Recent(b.Now()) {
			t.Errorf("the session is %+v, error %v, want a recent session of the new person", s, err)
		}
		if _, err := b.SignUp(ctx, secret, NewPerson{Name: "Eve", Password: password}, home); !errors.Is(err, ErrLink) {
			t.Errorf("using the link for the second time: error = %v, want ErrLink", err)
		}
	})
}

func TestSignUpOfKnownAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		early := b.link(ToSignUp, address)
		b.join(address)
		// Another form of the address identifies the same account. The mail is in the language of
		// the account, not of the visitor, and its link is for signing in.
		if err := b.RequestLink(ctx, ToSignUp, "ADA@EXAMPLE.ORG", "en", "", home); err != nil {
			t.Fatal(err)
		}
		b.work()
		list := b.mails()
		if len(list) != 1 || list[0].To.Email != "ada@example.org" || list[0].Subject != "Sie haben bereits ein Konto" {
			t.Fatalf("the mails are %+v, want one to ada@example.org in German about the existing account", list)
		}
		if _, err := b.SignInByLink(ctx, b.secretIn(list[0], ToSignIn), home); err != nil {
			t.Error(err)
		}
		// If the first link is used later, SignUp returns an error and changes nothing.
		if _, err := b.SignUp(ctx, early, NewPerson{Name: "Eve", Password: "another horse"}, home); !errors.Is(err, ErrTaken) {
			t.Errorf("signing up with an address that has an account: error = %v, want ErrTaken", err)
		}
		if _, err := b.SignIn(ctx, address, password, home); err != nil {
			t.Error(err)
		}
	})
}

func TestFailingHookRollsBack(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		secret := b.link(ToSignUp, address)
		b.fail = errors.New("boom")
		if _, err := b.SignUp(ctx, secret, NewPerson{Name: "Ada"}, home); !errors.Is(err, b.fail) {
			t.Fatal(err)
		}
		if n := b.count(`SELECT count(*) FROM users`) + b.count(`SELECT count(*) FROM sessions`); n != 0 {
			t.Error("an account or a session exists after the hook failed, want none")
		}
		b.fail = nil
		if _, err := b.SignUp(ctx, secret, NewPerson{Name: "Ada"}, home); err != nil {
			t.Errorf("using the link after the rollback: error = %v, want none", err)
		}
	})
}

func TestConcurrentSignUpsCreateOneAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		secrets := []string{b.link(ToSignUp, address), b.link(ToSignUp, "ada@example.ORG")}
		secrets = append(secrets, secrets...)
		errs := make([]error, len(secrets))
		var wg sync.WaitGroup
		for i, secret := range secrets {
			wg.Go(func() { _, errs[i] = b.SignUp(ctx, secret, NewPerson{Name: "Ada"}, home) })
		}
		wg.Wait()
		done := 0
		for _, err := range errs {
			switch {
			case err == nil:
				done++
			case !errors.Is(err, ErrTaken) && !errors.Is(err, ErrLink):
				t.Error(err)
			}
		}
		if done != 1 || b.count(`SELECT count(*) FROM users`) != 1 || len(b.verified) != 1 {
			t.Errorf("%d calls succeeded and %d hooks were called, want 1 and 1, and one account", done, len(b.verified))
		}
	})
}

func TestSignInByPassword(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		first := b.join(address)
		old := first.with(home)
		e, err := b.SignIn(ctx, " ada@EXAMPLE.org ", password, old)
		if err != nil {
			t.Fatal(err)
		}
		if e.Secret == old.Session || len(e.Secret) < 52 {
			t.Errorf("the new session id is %q, want a different id of at least 52 characters", e.Secret)
		}
		if _, err := b.Session(ctx, old); !errors.Is(err, ErrNoSession) {
			t.Errorf("reading the previous session of the browser: error = %v, want ErrNoSession", err)
		}
		if b.count(`SELECT count(*) FROM sessions WHERE hash = $1`, []byte(e.Secret)) != 0 || b.count(`SELECT count(*) FROM sessions WHERE hash = $1`, account.HashSecret(e.Secret)) != 1 {
			t.Error("the session id is stored in plain text, or its hash is not stored")
		}
		planted := home
		planted.Session = "a-session-id-that-an-attacker-planted"
		if e, err = b.SignIn(ctx, address, password, planted); err != nil || e.Secret == planted.Session {
			t.Errorf("signing in with a planted session id: error = %v, want a session with a new id", err)
		}
		for _, in := range [][2]string{{address, "wrong horse"}, {address, ""}, {"nobody@example.org", password}, {"no address", password}, {"", ""}} {
			if _, err := b.SignIn(ctx, in[0], in[1], from("198.51.100.7")); !errors.Is(err, ErrWrong) {
				t.Errorf("signing in with %q: error = %v, want ErrWrong", in, err)
			}
		}
	})
}

func TestNoPasswordMatchesWithoutHash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e, err := b.SignUp(ctx, b.link(ToSignUp, address), NewPerson{Name: "Ada"}, home)
		if err != nil || e.Session.Person.HasPassword {
			t.Fatalf("SignUp = %+v, error %v, want a person without a password", e, err)
		}
		if _, err := b.SignIn(ctx, address, "", home); !errors.Is(err, ErrWrong) {
			t.Errorf("signing in with an empty password: error = %v, want ErrWrong", err)
		}
		if err := b.Confirm(ctx, &e.Session, "", home); !errors.Is(err, ErrWrong) {
			t.Errorf("confirming with an empty password: error = %v, want ErrWrong", err)
		}
	})
}

func TestOwnerVerifiesAddressByLink(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		b.institution(address)
		e, err := b.SignIn(ctx, address, password, home)
		if err != nil || e.Session.Person.Verified || !e.Session.Person.Member || len(b.verified) != 0 {
			t.Fatalf("signing in by password: %+v, error %v, want a member whose address is not verified", e, err)
		}
		e, err = b.SignInByLink(ctx, b.link(ToSignIn, address), home)
		if err != nil || !e.Session.Person.Verified || len(b.verified) != 1 {
			t.Fatalf("signing in by link: %+v, error %v, want a verified address and one call of OnVerified", e, err)
		}
		if _, err = b.SignInByLink(ctx, b.link(ToSignIn, address), home); err != nil || len(b.verified) != 1 {
			t.Errorf("OnVerified was called %d times after a second link, want 1; error %v", len(b.verified), err)
		}
	})
}

func TestLinkIsValidOnceAndExpires(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		b.join(address)
		secret := b.link(ToSignIn, address)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { _, errs[i] = b.SignInByLink(ctx, secret, home) })
		}
		wg.Wait()
		done := 0
		for _, err := range errs {
			if err == nil {
				done++
			} else if !errors.Is(err, ErrLink) {
				t.Error(err)
			}
		}
		if done != 1 {
			t.Errorf("%d calls with one link succeeded, want 1", done)
		}
		secret = b.link(ToSignIn, address)
		if _, err := b.Reset(ctx, secret, "another horse"); !errors.Is(err, ErrLink) {
			t.Errorf("resetting the password with a link to sign in: error = %v, want ErrLink", err)
		}
		b.Advance(15 * time.Minute)
		if _, err := b.Proof(ctx, ToSignIn, secret); !errors.Is(err, ErrLink) {
			t.Errorf("reading an expired link: error = %v, want ErrLink", err)
		}
		if _, err := b.SignInByLink(ctx, secret, home); !errors.Is(err, ErrLink) {
			t.Errorf("using an expired link: error = %v, want ErrLink", err)
		}
	})
}

// The work before the response to a request for a link must not depend on whether the address has
// an account.
func TestLinkRequestDoesNotRevealAccounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		b.join(address)
		for _, purpose := range []Purpose{ToSignIn, ToReset, ToSignUp} {
			for _, email := range []string{address, "nobody@example.org"} {
				if err := b.RequestLink(ctx, purpose, email, "en", "", from("198.51.100.7")); err != nil {
					t.Fatal(err)
				}
				if b.mails() != nil {
					t.Error("RequestLink queued a mail, want only a job")
				}
			}
		}
		b.work()
		var got []string
		for _, m := range b.mails() {
			got = append(got, m.To.Email+": "+m.Subject)
		}
		want := "ada@example.org: Ihr Link zum Anmelden|ada@example.org: Neues Passwort setzen|ada@example.org: Sie haben bereits ein Konto|nobody@example.org: Confirm your e-mail address"
		if strings.Join(got, "|") != want {
			t.Errorf("the mails are %s, want %s", strings.Join(got, "|"), want)
		}
		if err := b.RequestLink(ctx, ToSignIn, "no address", "en", "", home); !fault.Is(err, fault.Invalid) {
			t.Errorf("requesting a link for an invalid address: error = %v, want fault.Invalid", err)
		}
	})
}

func TestReset(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		other, secret := b.link(ToSignIn, address), b.link(ToReset, address)
		if _, err := b.Reset(ctx, secret, "short"); !fault.Is(err, fault.Invalid) {
			t.Errorf("resetting to a short password: error = %v, want fault.Invalid", err)
		}
		if _, err := b.Reset(ctx, secret, "another horse"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Session(ctx, e.with(home)); !errors.Is(err, ErrNoSession) {
			t.Errorf("reading a session from before the reset: error = %v, want ErrNoSession", err)
		}
		if _, err := b.SignInByLink(ctx, other, home); !errors.Is(err, ErrLink) {
			t.Errorf("using a link from before the reset: error = %v, want ErrLink", err)
		}
		if _, err := b.SignIn(ctx, address, password, home); !errors.Is(err, ErrWrong) {
			t.Errorf("signing in with the old password: error = %v, want ErrWrong", err)
		}
		if _, err := b.SignIn(ctx, address, "another horse", home); err != nil {
			t.Errorf("signing in with the new password: error = %v, want none", err)
		}
		if list := b.mails(); len(list) == 0 || list[0].Subject != "Ihr Passwort wurde geändert" {
			t.Errorf("the mails are %+v, want a notice of the new password first", list)
		}
	})
}

// A reset of the password ends all sessions. A request with an ended session must not change the
// account.
func TestEndedSessionCannotChangeAccount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		if err := b.BeginCodes(ctx, &e.Session); err != nil {
			t.Fatal(err)
		}
		enrolment, err := b.Enrolment(ctx, e.Session.Person)
		if err != nil {
			t.Fatal(err)
		}
		c, err := b.BeginNewPasskey(ctx, e.Session.Person)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Reset(ctx, b.link(ToReset, address), "another horse"); err != nil {
			t.Fatal(err)
		}
		if err := b.ChangePassword(ctx, &e.Session, "a third horse"); !errors.Is(err, ErrNoSession) {
			t.Errorf("changing the password: error = %v, want ErrNoSession", err)
		}
		if _, err := b.ConfirmCodes(ctx, &e.Session, b.code(enrolment.URI), home); !errors.Is(err, ErrNoSession) {
			t.Errorf("confirming codes: error = %v, want ErrNoSession", err)
		}
		if err := b.RequestAddressChange(ctx, &e.Session, "eve@example.org", home); !errors.Is(err, ErrNoSession) {
			t.Errorf("requesting a change of the address: error = %v, want ErrNoSession", err)
		}
		if err := b.AddPasskey(ctx, &e.Session, c.Secret, "x", newToken(t, e.Session.Person).create(c)); !errors.Is(err, ErrLink) {
			t.Errorf("adding a passkey: error = %v, want ErrLink", err)
		}
		// If the password is changed during a sign-in with the old password, no session remains.
		hash, err := b.PasswordCost.Hash(ctx, password)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := b.SignIn(ctx, address, "another horse", home); err != nil && !errors.Is(err, ErrWrong) && !fault.Is(err, fault.TooMany) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if err := d.Tx(ctx, func(tx *db.Tx) error {
				return b.setPasswordTx(ctx, tx, e.Session.Person, sql.NullString{String: hash, Valid: true}, 0)
			}); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if n := b.count(`SELECT count(*) FROM sessions`); n != 0 {
			t.Errorf("%d sessions exist after the change of the password, want 0", n)
		}
	})
}

func TestChangePasswordEndsOtherSessions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		first := b.join(address)
		second, err := b.SignIn(ctx, address, password, home)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.ChangePassword(ctx, &second.Session, "another horse"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Session(ctx, first.with(home)); !errors.Is(err, ErrNoSession) {
			t.Errorf("reading the other session: error = %v, want ErrNoSession", err)
		}
		if _, err := b.Session(ctx, second.with(home)); err != nil {
			t.Errorf("reading the session that changed the password: error = %v, want none", err)
		}
	})
}

func TestChangeOfAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		oldLink := b.link(ToReset, address)
		ask := func(email string) (to, secret string) {
			t.Helper()
			if err := b.RequestAddressChange(ctx, &e.Session, email, home); err != nil {
				t.Fatal(err)
			}
			list := b.mails()
			if len(list) != 1 {
				t.Fatalf("%d mails were queued, want 1", len(list))
			}
			if !strings.Contains(list[0].Text, paths[ToChangeAddress]) {
				return list[0].To.Email, ""
			}
			return list[0].To.Email, b.secretIn(list[0], ToChangeAddress)
		}
		to, secret := ask("lovelace@example.org")
		if to != "lovelace@example.org" {
			t.Fatalf("the link was mailed to %s, want lovelace@example.org", to)
		}
		other := b.join("eve@example.org")
		b.mails()
		if err := b.ChangeAddress(ctx, &other.Session, secret); !errors.Is(err, ErrLink) {
			t.Errorf("using the link as another person: error = %v, want ErrLink", err)
		}
		b.verified = nil
		if err := b.ChangeAddress(ctx, &e.Session, secret); err != nil {
			t.Fatal(err)
		}
		p, err := b.Person(ctx, d, e.Session.Person.ID)
		if err != nil || p.Email != "lovelace@example.org" || p.EmailFolded != p.Email || !p.Verified || len(b.verified) != 1 || b.verified[0].Email != p.Email {
			t.Errorf("the person is %+v, and OnVerified was called with %+v, want the verified new address and one call; error %v", p, b.verified, err)
		}
		if list := b.mails(); len(list) != 1 || list[0].To.Email != address || list[0].Subject != "Ihre E-Mail-Adresse wurde geändert" ||
			!strings.Contains(list[0].Text, "Wenden Sie sich jetzt an Ihre Institution") || strings.Contains(list[0].Text, "Passwort") {
			t.Errorf("the mails are %+v, want one notice to the old address, without advice to reset the password", list)
		}
		if _, err := b.Reset(ctx, oldLink, "another horse"); !errors.Is(err, ErrLink) {
			t.Errorf("using a link that was mailed to the old address: error = %v, want ErrLink", err)
		}
		if err := b.ChangeAddress(ctx, &e.Session, secret); !errors.Is(err, ErrLink) {
			t.Errorf("using the link for the second time: error = %v, want ErrLink", err)
		}
		// A person cannot change to the address of another account, even if that account was
		// created after the link was requested.
		if to, secret = ask("EVE@example.org"); to != "eve@example.org" || secret != "" {
			t.Errorf("the mail goes to %s with the secret %q, want eve@example.org and no secret", to, secret)
		}
		_, secret = ask("free@example.org")
		b.join("free@example.org")
		if err := b.ChangeAddress(ctx, &e.Session, secret); !errors.Is(err, ErrTaken) {
			t.Errorf("changing to an address that got an account in the meantime: error = %v, want ErrTaken", err)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		b.link(ToReset, address)
		if err := b.BeginCodes(ctx, &e.Session); err != nil {
			t.Fatal(err)
		}
		b.fail = errors.New("boom")
		if err := b.Delete(ctx, e.Session.Person.ID); !errors.Is(err, b.fail) {
			t.Fatal(err)
		}
		b.fail = nil
		if err := b.Delete(ctx, e.Session.Person.ID); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"users", "sessions", "devices", "authenticators", "recovery_codes", "passkeys"} {
			if n := b.count(`SELECT count(*) FROM ` + table); n != 0 {
				t.Errorf("%d rows exist in %s after the deletion, want 0", n, table)
			}
		}
		if len(b.deleted) != 2 || b.deleted[1].Email != address {
			t.Errorf("OnDeleted was called with %+v, want two calls with the deleted person", b.deleted)
		}
		b.institution("owner@example.org")
		owner, err := b.ByEmail(ctx, d, "owner@example.org")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(ctx, owner.ID); !fault.Is(err, fault.BadRequest) {
			t.Errorf("deleting a member: error = %v, want fault.BadRequest", err)
		}
	})
}
