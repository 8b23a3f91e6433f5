package webhook_test

import (
	"fmt"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

// One call with many events delivers each event once to each subscribed endpoint of its institution.
func TestManyEventsAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d)
		mine, other, silent := f.institution(t, "AAA"), f.institution(t, "BBB"), f.institution(t, "CCC")
		endpoints := map[string]*webhook.Endpoint{
			"every": f.endpoint(t, mine), "expired": f.endpoint(t, mine, webhook.Expired), "revoked": f.endpoint(t, mine, webhook.Revoked), "other": f.endpoint(t, other),
		}
		certificate := f.certificate(t, mine)
		const n = 70 // more rows than one statement inserts
		var events []webhook.Event
		for i := range n {
			for _, institution := range []int64{mine, other, silent} {
				name := webhook.Expired
				if i%2 == 1 {
					name = webhook.Expiring
				}
				events = append(events, webhook.Event{
					Name: name, InstitutionID: institution, CertificateID: certificate, OccurredAt: f.now, UUID: fmt.Sprintf("%d-%d", institution, i),
				})
			}
		}
		if err := d.Tx(t.Context(), func(tx *db.Tx) error { return f.EmitTx(t.Context(), tx, events...) }); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{"every": n, "expired": n / 2, "revoked": 0, "other": n} {
			e := endpoints[name]
			// The body contains the ids of the event and of the endpoint.
			var right int
			if err := d.QueryRowContext(t.Context(), `
				SELECT count(DISTINCT e.id) FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
				WHERE d.endpoint_id = $1 AND e.institution_id = $2 AND d.body LIKE '%' || e.uuid || '%' AND d.body LIKE '%' || $3 || '%'`,
				e.ID, e.InstitutionID, e.UUID).Scan(&right); err != nil {
				t.Fatal(err)
			}
			if right != want {
				t.Errorf("the endpoint %s has %d events, want %d", name, right, want)
			}
		}
		if got := f.count(t, "webhook_deliveries"); got != n+n/2+n {
			t.Errorf("got %d deliveries, want %d", got, n+n/2+n)
		}
		if got := f.count(t, "webhook_events"); got != 3*n {
			t.Errorf("got %d events, want %d", got, 3*n)
		}
	})
}
