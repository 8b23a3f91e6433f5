//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// batchTime is the maximum time for a batch on a busy machine.
const batchTime = 3 * time.Minute

// entries returns an entry for each name, with the indexes 0, 100, 200 and so on.
func entries(fileID string, names ...string) []client.Entry {
	list := make([]client.Entry, len(names))
	for i, name := range names {
		list[i] = client.Entry{Index: 100 * i, CertificateTitle: "Diploma", FullName: name, ApplicantEmail: mailbox(name), FileID: fileID}
	}
	return list
}

func people(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s %d", prefix, i)
	}
	return list
}

// TestBulk submits a batch with a duplicate, and then submits the same entries again with a new entry.
func TestBulk(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		single := f.upload(t, form("Duplicate Person"))
		first, second := f.stage(t, "One"), f.stage(t, "Two")
		list := append(entries(first, "Ada Obi", "Duplicate Person"), client.Entry{
			Index: 999_999, CertificateTitle: "Diploma", FullName: "名前", ApplicantEmail: "na@example.org", FileID: second, IssueDate: "2024-02-29", Details: "with honours",
		})
		id := f.submit(t, list)
		eventually(t, batchTime, "the batch is finished", func() bool { return f.batch(t, id).Status != "processing" })
		b, made := f.batch(t, id), f.entriesOf(t, id)
		if b.Status != "completed_with_errors" || b.Approved != 2 || b.Rejected != 1 || b.CompletedAt == nil || b.Progress != 100 || len(made) != 3 {
			t.Fatalf("batch = %+v with %d entries, want completed_with_errors with 2 approved and 1 rejected of 3 entries", b, len(made))
		}
		if e := made[1]; e.Index != 100 || e.Status != "rejected" || e.ExistingUUID == nil || *e.ExistingUUID != single.UUID {
			t.Errorf("entry of the duplicate = %+v, want rejected with the existing certificate", e)
		}
		e := made[2]
		if e.Index != 999_999 || e.Status != "approved" || e.UUID == nil || e.ReferenceID == nil {
			t.Fatalf("entry = %+v, want the approved entry 999999 with a UUID and a reference id", e)
		}
		c := f.await(t, *e.UUID, "approved")
		if c.FullName != "名前" || c.IssueDate != "2024-02-29" || c.Details == nil || *c.Details != "with honours" || c.TriggerContext != "bulk_upload" || c.ReferenceID != *e.ReferenceID {
			t.Errorf("certificate = %+v, want the values of the entry", c)
		}
		file := f.verified(t, c.UUID)
		if sum := sha256.Sum256(file); c.VerifiedSHA256 == nil || *c.VerifiedSHA256 != hex.EncodeToString(sum[:]) || !bytes.HasPrefix(file, sample("Two")) {
			t.Error("the verified PDF does not begin with the file of the entry, or does not have the hash verified_sha256")
		}
		// Only the certificate of the new entry is created.
		again := f.submit(t, append(list, client.Entry{Index: 7, CertificateTitle: "Diploma", FullName: "Eva Kim", ApplicantEmail: "eva@example.org", FileID: first}))
		eventually(t, batchTime, "the batch is finished", func() bool { return f.batch(t, again).Status != "processing" })
		made = f.entriesOf(t, again)
		if b := f.batch(t, again); b.Approved != 1 || b.Rejected != 3 || made[0].Index != 0 || made[1].Index != 7 || made[1].Status != "approved" {
			t.Errorf("batch with the same entries = %+v, want 1 approved and 3 rejected, and the entry 7 second and approved", b)
		}
		var listed []string
		for b, err := range f.api(t).Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, b.ID)
		}
		if !slices.Equal(listed, []string{again, id}) {
			t.Errorf("list of batches = %v, want %v", listed, []string{again, id})
		}
	})
}

// TestBulkKill kills the vault at four moments: after the vault accepted a batch, twice while it
// creates the certificates of the entries, and while it seals the certificates. In the end, each
// certificate must exist exactly once.
func TestBulkKill(t *testing.T) {
	t.Parallel()
	const n, same = 200, 20
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		names := people("Kill", n)
		id := f.submit(t, entries(f.stage(t, "Jane Doe"), append(names, names[:same]...)...))
		d := f.database(t)
		for i, moment := range []string{
			`SELECT count(*) FROM batches`,
			`SELECT count(*) FROM certificates WHERE id > 30`,
			`SELECT count(*) FROM certificates WHERE id > 150`,
			`SELECT count(*) / 100 FROM certificates WHERE status = 'approved'`,
		} {
			// After two kills, a certificate is sealed alone. It fails as designed if a kill interrupts that too.
			const alone = `SELECT count(*) FROM certificates WHERE status = 'processing' AND crashes >= 2`
			eventually(t, batchTime, moment, func() bool { return count(t, d, moment) > 0 && count(t, d, alone) == 0 })
			f.Kill()
			waiting := count(t, d, `SELECT count(*) FROM batch_entries WHERE status = 'queued'`)
			t.Logf("kill %d: %d entries queued, %d certificates, %d approved", i, waiting,
				count(t, d, `SELECT count(*) FROM certificates`), count(t, d, `SELECT count(*) FROM certificates WHERE status = 'approved'`))
			f.restart(t)
			f.batch(t, id)
		}
		eventually(t, batchTime, "the batch is finished", func() bool { return f.batch(t, id).Status != "processing" })
		if b := f.batch(t, id); b.Approved != n || b.Rejected != same || b.Total != n+same {
			t.Errorf("batch = %+v, want %d approved and %d rejected", b, n, same)
		}
		for what, query := range map[string]string{
			"certificates not approved or in no batch": `SELECT count(*) FROM certificates WHERE status <> 'approved' OR batch_id IS NULL`,
			"people with more than one certificate":    `SELECT count(*) FROM (SELECT email FROM certificates GROUP BY email HAVING count(*) > 1) AS doubled`,
			"entries without their certificate": `SELECT count(*) FROM batch_entries e LEFT JOIN certificates c ON c.id = e.certificate_id
				WHERE e.status = 'made' AND c.id IS NULL OR e.status NOT IN ('made', 'rejected')`,
			"certificates without exactly one event of each kind": `SELECT count(*) FROM certificates c WHERE
				(SELECT count(*) FROM webhook_events e WHERE e.certificate_id = c.id AND e.name LIKE '%.created') <> 1 OR
				(SELECT count(*) FROM webhook_events e WHERE e.certificate_id = c.id AND e.name LIKE '%.approved') <> 1`,
		} {
			if got := count(t, d, query); got != 0 {
				t.Errorf("got %d %s, want 0", got, what)
			}
		}
		if got := count(t, d, `SELECT count(*) FROM certificates`); got != n {
			t.Errorf("got %d certificates, want %d", got, n)
		}
	})
}

// TestBulkTerminate sends SIGTERM while a batch is processed. The vault exits with 0, and continues
// with the batch after a restart.
func TestBulkTerminate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		id := f.submit(t, entries(f.stage(t, "Jane Doe"), people("Terminate", 150)...))
		d := f.database(t)
		eventually(t, batchTime, "more than 50 certificates are created", func() bool { return count(t, d, `SELECT count(*) FROM certificates`) > 50 })
		if code, err := f.Stop(); code != 0 || err != nil {
			t.Errorf("exit code = %d, %v; want 0", code, err)
		}
		f.restart(t)
		eventually(t, batchTime, "the batch is finished", func() bool { return f.batch(t, id).Status != "processing" })
		if b := f.batch(t, id); b.Approved != 150 {
			t.Errorf("batch = %+v, want 150 approved", b)
		}
	})
}

// TestBulkMemory sends three batches concurrently, each with a body of the maximum size and with long
// texts. It checks the peak memory of the vault.
func TestBulkMemory(t *testing.T) {
	f := startIn(t, t.TempDir(), "")
	file := f.stage(t, "Jane Doe")
	before := peak(t, f.PID())
	long := strings.Repeat("🎓", 250)
	list := make([]vault.Entry, 5000)
	for i := range list {
		list[i] = vault.Entry{Index: i, Title: long, FullName: long, Email: fmt.Sprintf("p%d@example.org", i), FileID: file, Details: strings.Repeat("é", 1000)}
	}
	contentType, body, err := vault.EncodeEntries(list)
	if err != nil {
		t.Fatal(err)
	}
	body = append(body, bytes.Repeat([]byte{' '}, 64<<20-len(body))...)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			req, err := f.client.Request(t.Context(), "POST", vault.BulkPath, bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", contentType)
			a, err := f.client.Send(req)
			// The vault responds with 503 to requests that would exceed its memory limit.
			if err != nil || a.Status != 202 && (a.Status != 503 || a.Header.Get("Retry-After") == "") {
				t.Errorf("got %+v, %v; want status 202, or 503 with Retry-After", a, err)
			}
		})
	}
	wg.Wait()
	after := peak(t, f.PID())
	t.Logf("peak resident memory: %d MB before, %d MB after", before>>10, after>>10)
	if after > maxResident {
		t.Errorf("peak resident memory = %d MB, want at most %d MB", after>>10, maxResident>>10)
	}
}
