package task_test

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/task"
)

// Two columns of an export are the numbers of signatures. They are empty for a certificate without
// signatories.
func TestExportOfSignatures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k := newDesk(t, d)
		b := k.Issue(k.inst, "Amelia Hart", "Jo Li")
		k.Until("the certificates exist", func() bool {
			now, err := k.Batches.ByUUID(t.Context(), k.inst.ID, b.UUID, "")
			return err == nil && now.Approved == 2
		})
		k.Upload(k.inst, "Zoe Day", "diploma.pdf")
		for i, name := range []string{"Amelia Hart", "Amelia Hart", "Jo Li"} {
			status := []string{"approved", "pending", "pending"}[i]
			k.Exec(`INSERT INTO certificate_signatures (certificate_id, institution_id, signatory_index, user_id, designation, in_order, digest, status)
				SELECT id, institution_id, $1, $2, 'Dean', $3, $4, $5 FROM certificates WHERE full_name = $6`, i+1, 1000+i, false, []byte{0}, status, name)
		}
		var out bytes.Buffer
		k.ok(k.Tasks.WriteCSV(t.Context(), k.inst.ID, task.Selection{}, &out))
		rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out.String(), "\uFEFF"))).ReadAll()
		k.ok(err)
		total := slices.Index(rows[0], "Total signatures")
		if total < 0 || slices.Index(rows[0], "Approved signatures") != total+1 {
			t.Fatalf("columns = %q, want Total signatures and Approved signatures", rows[0])
		}
		got := map[string]string{}
		for _, row := range rows[1:] {
			got[row[3]] = row[total] + "/" + row[total+1]
		}
		if got["Amelia Hart"] != "2/1" || got["Jo Li"] != "1/0" || got["Zoe Day"] != "/" || len(got) != 3 {
			t.Errorf("signatures = %v, want 2/1 for Amelia Hart, 1/0 for Jo Li and none for Zoe Day", got)
		}
	})
}
