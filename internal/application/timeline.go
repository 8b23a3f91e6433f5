package application

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// eventTx adds an entry to the timeline of an application.
func eventTx(ctx context.Context, tx *db.Tx, a *Application, action string, by Person, text string, now time.Time) error {
	args := []any{a.InstitutionID, a.id, db.Micros(now), action, optional(text)}
	for _, c := range personColumns("by", by) {
		args = append(args, c.value)
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO application_events (institution_id, application_id, at, action, text, by_type, by_id, by_name) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		args...); err != nil {
		return fmt.Errorf("recording a step of an application: %w", err)
	}
	return nil
}

// Timeline returns the steps of an application, oldest first. The applicant must not see By.
func (s *Service) Timeline(ctx context.Context, a *Application) ([]Event, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT at, action, by_type, by_id, by_name, text FROM application_events WHERE institution_id = $1 AND application_id = $2 ORDER BY id`, a.InstitutionID, a.id)
	if err != nil {
		return nil, fmt.Errorf("reading the timeline of an application: %w", err)
	}
	return db.Collect(rows, func(rows *sql.Rows) (e Event, err error) {
		var at int64
		var kind, name, text sql.NullString
		var id sql.NullInt64
		err = rows.Scan(&at, &e.Action, &kind, &id, &name, &text)
		e.At, e.By, e.Text = db.Time(at), Person{id.Int64, kind.String, name.String}, text.String
		return e, err
	})
}

// certificateActions maps the statuses of a certificate to the actions of the timeline.
var certificateActions = map[cert.Status]string{cert.Approved: "certificate_approved", cert.Failed: "failed", cert.Revoked: "revoked"}

// MovedTx adds the change of the status of a certificate to the timeline of its application. The callback
// cert.Config.StatusChanged calls MovedTx.
func (s *Service) MovedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	if c.Source != cert.Customer {
		return nil
	}
	action := certificateActions[c.Status]
	if c.EventContext == cert.Retrying && (c.Status == cert.Processing || c.Status == cert.Pending) {
		action = "retried"
	}
	if action == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO application_events (institution_id, application_id, at, action) SELECT institution_id, id, $1, $2 FROM applications WHERE certificate_id = $3`,
		db.Micros(s.moment()), action, c.ID); err != nil {
		return fmt.Errorf("recording the certificate of an application: %w", err)
	}
	return nil
}
