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

// A certificate that cannot be changed does not stop the others, and has a result. A skipped
// certificate has a result with the reason.
func TestEachResultOfATask(t *testing.T) {
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
		one, err := v.Start(t.Context(), v.inst.ID, Request{Kind: Retry, Selection: Selection{Selected: selected}})
		if err != nil {
			t.Fatal(err)
		}
		for finished := false; !finished; {
			if finished, err = v.step(t.Context(), one.id, stepSize); err != nil {
				if finished, err = v.oneByOne(t.Context(), one.id); err != nil {
					t.Fatal(err)
				}
			}
		}
		if one, err = v.Task(t.Context(), v.inst.ID, one.UUID); err != nil || one.Succeeded != 19 || one.Skipped != 40 || one.Failed != 1 || one.FinishedAt == nil {
			t.Errorf("%+v, %v", one, err)
		}
		whys := map[string]int{}
		for _, outcome := range Outcomes {
			results, err := v.Results(t.Context(), one, ResultQuery{Outcome: outcome, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				whys[string(r.Outcome)+": "+r.Why(one.Kind)]++
				if (r.UUID == broken) != (outcome == Failed) || r.Certificate == nil || r.Certificate.UUID != r.UUID {
					t.Errorf("%+v", r)
				}
			}
		}
		want := "map[failed: A fault of the vault kept it from being changed. Try it again; the log of the server says more.:1 " +
			"skipped: It is approved, and only what is failed can be retried.:19 skipped: It is revoked, and only what is failed can be retried.:1 " +
			"skipped: It was being processed already.:20 succeeded: :19]"
		if got := fmt.Sprint(whys); got != want {
			t.Errorf("%s", got)
		}
		// Read pages of the results forwards and backwards.
		first, err := v.Results(t.Context(), one, ResultQuery{Outcome: Skipped, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		second, err := v.Results(t.Context(), one, ResultQuery{Outcome: Skipped, After: first[6].Number, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		back, err := v.Results(t.Context(), one, ResultQuery{Outcome: Skipped, Before: second[0].Number, Limit: 7})
		if err != nil || !slices.EqualFunc(back, first, func(a, b *Result) bool { return a.Number == b.Number }) {
			t.Errorf("back: %v, %v", back, err)
		}
		var out bytes.Buffer
		if err := v.WriteResults(t.Context(), one, &out); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 61 || strings.Contains(out.String(), `"=cmd`) || !strings.Contains(out.String(), `"'=cmd`) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}

// If the process ends between two steps, the next results follow the stored ones. Results are
// deleted with their task.
func TestResultsSurviveAndEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.several(90)
		one, err := v.Start(t.Context(), v.inst.ID, Request{Kind: Revoke, Reason: "All"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.step(t.Context(), one.id, stepSize); err != nil {
			t.Fatal(err)
		}
		// A step that fails at its end stores nothing.
		calls := 0
		v.moved = func(context.Context, *db.Tx, *cert.Certificate) error {
			if calls++; calls == stepSize {
				return errors.New("the process ends")
			}
			return nil
		}
		if _, err := v.step(t.Context(), one.id, stepSize); err == nil {
			t.Fatal("the step went well")
		}
		v.moved = nil
		if now, err := v.Task(t.Context(), v.inst.ID, one.UUID); err != nil || now.Succeeded != stepSize || now.Total() != stepSize {
			t.Errorf("%+v, %v", now, err)
		}
		one = v.doAll(one, nil)
		var out bytes.Buffer
		if err := v.WriteResults(t.Context(), one, &out); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), `"succeeded"`); one.Succeeded != 90 || n != 90 {
			t.Errorf("%d of %d are in the file", n, one.Succeeded)
		}
		tasks, err := v.Tasks(t.Context(), v.inst.ID)
		if err != nil || len(tasks) != 1 || tasks[0].UUID != one.UUID {
			t.Errorf("%v, %v", tasks, err)
		}
		if none, err := v.Tasks(t.Context(), v.institution("UTH").ID); err != nil || len(none) != 0 {
			t.Errorf("another institution sees %v, %v", none, err)
		}
		count := func() (n int) {
			if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificate_task_results`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		v.clock.Advance(retention - time.Minute)
		if err := v.Sweep(t.Context()); err != nil || count() != 90 {
			t.Errorf("%d are left before the time, %v", count(), err)
		}
		v.clock.Advance(2 * time.Minute)
		if err := v.Sweep(t.Context()); err != nil || count() != 0 {
			t.Errorf("%d are left, %v", count(), err)
		}
		if tasks, err := v.Tasks(t.Context(), v.inst.ID); err != nil || len(tasks) != 0 {
			t.Errorf("%v, %v", tasks, err)
		}
	})
}
