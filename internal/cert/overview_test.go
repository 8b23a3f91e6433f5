package cert

import (
	"strconv"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

// The counts beside a filter are those of the records that it selects, whatever
// way they are found, and of one institution alone.
func TestCountsOfAFilter(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTH")
		v.insert(crowd(120, v.inst.ID, other.ID))
		usual := v.bounds
		for name, f := range map[string]Filter{
			"all": {}, "search": {Search: "ada"}, "short search": {Search: "王"}, "e-mail": {Email: "a1@example.org"}, "issued": {IssuedFrom: "2024-03-02"},
			"made": {GeneratedFrom: "2024-02-28", GeneratedTo: "2024-03-09"}, "nothing": {Search: "nobody at all"}, "search and date": {Search: "ada", IssuedTo: "2024-03-10"},
		} {
			for _, b := range []bounds{usual, {count: 1000, few: 0, walk: 25, depth: 40, days: 25}} {
				v.bounds = b
				got, err := v.Counts(t.Context(), v.inst.ID, f)
				if err != nil {
					t.Fatal(err)
				}
				all := 0
				for _, s := range Statuses {
					one := f
					one.Statuses, one.Range = []Status{s}, listing.Range{Page: 1, PerPage: 100}
					l := v.list(one)
					if got.Of[s] != *l.Total {
						t.Errorf("%s, %s: %d, the list has %d", name, s, got.Of[s], *l.Total)
					}
					all += *l.Total
				}
				if got.All != all || got.AtLeast {
					t.Errorf("%s: %+v of %d", name, got, all)
				}
			}
			v.bounds = usual
		}
		v.bounds = lowBounds
		many, err := v.Counts(t.Context(), v.inst.ID, Filter{IssuedFrom: "2000-01-01"})
		if err != nil || !many.AtLeast || many.All != lowBounds.count {
			t.Errorf("more than are counted: %+v, %v", many, err)
		}
		if _, err := v.Counts(t.Context(), v.inst.ID, Filter{IssuedFrom: "yesterday"}); !fault.Is(err, fault.Invalid) {
			t.Errorf("a date that is none: %v", err)
		}
	})
}

// What is shown by day is what was made on it, by where it stands now, also
// after what moved was added up.
func TestDays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.clock.at = time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)
		old := v.upload(titled("on the first"))
		v.clock.advance(2 * time.Second)
		v.approved(v.upload(titled("on the second")))
		v.force(v.upload(titled("failed on the second")), Failed)
		other := v.institution("OTH")
		v.upload(func(u *Upload) { *u = v.input(other) })
		v.clock.advance(24 * time.Hour)
		check := func(name string, want map[string]map[Status]int) {
			t.Helper()
			days, err := v.Days(t.Context(), v.inst.ID, 3)
			if err != nil || len(days) != 3 || days[0].Date != "2026-03-01" || days[2].Date != "2026-03-03" {
				t.Fatalf("%s: %+v, %v", name, days, err)
			}
			for _, day := range days {
				all := 0
				for _, s := range Statuses {
					if day.Of[s] != want[day.Date][s] {
						t.Errorf("%s, %s: %v, want %v", name, day.Date, day.Of, want[day.Date])
					}
					all += want[day.Date][s]
				}
				if day.All != all {
					t.Errorf("%s, %s: %d in all, want %d", name, day.Date, day.All, all)
				}
			}
		}
		first := map[string]map[Status]int{"2026-03-01": {Processing: 1}, "2026-03-02": {Approved: 1, Failed: 1}}
		check("as they came", first)
		if err := v.SweepCounts(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("added up", first)
		v.approved(old)
		if _, err := v.Revoke(t.Context(), v.inst.ID, old.UUID, Revocation{Reason: "Issued in error."}); err != nil {
			t.Fatal(err)
		}
		first["2026-03-01"] = map[Status]int{Revoked: 1}
		check("moved", first)
		if n := v.miscounted(); n != 0 {
			t.Errorf("off by %d", n)
		}
		if err := v.SweepCounts(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("added up again", first)
		var rows int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificate_days WHERE institution_id = $1`, v.inst.ID).Scan(&rows); err != nil || rows != 3 {
			t.Errorf("%d rows, %v", rows, err)
		}
		v.exec(`UPDATE certificate_days SET n = n + 2 WHERE day = $1`, db.Micros(old.CreatedAt)/microsPerDay)
		if n := v.miscounted(); n != 2 {
			t.Errorf("changed by hand: off by %d", n)
		}
	})
}

func TestFailuresByCode(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		other := v.institution("OTH")
		fail := func(c *Certificate, code string) {
			v.exec(`UPDATE certificates SET status = 'failed', failure_code = $1, failure_message = $2 WHERE uuid = $3`, code, "Because of "+code+".", c.UUID)
		}
		for i := range 3 {
			fail(v.upload(titled("a"+strconv.Itoa(i))), "no_room")
		}
		fail(v.upload(titled("b")), "key_missing")
		fail(v.upload(func(u *Upload) { *u = v.input(other) }), "no_room")
		v.upload(titled("in processing"))
		list, more, err := v.Failures(t.Context(), v.inst.ID)
		if err != nil || more || len(list) != 2 || list[0] != (FailureCount{"no_room", "Because of no_room.", 3}) || list[1].Code != "key_missing" {
			t.Fatalf("%+v, %v, %v", list, more, err)
		}
		for _, b := range []bounds{usualBounds, {count: 10, few: 0, walk: 2, depth: 2, days: 2}} {
			v.bounds = b
			for _, sort := range Sorts {
				if l := v.list(Filter{FailureCode: "no_room", Sort: sort}); *l.Total != 3 || len(l.Items) != 3 {
					t.Errorf("by %s: %d of %d", sort, len(l.Items), *l.Total)
				}
			}
			if l := v.list(Filter{FailureCode: "no_room", Search: "a1"}); *l.Total != 1 {
				t.Errorf("with a search: %d", *l.Total)
			}
			if l := v.list(Filter{FailureCode: "no_room", Statuses: []Status{Approved}}); *l.Total != 0 {
				t.Errorf("of others: %d", *l.Total)
			}
		}
		if _, err := v.List(t.Context(), v.inst.ID, Filter{FailureCode: "no room'", Range: listing.Range{Page: 1, PerPage: 1}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("a code that is none: %v", err)
		}
	})
}
