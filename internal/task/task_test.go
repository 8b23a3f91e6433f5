package task

import (
	"bytes"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/search"
)

// A revocation with a filter omits certificates that were created after the person saw what the filter
// selects, or else after the task started.
func TestRevokeOmitsNewerCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for name, before := range map[string]func(seen time.Time) time.Time{
			"a page":                func(seen time.Time) time.Time { return seen },
			"no page":               func(time.Time) time.Time { return time.Time{} },
			"a page in the future":  func(seen time.Time) time.Time { return seen.Add(time.Hour) },
			"a page of another day": func(seen time.Time) time.Time { return seen.Add(-24 * time.Hour) },
		} {
			upload := func() *cert.Certificate {
				v.clock.Advance(time.Second)
				return v.upload(func(u *cert.Upload) { u.Title, u.Email = name, uuid.NewString()+"@example.org" })
			}
			shown := upload()
			v.clock.Advance(time.Second)
			seen := v.clock.Now()
			unseen := upload()
			v.clock.Advance(time.Second)
			n := Request{Kind: Revoke, Reason: "Wrong grade", Selection: Selection{Filter: search.Filter{Title: name}, Before: before(seen)}}
			task, err := v.Start(t.Context(), v.inst.ID, n)
			later := upload()
			done := v.runAll(task, err)
			want := []cert.Status{cert.Revoked, cert.Revoked, cert.Processing}
			switch name {
			case "a page":
				want[1] = cert.Processing
			case "a page of another day":
				want[0], want[1] = cert.Processing, cert.Processing
			}
			revoked := 0
			for i, c := range []*cert.Certificate{shown, unseen, later} {
				if got := v.get(c.UUID).Status; got != want[i] {
					t.Errorf("%s: certificate %d is %s, want %s", name, i+1, got, want[i])
				}
				if want[i] == cert.Revoked {
					revoked++
				}
			}
			if done.Succeeded != revoked || done.Total() != revoked || done.FinishedAt == nil {
				t.Errorf("%s: task = %+v, want it finished with %d results, all succeeded", name, done, revoked)
			}
		}
	})
}

func (v *vault) runAll(d *Task, err error) *Task {
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

// TestManyAreRetriedAndRevoked runs tasks for a filter and for selected certificates, and with two
// workers. No task changes a certificate of another institution.
func TestManyAreRetriedAndRevoked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		list := v.uploadMany(90)
		other := v.institution("UTH")
		foreign := v.upload(func(u *cert.Upload) { u.Institution = other })

		done := v.runAll(v.Start(t.Context(), v.inst.ID, Request{Kind: Retry, Selection: Selection{Filter: search.Filter{Search: "physics"}}}))
		if done.Succeeded != 15 || done.Skipped != 0 || done.FinishedAt == nil {
			t.Errorf("task with a filter = %+v, want it finished with 15 succeeded and 0 skipped", done)
		}
		done = v.runAll(v.Start(t.Context(), v.inst.ID, Request{
			Kind: Revoke, Reason: "Withdrawn", Note: "secret",
			Selection: Selection{Selected: []string{list[0].UUID, list[1].UUID, list[1].UUID, foreign.UUID}},
		}))
		if done.Succeeded != 2 || done.Skipped != 1 {
			t.Errorf("task with a selection = %+v, want 2 succeeded and 1 skipped", done)
		}
		if c := v.get(list[0].UUID); c.Status != cert.Revoked || c.RevocationReason != "Withdrawn" || c.RevocationNote != "secret" {
			t.Errorf("certificate = %+v, want it revoked with the reason and the note of the task", c)
		}
		if c := v.get(foreign.UUID); c.Status != cert.Processing {
			t.Errorf("status of another institution's certificate = %s, want processing", c.Status)
		}
		// Each selected certificate has one result, even if it was selected twice.
		results, err := v.Results(t.Context(), done, ResultQuery{Limit: 10})
		if err != nil || len(results) != 3 {
			t.Fatalf("got %d results, err = %v, want 3", len(results), err)
		}
		for i, r := range results {
			switch {
			case r.Number != int64(i+1):
				t.Errorf("results[%d].Number = %d, want %d", i, r.Number, i+1)
			case r.UUID == foreign.UUID:
				if r.Outcome != Skipped || r.Certificate != nil || r.Reason(done.Kind) != "There is no such certificate." {
					t.Errorf("result for another institution's certificate = %+v, want it skipped without a certificate", r)
				}
			case r.Outcome != Succeeded || r.Certificate == nil || r.Certificate.Status != cert.Revoked || r.Reason(done.Kind) != "":
				t.Errorf("result = %+v, want succeeded with a revoked certificate", r)
			}
		}
		v.clock.Advance(time.Millisecond) // a revocation omits certificates that are not older than the task
		// Each step runs once, even if two workers run the same task.
		task, err := v.Start(t.Context(), v.inst.ID, Request{Kind: Revoke, Reason: "All"})
		if err != nil {
			t.Fatal(err)
		}
		workers := make(chan error, 2)
		for range 2 {
			go func() {
				for {
					finished, err := v.step(t.Context(), task.id, stepSize)
					if err != nil && !errors.Is(err, cert.ErrInvalidState) || finished {
						workers <- err
						return
					}
				}
			}()
		}
		for range 2 {
			if err := <-workers; err != nil && !errors.Is(err, cert.ErrInvalidState) {
				t.Fatal(err)
			}
		}
		task, err = v.Task(t.Context(), v.inst.ID, task.UUID)
		if err != nil || task.Succeeded != 88 {
			t.Errorf("task = %+v, err = %v, want 88 succeeded", task, err)
		}
		var seen []string
		for q := (ResultQuery{Limit: 30}); ; {
			list, err := v.Results(t.Context(), task, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				seen, q.After = append(seen, r.UUID), r.Number
			}
			if len(list) < q.Limit {
				break
			}
		}
		if slices.Sort(seen); len(seen) != 88 || len(slices.Compact(seen)) != 88 {
			t.Errorf("got %d results, want 88, each for a different certificate", len(seen))
		}
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_events WHERE name LIKE '%revoked'`).Scan(&n); err != nil || n != 90 {
			t.Errorf("got %d events about revoked certificates, want 90; err = %v", n, err)
		}
		if _, err := v.Task(t.Context(), other.ID, task.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("reading a task of another institution: err = %v, want NotFound", err)
		}
		for name, bad := range map[string]Request{
			"no reason":         {Kind: Revoke},
			"unknown operation": {Kind: "delete"},
			"not a UUID":        {Kind: Retry, Selection: Selection{Selected: []string{"x"}}},
			"too many":          {Kind: Retry, Selection: Selection{Selected: make([]string, maxSelected+1)}},
			"no allowed status": {Kind: Retry, Selection: Selection{Filter: search.Filter{Statuses: []cert.Status{cert.Approved}}}},
			"invalid range":     {Kind: Retry, Selection: Selection{Filter: search.Filter{IssuedFrom: "x"}}},
		} {
			if _, err := v.Start(t.Context(), v.inst.ID, bad); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.BadRequest) {
				t.Errorf("Start with %s: err = %v, want Invalid or BadRequest", name, err)
			}
		}
		// Sweep enqueues an unfinished task that has no job.
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
			t.Errorf("the queue has %d jobs of tasks after Sweep, want 1", jobs)
		}
	})
}

func TestExportsAsCSVAndZIP(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		list := v.uploadMany(6)
		formulas := v.approved(v.upload(func(u *cert.Upload) { u.FullName, u.Title = "../=cmd|' /C calc'!A0", "=1+1" }))
		var b bytes.Buffer
		if err := v.WriteCSV(t.Context(), v.inst.ID, Selection{}, &b); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\uFEFF"))).ReadAll()
		if err != nil || len(rows) != 8 || rows[1][0] != formulas.ReferenceID || rows[1][2] != "'=1+1" || rows[7][3] != "Person 0" {
			t.Errorf("rows = %q, err = %v, want a header and 7 certificates, the newest first, with escaped formulas", rows, err)
		}
		b.Reset()
		if err := v.WriteCSV(t.Context(), v.inst.ID, Selection{Selected: []string{list[2].UUID}}, &b); err != nil || strings.Count(b.String(), "\n") != 2 || !strings.Contains(b.String(), list[2].ReferenceID) {
			t.Errorf("export of one certificate = %q, err = %v, want the header and the certificate", b.String(), err)
		}

		archive, err := v.Archive(t.Context(), v.inst.ID, Selection{})
		if err != nil || archive.Count() != 3 || archive.Missing != 4 {
			t.Fatalf("archive = %+v, err = %v, want 3 files and 4 missing", archive, err)
		}
		if _, err := v.Archive(t.Context(), v.inst.ID, Selection{Filter: search.Filter{Statuses: []cert.Status{cert.Failed}}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("archive of failed certificates: err = %v, want Invalid", err)
		}
	})
}
