package cert

import (
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// snapshot has the record, all events and all jobs, which a transition may change.
type snapshot struct {
	Row    *Certificate
	Events []event
	Jobs   []jobRow
}

func (v *vault) snapshot(uuid string) snapshot {
	v.tb.Helper()
	s := snapshot{Events: v.events(), Jobs: v.jobs()}
	if c, err := byUUID(v.tb.Context(), v.d, uuid); err == nil {
		s.Row = c
	} else if !fault.Is(err, fault.NotFound) {
		v.tb.Fatal(err)
	}
	return s
}

// apply calls the operation of a trigger.
func (v *vault) apply(trigger trigger, uuid string) error {
	ctx := v.tb.Context()
	switch trigger {
	case triggerRetry:
		_, err := v.Retry(ctx, v.inst.ID, uuid, nil)
		return err
	case triggerRevoke:
		_, err := v.Revoke(ctx, v.inst.ID, uuid, Revocation{Reason: "withdrawn"})
		return err
	case triggerError:
		return v.d.Tx(ctx, func(tx *db.Tx) error { return v.failTx(ctx, tx, uuid, Failure{Code: "code", Message: "message"}) })
	case triggerSealed, triggerUpload:
	}
	return v.d.Tx(ctx, func(tx *db.Tx) error {
		_, err := v.moveTx(ctx, tx, trigger, uuid)
		return err
	})
}

// move is the expected result of a trigger in a status.
type move struct {
	to           Status
	event        string
	eventContext string
	job          string
}

// moves has the transitions of the specification. It is not derived from the table under test. A
// trigger that is not listed for a status must change nothing.
var moves = map[Status]map[trigger]move{
	Processing: {
		triggerSealed: {to: Approved, event: "certificate_application.approved", eventContext: "single_upload"},
		triggerError:  {to: Failed, event: "certificate_application.failed", eventContext: "single_upload"},
		triggerRevoke: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
	},
	Approved: {
		triggerRevoke: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
	},
	Failed: {
		triggerRetry:  {to: Processing, event: "certificate_application.retried", eventContext: "retry", job: "seal"},
		triggerRevoke: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
	},
	Revoked: {},
}

var triggers = []trigger{triggerUpload, triggerSealed, triggerError, triggerRetry, triggerRevoke}

func TestEveryStatusWithEveryTrigger(t *testing.T) {
	t.Parallel()
	if len(triggers) != len(transitions) || len(moves) != len(Statuses) {
		t.Fatal("the state machine has a trigger or a status that this test omits")
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for _, from := range Statuses {
			for _, trigger := range triggers {
				name := string(from) + " " + string(trigger)
				c := v.upload(titled(name))
				v.force(c, from)
				v.clock.Advance(time.Second)
				before := v.snapshot(c.UUID)
				err := v.apply(trigger, c.UUID)
				after := v.snapshot(c.UUID)
				want, allowed := moves[from][trigger]
				if !allowed {
					if !reflect.DeepEqual(before, after) {
						t.Errorf("%s: the record, events or jobs changed:\n%+v\n%+v", name, before, after)
					}
					checkRefusal(t, name, from, trigger, err)
					continue
				}
				if err != nil {
					t.Errorf("%s: err = %v, want nil", name, err)
					continue
				}
				v.checkTransition(name, before, after, want)
			}
		}
	})
}

func checkRefusal(t *testing.T, name string, from Status, trigger trigger, err error) {
	t.Helper()
	switch {
	case trigger == triggerRetry:
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.BadRequest || e.Message != "Invalid operation" {
			t.Errorf("%s: err = %v, want BadRequest with the message Invalid operation", name, err)
		}
	case trigger == triggerRevoke && from == Revoked:
		if err != nil {
			t.Errorf("%s: err = %v, want nil", name, err)
		}
	case !errors.Is(err, ErrInvalidState):
		t.Errorf("%s: err = %v, want ErrInvalidState", name, err)
	}
}

func (v *vault) checkTransition(name string, before, after snapshot, want move) {
	t := v.tb
	t.Helper()
	now := db.Time(db.Micros(v.clock.Now()))
	if after.Row.Status != want.to || !after.Row.UpdatedAt.Equal(now) || after.Row.TriggerContext != SingleUpload {
		t.Errorf("%s: status = %s, updated at %v, context %s, want the new status, now and single_upload", name, after.Row.Status, after.Row.UpdatedAt, after.Row.TriggerContext)
	}
	if len(after.Events) != len(before.Events)+1 {
		t.Fatalf("%s: %d events, want one more than %d", name, len(after.Events), len(before.Events))
	}
	wantEvent := event{Name: want.event, UUID: after.Row.UUID, Context: want.eventContext, Status: string(want.to), Occurred: db.Micros(now)}
	if e := after.Events[len(after.Events)-1]; e != wantEvent {
		t.Errorf("%s: event = %+v, want %+v", name, e, wantEvent)
	}
	added := after.Jobs[len(before.Jobs):]
	if want.job == "" {
		if len(added) != 0 {
			t.Errorf("%s: new jobs = %+v, want none", name, added)
		}
		return
	}
	if len(added) != 1 || added[0].Kind != want.job {
		t.Errorf("%s: new jobs = %+v, want one of kind %s", name, added, want.job)
		return
	}
	if want.job == "seal" && after.Row.jobID != added[0].ID {
		t.Errorf("%s: job of the row = %d, want %d", name, after.Row.jobID, added[0].ID)
	}
}

func TestUploadCreatesRowEventAndJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, func(c *Config) { c.Attempts = 3 })
		c := v.upload(nil)
		got := v.snapshot(c.UUID)
		if got.Row == nil || got.Row.Status != Processing || got.Row.ID != c.ID || got.Row.CustomerID != 0 || got.Row.Verified != nil {
			t.Fatalf("row = %+v, want a new certificate in processing", got.Row)
		}
		want := event{Name: "certificate_application.created", UUID: c.UUID, Context: "single_upload", Status: "processing", Occurred: db.Micros(c.CreatedAt)}
		if len(got.Events) != 1 || got.Events[0] != want {
			t.Errorf("events after the upload = %+v, want only %+v", got.Events, want)
		}
		wantJob := jobRow{ID: got.Row.jobID, Kind: "seal", Queue: SealQueue, State: "available", MaxAttempts: 3}
		if len(got.Jobs) != 1 || got.Jobs[0] != wantJob {
			t.Errorf("jobs after the upload = %+v, want only %+v", got.Jobs, wantJob)
		}
	})
}

// A change that is rolled back leaves no event and no job.
func TestRollbackLeavesNoEventAndNoJob(t *testing.T) {
	t.Parallel()
	rollback := errors.New("rollback")
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		u := v.input(v.inst)
		u.Title = "rolled back"
		c, email, err := v.validate(&u)
		if err != nil {
			t.Fatal(err)
		}
		before := v.snapshot(c.UUID)
		if err := d.Tx(ctx, func(tx *db.Tx) error { return errors.Join(v.insertTx(ctx, tx, c, email), rollback) }); !errors.Is(err, rollback) {
			t.Fatal(err)
		}
		if after := v.snapshot(c.UUID); !reflect.DeepEqual(before, after) {
			t.Errorf("a rolled back upload changed the database:\n%+v\n%+v", before, after)
		}
		for from, list := range moves {
			for trigger := range list {
				c := v.upload(titled(string(from) + string(trigger)))
				v.force(c, from)
				before := v.snapshot(c.UUID)
				if err := d.Tx(ctx, func(tx *db.Tx) error {
					_, err := v.moveTx(ctx, tx, trigger, c.UUID)
					return errors.Join(err, rollback)
				}); !errors.Is(err, rollback) || errors.Is(err, ErrInvalidState) {
					t.Fatal(err)
				}
				if after := v.snapshot(c.UUID); !reflect.DeepEqual(before, after) {
					t.Errorf("%s %s: a rolled back transition changed the database:\n%+v\n%+v", from, trigger, before, after)
				}
			}
		}
	})
}

func TestTriggersOnUnknownCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		const unknownUUID = "00000000-0000-0000-0000-000000000000"
		before := v.snapshot(unknownUUID)
		for _, trigger := range triggers {
			if err := v.apply(trigger, unknownUUID); !errors.Is(err, ErrInvalidState) && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: err = %v, want ErrInvalidState or NotFound", trigger, err)
			}
		}
		if after := v.snapshot(unknownUUID); !reflect.DeepEqual(before, after) {
			t.Errorf("triggers on an unknown certificate changed the events or jobs:\n%+v\n%+v", before, after)
		}
	})
}

// Events after a retry have the context of the retry. The record has its original context. The
// failure is removed.
func TestRetryChangesOnlyTheEventContext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload(nil)
		if err := v.apply(triggerError, c.UUID); err != nil {
			t.Fatal(err)
		}
		got, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != Processing || got.Failure != nil || got.TriggerContext != SingleUpload {
			t.Errorf("certificate after the retry = %+v, want processing, no failure and the context single_upload", got)
		}
		v.approved(c)
		contexts := map[string]string{}
		for _, e := range v.events() {
			contexts[e.Name] = e.Context
		}
		want := map[string]string{
			"certificate_application.created": "single_upload", "certificate_application.failed": "single_upload",
			"certificate_application.retried": "retry", "certificate_application.approved": "retry",
		}
		if !reflect.DeepEqual(contexts, want) {
			t.Errorf("contexts of the events = %v, want %v", contexts, want)
		}
	})
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		c := v.approved(v.upload(nil))
		for _, tc := range []struct {
			name  string
			r     Revocation
			field string
		}{
			{"no reason", Revocation{Note: "x"}, "reason"},
			{"reason of white space", Revocation{Reason: " \t\n"}, "reason"},
			{"reason too long", Revocation{Reason: repeat("é", 1001)}, "reason"},
			{"note too long", Revocation{Reason: "x", Note: repeat("é", 1001)}, "note"},
			{"reason with NUL", Revocation{Reason: "a\x00b"}, "reason"},
		} {
			_, err := v.Revoke(ctx, v.inst.ID, c.UUID, tc.r)
			if fields := fieldsOf(err); len(fields) != 1 || fields[tc.field] == "" {
				t.Errorf("%s: err = %v, want a problem of %s", tc.name, err, tc.field)
			}
		}
		if v.get(c.UUID).Status != Approved {
			t.Fatal("an invalid revocation changed the status")
		}
		long := repeat("é", 1000)
		got, err := v.Revoke(ctx, v.inst.ID, c.UUID, Revocation{Reason: " " + long + " ", Note: "an inquiry"})
		if err != nil {
			t.Fatal(err)
		}
		if got.RevocationReason != long || got.RevocationNote != "an inquiry" || got.RevokedAt == nil || !got.RevokedAt.Equal(got.UpdatedAt) {
			t.Errorf("revoked certificate = %+v, want the trimmed reason, the note and the time of the revocation", got)
		}
		v.clock.Advance(time.Hour)
		again, err := v.Revoke(ctx, v.inst.ID, c.UUID, Revocation{Reason: "another reason"})
		if err != nil || again.RevocationReason != long || !again.RevokedAt.Equal(*got.RevokedAt) {
			t.Errorf("second revocation: certificate = %+v, err = %v, want no change", again, err)
		}
	})
}

func TestDiagramIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	if Diagram() != string(want) {
		t.Error("docs/states.md is not up to date; run go generate")
	}
}
