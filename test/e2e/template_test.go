//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/certvault/certvault/client"
)

// template imports a built-in design as a template, publishes the template, and returns its id.
func (f *fixture) template(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(f.certvault(t, "", "template", "import", "--built-in", name, "--institution", f.institution.Slug, "--publish"))
}

// TestTemplateKill kills the vault while it creates, draws and seals the certificates of a batch from a
// template. At the end, each entry has exactly one certificate. The certificate is approved and has one
// event for its creation and one for its approval.
func TestTemplateKill(t *testing.T) {
	t.Parallel()
	const n = 200
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		f.client = f.as(t, f.token(t, "", "certificate-template:issue", "batch:view"))
		id := f.template(t, "letterpress")
		var list []client.IssueEntry
		for _, name := range people("Issued", n) {
			list = append(list, client.IssueEntry{FullName: name, ApplicantEmail: mailbox(name), IssueDate: "2026-06-30"})
		}
		accepted, err := f.api(t).Issue(t.Context(), id, "Class of 2026", list)
		if err != nil {
			t.Fatal(err)
		}
		d := f.database(t)
		for i, moment := range []string{
			`SELECT count(*) FROM batches`,
			`SELECT count(*) FROM certificates WHERE id > 60`,
			`SELECT count(*) / 20 FROM certificates WHERE status = 'approved'`,
			`SELECT count(*) / 120 FROM certificates WHERE status = 'approved'`,
		} {
			eventually(t, batchTime, moment, func() bool { return count(t, d, moment) > 0 })
			f.Kill()
			t.Logf("kill %d: %d certificates, %d approved", i, count(t, d, `SELECT count(*) FROM certificates`), count(t, d, `SELECT count(*) FROM certificates WHERE status = 'approved'`))
			f.restart(t)
		}
		eventually(t, batchTime, "the batch is finished", func() bool { return f.batch(t, accepted.BatchID).Status != "processing" })
		b := f.batch(t, accepted.BatchID)
		if b.Approved != n || b.Total != n || b.Source != "template" || b.Template == nil || b.Template.ID != id {
			t.Errorf("batch = %+v, want %d approved certificates of the template", b, n)
		}
		for what, query := range map[string]string{
			"people with more than one certificate": `SELECT count(*) FROM (SELECT email FROM certificates GROUP BY email HAVING count(*) > 1) AS doubled`,
			"certificates without the shared base":  `SELECT count(DISTINCT original_key) - 1 FROM certificates`,
			"certificates without exactly one event of each kind": `SELECT count(*) FROM certificates c WHERE
				(SELECT count(*) FROM webhook_events e WHERE e.certificate_id = c.id AND e.name LIKE '%.created') <> 1 OR
				(SELECT count(*) FROM webhook_events e WHERE e.certificate_id = c.id AND e.name LIKE '%.approved') <> 1`,
		} {
			if got := count(t, d, query); got != 0 {
				t.Errorf("got %d %s, want 0", got, what)
			}
		}
		for i, e := range f.entriesOf(t, accepted.BatchID) {
			if e.Index != i || e.Status != "approved" || e.UUID == nil {
				t.Errorf("entry %d = %+v, want approved", i, e)
			}
		}
		if out := f.certvault(t, "", "doctor", "--files"); !strings.Contains(out, fmt.Sprintf("all files of %d certificates", n)) {
			t.Errorf("doctor --files printed %s, want that it checked the files of all certificates", out)
		}
	})
}
