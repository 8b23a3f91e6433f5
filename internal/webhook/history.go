package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// PastEvent is an event of a certificate with its deliveries.
type PastEvent struct {
	Event

	Deliveries []Delivery
}

// maxHistory is the maximum number of events, and of deliveries, that are read for one certificate.
const maxHistory = 200

// History returns the first 200 events of an institution's certificate, oldest first, with their
// deliveries that are still in the log. It reads at most 200 deliveries in total.
func (s *Service) History(ctx context.Context, institutionID, certificateID int64) (list []PastEvent, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT id, uuid, name, payload, occurred_at FROM webhook_events WHERE certificate_id = $1 AND institution_id = $2 ORDER BY id LIMIT $3`,
		certificateID, institutionID, maxHistory)
	if err != nil {
		return nil, fmt.Errorf("reading the events of a certificate: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	at := map[string]int{}
	for rows.Next() {
		var t PastEvent
		var id, occurred int64
		var uuid string
		var text []byte
		if err := rows.Scan(&id, &uuid, &t.Name, &text, &occurred); err != nil {
			return nil, fmt.Errorf("reading the events of a certificate: %w", err)
		}
		var p payload
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, fmt.Errorf("reading the events of a certificate: %w", err)
		}
		t.InstitutionID, t.CertificateID, t.UUID, t.OccurredAt, t.Status, t.TriggerContext = institutionID, certificateID, p.UUID, db.Time(occurred), p.Status, p.TriggerContext
		t.Reason = cmp.Or(p.RevocationReason, p.RejectionReason)
		if p.Failure != nil {
			t.FailureCode, t.FailureMessage = p.Failure.Code, p.Failure.Message
		}
		at[uuid] = len(list)
		list = append(list, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the events of a certificate: %w", err)
	}
	return list, s.delivered(ctx, institutionID, certificateID, func(d Delivery) {
		if i, ok := at[d.EventID]; ok {
			list[i].Deliveries = append(list[i].Deliveries, d)
		}
	})
}

// delivered calls f for each of the first 200 deliveries of a certificate's events, oldest first.
func (s *Service) delivered(ctx context.Context, institutionID, certificateID int64, f func(Delivery)) (err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+` FROM `+deliveryTables+`
		WHERE e.certificate_id = $1 AND e.institution_id = $2 ORDER BY d.id LIMIT $3`, certificateID, institutionID, maxHistory)
	if err != nil {
		return fmt.Errorf("reading the deliveries of a certificate: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var d Delivery
		if err := scanDelivery(rows, &d); err != nil {
			return fmt.Errorf("reading the deliveries of a certificate: %w", err)
		}
		f(d)
	}
	return rows.Err()
}
