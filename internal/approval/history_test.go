package approval_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/task"
)

// The history of a certificate says that it waits for signatories, and has each approval and refusal once,
// also if a whole batch was approved.
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

// An export has the numbers of signatures at its end. They are empty for a certificate without signatories.
func TestExportOfSignatures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		_, list := f.issue(t, "Amelia Hart", "Jo Li")
		f.Upload(f.inst, "Zoe Day", "diploma.pdf")
		_, err := f.Approvals.Approve(t.Context(), f.inst.ID, f.dean.UserID, approval.Choice{UUIDs: []string{list[0].UUID}})
		ok(t, err)
		var b bytes.Buffer
		ok(t, f.Tasks.WriteCSV(t.Context(), f.inst.ID, task.Selection{}, &b))
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\uFEFF"))).ReadAll()
		ok(t, err)
		total := slices.Index(rows[0], "Total signatures")
		if total < 0 || slices.Index(rows[0], "Approved signatures") != total+1 {
			t.Fatalf("columns = %q, want the numbers of signatures", rows[0])
		}
		got := map[string]string{}
		for _, row := range rows[1:] {
			got[row[3]] = row[total] + "/" + row[total+1]
		}
		if got["Amelia Hart"] != "2/1" || got["Jo Li"] != "2/0" || got["Zoe Day"] != "/" || len(got) != 3 {
			t.Errorf("signatures = %v, want 2/1, 2/0 and none", got)
		}
	})
}
