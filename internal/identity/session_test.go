package identity

import (
	"errors"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestSessionExpires(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		valid := func(e *Entry) bool {
			t.Helper()
			_, err := b.Session(ctx, e.with(home))
			if err != nil && !errors.Is(err, ErrNoSession) {
				t.Fatal(err)
			}
			return err == nil
		}
		e := b.join(address)
		b.Advance(idleLife - time.Second)
		if !valid(e) {
			t.Error("the session expired before the end of the idle time")
		}
		b.Advance(idleLife)
		if valid(e) {
			t.Error("the session is still valid after the idle time, want it expired")
		}
		e, err := b.SignIn(ctx, address, password, home)
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			b.Advance(absoluteLife / 7)
			if !valid(e) {
				t.Fatal("a session in use expired before its maximum lifetime")
			}
		}
		b.Advance(absoluteLife/7 + time.Second)
		if valid(e) {
			t.Error("the session is still valid after its maximum lifetime, want it expired")
		}
		// Sessions of members expire earlier.
		b.institution("owner@example.org")
		if e, err = b.SignIn(ctx, "owner@example.org", password, home); err != nil {
			t.Fatal(err)
		}
		for range 15 {
			b.Advance(idleLifeMember - time.Second)
			if !valid(e) {
				break
			}
		}
		if used := b.Now().Sub(e.Session.CreatedAt); valid(e) || used < absoluteLifeMember {
			t.Errorf("a member's session was used for %s, want it to expire after %s", used, absoluteLifeMember)
		}
		if e, err = b.SignIn(ctx, "owner@example.org", password, home); err != nil {
			t.Fatal(err)
		}
		b.Advance(idleLifeMember)
		if valid(e) {
			t.Error("a member's session is still valid after the idle time, want it expired")
		}
		if err := b.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		b.Advance(absoluteLife)
		if err := b.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if n := b.count(`SELECT count(*) FROM sessions`) + b.count(`SELECT count(*) FROM proofs`) + b.count(`SELECT count(*) FROM throttles`); n != 0 {
			t.Errorf("%d expired rows exist after the sweep, want 0", n)
		}
		if b.count(`SELECT count(*) FROM devices`) == 0 {
			t.Error("the sweep deleted the known browsers, want them kept")
		}
	})
}

func TestSessionUseIsStoredOncePerMinute(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		seen := func(at string) time.Time {
			t.Helper()
			o := e.with(from(at))
			if _, err := b.Session(ctx, o); err != nil {
				t.Fatal(err)
			}
			list, err := b.Sessions(ctx, e.Session.Person.ID)
			if err != nil || len(list) != 1 {
				t.Fatalf("the person has %d sessions, want 1; error %v", len(list), err)
			}
			if list[0].LastSeenAt.After(e.Session.CreatedAt) != (list[0].Address == "203.0.113.9") {
				t.Errorf("the stored address is %s, want 203.0.113.9 if the use was stored, and another address if not", list[0].Address)
			}
			return list[0].LastSeenAt
		}
		b.Advance(seenEvery - time.Second)
		if at := seen("203.0.113.9"); !at.Equal(e.Session.CreatedAt) {
			t.Errorf("the stored time of use is %s before the interval has passed, want the time of the sign-in", at)
		}
		b.Advance(time.Second)
		if at := seen("203.0.113.9"); !at.Equal(b.Now()) {
			t.Errorf("the stored time of use is %s after the interval has passed, want the time of the request", at)
		}
	})
}

func TestListAndEndSessions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		one := b.join(address)
		eve := b.join("eve@example.org")
		two, err := b.SignIn(ctx, address, password, home)
		if err != nil {
			t.Fatal(err)
		}
		b.Advance(time.Second)
		three, err := b.SignIn(ctx, address, password, home)
		if err != nil {
			t.Fatal(err)
		}
		list, err := b.Sessions(ctx, one.Session.Person.ID)
		if err != nil || len(list) != 3 || list[0].ID != three.Session.ID || list[0].Device() != "Firefox · Linux" {
			t.Fatalf("Sessions = %+v, error %v, want three sessions with the last one first, in Firefox on Linux", list, err)
		}
		// A person cannot end the session of another person.
		if err := b.EndSession(ctx, eve.Session.Person.ID, one.Session.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Session(ctx, one.with(home)); err != nil {
			t.Errorf("reading a session that another person tried to end: error = %v, want none", err)
		}
		if err := b.EndSession(ctx, one.Session.Person.ID, one.Session.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Session(ctx, one.with(home)); !errors.Is(err, ErrNoSession) {
			t.Errorf("reading the ended session: error = %v, want ErrNoSession", err)
		}
		if err := b.EndOthers(ctx, one.Session.Person.ID, three.Session.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Session(ctx, two.with(home)); !errors.Is(err, ErrNoSession) {
			t.Errorf("reading a session that EndOthers should have ended: error = %v, want ErrNoSession", err)
		}
		for _, e := range []*Entry{three, eve} {
			if _, err := b.Session(ctx, e.with(home)); err != nil {
				t.Errorf("reading a session that EndOthers should not end: error = %v, want none", err)
			}
		}
		if err := b.SignOut(ctx, three.with(home)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Session(ctx, three.with(home)); !errors.Is(err, ErrNoSession) {
			t.Errorf("reading the session after signing out: error = %v, want ErrNoSession", err)
		}
	})
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		b.Advance(recent)
		recently := func() bool {
			t.Helper()
			s, err := b.Session(ctx, e.with(home))
			if err != nil {
				t.Fatal(err)
			}
			return s.Recent(b.Now())
		}
		if recently() {
			t.Error("the sign-in is still recent after 10 minutes, want it not recent")
		}
		if err := b.Confirm(ctx, &e.Session, "wrong horse", home); !errors.Is(err, ErrWrong) || recently() {
			t.Errorf("confirming with a wrong password: error = %v, want ErrWrong and no recent sign-in", err)
		}
		if err := b.Confirm(ctx, &e.Session, password, home); err != nil || !recently() {
			t.Errorf("confirming with the password: error = %v, want none and a recent sign-in", err)
		}
	})
}

func TestNoticeOfSignInFromUnknownBrowser(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		e := b.join(address)
		if _, err := b.SignIn(ctx, address, password, e.with(home)); err != nil {
			t.Fatal(err)
		}
		if list := b.mails(); list != nil {
			t.Fatalf("a sign-in from a known browser caused a mail: %+v", list)
		}
		other := from("203.0.113.9")
		other.UserAgent = "<b>\r\nBcc: x@example.org"
		other.Device = "planted"
		got, err := b.SignIn(ctx, address, password, other)
		if err != nil || got.Device == "planted" {
			t.Fatalf("SignIn = %+v, error %v, want a new device secret", got, err)
		}
		list := b.mails()
		if len(list) != 1 || list[0].Subject != "Neue Anmeldung bei Ihrem Konto" {
			t.Errorf("the mails are %+v, want one about the new sign-in", list)
		}
	})
}
