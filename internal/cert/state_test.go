package cert

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// snapshot has the data that a transition may change: a record, all events and all jobs.
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
	default:
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

// moves has the expected transitions by source and status. It is not derived from the table under test.
// A trigger that is not listed for a status must change nothing.
var moves = map[Source]map[Status]map[trigger]move{
	Vault: {
		Pending: {
			triggerDecline:  {to: Failed, event: "certificate_application.failed", eventContext: "single_upload"},
			triggerReplaced: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
		},
		InReview:   {},
		Processing: processingMoves,
		Approved:   approvedMoves,
		Failed:     failedMoves,
		Revoked:    {},
	},
	Template: {
		Pending: {
			triggerSigned:   {to: Processing, job: "seal"},
			triggerDecline:  {to: Failed, event: "certificate_application.failed", eventContext: "single_upload"},
			triggerRevoke:   {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
			triggerCancel:   {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
			triggerReplaced: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
		},
		InReview:   {},
		Processing: processingMoves,
		Approved:   approvedMoves,
		Failed:     failedMoves,
		Revoked:    {},
	},
	Customer: {
		Pending: withDecisions(map[trigger]move{
			triggerClaim:    {to: InReview},
			triggerDecline:  {to: Failed, event: "certificate_application.failed", eventContext: "single_upload"},
			triggerReplaced: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
		}),
		InReview:   withDecisions(map[trigger]move{}),
		Processing: processingMoves,
		Approved:   approvedMoves,
		Failed:     failedMoves,
		Revoked:    {},
	},
}

// These are the moves of certificates of every source.
var (
	processingMoves = map[trigger]move{
		triggerReplaced: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
		triggerSealed:   {to: Approved, event: "certificate_application.approved", eventContext: "single_upload"},
		triggerError:    {to: Failed, event: "certificate_application.failed", eventContext: "single_upload"},
		triggerRevoke:   {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
	}
	approvedMoves = map[trigger]move{
		triggerReplaced: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
		triggerRevoke:   {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
	}
	failedMoves = map[trigger]move{
		triggerReplaced: {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
		triggerRetry:    {to: Processing, event: "certificate_application.retried", eventContext: "retry", job: "seal"},
		triggerRevoke:   {to: Revoked, event: "certificate_application.revoked", eventContext: "single_upload"},
		triggerAskAgain: {to: Pending, event: "certificate_application.retried", eventContext: "single_upload"},
	}
)

// withDecisions adds the moves of an open application: the decisions of a reviewer, the withdrawal and the
// expiry.
func withDecisions(m map[trigger]move) map[trigger]move {
	m[triggerAccept] = move{to: Processing, event: "certificate_application.processing", eventContext: "single_upload", job: "seal"}
	m[triggerAsk] = move{to: Pending}
	m[triggerReject] = move{to: Rejected, event: "certificate_application.rejected", eventContext: "single_upload"}
	m[triggerWithdraw] = move{to: Withdrawn, event: "certificate_application.updated", eventContext: "single_upload"}
	m[triggerExpire] = move{to: Lapsed, event: "certificate_application.updated", eventContext: "single_upload"}
	return m
}

var triggers = []trigger{
	triggerUpload, triggerSealed, triggerError, triggerRetry, triggerRevoke, triggerCancel, triggerSubmit, triggerClaim, triggerAccept, triggerAsk,
	triggerSigned, triggerDecline, triggerAskAgain, triggerReject, triggerWithdraw, triggerExpire, triggerReplaced,
}

func TestEveryStatusWithEveryTrigger(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the test has nothing concurrent for the race detector; make test/long runs it")
	}
	if len(triggers) != len(transitions) || len(moves) != len(Sources) {
		t.Fatal("the state machine has a trigger or a source that this test omits")
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for _, source := range Sources {
			from := Statuses
			if source != Vault {
				from = []Status{Pending, InReview} // the moves from the other statuses are the same for all sources
			}
			for _, from := range from {
				for _, trigger := range triggers {
					v.tryTrigger(source, from, trigger)
				}
			}
		}
	})
}

// tryTrigger fails the test unless a trigger has the specified effect on a certificate.
func (v *vault) tryTrigger(source Source, from Status, trigger trigger) {
	t := v.tb
	t.Helper()
	name := fmt.Sprint(source, from, trigger)
	c := v.upload(titled(name))
	v.force(c, from)
	v.exec(`UPDATE certificates SET source = $1 WHERE uuid = $2`, string(source), c.UUID)
	v.clock.Advance(time.Second)
	before := v.snapshot(c.UUID)
	err := v.apply(trigger, c.UUID)
	after := v.snapshot(c.UUID)
	want, allowed := moves[source][from][trigger]
	switch {
	case !allowed:
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s: the record, events or jobs changed:\n%+v\n%+v", name, before, after)
		}
		checkRefusal(t, name, from, trigger, err)
	case err != nil:
		t.Errorf("%s: err = %v, want nil", name, err)
	default:
		v.checkTransition(name, before, after, want)
	}
}

func checkRefusal(t testing.TB, name string, from Status, trigger trigger, err error) {
	t.Helper()
	switch {
	case trigger == triggerRetry, trigger == triggerRevoke && from != Revoked:
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
		t.Errorf("%s: status = %s, updated at %v, context = %s, want %s, %v and single_upload", name, after.Row.Status, after.Row.UpdatedAt, after.Row.TriggerContext, want.to, now)
	}
	v.checkEvent(name, before, after, want)
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

// checkEvent fails the test unless a transition created its event, if it has one.
func (v *vault) checkEvent(name string, before, after snapshot, want move) {
	t := v.tb
	t.Helper()
	if want.event == "" {
		if len(after.Events) != len(before.Events) {
			t.Errorf("%s: %d events, want %d as before", name, len(after.Events), len(before.Events))
		}
		return
	}
	if len(after.Events) != len(before.Events)+1 {
		t.Fatalf("%s: %d events, want one more than %d", name, len(after.Events), len(before.Events))
	}
	wantEvent := event{Name: want.event, UUID: after.Row.UUID, Context: want.eventContext, Status: string(want.to), Occurred: after.Row.UpdatedAt.UnixMicro()}
	if e := after.Events[len(after.Events)-1]; e != wantEvent {
		t.Errorf("%s: event = %+v, want %+v", name, e, wantEvent)
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
		if err := d.Tx(ctx, func(tx *db.Tx) error { return errors.Join(v.insertTx(ctx, tx, c, email, triggerUpload), rollback) }); !errors.Is(err, rollback) {
			t.Fatal(err)
		}
		if after := v.snapshot(c.UUID); !reflect.DeepEqual(before, after) {
			t.Errorf("a rolled back upload changed the database:\n%+v\n%+v", before, after)
		}
		for from, list := range moves[Vault] {
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

// A retry removes the failure, and changes the context of its own event and of later events. The
// TriggerContext of the record does not change.
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
	if !strings.HasPrefix(string(want), Diagram()) {
		t.Error("docs/states.md is not up to date; run go generate")
	}
}
