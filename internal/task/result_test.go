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

// A certificate that cannot be changed does not stop the task. Each certificate has a result, and the
// result of each certificate that was not changed has a reason.
func TestResultsOfTask(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		list := v.uploadMany(60)
		v.exec(`UPDATE certificates SET full_name = '=cmd|''/c calc''!A1' WHERE id = $1`, list[4].ID)
		if _, err := v.certs.Revoke(t.Context(), v.inst.ID, list[0].UUID, cert.Revocation{Reason: "Before"}); err != nil {
			t.Fatal(err)
		}
		broken := list[7].UUID
		v.moved = func(_ context.Context, _ *db.Tx, c *cert.Certificate) error {
			if c.UUID == broken {
				return errors.New("a fault")
			}
			return nil
		}
		var selected []string
		for _, c := range list {
			selected = append(selected, c.UUID)
		}
		task, err := v.Start(t.Context(), v.inst.ID, Request{Kind: Retry, Selection: Selection{Selected: selected}})
		if err != nil {
			t.Fatal(err)
		}
		for finished := false; !finished; {
			if finished, err = v.step(t.Context(), task.id, stepSize); err != nil {
				if finished, err = v.oneByOne(t.Context(), task.id); err != nil {
					t.Fatal(err)
				}
			}
		}
		if task, err = v.Task(t.Context(), v.inst.ID, task.UUID); err != nil || task.Succeeded != 19 || task.Skipped != 40 || task.Failed != 1 || task.FinishedAt == nil {
			t.Errorf("task = %+v, err = %v, want 19 succeeded, 40 skipped and 1 failed", task, err)
		}
		reasons := map[string]int{}
		for _, outcome := range Outcomes {
			results, err := v.Results(t.Context(), task, ResultQuery{Outcome: outcome, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				reasons[string(r.Outcome)+": "+r.Reason(task.Kind)]++
				if (r.UUID == broken) != (outcome == Failed) || r.Certificate == nil || r.Certificate.UUID != r.UUID {
					t.Errorf("result with the outcome %s = %+v, want its certificate, and the outcome failed only for %s", outcome, r, broken)
				}
			}
		}
		want := "map[failed: A fault of the vault prevented the change. Try again. If it fails again, inform the operator of this vault: the vault's log has the details.:1 " +
			"skipped: It is approved, and only failed certificates can be retried.:19 skipped: It is revoked, and only failed certificates can be retried.:1 " +
			"skipped: It was already being processed.:20 succeeded: :19]"
		if got := fmt.Sprint(reasons); got != want {
			t.Errorf("reasons = %s, want %s", got, want)
		}
		undecided := &Result{Outcome: Skipped, PreviousStatus: cert.Pending}
		if got := undecided.Reason(Retry); got != "Its status does not allow this." {
			t.Errorf("reason of a record that is not decided = %q", got)
		}
		// Read pages of the results forwards and backwards.
		first, err := v.Results(t.Context(), task, ResultQuery{Outcome: Skipped, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		second, err := v.Results(t.Context(), task, ResultQuery{Outcome: Skipped, After: first[6].Number, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		back, err := v.Results(t.Context(), task, ResultQuery{Outcome: Skipped, Before: second[0].Number, Limit: 7})
		if err != nil || !slices.EqualFunc(back, first, func(a, b *Result) bool { return a.Number == b.Number }) {
			t.Errorf("previous page = %v, err = %v, want the first page", back, err)
		}
		var out bytes.Buffer
		if err := v.WriteResults(t.Context(), task, nil, &out); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 61 || strings.Contains(out.String(), `"=cmd`) || !strings.Contains(out.String(), `"'=cmd`) {
			t.Errorf("got %d rows, err = %v, want 61 with escaped formulas", len(rows), err)
		}
	})
}

// A task that continues after a failed step has each result once. Results are deleted with their task.
func TestResultsAfterInterruptionAndPurge(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.uploadMany(90)
		v.clock.Advance(time.Millisecond) // a revocation omits certificates that are not older than the task
		task, err := v.Start(t.Context(), v.inst.ID, Request{Kind: Revoke, Reason: "All"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.step(t.Context(), task.id, stepSize); err != nil {
			t.Fatal(err)
		}
		// A step that fails at its last certificate stores nothing.
		calls := 0
		v.moved = func(context.Context, *db.Tx, *cert.Certificate) error {
			if calls++; calls == stepSize {
				return errors.New("a fault")
			}
			return nil
		}
		if _, err := v.step(t.Context(), task.id, stepSize); err == nil {
			t.Fatal("step that fails at its last certificate: err = nil, want an error")
		}
		v.moved = nil
		if now, err := v.Task(t.Context(), v.inst.ID, task.UUID); err != nil || now.Succeeded != stepSize || now.Total() != stepSize {
			t.Errorf("task after a failed step = %+v, err = %v, want only the results of the first step", now, err)
		}
		task = v.runAll(task, nil)
		var out bytes.Buffer
		if err := v.WriteResults(t.Context(), task, nil, &out); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), `"succeeded"`); task.Succeeded != 90 || n != 90 {
			t.Errorf("the file has %d results and the task has %d succeeded, want 90 each", n, task.Succeeded)
		}
		tasks, err := v.Tasks(t.Context(), v.inst.ID)
		if err != nil || len(tasks) != 1 || tasks[0].UUID != task.UUID {
			t.Errorf("tasks = %v, err = %v, want the task", tasks, err)
		}
		if none, err := v.Tasks(t.Context(), v.institution("UTH").ID); err != nil || len(none) != 0 {
			t.Errorf("tasks of another institution = %v, err = %v, want none", none, err)
		}
		count := func() (n int) {
			if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificate_task_results`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		v.clock.Advance(retention - time.Minute)
		if err := v.Sweep(t.Context()); err != nil || count() != 90 {
			t.Errorf("%d results are left before the retention ends, want 90; err = %v", count(), err)
		}
		v.clock.Advance(2 * time.Minute)
		if err := v.Sweep(t.Context()); err != nil || count() != 0 {
			t.Errorf("%d results are left after the retention, want 0; err = %v", count(), err)
		}
		if tasks, err := v.Tasks(t.Context(), v.inst.ID); err != nil || len(tasks) != 0 {
			t.Errorf("tasks after the retention = %v, err = %v, want none", tasks, err)
		}
	})
}
