package cert

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestExpiryRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		issued, expires string
		want            Code
	}{
		{"2026-06-30", "", ""},
		{"2026-06-30", "2026-07-01", ""},
		{"2026-06-30", "2026-06-30", CodeNotAfterIssue},
		{"2026-06-30", "2026-06-29", CodeNotAfterIssue},
		{"2026-06-30", "2126-06-30", ""},
		{"2026-06-30", "2126-07-01", CodeTooLate},
		{"2024-02-29", "2124-02-29", ""},
		{"", "2026-07-02", ""},
		{"", "2026-07-01", CodeNotAfterIssue}, // the issue date is today
		{"", "2126-07-01", ""},
		{"", "2126-07-02", CodeTooLate},
		{"1990-01-01", "1995-01-01", ""}, // a last day in the past
	} {
		got := CheckExpiry(c.issued, c.expires, "2026-07-01")
		if c.want == "" && got != nil || c.want != "" && (got == nil || got.Code != c.want || got.Field != FieldExpiresOn) {
			t.Errorf("issued %q, expires %q: problem = %v, want %q", c.issued, c.expires, got, c.want)
		}
	}
}

// A certificate expires at the end of its last day in UTC.
func TestExpiresAtTheEndOfTheDay(t *testing.T) {
	t.Parallel()
	c := &Certificate{ExpiresOn: "2026-07-01"}
	last := time.Date(2026, 7, 1, 23, 59, 59, 999_999_999, time.UTC)
	if c.Expired(last) || !c.Expired(last.Add(time.Nanosecond)) {
		t.Errorf("expired in the last nanosecond of the day: %t, after it: %t, want false and true", c.Expired(last), c.Expired(last.Add(time.Nanosecond)))
	}
	if west := time.FixedZone("", -8*3600); !c.Expired(time.Date(2026, 7, 1, 20, 0, 0, 0, west)) {
		t.Error("Expired at 20:00 in UTC-8 = false, want true, because the day in UTC is over")
	}
	if (&Certificate{}).Expired(last) {
		t.Error("Expired without a last day = true, want false")
	}
}

// TestExpiryUsesTheSharedClock checks that a certificate has expired on a host whose clock was set back.
func TestExpiryUsesTheSharedClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 2, 0, 0, 0, 0, time.UTC)
	s := &Service{now: func() time.Time { return now.AddDate(0, 0, -3) }, leaseNow: func() time.Time { return now }}
	if c := (&Certificate{ExpiresOn: "2026-07-01"}); !s.HasExpired(c) {
		t.Error("HasExpired = false with a clock that was set back, want true")
	}
}

func TestUploadWithExpiry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(func(u *Upload) { u.ExpiresOn = " 2029-06-30 " })
		if got := v.get(c.UUID); got.ExpiresOn != "2029-06-30" || c.ExpiresOn != got.ExpiresOn {
			t.Errorf("expires on %q, stored %q, want 2029-06-30", c.ExpiresOn, got.ExpiresOn)
		}
		for _, bad := range []struct {
			issued, expires string
			want            []Code
		}{
			{"2026-06-30", "2026-06-30", []Code{CodeNotAfterIssue}}, {"2026-06-30", "2126-07-01", []Code{CodeTooLate}}, {"2026-06-30", "tomorrow", []Code{CodeNotDate}},
			{"yesterday", "2020-01-01", []Code{CodeNotDate}}, {"2026-06-30", "2026-02-30", []Code{CodeNotDate}}, {"x", "y", []Code{CodeNotDate, CodeNotDate}},
		} {
			u := v.input(v.inst)
			u.Title, u.IssueDate, u.ExpiresOn = "Other", bad.issued, bad.expires
			_, err := v.Upload(t.Context(), u)
			var codes []Code
			for _, p := range ProblemsOf(err) {
				codes = append(codes, p.Code)
			}
			if !slices.Equal(codes, bad.want) {
				t.Errorf("issued %q, expires %q: problems = %v, want %v", bad.issued, bad.expires, ProblemsOf(err), bad.want)
			}
		}
	})
}

// inDays returns the date that is n days after the current day of the test clock.
func (v *vault) inDays(n int) string { return Today(v.clock.Now().AddDate(0, 0, n)) }

// expiring uploads and approves a certificate that expires in n days.
func (v *vault) expiring(title string, n int) *Certificate {
	v.tb.Helper()
	return v.approved(v.upload(func(u *Upload) { u.Title, u.IssueDate, u.ExpiresOn = title, "2020-01-01", v.inDays(n) }))
}

// reported runs SweepExpiries, and returns the names of the events about the expiry of a certificate, without
// their common prefix.
func (v *vault) reported(c *Certificate) string {
	v.tb.Helper()
	if err := v.SweepExpiries(v.tb.Context()); err != nil {
		v.tb.Fatal(err)
	}
	var names []string
	for _, e := range v.events() {
		if name := strings.TrimPrefix(e.Name, "certificate_application."); e.UUID == c.UUID && (name == "expiring" || name == "expired") {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func (v *vault) setExpiryDays(n int) {
	v.tb.Helper()
	if err := account.New(v.d, v.clock.Now).SetExpiry(v.tb.Context(), v.inst.ID, account.Expiry{ExpiryDays: n, ExpiryMail: true}); err != nil {
		v.tb.Fatal(err)
	}
}

func TestExpiryIsReportedOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.clock.Set(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
		c, near, past, never := v.expiring("a", 40), v.expiring("b", 10), v.expiring("c", -1), v.approved(v.upload(titled("d")))
		revoked, failed := v.expiring("e", 40), v.upload(func(u *Upload) { u.Title, u.ExpiresOn = "f", v.inDays(1) })
		v.force(failed, Failed)
		if _, err := v.Revoke(t.Context(), v.inst.ID, revoked.UUID, Revocation{Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		check := func(when string, c *Certificate, want string) {
			t.Helper()
			for range 2 { // the second sweep creates no further events
				if got := v.reported(c); got != want {
					t.Errorf("%s, %s: events = %q, want %q", when, c.Title, got, want)
				}
			}
		}
		check("at the approval", c, "")
		check("at the approval", near, "expiring")
		check("at the approval", past, "expired")
		v.clock.Advance(9 * day)
		check("31 days before", c, "")
		v.clock.Advance(day)
		check("30 days before", c, "expiring")
		check("on the last day", near, "expiring")
		v.clock.Advance(day)
		check("after the last day", near, "expiring expired")
		v.clock.Advance(100 * day)
		check("later", c, "expiring expired")
		for _, other := range []*Certificate{never, revoked, failed} {
			check("later", other, "")
		}
		var rows int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificate_expiries`).Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%d rows in certificate_expiries, want 0; error %v", rows, err)
		}
	})
}

// If a certificate expires while no server runs, the next sweep creates only the event "expired".
func TestExpiryAfterAnOutage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.expiring("a", 40)
		v.clock.Advance(50 * day)
		if got := v.reported(c); got != "expired" {
			t.Errorf("events = %q, want expired", got)
		}
	})
}

// A new number of days applies to certificates without the event "expiring". No certificate has this event
// twice.
func TestChangedNumberOfDays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		reported, waiting, far := v.expiring("a", 20), v.expiring("b", 50), v.expiring("c", 80)
		check := func(when string, c *Certificate, want string) {
			t.Helper()
			if got := v.reported(c); got != want {
				t.Errorf("%s, %s: events = %q, want %q", when, c.Title, got, want)
			}
		}
		check("30 days", reported, "expiring")
		v.setExpiryDays(60)
		check("60 days", reported, "expiring")
		check("60 days", waiting, "expiring")
		check("60 days", far, "")
		v.setExpiryDays(5)
		v.clock.Advance(25 * day)
		check("5 days, 55 days before", far, "")
		check("5 days", waiting, "expiring")
		v.clock.Advance(50 * day)
		check("5 days before", far, "expiring")
		v.setExpiryDays(90)
		check("90 days", far, "expiring")
		if err := account.New(v.d, v.clock.Now).SetExpiry(t.Context(), v.inst.ID, account.Expiry{ExpiryDays: 366}); err == nil {
			t.Error("SetExpiry with 366 days: no error, want an error")
		}
	})
}

// Concurrent sweeps create one event for each certificate.
func TestConcurrentSweepsOfExpiries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		const n = 2*expiryBatch + 7
		c := v.expiring("a", 20)
		v.exec(`DELETE FROM certificate_expiries`)
		expires := dayNumber(v.clock.Now()) + 20
		for i := range n {
			other := v.upload(titled("copy " + strings.Repeat("x", i)))
			v.force(other, Approved)
			v.exec(`INSERT INTO certificate_expiries (certificate_id, institution_id, expires_day, due_day, days) VALUES ($1, $2, $3, $4, 30)`, other.ID, v.inst.ID, expires, expires-30)
		}
		errs := make([]error, 4)
		var sweeps sync.WaitGroup
		for i := range errs {
			sweeps.Go(func() { errs[i] = v.SweepExpiries(t.Context()) })
		}
		sweeps.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, e := range v.events() {
			if e.Name == "certificate_application.expiring" {
				seen[e.UUID]++
			}
		}
		for uuid, times := range seen {
			if times != 1 {
				t.Errorf("the certificate %s has %d events, want 1", uuid, times)
			}
		}
		if len(seen) != n || seen[c.UUID] != 0 {
			t.Errorf("%d certificates have the event, want %d", len(seen), n)
		}
	})
}

func TestDayNumber(t *testing.T) {
	t.Parallel()
	for date, want := range map[string]int64{"1970-01-01": 0, "1970-01-02": 1, "1969-12-31": -1, "2026-07-01": 20635, "1900-01-01": -25567} {
		if got, err := dayOf(date); err != nil || got != want {
			t.Errorf("dayOf(%s) = %d, %v, want %d", date, got, err, want)
		}
	}
}
