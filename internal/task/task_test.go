package task

import (
	"bytes"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/search"
)

func (v *vault) doAll(d *Task, err error) *Task {
	v.tb.Helper()
	if err != nil {
		v.tb.Fatal(err)
	}
	for {
		finished, err := v.step(v.tb.Context(), d.id, stepSize)
		if err != nil {
			v.tb.Fatal(err)
		}
		if finished {
			break
		}
	}
	if d, err = v.Task(v.tb.Context(), v.inst.ID, d.UUID); err != nil {
		v.tb.Fatal(err)
	}
	return d
}

// TestManyAreRetriedAndRevoked runs tasks for a filter and for selected certificates, with two
// workers, and never changes another institution's.
func TestManyAreRetriedAndRevoked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		list := v.several(90)
		other := v.institution("UTH")
		foreign := v.upload(func(u *cert.Upload) { u.Institution = other })

		done := v.doAll(v.Start(t.Context(), v.inst.ID, Request{Kind: Retry, Selection: Selection{Filter: search.Filter{Search: "physics"}}}))
		if done.Succeeded != 15 || done.Skipped != 0 || done.FinishedAt == nil {
			t.Errorf("%+v", done)
		}
		done = v.doAll(v.Start(t.Context(), v.inst.ID, Request{
			Kind: Revoke, Reason: "Withdrawn", Note: "secret",
			Selection: Selection{Selected: []string{list[0].UUID, list[1].UUID, list[1].UUID, foreign.UUID}},
		}))
		if done.Succeeded != 2 || done.Skipped != 1 {
			t.Errorf("%+v", done)
		}
		if c := v.get(list[0].UUID); c.Status != cert.Revoked || c.RevocationReason != "Withdrawn" || c.RevocationNote != "secret" {
			t.Errorf("%+v", c)
		}
		if c := v.get(foreign.UUID); c.Status != cert.Processing {
			t.Errorf("another institution's is %s", c.Status)
		}
		// Each has a result, in the order of the step, with its reason.
		results, err := v.Results(t.Context(), done, ResultQuery{Limit: 10})
		if err != nil || len(results) != 3 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		for i, r := range results {
			switch {
			case r.Number != int64(i+1):
				t.Errorf("result %d has the number %d", i+1, r.Number)
			case r.UUID == foreign.UUID:
				if r.Outcome != Skipped || r.Certificate != nil || r.Why(done.Kind) != "There is no such certificate." {
					t.Errorf("another institution's: %+v", r)
				}
			case r.Outcome != Succeeded || r.Certificate == nil || r.Certificate.Status != cert.Revoked || r.Why(done.Kind) != "":
				t.Errorf("%+v", r)
			}
		}
		// Two workers at the same steps run each step once.
		one, err := v.Start(t.Context(), v.inst.ID, Request{Kind: Revoke, Reason: "All"})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		for range 2 {
			go func() {
				for {
					finished, err := v.step(t.Context(), one.id, stepSize)
					if err != nil && !errors.Is(err, cert.ErrInvalidState) || finished {
						ended <- err
						return
					}
				}
			}()
		}
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, cert.ErrInvalidState) {
				t.Fatal(err)
			}
		}
		one, err = v.Task(t.Context(), v.inst.ID, one.UUID)
		if err != nil || one.Succeeded != 88 {
			t.Errorf("%+v, %v", one, err)
		}
		var met []string
		for q := (ResultQuery{Limit: 30}); ; {
			list, err := v.Results(t.Context(), one, q)
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
		if _, err := v.Task(t.Context(), other.ID, one.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("to another institution: %v", err)
		}
		for name, bad := range map[string]Request{
			"no reason":    {Kind: Revoke},
			"no operation": {Kind: "delete"},
			"no UUID":      {Kind: Retry, Selection: Selection{Selected: []string{"x"}}},
			"too many":     {Kind: Retry, Selection: Selection{Selected: make([]string, maxSelected+1)}},
			"no status":    {Kind: Retry, Selection: Selection{Filter: search.Filter{Statuses: []cert.Status{cert.Approved}}}},
			"a bad range":  {Kind: Retry, Selection: Selection{Filter: search.Filter{IssuedFrom: "x"}}},
		} {
			if _, err := v.Start(t.Context(), v.inst.ID, bad); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.BadRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// A task whose job is lost gets another job.
		if _, err := v.Start(t.Context(), v.inst.ID, Request{Kind: Retry}); err != nil {
			t.Fatal(err)
		}
		v.exec(`DELETE FROM river_job WHERE kind = 'task'`)
		if err := v.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		var jobs int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM river_job WHERE kind = 'task'`).Scan(&jobs); err != nil {
			t.Fatal(err)
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
		evil := v.approved(v.upload(func(u *cert.Upload) { u.FullName, u.Title = "../=cmd|' /C calc'!A0", "=1+1" }))
		var b bytes.Buffer
		if err := v.WriteCSV(t.Context(), v.inst.ID, Selection{}, &b); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 8 || rows[1][0] != evil.ReferenceID || rows[1][2] != "'=1+1" || rows[7][3] != "Person 0" {
			t.Errorf("%q, %v", rows, err)
		}
		b.Reset()
		if err := v.WriteCSV(t.Context(), v.inst.ID, Selection{Selected: []string{list[2].UUID}}, &b); err != nil || strings.Count(b.String(), "\n") != 2 || !strings.Contains(b.String(), list[2].ReferenceID) {
			t.Errorf("%q, %v", b.String(), err)
		}

		pack, err := v.Archive(t.Context(), v.inst.ID, Selection{})
		if err != nil || pack.Count() != 3 || pack.Missing != 4 {
			t.Fatalf("%+v, %v", pack, err)
		}
		if _, err := v.Archive(t.Context(), v.inst.ID, Selection{Filter: search.Filter{Statuses: []cert.Status{cert.Failed}}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("nothing to pack: %v", err)
		}
	})
}
