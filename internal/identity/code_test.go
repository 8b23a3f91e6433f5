package identity

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// code returns the code that an authenticator program computes from the URI of an enrolment.
func (b *bench) code(uri string) string {
	b.t.Helper()
	key, err := otp.NewKeyFromURL(uri)
	if err != nil {
		b.t.Fatal(err)
	}
	code, err := totp.GenerateCode(key.Secret(), b.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	return code
}

// enrol turns the second factor of a person on.
func (b *bench) enrol(e *Entry) (uri string, recovery []string) {
	b.t.Helper()
	if err := b.BeginCodes(b.t.Context(), &e.Session); err != nil {
		b.t.Fatal(err)
	}
	enrolment, err := b.Enrolment(b.t.Context(), e.Session.Person)
	if err != nil {
		b.t.Fatal(err)
	}
	if recovery, err = b.ConfirmCodes(b.t.Context(), &e.Session, b.code(enrolment.URI), home); err != nil {
		b.t.Fatal(err)
	}
	return enrolment.URI, recovery
}

func (b *bench) signIn() *Entry {
	b.t.Helper()
	e, err := b.SignIn(b.t.Context(), address, password, home)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// enter starts a session of person 1 without a password, because hashing a password is slow.
func (b *bench) enter() (e *Entry) {
	b.t.Helper()
	err := b.d.Tx(b.t.Context(), func(tx *db.Tx) (err error) {
		e, err = b.EnterTx(b.t.Context(), tx, 1, ByInvitation, home)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func TestEnrolment(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		if _, err := b.Enrolment(ctx, e.Session.Person); !errors.Is(err, ErrNoEnrolment) {
			t.Errorf("Enrolment before BeginCodes: error = %v, want ErrNoEnrolment", err)
		}
		if err := b.BeginCodes(ctx, &e.Session); err != nil {
			t.Fatal(err)
		}
		begun, err := b.Enrolment(ctx, e.Session.Person)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.BeginCodes(ctx, &e.Session); err != nil {
			t.Fatal(err)
		}
		if again, err := b.Enrolment(ctx, e.Session.Person); err != nil || again != begun {
			t.Errorf("Enrolment after a second BeginCodes differs or failed, error = %v, want the same secret", err)
		}
		if key, err := otp.NewKeyFromURL(begun.URI); err != nil || key.Issuer() != "vault.example" || key.AccountName() != address || key.Secret() != begun.Secret {
			t.Errorf("URI = %s, error = %v, want the issuer vault.example, the account and the secret", begun.URI, err)
		}
		var sealed []byte
		if err := d.QueryRowContext(ctx, `SELECT secret FROM authenticators`).Scan(&sealed); err != nil || strings.Contains(string(sealed), begun.Secret) {
			t.Errorf("the stored secret is not encrypted or cannot be read, error = %v", err)
		}
		if b.signIn().Session.Pending {
			t.Error("a sign-in requires a second factor that is not confirmed")
		}
		if _, err := b.ConfirmCodes(ctx, &e.Session, "000000", home); !errors.Is(err, ErrCode) {
			t.Errorf("confirming with a wrong code: error = %v, want ErrCode", err)
		}
		recovery, err := b.ConfirmCodes(ctx, &e.Session, b.code(begun.URI), home)
		if err != nil || len(recovery) != 10 {
			t.Fatalf("ConfirmCodes = %v, error %v, want 10 recovery codes", recovery, err)
		}
		if b.count(`SELECT count(*) FROM recovery_codes WHERE hash = $1`, []byte(recovery[0])) != 0 {
			t.Error("a recovery code is stored without hashing")
		}
		if err := b.BeginCodes(ctx, &e.Session); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Enrolment(ctx, e.Session.Person); !errors.Is(err, ErrNoEnrolment) {
			t.Errorf("a secret in use is shown again: error = %v, want ErrNoEnrolment", err)
		}
		if c, err := b.Codes(ctx, e.Session.Person.ID); err != nil || !c.On || c.Left != 10 {
			t.Errorf("Codes = %+v, error %v, want the second factor on and 10 recovery codes", c, err)
		}
		if err := b.EndCodes(ctx, &e.Session); err != nil {
			t.Fatal(err)
		}
		if b.signIn().Session.Pending {
			t.Error("a sign-in requires a second factor that was turned off")
		}
	})
}

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		uri, recovery := b.enrol(b.join(address))
		b.Advance(codeStep)
		for name, begin := range map[string]func() (*Entry, error){
			"password": func() (*Entry, error) { return b.SignIn(ctx, address, password, home) },
			"link":     func() (*Entry, error) { return b.SignInByLink(ctx, b.link(ToSignIn, address), home) },
		} {
			e, err := begin()
			if err != nil || !e.Session.Pending || e.Device != "" {
				t.Fatalf("signing in by %s: %+v, error %v, want a pending session and no device", name, e, err)
			}
			waiting := e.with(home)
			if _, err := b.Session(ctx, waiting); !errors.Is(err, ErrNoSession) {
				t.Fatalf("reading the session after signing in by %s only: error = %v, want ErrNoSession", name, err)
			}
			list, err := b.Sessions(ctx, e.Session.Person.ID)
			if err != nil || slices.ContainsFunc(list, func(s *Session) bool { return s.ID == e.Session.ID }) {
				t.Errorf("Sessions = %+v, want a list without the pending session; error %v", list, err)
			}
			if _, err := b.Code(ctx, "000000", waiting); !errors.Is(err, ErrCode) {
				t.Errorf("signing in with a wrong code: error = %v, want ErrCode", err)
			}
			code := b.code(uri)
			done, err := b.Code(ctx, code[:3]+" "+code[3:], waiting)
			if err != nil || done.Secret == e.Secret {
				t.Fatalf("signing in by %s and code: error %v, want a session with a new secret", name, err)
			}
			if _, err := b.Session(ctx, done.with(home)); err != nil {
				t.Errorf("reading the session after signing in by %s and code: error = %v, want none", name, err)
			}
			if _, err := b.Pending(ctx, waiting); !errors.Is(err, ErrNoSession) {
				t.Errorf("reading the session with its old secret: error = %v, want ErrNoSession", err)
			}
			e, err = begin()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Code(ctx, code, e.with(home)); !errors.Is(err, ErrCode) {
				t.Errorf("using a code for the second time: error = %v, want ErrCode", err)
			}
			b.Advance(2 * time.Minute)
		}
		one := strings.ToLower(recovery[3])
		for i, want := range []error{nil, ErrCode} {
			if _, err := b.Code(ctx, one, b.signIn().with(home)); !errors.Is(err, want) {
				t.Errorf("use %d of a recovery code: error = %v, want %v", i+1, err, want)
			}
		}
		if c, err := b.Codes(ctx, 1); err != nil || c.Left != 9 {
			t.Errorf("Codes = %+v, error %v, want 9 recovery codes", c, err)
		}
		waiting := b.signIn().with(home)
		b.Advance(pendingLife)
		if _, err := b.Code(ctx, recovery[4], waiting); !errors.Is(err, ErrNoSession) {
			t.Errorf("entering a code after the pending session expired: error = %v, want ErrNoSession", err)
		}
	})
}

func TestConcurrentUsesOfOneCode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		uri, recovery := b.enrol(b.join(address))
		b.Advance(codeStep)
		for _, code := range []string{b.code(uri), recovery[0]} {
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				o := b.enter().with(home)
				wg.Go(func() { _, errs[i] = b.Code(ctx, code, o) })
			}
			wg.Wait()
			done := 0
			for _, err := range errs {
				if err == nil {
					done++
				} else if !errors.Is(err, ErrCode) {
					t.Error(err)
				}
			}
			if done != 1 {
				t.Errorf("%d calls with the code %s succeeded, want 1", done, code)
			}
			b.Advance(24*time.Hour + time.Second)
		}
	})
}

func TestCodeTriesAreLimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		b.enrol(b.join(address))
		b.Advance(codeStep)
		waiting := b.signIn().with(home)
		var err error
		for range 6 {
			_, err = b.Code(ctx, "000000", waiting)
		}
		if !fault.Is(err, fault.TooMany) {
			t.Errorf("the sixth try with a wrong code: error = %v, want fault.TooMany", err)
		}
	})
}

func TestOperatorSetsPassword(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		b.enrol(e)
		if err := b.SetPassword(ctx, e.Session.Person.ID, "another horse", Removal{}); err != nil {
			t.Fatal(err)
		}
		if got, err := b.SignIn(ctx, address, "another horse", home); err != nil || !got.Session.Pending {
			t.Errorf("signing in with the new password: %+v, error %v, want a session that waits for the second factor", got, err)
		}
		if err := b.SetPassword(ctx, e.Session.Person.ID, password, Removal{Codes: true}); err != nil {
			t.Fatal(err)
		}
		if b.signIn().Session.Pending {
			t.Error("a sign-in requires the second factor that SetPassword should have removed")
		}
		if err := b.SetPassword(ctx, 999, password, Removal{Codes: true}); !errors.Is(err, ErrNoPerson) {
			t.Errorf("setting the password of an unknown person: error = %v, want ErrNoPerson", err)
		}
	})
}
