package search

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

func TestDaysAndFailures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		// Set the clock to noon in UTC.
		now := v.clock.Now().UTC()
		v.clock.Advance(now.Truncate(24 * time.Hour).Add(12 * time.Hour).Sub(now))
		list := v.uploadMany(6)
		v.clock.Advance(24 * time.Hour)
		if _, err := v.certs.Revoke(t.Context(), v.inst.ID, list[0].UUID, cert.Revocation{Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.certs.Retry(t.Context(), v.inst.ID, list[1].UUID, nil); err != nil {
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			days, err := v.Days(t.Context(), v.inst.ID, 30)
			if err != nil || len(days) != 30 {
				t.Fatalf("got %d days, err = %v, want 30", len(days), err)
			}
			yesterday, today := days[28], days[29]
			if yesterday.Created != 6 || yesterday.Approved != 2 || yesterday.Failed != 2 || today.Created != 0 || today.Revoked != 1 {
				t.Errorf("yesterday = %+v, want 6 created, 2 approved and 2 failed; today = %+v, want 0 created and 1 revoked", yesterday, today)
			}
			if !today.Date.Equal(v.clock.Now().Truncate(24 * time.Hour)) {
				t.Errorf("date of the last day = %v, want today", today.Date)
			}
		}
		check()
		if err := v.SweepCounts(t.Context()); err != nil {
			t.Fatal(err)
		}
		check()
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificate_days`).Scan(&n); err != nil || n != 4 {
			t.Errorf("the daily counts have %d rows after SweepCounts, want 4; err = %v", n, err)
		}
		// A failed certificate that is revoked no longer counts as failed.
		revoked := v.upload(titled("failed and revoked"))
		v.fail(revoked)
		if _, err := v.certs.Revoke(t.Context(), v.inst.ID, revoked.UUID, cert.Revocation{Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		failures, more, err := v.Failures(t.Context(), v.inst.ID)
		if err != nil || more || len(failures) != 1 || failures[0].Code != "no_room" || failures[0].N != 1 || failures[0].Message != "There is no room." {
			t.Errorf("failures = %+v, err = %v, want no_room with one certificate", failures, err)
		}
		for _, b := range []bounds{defaultBounds, {count: 10, scan: 2}} {
			v.bounds = b
			for _, sort := range Sorts {
				if l := v.list(Filter{FailureCode: "no_room", Sort: sort}); *l.Total != 1 || len(l.Items) != 1 {
					t.Errorf("list of failed certificates by %s: %d of %d records, want 1 of 1", sort, len(l.Items), *l.Total)
				}
			}
			if l := v.list(Filter{FailureCode: "no_room", Statuses: []cert.Status{cert.Approved}}); *l.Total != 0 {
				t.Errorf("list of approved certificates with a failure: total = %d, want 0", *l.Total)
			}
		}
		if _, err := v.List(t.Context(), v.inst.ID, Filter{FailureCode: "no room'", Range: listing.Range{Page: 1, PerPage: 1}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("invalid failure code: err = %v, want Invalid", err)
		}
		other := v.institution("UTH")
		if days, err := v.Days(t.Context(), other.ID, 9999); err != nil || len(days) != maxDays || days[maxDays-2].Created != 0 {
			t.Errorf("days of an institution without certificates: got %d days, err = %v, want %d days without created certificates", len(days), err, maxDays)
		}
	})
}
