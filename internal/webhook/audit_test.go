package webhook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

// The audit log contains the changes of an endpoint, but no refused change, no secret, and no path or
// query of a URL.
func TestEndpointChangesAreAudited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d)
		ctx, inst := t.Context(), f.institution(t, "AAA")
		certificate := f.certificate(t, inst)
		e, secret, err := f.Create(ctx, inst, "https://hooks.example.org/in?key=hidden", []webhook.Name{webhook.Approved, webhook.Created})
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		f.exhaust(t, inst, certificate, 1)
		var delivery int64
		must(d.QueryRowContext(ctx, `SELECT id FROM webhook_deliveries`).Scan(&delivery))
		_, err = f.Test(ctx, inst, e.UUID, webhook.Created)
		must(err)
		must(f.Redeliver(ctx, inst, delivery))
		_, err = f.Replay(ctx, inst, e.UUID, f.now.Add(-time.Hour))
		must(err)
		_, _, err = f.Rotate(ctx, inst, e.UUID)
		must(err)
		if _, _, err := f.Rotate(ctx, inst, e.UUID); err == nil {
			t.Error("a second rotation succeeded")
		}
		must(f.Promote(ctx, inst, e.UUID))
		must(f.Pause(ctx, inst, e.UUID))
		if err := f.Pause(ctx, inst, e.UUID); err == nil {
			t.Error("pausing a paused endpoint succeeded")
		}
		must(f.Resume(ctx, inst, e.UUID))
		list, _, err := audit.New(d).List(ctx, inst, audit.Filter{Subject: e.UUID}, "", 20)
		must(err)
		var got []string
		for _, entry := range slices.Backward(list) {
			got = append(got, strings.TrimPrefix(string(entry.Action), "webhook."))
			if entry.Subject.Name != "https://hooks.example.org" {
				t.Errorf("subject = %q, want only the origin of the URL", entry.Subject.Name)
			}
		}
		if want := []string{"created", "tested", "redelivered", "replayed", "rotated", "promoted", "paused", "resumed"}; !slices.Equal(got, want) {
			t.Errorf("audited actions = %v, want %v", got, want)
		}
		if all := fmt.Sprint(list); strings.Contains(all, secret) || strings.Contains(all, "hidden") {
			t.Errorf("the audit log contains the signing secret or the query of the URL: %s", all)
		}
	})
}
