package bulkimport_test

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// Each batch of a draft has the time of the mail that was chosen at the submission.
func TestTimeOfTheMail(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newFixture(t, d)
		k.SetPartSize(1)
		draft := k.list(k.create(), rows(2))
		for _, name := range []string{"0.pdf", "1.pdf"} {
			k.file(draft, name)
		}
		draft = k.reload(draft)
		draft.Notify = cert.Notify{At: time.Now().Add(-time.Hour)}
		if problems := cert.ProblemsOf(k.Submit(t.Context(), draft, nil)); len(problems) != 1 || problems[0].Code != cert.CodePastTime {
			t.Fatalf("a time in the past: the problems are %v, want past_time", problems)
		}
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
		draft.Notify = cert.Notify{At: at}
		k.ok(k.Submit(t.Context(), draft, nil))
		k.finish(draft)
		if n := one[int](k, `SELECT count(*) FROM notice_plans WHERE batch_id IS NOT NULL AND send_at = $1`, at.UnixMicro()); n != 2 {
			t.Errorf("%d batches have the time of the mail, want 2", n)
		}
		if n := one[int](k, `SELECT count(*) FROM planned_notices`); n != 2 {
			t.Errorf("mail is planned for %d certificates, want 2", n)
		}
	})
}
