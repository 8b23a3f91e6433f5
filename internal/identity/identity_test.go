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
			t.Fatal("there is an account before the address was proved")
		}
		if p, err := b.Look(ctx, ToSignUp, secret); err != nil || p.Email != address {
			t.Fatalf("the link is for %+v, %v", p, err)
		}
		for name, n := range map[string]NewPerson{
			"no name": {Name: " ", Password: password}, "a turned name": {Name: "a\u202eb", Password: password}, "a short password": {Name: "Ada", Password: "short"},
		} {
			if _, err := b.SignUp(ctx, secret, n, home); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		e, err := b.SignUp(ctx, secret, NewPerson{Name: "  Ada\r\nBcc: x@example.org ", Password: password, Language: "de"}, home)
		if err != nil {
			t.Fatal(err)
		}
		p := e.Session.Person
		if !p.Proved || p.Email != address || p.EmailFolded != "ada@example.org" || p.Name != "Ada Bcc: x@example.org" || p.Language != "de" || p.Member || !p.HasPassword {
			t.Errorf("signed up as %+v", p)
		}
		if len(b.proved) != 1 || b.proved[0].ID != p.ID || !b.proved[0].Proved {
			t.Errorf("the hook was called with %+v", b.proved)
		}
		s, err := b.Session(ctx, e.with(home))
		if err != nil || s.Person != p || !s.Recent(b.Now()) {
			t.Errorf("the session is %+v, %v", s, err)
		}
		if _, err := b.SignUp(ctx, secret, NewPerson{Name: "Eve", Password: password}, home); !errors.Is(err, ErrLink) {
			t.Errorf("a link for the second time: %v", err)
		}
	})
}

func TestSignUpOfKnownAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		early := b.link(ToSignUp, address)
		b.join(address)
		// Another form of the address is the same account. The mail is in the language of the
		// account, not of the visitor, and its link signs in.
		if err := b.Ask(ctx, ToSignUp, "ADA@EXAMPLE.ORG", "en", "", home); err != nil {
			t.Fatal(err)
		}
		b.work()
		list := b.mails()
		if len(list) != 1 || list[0].To.Email != address || list[0].Subject != "Sie haben bereits ein Konto" {
			t.Fatalf("mailed %+v", list)
		}
		if _, err := b.SignInByLink(ctx, b.secretIn(list[0], ToSignIn), home); err != nil {
			t.Error(err)
		}
		// The first link, used later, returns an error and changes nothing.
		if _, err := b.SignUp(ctx, early, NewPerson{Name: "Eve", Password: "another horse"}, home); !errors.Is(err, ErrTaken) {
			t.Errorf("an account for the second time: %v", err)
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
			t.Error("what the hook refused left something")
		}
		b.fail = nil
		if _, err := b.SignUp(ctx, secret, NewPerson{Name: "Ada"}, home); err != nil {
			t.Errorf("the link was used up: %v", err)
		}
	})
}

func TestTwoSignUpsAtOnceMakeOneAccount(t *testing.T) {
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
		if done != 1 || b.count(`SELECT count(*) FROM users`) != 1 || len(b.proved) != 1 {
			t.Errorf("%d signed up, %d hooks", done, len(b.proved))
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
			t.Errorf("the id is %q", e.Secret)
		}
		if _, err := b.Session(ctx, old); !errors.Is(err, ErrNoSession) {
			t.Errorf("the id from before signs in: %v", err)
		}
		if b.count(`SELECT count(*) FROM sessions WHERE hash = $1`, []byte(e.Secret)) != 0 || b.count(`SELECT count(*) FROM sessions WHERE hash = $1`, account.HashSecret(e.Secret)) != 1 {
			t.Error("the id is not stored as its hash")
		}
		planted := home
		planted.Session = "a-session-id-that-somebody-planted"
		if e, err = b.SignIn(ctx, address, password, planted); err != nil || e.Secret == planted.Session {
			t.Errorf("with a planted id: %v", err)
		}
		for _, in := range [][2]string{{address, "wrong horse"}, {address, ""}, {"nobody@example.org", password}, {"no address", password}, {"", ""}} {
			if _, err := b.SignIn(ctx, in[0], in[1], from("198.51.100.7")); !errors.Is(err, ErrWrong) {
				t.Errorf("%q: %v", in, err)
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
			t.Fatalf("%+v, %v", e, err)
		}
		if _, err := b.SignIn(ctx, address, "", home); !errors.Is(err, ErrWrong) {
			t.Errorf("an empty password: %v", err)
		}
		if err := b.Confirm(ctx, &e.Session, "", home); !errors.Is(err, ErrWrong) {
			t.Errorf("an empty password again: %v", err)
		}
	})
}

func TestOwnerProvesTheirAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		b.institution(address)
		e, err := b.SignIn(ctx, address, password, home)
		if err != nil || e.Session.Person.Proved || !e.Session.Person.Member || len(b.proved) != 0 {
			t.Fatalf("by password: %+v, %v", e, err)
		}
		e, err = b.SignInByLink(ctx, b.link(ToSignIn, address), home)
		if err != nil || !e.Session.Person.Proved || len(b.proved) != 1 {
			t.Fatalf("by link: %+v, %v", e, err)
		}
		if _, err = b.SignInByLink(ctx, b.link(ToSignIn, address), home); err != nil || len(b.proved) != 1 {
			t.Errorf("proved %d times, %v", len(b.proved), err)
		}
	})
}

func TestLinkIsGoodOnceAndForATime(t *testing.T) {
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
			t.Errorf("one link let %d in", done)
		}
		secret = b.link(ToSignIn, address)
		if _, err := b.Reset(ctx, secret, "another horse"); !errors.Is(err, ErrLink) {
			t.Errorf("for another purpose: %v", err)
		}
		b.Advance(15 * time.Minute)
		if _, err := b.Look(ctx, ToSignIn, secret); !errors.Is(err, ErrLink) {
			t.Errorf("looked at too late: %v", err)
		}
		if _, err := b.SignInByLink(ctx, secret, home); !errors.Is(err, ErrLink) {
			t.Errorf("used too late: %v", err)
		}
	})
}

// The work for a request must not depend on whether the address has an account, until after the
// answer.
func TestLinkRequestDoesNotRevealAccounts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		b.join(address)
		for _, purpose := range []Purpose{ToSignIn, ToReset, ToSignUp} {
			for _, email := range []string{address, "nobody@example.org"} {
				if err := b.Ask(ctx, purpose, email, "en", "", from("198.51.100.7")); err != nil {
					t.Fatal(err)
				}
				if b.mails() != nil {
					t.Error("a mail was queued before the answer")
				}
			}
		}
		b.work()
		var got []string
		for _, m := range b.mails() {
			got = append(got, m.To.Email+": "+m.Subject)
		}
		want := "Ada@Example.org: Ihr Link zum Anmelden|Ada@Example.org: Neues Passwort setzen|Ada@Example.org: Sie haben bereits ein Konto|nobody@example.org: Confirm your e-mail address"
		if strings.Join(got, "|") != want {
			t.Errorf("mailed %s", strings.Join(got, "|"))
		}
		if err := b.Ask(ctx, ToSignIn, "no address", "en", "", home); !fault.Is(err, fault.Invalid) {
			t.Errorf("no address: %v", err)
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
			t.Errorf("a short password: %v", err)
		}
		if _, err := b.Reset(ctx, secret, "another horse"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Session(ctx, e.with(home)); !errors.Is(err, ErrNoSession) {
			t.Errorf("a session outlives the reset: %v", err)
		}
		if _, err := b.SignInByLink(ctx, other, home); !errors.Is(err, ErrLink) {
			t.Errorf("a link outlives the reset: %v", err)
		}
		if _, err := b.SignIn(ctx, address, password, home); !errors.Is(err, ErrWrong) {
			t.Errorf("the old password: %v", err)
		}
		if _, err := b.SignIn(ctx, address, "another horse", home); err != nil {
			t.Errorf("the new password: %v", err)
		}
		if list := b.mails(); len(list) == 0 || list[0].Subject != "Ihr Passwort wurde geändert" {
			t.Errorf("mailed %+v", list)
		}
	})
}

// A concurrent request must not restore a session that a reset ended.
func TestResetWinsOverConcurrentSignIn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		if err := b.BeginCodes(ctx, e.Session.Person); err != nil {
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
			t.Errorf("the password: %v", err)
		}
		if _, err := b.ConfirmCodes(ctx, &e.Session, b.code(enrolment.URI), home); !errors.Is(err, ErrNoSession) {
			t.Errorf("codes: %v", err)
		}
		if err := b.AskAddress(ctx, &e.Session, "eve@example.org", home); !errors.Is(err, ErrNoSession) {
			t.Errorf("an address: %v", err)
		}
		if err := b.AddPasskey(ctx, e.Session.Person, c.Secret, "x", newToken(t, e.Session.Person).create(c)); !errors.Is(err, ErrLink) {
			t.Errorf("a passkey: %v", err)
		}
		// A sign-in with the old password during its change leaves no session.
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
			t.Errorf("%d sessions outlive their password", n)
		}
	})
}

// A link is mailed to the mailbox of the folded form, however the address was entered.
func TestLinksGoWhereTheFoldedFormSays(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"Ada@Example.ORG": "Ada@example.org", "\u212aevin@example.org": "Kevin@example.org", "x@\ufb01rm.example": "x@firm.example",
		"x@b\u00fccher.example": "x@xn--bcher-kva.example", "jose\u0301@example.org": "jos\u00e9@example.org",
	} {
		e, err := account.ParseEmail(typed)
		if err != nil {
			t.Errorf("%q: %v", typed, err)
			continue
		}
		if got := mailbox(e); got != want {
			t.Errorf("%q: mailed to %q, want %q", typed, got, want)
		}
	}
}

func TestChangePasswordSparesOneSession(t *testing.T) {
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
			t.Errorf("the other session: %v", err)
		}
		if _, err := b.Session(ctx, second.with(home)); err != nil {
			t.Errorf("this session: %v", err)
		}
	})
}

func TestChangeOfAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		astray := b.link(ToReset, address)
		ask := func(email string) (to, secret string) {
			t.Helper()
			if err := b.AskAddress(ctx, &e.Session, email, home); err != nil {
				t.Fatal(err)
			}
			list := b.mails()
			if len(list) != 1 {
				t.Fatalf("%d mails", len(list))
			}
			if !strings.Contains(list[0].Text, paths[ToChangeAddress]) {
				return list[0].To.Email, ""
			}
			return list[0].To.Email, b.secretIn(list[0], ToChangeAddress)
		}
		to, secret := ask("lovelace@example.org")
		if to != "lovelace@example.org" {
			t.Fatalf("the link went to %s", to)
		}
		stranger := b.join("eve@example.org")
		b.mails()
		if err := b.ChangeAddress(ctx, &stranger.Session, secret); !errors.Is(err, ErrLink) {
			t.Errorf("by another person: %v", err)
		}
		b.proved = nil
		if err := b.ChangeAddress(ctx, &e.Session, secret); err != nil {
			t.Fatal(err)
		}
		p, err := b.Person(ctx, d, e.Session.Person.ID)
		if err != nil || p.Email != "lovelace@example.org" || p.EmailFolded != p.Email || !p.Proved || len(b.proved) != 1 || b.proved[0].Email != p.Email {
			t.Errorf("now %+v, proved %+v, %v", p, b.proved, err)
		}
		if list := b.mails(); len(list) != 1 || list[0].To.Email != address || list[0].Subject != "Ihre E-Mail-Adresse wurde geändert" {
			t.Errorf("mailed %+v", list)
		}
		if _, err := b.Reset(ctx, astray, "another horse"); !errors.Is(err, ErrLink) {
			t.Errorf("a link to the old address: %v", err)
		}
		if err := b.ChangeAddress(ctx, &e.Session, secret); !errors.Is(err, ErrLink) {
			t.Errorf("twice: %v", err)
		}
		// An address of another account cannot be taken, neither at the request nor after it was
		// taken in between.
		if to, secret = ask("EVE@example.org"); to != "eve@example.org" || secret != "" {
			t.Errorf("a taken address got a link, at %s", to)
		}
		_, secret = ask("free@example.org")
		b.join("free@example.org")
		if err := b.ChangeAddress(ctx, &e.Session, secret); !errors.Is(err, ErrTaken) {
			t.Errorf("taken in the meantime: %v", err)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		b.link(ToReset, address)
		if err := b.BeginCodes(ctx, e.Session.Person); err != nil {
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
				t.Errorf("%d rows left in %s", n, table)
			}
		}
		if len(b.deleted) != 2 || b.deleted[1].Email != address {
			t.Errorf("the hook was called with %+v", b.deleted)
		}
		b.institution("owner@example.org")
		owner, err := b.ByEmail(ctx, d, "owner@example.org")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(ctx, owner.ID); !fault.Is(err, fault.BadRequest) {
			t.Errorf("a member: %v", err)
		}
	})
}
