package cert

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/seal"
)

// several uploads n certificates; every third stays in processing, every third
// fails.
func (v *vault) several(n int) (list []*Certificate) {
	v.tb.Helper()
	for i := range n {
		c := v.upload(func(u *Upload) {
			u.FullName, u.Title, u.Email = fmt.Sprintf("Person %d", i), []string{"BSc Physics", "MSc Music"}[i%2], fmt.Sprintf("p%d@example.org", i)
		})
		switch i % 3 {
		case 0:
			c = v.approved(c)
		case 1:
			if err := v.fail(v.tb.Context(), c, Failure{Code: "no_room", Message: "There is no room."}); err != nil {
				v.tb.Fatal(err)
			}
		}
		list = append(list, v.get(c.UUID))
	}
	return list
}

func (v *vault) doAll(d *Deed, err error) *Deed {
	v.tb.Helper()
	if err != nil {
		v.tb.Fatal(err)
	}
	for {
		finished, err := v.step(v.tb.Context(), d.id, deedStep)
		if err != nil {
			v.tb.Fatal(err)
		}
		if finished {
			break
		}
	}
	if d, err = v.Deed(v.tb.Context(), v.inst.ID, d.UUID); err != nil {
		v.tb.Fatal(err)
	}
	return d
}

func TestCountsByStatus(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.several(9)
		for name, tc := range map[string]struct {
			f    Filter
			want string
		}{
			"all":              {Filter{}, "map[approved:3 failed:3 processing:3]"},
			"a status is free": {Filter{Statuses: []Status{Failed}}, "map[approved:3 failed:3 processing:3]"},
			"a search":         {Filter{Search: "music"}, "map[approved:1 failed:2 processing:1]"},
			"an address":       {Filter{Email: "P4@example.org"}, "map[failed:1]"},
			"dates":            {Filter{IssuedFrom: "2026-07-01"}, "map[]"},
		} {
			counts, ok, err := v.ByStatuses(t.Context(), v.inst.ID, tc.f)
			if err != nil || !ok || fmt.Sprint(counts) != tc.want {
				t.Errorf("%s: %v, %t, %v; want %s", name, counts, ok, err, tc.want)
			}
		}
		v.bounds.count = 5
		if _, ok, err := v.ByStatuses(t.Context(), v.inst.ID, Filter{Search: "person"}); err != nil || ok {
			t.Errorf("more than are counted: %t, %v", ok, err)
		}
		if counts, _, err := v.ByStatuses(t.Context(), v.institution("UTH").ID, Filter{}); err != nil || len(counts) != 0 {
			t.Errorf("another institution: %v, %v", counts, err)
		}
	})
}

// TestManyAreRetriedAndRevoked does deeds to what a filter lets through and to what
// was selected, by two at once, and never to another institution's.
func TestManyAreRetriedAndRevoked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		list := v.several(90)
		other := v.institution("UTH")
		foreign := v.upload(func(u *Upload) { u.Institution = other; u.File = v.receive(other, samplePDF("x", 0)) })

		done := v.doAll(v.Begin(t.Context(), v.inst.ID, NewDeed{Kind: RetryMany, Choice: Choice{Filter: Filter{Search: "physics"}}}))
		if done.Done != 15 || done.PassedOver != 0 || done.FinishedAt == nil {
			t.Errorf("%+v", done)
		}
		done = v.doAll(v.Begin(t.Context(), v.inst.ID, NewDeed{
			Kind: RevokeMany, Reason: "Withdrawn", Note: "secret",
			Choice: Choice{Selected: []string{list[0].UUID, list[1].UUID, list[1].UUID, foreign.UUID}},
		}))
		if done.Done != 2 || done.PassedOver != 1 {
			t.Errorf("%+v", done)
		}
		if c := v.get(list[0].UUID); c.Status != Revoked || c.RevocationReason != "Withdrawn" || c.RevocationNote != "secret" {
			t.Errorf("%+v", c)
		}
		if c := v.get(foreign.UUID); c.Status != Processing {
			t.Errorf("another institution's is %s", c.Status)
		}
		// What became of each is kept, in the order of the step, with why.
		results, err := v.Results(t.Context(), done, ResultQuery{Limit: 10})
		if err != nil || len(results) != 3 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		for i, r := range results {
			switch {
			case r.Number != int64(i+1):
				t.Errorf("result %d has the number %d", i+1, r.Number)
			case r.UUID == foreign.UUID:
				if r.Outcome != DeedPassedOver || r.Certificate != nil || r.Why(done.Kind) != "There is no such certificate." {
					t.Errorf("another institution's: %+v", r)
				}
			case r.Outcome != DeedDone || r.Certificate == nil || r.Certificate.Status != Revoked || r.Why(done.Kind) != "":
				t.Errorf("%+v", r)
			}
		}
		// Two that do the same steps do each once.
		deed, err := v.Begin(t.Context(), v.inst.ID, NewDeed{Kind: RevokeMany, Reason: "All"})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		for range 2 {
			go func() {
				for {
					finished, err := v.step(t.Context(), deed.id, deedStep)
					if err != nil && !errors.Is(err, errMoved) || finished {
						ended <- err
						return
					}
				}
			}()
		}
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, errMoved) {
				t.Fatal(err)
			}
		}
		deed, err = v.Deed(t.Context(), v.inst.ID, deed.UUID)
		if err != nil || deed.Done != 88 {
			t.Errorf("%+v, %v", deed, err)
		}
		var met []string
		for q := (ResultQuery{Limit: 30}); ; {
			list, err := v.Results(t.Context(), deed, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				met, q.After = append(met, r.UUID), r.Number
			}
			if len(list) < q.Limit {
				break
			}
		}
		if slices.Sort(met); len(met) != 88 || len(slices.Compact(met)) != 88 {
			t.Errorf("%d results of 88", len(met))
		}
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_events WHERE name LIKE '%revoked'`).Scan(&n); err != nil || n != 90 {
			t.Errorf("%d were revoked, %v", n, err)
		}
		if _, err := v.Deed(t.Context(), other.ID, deed.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("to another institution: %v", err)
		}
		for name, bad := range map[string]NewDeed{
			"no reason":   {Kind: RevokeMany},
			"no deed":     {Kind: "delete"},
			"no UUID":     {Kind: RetryMany, Choice: Choice{Selected: []string{"x"}}},
			"too many":    {Kind: RetryMany, Choice: Choice{Selected: make([]string, MaxSelected+1)}},
			"no status":   {Kind: RetryMany, Choice: Choice{Filter: Filter{Statuses: []Status{Approved}}}},
			"a bad range": {Kind: RetryMany, Choice: Choice{Filter: Filter{IssuedFrom: "x"}}},
		} {
			if _, err := v.Begin(t.Context(), v.inst.ID, bad); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.BadRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// One whose job is lost gets another.
		if _, err := v.Begin(t.Context(), v.inst.ID, NewDeed{Kind: RetryMany}); err != nil {
			t.Fatal(err)
		}
		v.exec(`DELETE FROM river_job WHERE kind = 'deed'`)
		if err := v.SweepDeeds(t.Context()); err != nil {
			t.Fatal(err)
		}
		var jobs int
		for _, j := range v.jobs() {
			if j.Kind == "deed" {
				jobs++
			}
		}
		if jobs != 1 {
			t.Errorf("%d jobs", jobs)
		}
	})
}

func TestExports(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		list := v.several(6)
		evil := v.approved(v.upload(func(u *Upload) { u.FullName, u.Title = "../=cmd|' /C calc'!A0", "=1+1" }))
		var b bytes.Buffer
		if err := v.WriteCSV(t.Context(), v.inst.ID, Choice{}, &b); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 8 || rows[1][0] != evil.ReferenceID || rows[1][2] != "'=1+1" || rows[7][3] != "Person 0" {
			t.Errorf("%q, %v", rows, err)
		}
		b.Reset()
		if err := v.WriteCSV(t.Context(), v.inst.ID, Choice{Selected: []string{list[2].UUID}}, &b); err != nil || strings.Count(b.String(), "\n") != 2 || !strings.Contains(b.String(), list[2].ReferenceID) {
			t.Errorf("%q, %v", b.String(), err)
		}

		pack, err := v.Pack(t.Context(), v.inst.ID, Choice{})
		if err != nil || pack.Count() != 3 || pack.Missing != 4 {
			t.Fatalf("%+v, %v", pack, err)
		}
		if _, err := v.Pack(t.Context(), v.inst.ID, Choice{Filter: Filter{Statuses: []Status{Failed}}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("nothing to pack: %v", err)
		}
	})
}

func TestDaysAndFailures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		// Noon, so that a test that takes a moment does not see two days.
		now := v.clock.Now().UTC()
		v.clock.Advance(now.Truncate(24 * time.Hour).Add(12 * time.Hour).Sub(now))
		list := v.several(6)
		v.clock.Advance(24 * time.Hour)
		if _, err := v.Revoke(t.Context(), v.inst.ID, list[0].UUID, Revocation{Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Retry(t.Context(), v.inst.ID, list[1].UUID, nil); err != nil {
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			days, err := v.Days(t.Context(), v.inst.ID, 30)
			if err != nil || len(days) != 30 {
				t.Fatalf("%d, %v", len(days), err)
			}
			yesterday, today := days[28], days[29]
			if yesterday.Created != 6 || yesterday.Approved != 2 || yesterday.Failed != 2 || today.Created != 0 || today.Revoked != 1 {
				t.Errorf("%+v, %+v", yesterday, today)
			}
			if !today.Date.Equal(v.clock.Now().Truncate(24 * time.Hour)) {
				t.Errorf("today is %v", today.Date)
			}
		}
		check()
		if err := v.SweepCounts(t.Context()); err != nil {
			t.Fatal(err)
		}
		check()
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificate_days`).Scan(&n); err != nil || n != 4 {
			t.Errorf("%d rows after adding up, %v", n, err)
		}
		// One that was failed when it was revoked is not failed any more.
		gone := v.upload(titled("revoked as a failed one"))
		if err := v.fail(t.Context(), gone, Failure{Code: "no_room", Message: "There is no room."}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Revoke(t.Context(), v.inst.ID, gone.UUID, Revocation{Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		failures, more, err := v.Failures(t.Context(), v.inst.ID)
		if err != nil || more || len(failures) != 1 || failures[0].Code != "no_room" || failures[0].N != 1 || failures[0].Message != "There is no room." {
			t.Errorf("%+v, %v", failures, err)
		}
		for _, b := range []bounds{usualBounds, {count: 10, few: 0, walk: 2, depth: 2, days: 2}} {
			v.bounds = b
			for _, sort := range Sorts {
				if l := v.list(Filter{FailureCode: "no_room", Sort: sort}); *l.Total != 1 || len(l.Items) != 1 {
					t.Errorf("those that failed so, by %s: %d of %d", sort, len(l.Items), *l.Total)
				}
			}
			if l := v.list(Filter{FailureCode: "no_room", Statuses: []Status{Approved}}); *l.Total != 0 {
				t.Errorf("of others: %d", *l.Total)
			}
		}
		if _, err := v.List(t.Context(), v.inst.ID, Filter{FailureCode: "no room'", Range: listing.Range{Page: 1, PerPage: 1}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("a code that is none: %v", err)
		}
		other := v.institution("UTH")
		if days, err := v.Days(t.Context(), other.ID, 9999); err != nil || len(days) != MaxDays || days[MaxDays-2].Created != 0 {
			t.Errorf("another institution: %d, %v", len(days), err)
		}
	})
}

func TestDuplicatesAreFoundBeforeTheUpload(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.approved(v.upload(nil))
		text := Text{Title: " BSc Physics", FullName: "ada OBI", Email: "ADA@example.org", IssueDate: "2026-06-30"}
		same, alike, err := v.Alike(t.Context(), v.inst.ID, text, c.File.SHA256)
		if err != nil || same == nil || same.UUID != c.UUID || len(alike) != 0 {
			t.Errorf("%v, %v, %v", same, alike, err)
		}
		text.Email = "ada.obi@example.org"
		same, alike, err = v.Alike(t.Context(), v.inst.ID, text, [32]byte{})
		if err != nil || same != nil || len(alike) != 1 {
			t.Errorf("the same name and title: %v, %v, %v", same, alike, err)
		}
		text.FullName = "Bob"
		if same, alike, err = v.Alike(t.Context(), v.inst.ID, text, c.File.SHA256); err != nil || same != nil || len(alike) != 1 {
			t.Errorf("the same file: %v, %v, %v", same, alike, err)
		}
		if same, alike, err = v.Alike(t.Context(), v.institution("UTH").ID, text, c.File.SHA256); err != nil || same != nil || len(alike) != 0 {
			t.Errorf("another institution: %v, %v, %v", same, alike, err)
		}
	})
}

// TestWantedPlaceIsTaken seals where one certificate's stamp is wanted, and the
// next where the institution wants it.
func TestWantedPlaceIsTaken(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		var got seal.Placement
		usual := v.sealer.seal
		v.sealer.seal = func(ctx context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
			got = stamp.Placement
			return usual(ctx, o, stamp)
		}
		box := seal.Box{0.1, 0.1, 0.3, 0.2}
		v.approved(v.upload(func(u *Upload) { u.Wanted = &Wanted{Mode: seal.Exact, Page: 1, Box: &box} }))
		if got.Mode != seal.Exact || got.Box != box || got.Page != 1 {
			t.Errorf("%+v", got)
		}
		v.approved(v.upload(titled("MSc")))
		if got.Mode != seal.Auto {
			t.Errorf("%+v", got)
		}
		u := v.input(v.inst)
		u.Title, u.Wanted = "PhD", &Wanted{Mode: "middle", Page: 1}
		if _, err := v.Upload(t.Context(), u); !fault.Is(err, fault.Invalid) {
			t.Errorf("a place that is none: %v", err)
		}
	})
}
