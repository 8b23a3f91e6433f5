package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Happening is an event of a certificate, and where it was sent.
type Happening struct {
	Name       Name
	OccurredAt time.Time
	// FailureMessage is of a failed certificate, Reason of a revoked one.
	FailureMessage, Reason string
	Sent                   []Sending

	id int64
}

// Sending is a delivery of an event, with the address that it goes to.
type Sending struct {
	Delivery

	URL string
}

// maxHappenings bounds how much of a certificate's life is told.
const maxHappenings = 200

// Story tells what happened to a certificate of an institution, in its order, and
// who was told. Deliveries are forgotten after their time, events are not.
func (s *Service) Story(ctx context.Context, institutionID, certificateID int64) ([]Happening, error) {
	list, err := s.happenings(ctx, institutionID, certificateID)
	if err != nil {
		return nil, fmt.Errorf("reading the events of a certificate: %w", err)
	}
	byID := map[int64]*Happening{}
	for i := range list {
		byID[list[i].id] = &list[i]
	}
	if err := s.sendings(ctx, institutionID, certificateID, byID); err != nil {
		return nil, fmt.Errorf("reading the deliveries of a certificate: %w", err)
	}
	return list, nil
}

func (s *Service) happenings(ctx context.Context, institutionID, certificateID int64) (list []Happening, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT id, name, occurred_at, payload FROM webhook_events WHERE certificate_id = $1 AND institution_id = $2 ORDER BY id LIMIT $3`,
		certificateID, institutionID, maxHappenings)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var h Happening
		var at int64
		var body []byte
		if err := rows.Scan(&h.id, &h.Name, &at, &body); err != nil {
			return nil, err
		}
		var p payload
		if err := json.Unmarshal(body, &p); err != nil {
			return nil, err
		}
		h.OccurredAt, h.Reason = db.Time(at), p.RevocationReason
		if p.Failure != nil {
			h.FailureMessage = p.Failure.Message
		}
		list = append(list, h)
	}
	return list, rows.Err()
}

func (s *Service) sendings(ctx context.Context, institutionID, certificateID int64, byID map[int64]*Happening) (err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+deliveryColumns+`, p.url, e.id FROM webhook_events e JOIN webhook_deliveries d ON d.event_id = e.id
			JOIN webhook_endpoints p ON p.id = d.endpoint_id
		WHERE e.certificate_id = $1 AND p.institution_id = $2 ORDER BY d.id LIMIT $3`, certificateID, institutionID, maxHappenings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var sent Sending
		var event int64
		if err := scanDelivery(rows, &sent.Delivery, &sent.URL, &event); err != nil {
			return err
		}
		if h := byID[event]; h != nil {
			h.Sent = append(h.Sent, sent)
		}
	}
	return rows.Err()
}
