package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const endpointColumns = `id, uuid, institution_id, name, url, events, status, created_at, stopped_at, stop_reason,
	failures, openings, held_until, failing_since, failed_at, delivered_at, previous_until, promoted`

func scanEndpoint(row interface{ Scan(dest ...any) error }) (*Endpoint, error) {
	var e Endpoint
	var events string
	var created, inBackoff int64
	var stopped, since, failed, delivered, previous sql.NullInt64
	var reason sql.NullString
	var failures, openings int
	err := row.Scan(&e.ID, &e.UUID, &e.InstitutionID, &e.Name, &e.URL, &events, &e.Status, &created, &stopped, &reason,
		&failures, &openings, &inBackoff, &since, &failed, &delivered, &previous, &e.Promoted)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "There is no such endpoint.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading an endpoint: %w", err)
	}
	if err := json.Unmarshal([]byte(events), &e.Events); err != nil {
		return nil, fmt.Errorf("reading the events of endpoint %s: %w", e.UUID, err)
	}
	e.CreatedAt, e.StopReason = db.Time(created), Reason(reason.String)
	e.StoppedAt, e.FailingSince, e.FailedAt = db.OptionalTime(stopped), db.OptionalTime(since), db.OptionalTime(failed)
	e.DeliveredAt, e.OverlapUntil = db.OptionalTime(delivered), db.OptionalTime(previous)
	e.BreakerOpen = openings > 0
	if inBackoff != 0 {
		until := db.Time(inBackoff)
		e.BackoffUntil = &until
	}
	return &e, nil
}

// endpointTx reads an institution's endpoint. q is a transaction or the database.
func endpointTx(ctx context.Context, q db.Queryer, institutionID int64, uuid string) (*Endpoint, error) {
	return scanEndpoint(q.QueryRowContext(ctx,
		`SELECT `+endpointColumns+` FROM webhook_endpoints WHERE institution_id = $1 AND uuid = $2 AND status <> 'deleted'`, institutionID, uuid))
}

// Endpoint returns an institution's endpoint.
func (s *Service) Endpoint(ctx context.Context, institutionID int64, uuid string) (*Endpoint, error) {
	return endpointTx(ctx, s.db, institutionID, uuid)
}

// List returns an institution's endpoints, newest first. It sets Waiting of each endpoint.
func (s *Service) List(ctx context.Context, institutionID int64) (list []Endpoint, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+endpointColumns+`,
			(SELECT count(*) FROM (SELECT 1 FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.status = 'pending' LIMIT 10000) AS waiting)
		FROM webhook_endpoints e WHERE institution_id = $1 AND status <> 'deleted' ORDER BY id DESC`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var waiting int
		e, err := scanEndpoint(scanner(func(dest ...any) error { return rows.Scan(append(dest, &waiting)...) }))
		if err != nil {
			return nil, err
		}
		e.Waiting = waiting
		list = append(list, *e)
	}
	return list, rows.Err()
}

// scanner is the Scan method of a row that also reads additional columns.
type scanner func(dest ...any) error

// Scan reads the row.
func (s scanner) Scan(dest ...any) error { return s(dest...) }
