package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
)

// Event is a change of a certificate that is reported to endpoints.
type Event struct {
	Name           Name
	InstitutionID  int64
	CertificateID  int64
	OccurredAt     time.Time
	UUID           string
	Title          string
	ApplicantEmail string
	Source         string
	TriggerContext string
	ReferenceID    string
	Status         string
	FullName       string
	IssueDate      string
	// FailureCode and FailureMessage are set for a failed certificate. Reason is set for a revoked
	// certificate and for a rejected application.
	FailureCode, FailureMessage, Reason string
	// ExpiresOn is the last day of validity, or "".
	ExpiresOn string
	// Replaces is the certificate that this certificate replaces, or nil. ReplacedBy is the certificate
	// that replaced this certificate, or nil.
	Replaces, ReplacedBy *Link
}

// Link identifies another certificate of the institution.
type Link struct {
	UUID        string `json:"uuid"`
	ReferenceID string `json:"reference_id"`
}

// payload is the body of a delivery.
type payload struct {
	Event            Name     `json:"event"`
	WebhookID        string   `json:"webhook_id,omitempty"`
	Timestamp        string   `json:"timestamp"`
	ApplicationID    int64    `json:"application_id"`
	UUID             string   `json:"uuid"`
	CertificateTitle string   `json:"certificate_title"`
	ApplicantEmail   string   `json:"applicant_email"`
	Source           string   `json:"source"`
	TriggerContext   string   `json:"trigger_context"`
	EventID          string   `json:"event_id"`
	ReferenceID      string   `json:"reference_id"`
	Status           string   `json:"status"`
	FullName         string   `json:"full_name"`
	IssueDate        string   `json:"issue_date"`
	Failure          *failure `json:"failure,omitempty"`
	RevocationReason string   `json:"revocation_reason,omitempty"`
	RejectionReason  string   `json:"rejection_reason,omitempty"`
	Replaces         *Link    `json:"replaces,omitempty"`
	ReplacedBy       *Link    `json:"replaced_by,omitempty"`
	// ExpiresOn is null for a certificate that does not expire.
	ExpiresOn *string `json:"expires_on"`
	// Test is true if the event is an example without a certificate.
	Test bool `json:"test,omitempty"`
}

// expiresOn sets the last day of validity of an example, and an issue date one year earlier.
func (p *payload) expiresOn(at time.Time) {
	day := at.UTC().Format(time.DateOnly)
	p.ExpiresOn, p.IssueDate = &day, at.UTC().AddDate(-1, 0, 0).Format(time.DateOnly)
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// EmitTx writes events, and for each event a delivery to each subscribed endpoint of its institution. It
// uses the transaction of the change, so that the change, the events and the deliveries are committed
// together. A delivery to a paused or switched-off endpoint waits until the endpoint is active again.
func (s *Service) EmitTx(ctx context.Context, tx *db.Tx, events ...Event) error {
	var list []newDelivery
	for some := range slices.Chunk(events, emitBatch) {
		deliveries, err := insertEventsTx(ctx, tx, some)
		if err != nil {
			return err
		}
		list = append(list, deliveries...)
	}
	for some := range slices.Chunk(list, emitBatch) {
		if err := deliverTx(ctx, tx, some); err != nil {
			return fmt.Errorf("writing deliveries: %w", err)
		}
	}
	if len(list) > 0 {
		s.wakeTx(tx)
	}
	return nil
}

// emitBatch is the maximum number of rows that one statement inserts.
const emitBatch = 50

// newDelivery is an event for one endpoint.
type newDelivery struct {
	eventID  int64
	endpoint Endpoint
	payload  *payload
	at       time.Time
}

// insertEventsTx inserts events, and returns their deliveries, which the caller must insert.
func insertEventsTx(ctx context.Context, tx *db.Tx, events []Event) ([]newDelivery, error) {
	const columns = 6
	var values strings.Builder
	payloads, args := make([]*payload, len(events)), make([]any, 0, columns*len(events))
	for i, e := range events {
		payloads[i] = payloadOf(e)
		body, err := json.Marshal(payloads[i])
		if err != nil {
			return nil, fmt.Errorf("writing the event: %w", err)
		}
		if i > 0 {
			values.WriteString(", ")
		}
		fmt.Fprintf(&values, "(%s)", db.Placeholders(len(args)+1, columns))
		args = append(args, payloads[i].EventID, e.InstitutionID, e.CertificateID, string(e.Name), string(body), db.Micros(e.OccurredAt))
	}
	// The count saves a query for each institution without endpoints.
	rows, err := tx.QueryContext(ctx, `
		INSERT INTO webhook_events (uuid, institution_id, certificate_id, name, payload, occurred_at) VALUES `+values.String()+`
		RETURNING id, uuid, (SELECT count(*) FROM webhook_endpoints WHERE institution_id = webhook_events.institution_id)`, args...)
	if err != nil {
		return nil, fmt.Errorf("writing the event: %w", err)
	}
	// The order of the returned rows is not specified.
	type row struct{ id, endpoints int64 }
	inserted := map[string]row{}
	if _, err := db.Collect(rows, func(rows *sql.Rows) (_ struct{}, err error) {
		var r row
		var uuid string
		err = rows.Scan(&r.id, &uuid, &r.endpoints)
		inserted[uuid] = r
		return struct{}{}, err
	}); err != nil {
		return nil, fmt.Errorf("writing the event: %w", err)
	}
	type topic struct {
		institution int64
		name        Name
	}
	subscribers := map[topic][]Endpoint{}
	var list []newDelivery
	for i, e := range events {
		r := inserted[payloads[i].EventID]
		if r.endpoints == 0 {
			continue
		}
		t := topic{e.InstitutionID, e.Name}
		if _, known := subscribers[t]; !known {
			if subscribers[t], err = subscribersTx(ctx, tx, e.InstitutionID, e.Name); err != nil {
				return nil, err
			}
		}
		for _, endpoint := range subscribers[t] {
			list = append(list, newDelivery{r.id, endpoint, payloads[i], e.OccurredAt})
		}
	}
	return list, nil
}

func payloadOf(e Event) *payload {
	p := &payload{
		Event: e.Name, Timestamp: e.OccurredAt.UTC().Format(time.RFC3339Nano), ApplicationID: e.CertificateID, UUID: e.UUID,
		CertificateTitle: e.Title, ApplicantEmail: e.ApplicantEmail, Source: e.Source, TriggerContext: e.TriggerContext,
		EventID: uuid.Must(uuid.NewV7()).String(), ReferenceID: e.ReferenceID, Status: e.Status, FullName: e.FullName,
		IssueDate: e.IssueDate, Replaces: e.Replaces, ReplacedBy: e.ReplacedBy,
	}
	if e.Name == Rejected {
		p.RejectionReason = e.Reason
	} else {
		p.RevocationReason = e.Reason
	}
	if e.FailureCode != "" {
		p.Failure = &failure{Code: e.FailureCode, Message: e.FailureMessage}
	}
	if e.ExpiresOn != "" {
		p.ExpiresOn = &e.ExpiresOn
	}
	return p
}

// deliverTx writes deliveries. Each delivery has its own body, because the body contains the id of
// the endpoint.
func deliverTx(ctx context.Context, tx *db.Tx, list []newDelivery) error {
	const columns = 6
	column, id := db.NewID(tx, "webhook_deliveries")
	var rows strings.Builder
	args := make([]any, 0, columns*len(list))
	for i, d := range list {
		d.payload.WebhookID = d.endpoint.UUID
		body, err := json.Marshal(d.payload)
		if err != nil {
			return err
		}
		if i > 0 {
			rows.WriteString(", ")
			if id != "" {
				id = "NULL, "
			}
		}
		fmt.Fprintf(&rows, "(%s%s)", id, db.Placeholders(len(args)+1, columns))
		args = append(args, d.eventID, d.endpoint.ID, string(body), string(DeliveryPending), db.Micros(d.at), db.Micros(d.at))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO webhook_deliveries (`+column+`event_id, endpoint_id, body, status, due_at, created_at) VALUES `+rows.String(), args...)
	return err
}

func subscribersTx(ctx context.Context, tx *db.Tx, institutionID int64, name Name) (list []Endpoint, err error) {
	rows, err := tx.QueryContext(ctx,
		`SELECT id, uuid, events FROM webhook_endpoints WHERE institution_id = $1 AND status <> 'deleted' ORDER BY id`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("reading endpoints: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e Endpoint
		var events string
		if err := rows.Scan(&e.ID, &e.UUID, &events); err != nil {
			return nil, fmt.Errorf("reading endpoints: %w", err)
		}
		if err := json.Unmarshal([]byte(events), &e.Events); err != nil {
			return nil, fmt.Errorf("reading the events of endpoint %s: %w", e.UUID, err)
		}
		if len(e.Events) == 0 || slices.Contains(e.Events, name) {
			list = append(list, e)
		}
	}
	return list, rows.Err()
}
