package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/webhook"
)

// The event of a declined certificate that was not delivered yet remains without the recipient's data and
// without the name and the words of the signatory. The receiver still learns that the certificate failed.
func TestErasedEventOfDeclinedCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := open(t, d)
		inst := f.institution(t, "AAA")
		e, certificate := f.endpoint(t, inst), f.certificate(t, inst)
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			if err := f.EmitTx(t.Context(), tx, webhook.Event{
				Name: webhook.Failed, InstitutionID: inst, CertificateID: certificate, OccurredAt: f.now, UUID: "the-uuid", Title: "BSc",
				ApplicantEmail: "jane@example.org", Source: "template", TriggerContext: "single_upload", ReferenceID: "AAA-1", Status: "failed",
				FullName: "Jane", IssueDate: "2026-07-01", FailureCode: "declined", FailureMessage: "Declined by Ada Obi (Dean): Jane has not paid.",
			}); err != nil {
				return err
			}
			return f.EraseTx(t.Context(), tx, certificate)
		}); err != nil {
			t.Fatal(err)
		}
		body := f.bodies(t)[e.ID]
		text := fmt.Sprint(body)
		for _, personal := range []string{"Jane", "jane@", "Ada", "paid"} {
			if strings.Contains(text, personal) {
				t.Errorf("the delivery contains %q after the erasure: %s", personal, text)
			}
		}
		if failure, ok := body["failure"].(map[string]any); !ok || failure["code"] != "declined" || body["uuid"] != "the-uuid" {
			t.Errorf("the delivery is %s, want the code of the failure and the id of the certificate", text)
		}
	})
}
