package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/task"
	"github.com/certvault/certvault/internal/vaulttest"
)

// desk is a vault with an institution and two reviewers.
type desk struct {
	*vaulttest.Vault

	inst     *account.Institution
	ada, bob *account.Member
}

func newDesk(t *testing.T, d *db.DB) *desk {
	t.Helper()
	k := &desk{Vault: vaulttest.New(t, d)}
	k.inst = k.Institution("NWU", "Northern & Western University")
	k.ada, k.bob = k.member("Ada"), k.member("Bob")
	return k
}

func (k *desk) ok(err error) {
	k.TB.Helper()
	if err != nil {
		k.TB.Fatal(err)
	}
}

func (k *desk) member(name string) *account.Member {
	k.TB.Helper()
	m, err := k.Accounts.AddMember(k.TB.Context(), k.inst.ID, account.NewMember{Name: name, Email: strings.ToLower(name) + "@nwu.example", Role: account.Reviewer})
	k.ok(err)
	return m
}

func (k *desk) offer(slug string, change func(*application.OfferInput)) *application.Offer {
	k.TB.Helper()
	in := application.OfferInput{Slug: slug, Name: "Participation in " + slug, HoldDays: 14, RetentionDays: 90}
	if change != nil {
		change(&in)
	}
	o, err := k.Applications.CreateOffer(k.TB.Context(), k.inst, in)
	k.ok(err)
	o, err = k.Applications.SetOfferStatus(k.TB.Context(), k.inst.ID, o.UUID, application.Open)
	k.ok(err)
	return o
}

// submit submits n applications for an offer, and returns their ids and revisions.
func (k *desk) submit(o *application.Offer, n int) (list []application.Selected) {
	k.TB.Helper()
	for i := range n {
		name := fmt.Sprintf("Person %d", i)
		a, err := k.Applications.Submit(k.TB.Context(), application.Submission{
			Institution: k.inst, Offer: o, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, FullName: name,
			Email: fmt.Sprintf("p%d@example.org", i),
		})
		k.ok(err)
		list = append(list, application.Selected{UUID: a.UUID, Revision: a.Revision})
	}
	return list
}

func (k *desk) by(m *account.Member) application.Reviewer {
	return application.Reviewer{Institution: k.inst, Person: application.Person{ID: m.UserID, Type: "user", Name: m.Name}}
}

// decide starts a task of a member that decides applications.
func (k *desk) decide(m *account.Member, d application.Decision, text string, list ...application.Selected) *task.Task {
	k.TB.Helper()
	ctx := audit.WithActor(k.TB.Context(), audit.Actor{Type: audit.User, ID: m.UUID, Name: m.Name})
	started, err := k.Tasks.Decide(ctx, k.inst.ID, task.Decisions{Decision: d, Applications: list, Text: text, Member: m.UserID})
	k.ok(err)
	return started
}

// finished runs the queue until a task is finished. It returns the task, and a map from the ids of the
// applications to their results.
func (k *desk) finished(started *task.Task) (*task.Task, map[string]*task.Result) {
	k.TB.Helper()
	var d *task.Task
	k.Until("the task is finished", func() (done bool) {
		var err error
		d, err = k.Tasks.Task(k.TB.Context(), k.inst.ID, started.UUID)
		return err == nil && d.FinishedAt != nil
	})
	list, err := k.Tasks.Results(k.TB.Context(), d, task.ResultQuery{Limit: 100})
	k.ok(err)
	byID := map[string]*task.Result{}
	for _, r := range list {
		byID[r.UUID] = r
	}
	return d, byID
}

func (k *desk) get(uuid string) *application.Application {
	k.TB.Helper()
	a, err := k.Applications.ByUUID(k.TB.Context(), k.inst.ID, uuid)
	k.ok(err)
	return a
}

// Each application of a task has a result. An application is not decided if it changed after the reviewer
// selected it, or if the reviewer may not decide it. The application and the audit log name the member who
// decided.
func TestApplicationsAreDecided(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newDesk(t, d)
		o := k.offer("course", nil)
		list := k.submit(o, 4)
		foreign := k.submit(k.offer("other", func(in *application.OfferInput) { in.Reviewers = []int64{k.bob.UserID} }), 1)[0]
		_, err := k.Applications.Hold(t.Context(), k.by(k.bob), list[1].UUID, application.Information, "Which group?")
		k.ok(err)
		_, err = k.Applications.Reject(t.Context(), k.by(k.bob), list[2].UUID, "No.", "")
		k.ok(err)
		unknown := application.Selected{UUID: "01900000-0000-7000-8000-000000000009", Revision: 1}
		done, results := k.finished(k.decide(k.ada, application.DecideReject, " The course is full. ", list[0], list[1], list[2], list[3], foreign, unknown, list[0]))
		if done.Succeeded != 2 || done.Skipped != 4 || done.Failed != 0 || done.By() != "Ada" {
			t.Errorf("task of %s = %+v, want a task of Ada with 2 succeeded and 4 skipped", done.By(), done)
		}
		for _, one := range []application.Selected{list[0], list[3]} {
			a := k.get(one.UUID)
			if a.Status != cert.Rejected || a.Reason != "The course is full." || a.DecidedBy.ID != k.ada.UserID || a.DecidedBy.Name != "Ada" {
				t.Errorf("application = %s by %+v because of %q, want it rejected by Ada with the reason", a.Status, a.DecidedBy, a.Reason)
			}
			if r := results[one.UUID]; r.Outcome != task.Succeeded || r.Refusal != nil || r.Application == nil {
				t.Errorf("result = %+v, want success with the application", r)
			}
		}
		if a := k.get(list[1].UUID); a.Status != cert.Pending || a.Hold == nil {
			t.Errorf("application with a hold after the selection: status = %s, hold = %+v, want pending with the hold", a.Status, a.Hold)
		}
		for uuid, kind := range map[string]fault.Kind{
			list[1].UUID: fault.Conflict, list[2].UUID: fault.Conflict, foreign.UUID: fault.Forbidden, unknown.UUID: fault.NotFound,
		} {
			if r := results[uuid]; r == nil || r.Outcome != task.Skipped || r.Refusal == nil || !fault.Is(r.Refusal.Err(), kind) {
				t.Errorf("result of %s = %+v, want it skipped with a fault of kind %v", uuid, r, kind)
			}
		}
		entries, err := audit.New(d).OfSubject(t.Context(), k.inst.ID, list[0].UUID)
		k.ok(err)
		if last := entries[len(entries)-1]; last.Action != audit.ApplicationRejected || last.Actor.ID != k.ada.UUID {
			t.Errorf("the audit log has %s by %+v, want the rejection by Ada", last.Action, last.Actor)
		}
		// After the task, the reason is stored only with the applications, where an erasure removes it.
		var reason string
		k.ok(d.QueryRowContext(t.Context(), `SELECT reason FROM certificate_tasks WHERE uuid = $1`, done.UUID).Scan(&reason))
		if reason != "" {
			t.Errorf("the finished task has the reason %q, want none", reason)
		}
	})
}

// The rule of two people, the required file and the permission of the member are checked for each
// application of a task.
func TestRulesOfDecisions(t *testing.T) {
	t.Parallel()
	k := newDesk(t, dbtest.SQLite(t))
	list := k.submit(k.offer("degree", func(in *application.OfferInput) { in.FourEyes = true }), 2)
	list = append(list, k.submit(k.offer("course", nil), 1)...)
	a, err := k.Applications.Claim(t.Context(), k.by(k.ada), list[0].UUID)
	k.ok(err)
	list[0].Revision = a.Revision
	_, results := k.finished(k.decide(k.ada, application.DecideApprove, "", list...))
	for i, want := range []error{application.ErrFourEyes, application.ErrNotClaimed} {
		if r := results[list[i].UUID]; r.Outcome != task.Skipped || r.Refusal == nil || !errors.Is(r.Refusal.Err(), want) {
			t.Errorf("result %d = %+v, want %v", i, r, want)
		}
	}
	problems := cert.ProblemsOf(results[list[2].UUID].Refusal.Err())
	if len(problems) != 1 || problems[0].Field != cert.FieldFile || problems[0].Code != cert.CodeRequired {
		t.Errorf("problems of an application without a template = %v, want the missing file", problems)
	}
	// The member loses the role before the task runs.
	started := k.decide(k.ada, application.DecideReject, "No.", list...)
	k.Exec(`UPDATE members SET role = 'viewer' WHERE user_id = $1`, k.ada.UserID)
	done, results := k.finished(started)
	if r := results[list[1].UUID]; done.Skipped != 3 || !fault.Is(r.Refusal.Err(), fault.Forbidden) {
		t.Errorf("task of a member without the role = %+v, result %+v, want 3 skipped", done, r)
	}
	for name, bad := range map[string]task.Decisions{
		"no applications":  {Decision: application.DecideApprove},
		"no reason":        {Decision: application.DecideReject, Applications: list},
		"unknown decision": {Decision: "delete", Applications: list},
		"no revision":      {Decision: application.DecideClaim, Applications: []application.Selected{{UUID: list[0].UUID}}},
		"not a UUID":       {Decision: application.DecideClaim, Applications: []application.Selected{{UUID: "x", Revision: 1}}},
		"too many":         {Decision: application.DecideClaim, Applications: make([]application.Selected, application.MaxMany+1)},
	} {
		if _, err := k.Tasks.Decide(t.Context(), k.inst.ID, bad); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.BadRequest) {
			t.Errorf("Decide with %s: err = %v, want Invalid or BadRequest", name, err)
		}
	}
}

// A task that stops between two applications, or is run by two workers, decides each application once.
func TestDecisionsSurviveCrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newDesk(t, d)
		list := k.submit(k.offer("course", nil), 30)
		started := k.decide(k.ada, application.DecideReject, "No.", list...)
		k.Exec(`DELETE FROM river_job`)
		// The task is interrupted after at least 5 applications.
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			defer stop()
			for ctx.Err() == nil {
				if now, err := k.Tasks.Task(ctx, k.inst.ID, started.UUID); err == nil && now.Total() > 4 {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		if _, err := k.Tasks.RunOnce(ctx, started); err == nil {
			t.Log("the task finished before it was interrupted")
		}
		stop()
		k.ok(k.Tasks.Sweep(t.Context()))
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				for finished := false; !finished; {
					var err error
					if finished, err = k.Tasks.RunOnce(context.WithoutCancel(t.Context()), started); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		done, _ := k.finished(started)
		if done.Succeeded != 30 || done.Skipped+done.Failed != 0 {
			t.Errorf("task = %+v, want 30 succeeded", done)
		}
		var rejected, events, results int
		k.ok(d.QueryRowContext(t.Context(), `SELECT count(*) FROM application_events WHERE action = 'rejected'`).Scan(&rejected))
		k.ok(d.QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_events WHERE name LIKE '%rejected'`).Scan(&events))
		k.ok(d.QueryRowContext(t.Context(), `SELECT count(DISTINCT uuid) FROM certificate_task_results`).Scan(&results))
		if rejected != 30 || events != 30 || results != 30 {
			t.Errorf("%d rejections, %d events and %d results, want 30 each", rejected, events, results)
		}
	})
}
