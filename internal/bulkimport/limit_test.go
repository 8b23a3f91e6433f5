package bulkimport_test

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// limit sets the number of new certificates of the institution in a month.
func (k *fixture) limit(n int64) {
	k.t.Helper()
	k.ok(k.Accounts.SetLimits(k.t.Context(), k.inst.ID, account.Limits{Certificates: n}))
}

// aboveLimit checks the submission of a draft with three rows. A limit that is too low at the submission prevents
// it, and a limit that is lowered afterwards refuses the batch, whose rows can then be submitted again.
func (k *fixture) aboveLimit(draft *bulkimport.Draft) {
	k.t.Helper()
	ctx := k.t.Context()
	const message = "monthly limit of the institution “University NWU” on new certificates. Limit: 2; used: 0."
	k.limit(2)
	run, err := k.DryRun(ctx, k.reload(draft))
	k.ok(err)
	if !strings.Contains(run.Limit, message) {
		k.t.Errorf("the limit of the dry run is %q, want %q in it", run.Limit, message)
	}
	err = k.Submit(ctx, k.reload(draft), nil)
	if !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), message) {
		k.t.Errorf("Submit() above the limit: error = %v, want fault.Forbidden with %q", err, message)
	}
	if d := k.reload(draft); d.Status != bulkimport.Open {
		k.t.Fatalf("the status after the refused submission is %s, want open", d.Status)
	}
	k.limit(3)
	if run, err = k.DryRun(ctx, k.reload(draft)); err != nil || run.Limit != "" {
		k.t.Errorf("the limit of the dry run is %q, want none; error %v", run.Limit, err)
	}
	k.ok(k.Submit(ctx, k.reload(draft), nil))
	k.limit(2)
	p := k.finish(draft)
	if p.Refused != 3 || len(p.Refusals) != 1 || p.Refusals[0].Problem.Code != bulkimport.CodeLimit || !strings.Contains(p.Refusals[0].Problem.Detail, message) {
		k.t.Fatalf("the progress is %+v with the refusals %v, want 3 refused rows and the message about the limit", p, p.Refusals)
	}
	again, err := k.Resubmit(ctx, k.reload(draft), k.person)
	k.ok(err)
	if err := k.Submit(ctx, again, nil); !fault.Is(err, fault.Forbidden) {
		k.t.Errorf("Submit() of the same rows above the limit: error = %v, want fault.Forbidden", err)
	}
	k.limit(0)
	k.ok(k.Submit(ctx, k.reload(again), nil))
	if p := k.finish(again); p.Approved != 3 {
		k.t.Errorf("the progress is %+v, want 3 approved", p)
	}
}

func TestBulkUploadAboveLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		draft := k.list(k.create(), rows(3))
		for _, name := range []string{"0.pdf", "1.pdf", "2.pdf"} {
			k.file(draft, name)
		}
		k.aboveLimit(draft)
	})
}

func TestListForTemplateAboveLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k, made := newTemplateFixture(t, d)
		k.aboveLimit(k.list(k.createFrom(made), "Name,Email,Final Grade\nAda Obi,ada@example.org,A\nBea Obi,bea@example.org,B\nCy Obi,cy@example.org,C\n"))
	})
}
