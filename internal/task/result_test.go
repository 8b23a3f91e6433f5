package task

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

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// A certificate that cannot be changed keeps no other from it, and is named; so is
// each that there was nothing to do to, with why.
func TestEachResultOfADeedIsTold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		list := v.several(60)
		v.exec(`UPDATE certificates SET full_name = '=cmd|''/c calc''!A1' WHERE id = $1`, list[4].ID)
		if _, err := v.certs.Revoke(t.Context(), v.inst.ID, list[0].UUID, cert.Revocation{Reason: "Before"}); err != nil {
			t.Fatal(err)
		}
		broken := list[7].UUID
		v.moved = func(_ context.Context, _ *db.Tx, c *cert.Certificate) error {
			if c.UUID == broken {
				return errors.New("there is a fault")
			}
			return nil
		}
		var selected []string
		for _, c := range list {
			selected = append(selected, c.UUID)
		}
		deed, err := v.Begin(t.Context(), v.inst.ID, NewDeed{Kind: RetryMany, Choice: Choice{Selected: selected}})
		if err != nil {
			t.Fatal(err)
		}
		for finished := false; !finished; {
			if finished, err = v.step(t.Context(), deed.id, deedStep); err != nil {
				if finished, err = v.oneByOne(t.Context(), deed.id); err != nil {
					t.Fatal(err)
				}
			}
		}
		if deed, err = v.Deed(t.Context(), v.inst.ID, deed.UUID); err != nil || deed.Done != 19 || deed.PassedOver != 40 || deed.Failed != 1 || deed.FinishedAt == nil {
			t.Errorf("%+v, %v", deed, err)
		}
		whys := map[string]int{}
		for _, outcome := range DeedOutcomes {
			results, err := v.Results(t.Context(), deed, ResultQuery{Outcome: outcome, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				whys[string(r.Outcome)+": "+r.Why(deed.Kind)]++
				if (r.UUID == broken) != (outcome == DeedFailed) || r.Certificate == nil || r.Certificate.UUID != r.UUID {
					t.Errorf("%+v", r)
				}
			}
		}
		want := "map[done::19 failed: A fault of the vault kept it from being changed. Try it again; the log of the server says more.:1 " +
			"passed_over: It is approved, and only what is failed can be retried.:19 passed_over: It is revoked, and only what is failed can be retried.:1 " +
			"passed_over: It was being processed already.:20]"
		if got := strings.ReplaceAll(fmt.Sprint(whys), "done: :", "done::"); got != want {
			t.Errorf("%s", got)
		}
		// Pages of it, forth and back.
		first, err := v.Results(t.Context(), deed, ResultQuery{Outcome: DeedPassedOver, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		second, err := v.Results(t.Context(), deed, ResultQuery{Outcome: DeedPassedOver, After: first[6].Number, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		back, err := v.Results(t.Context(), deed, ResultQuery{Outcome: DeedPassedOver, Before: second[0].Number, Limit: 7})
		if err != nil || !slices.EqualFunc(back, first, func(a, b *DeedResult) bool { return a.Number == b.Number }) {
			t.Errorf("back: %v, %v", back, err)
		}
		var out bytes.Buffer
		if err := v.WriteResults(t.Context(), deed, &out); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 61 || strings.Contains(out.String(), `"=cmd`) || !strings.Contains(out.String(), `"'=cmd`) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}

// Whatever ends the process between two steps, the results go on behind those that
// are there; and they end with the deed.
func TestResultsSurviveAndEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.several(90)
		deed, err := v.Begin(t.Context(), v.inst.ID, NewDeed{Kind: RevokeMany, Reason: "All"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.step(t.Context(), deed.id, deedStep); err != nil {
			t.Fatal(err)
		}
		// A step that breaks at its end leaves nothing behind.
		calls := 0
		v.moved = func(context.Context, *db.Tx, *cert.Certificate) error {
			if calls++; calls == deedStep {
				return errors.New("the process ends")
			}
			return nil
		}
		if _, err := v.step(t.Context(), deed.id, deedStep); err == nil {
			t.Fatal("the step went well")
		}
		v.moved = nil
		if now, err := v.Deed(t.Context(), v.inst.ID, deed.UUID); err != nil || now.Done != deedStep || now.Came() != deedStep {
			t.Errorf("%+v, %v", now, err)
		}
		deed = v.doAll(deed, nil)
		var out bytes.Buffer
		if err := v.WriteResults(t.Context(), deed, &out); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), `"done"`); deed.Done != 90 || n != 90 {
			t.Errorf("%d of %d are in the file", n, deed.Done)
		}
		deeds, err := v.Deeds(t.Context(), v.inst.ID)
		if err != nil || len(deeds) != 1 || deeds[0].UUID != deed.UUID {
			t.Errorf("%v, %v", deeds, err)
		}
		if none, err := v.Deeds(t.Context(), v.institution("UTH").ID); err != nil || len(none) != 0 {
			t.Errorf("another institution sees %v, %v", none, err)
		}
		count := func() (n int) {
			if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificate_deed_results`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		v.clock.Advance(DeedsKeptFor - time.Minute)
		if err := v.SweepDeeds(t.Context()); err != nil || count() != 90 {
			t.Errorf("%d are left before the time, %v", count(), err)
		}
		v.clock.Advance(2 * time.Minute)
		if err := v.SweepDeeds(t.Context()); err != nil || count() != 0 {
			t.Errorf("%d are left, %v", count(), err)
		}
		if deeds, err := v.Deeds(t.Context(), v.inst.ID); err != nil || len(deeds) != 0 {
			t.Errorf("%v, %v", deeds, err)
		}
	})
}
