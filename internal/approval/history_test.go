package approval_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// The history of a certificate shows that it waits for signatories. It has each refusal once and each
// approval once, even if a batch was approved. After a retry it does not have the earlier approvals.
func TestHistoryOfSignatures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		as := func(m *account.Member) context.Context {
			f.Advance(time.Minute)
			return audit.WithActor(t.Context(), audit.Actor{Type: audit.User, ID: m.UUID, Name: m.Name})
		}
		b, list := f.issue(t, "Amelia Hart")
		uuid := list[0].UUID
		check := func(when string, want ...string) {
			t.Helper()
			c, _ := f.get(t, uuid)
			history, err := f.Certs.History(t.Context(), c)
			ok(t, err)
			var got []string
			for _, m := range history {
				text := fmt.Sprintf("%s %s %s", m.Event, m.Action, m.By.Name)
				if m.Asks {
					text += " asks"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: history = %q, want %q", when, got, want)
			}
		}
		const p = "certificate_application."
		created := p + "created  Registry asks"
		check("waiting", created)
		_, err := f.Approvals.Approve(as(f.dean), f.inst.ID, f.dean.UserID, approval.Choice{BatchID: b.UUID})
		ok(t, err)
		check("one approval of the batch", created, " certificate.signed Ada Obi")
		_, err = f.Approvals.Decline(as(f.rec), f.inst.ID, f.rec.UserID, approval.Choice{UUIDs: []string{uuid}}, "The date is wrong.")
		ok(t, err)
		declined := p + "failed certificate.declined Bo Li"
		check("a refusal", created, " certificate.signed Ada Obi", declined)
		_, err = f.Certs.Retry(as(f.dean), f.inst.ID, uuid, nil)
		ok(t, err)
		retried := p + "retried certificate.retried Ada Obi asks"
		check("a retry", created, declined, retried)
		for _, m := range []*account.Member{f.rec, f.dean} {
			_, err = f.Approvals.Approve(as(m), f.inst.ID, m.UserID, approval.Choice{UUIDs: []string{uuid}})
			ok(t, err)
		}
		f.Advance(time.Minute)
		f.Settle()
		check("the end", created, declined, retried, " certificate.signed Bo Li", " certificate.signed Ada Obi", p+"processing  ", p+"approved  ")
	})
}
