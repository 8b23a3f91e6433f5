package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// The audit log has the token and the address of the client of each action. A batch of any size is one
// entry of the log. A replayed response is not recorded.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		body := append(v.validFields(), pdfFile(samplePDF(0)))
		for range 2 {
			if a := v.postFormWithKey("once", body...); a.Status != 201 {
				t.Fatalf("the upload: status = %d, want 201; body %s", a.Status, a.Body)
			}
		}
		fields := append(entry(0, v.stage("a.pdf")), entry(1, v.stage("b.pdf"))...)
		a := v.postBulk(multipartType, multipartOf(t, fields))
		if a.Status != 202 {
			t.Fatalf("the bulk upload: status = %d, want 202; body %s", a.Status, a.Body)
		}
		v.Work(3)
		list, _, err := audit.New(d).List(t.Context(), v.inst.ID, audit.Filter{Actor: "registry"}, "", 10)
		if err != nil || len(list) != 2 {
			t.Fatalf("the audit log has %+v, error %v, want two entries", list, err)
		}
		batch, upload := list[0], list[1]
		if upload.Action != audit.CertificateUploaded || batch.Action != audit.BatchAccepted || fmt.Sprint(batch.Detail) != "map[certificates:2]" {
			t.Errorf("the entries are %+v, want an upload and a batch of two certificates", list)
		}
		for _, e := range list {
			if e.Actor.Type != audit.Token || e.Actor.ID != "1" || !e.Actor.Address.IsLoopback() || !strings.Contains(v.log.String(), `"request_id":"`+e.Actor.RequestID+`"`) {
				t.Errorf("the actor is %+v, want the token 1 with a loopback address and the id of a logged request", e.Actor)
			}
		}
	})
}
