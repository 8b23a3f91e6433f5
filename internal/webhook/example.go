package webhook

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// statusOf maps an event to the certificate status in the example of the event.
var statusOf = map[Name]string{
	Created: "processing", Updated: "pending", Processing: "processing", Approved: "approved", Rejected: "rejected", Failed: "failed", Retried: "processing",
	Revoked: "revoked", Expiring: "approved", Expired: "approved",
}

// customer is the value of Source in the events of applications.
const customer = "customer"

// example returns the payload of an event for an example certificate.
func example(name Name, endpoint, event string, at time.Time) *payload {
	p := &payload{
		Event: name, WebhookID: endpoint, Timestamp: at.UTC().Format(time.RFC3339Nano), UUID: uuid.Nil.String(), CertificateTitle: "Example certificate",
		ApplicantEmail: "recipient@example.org", Source: "vault", TriggerContext: "test", EventID: event,
		ReferenceID: "EXAMPLE-0000000000000000", Status: statusOf[name], FullName: "Example Recipient", IssueDate: at.UTC().Format(time.DateOnly), Test: true,
	}
	switch name {
	case Failed:
		p.Failure = &failure{Code: "timeout", Message: "Creating the verified PDF took too long. Retry."}
	case Revoked:
		p.RevocationReason = "An example of a reason."
	case Expiring:
		p.expiresOn(at.AddDate(0, 0, 30))
	case Expired:
		p.expiresOn(at.AddDate(0, 0, -1))
	case Updated, Processing:
		p.Source = customer
	case Rejected:
		p.Source, p.RejectionReason = customer, "An example of a reason."
	default:
	}
	return p
}

// Example returns the JSON body that Test sends for an event, but indented, with fixed ids and a fixed time.
func Example(name Name) (string, error) {
	at := time.Date(2026, 7, 1, 8, 30, 0, 0, time.UTC)
	body, err := json.MarshalIndent(example(name, "3f0e4f7a-5d0f-4c8e-9a68-0c9a4b1f7d21", "01980a2b-7c3d-7e4f-8a5b-6c7d8e9f0a1b", at), "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing an example: %w", err)
	}
	return string(body), nil
}
