package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
)

// redactBatch is the maximum number of events that one transaction reads.
const redactBatch = 500

// RemoveTx removes the events of a certificate that is about to be removed, with their deliveries.
func (*Service) RemoveTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	const events = `(SELECT id FROM webhook_events WHERE certificate_id = $1)`
	for _, statement := range []string{
		`DELETE FROM webhook_attempts WHERE delivery_id IN (SELECT id FROM webhook_deliveries WHERE event_id IN ` + events + `)`,
		`DELETE FROM webhook_deliveries WHERE event_id IN ` + events,
		`DELETE FROM webhook_events WHERE certificate_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, certificateID); err != nil {
			return fmt.Errorf("removing the events of a certificate: %w", err)
		}
	}
	return nil
}

// EraseTx removes the events of a certificate whose record is about to be erased. An event with a
// pending delivery remains without personal data, so that its receivers still get the event. It contains
// the id and the reference id of the record. The event is removed after its deliveries by removeOldLog.
func (s *Service) EraseTx(ctx context.Context, tx *db.Tx, certificateID int64) error {
	const waiting = `SELECT e.id FROM webhook_events e WHERE e.certificate_id = $1
		AND EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_id = e.id AND d.status = 'pending')`
	for _, statement := range []string{
		// The log of attempts contains responses, which may repeat the personal data.
		`DELETE FROM webhook_attempts WHERE delivery_id IN (SELECT id FROM webhook_deliveries WHERE event_id IN (` + waiting + `))`,
		`DELETE FROM webhook_deliveries WHERE status <> 'pending' AND event_id IN (` + waiting + `)`,
	} {
		if _, err := tx.ExecContext(ctx, statement, certificateID); err != nil {
			return fmt.Errorf("removing the deliveries of a certificate: %w", err)
		}
	}
	for _, t := range []struct{ read, write string }{
		{`SELECT id, body FROM webhook_deliveries WHERE event_id IN (` + waiting + `) ORDER BY id`, `UPDATE webhook_deliveries SET body = $1 WHERE id = $2`},
		{`SELECT id, payload FROM webhook_events WHERE id IN (` + waiting + `) ORDER BY id`,
			`UPDATE webhook_events SET payload = $1, certificate_id = NULL, erased = true WHERE id = $2`},
	} {
		if err := eraseTextsTx(ctx, tx, certificateID, t.read, t.write); err != nil {
			return fmt.Errorf("erasing the events of a certificate: %w", err)
		}
	}
	return s.RemoveTx(ctx, tx, certificateID)
}

// eraseTextsTx removes the personal data from payloads. The statement read selects the payloads, and the
// statement write stores one of them.
func eraseTextsTx(ctx context.Context, tx *db.Tx, certificateID int64, read, write string) error {
	type stored struct {
		id   int64
		text []byte
	}
	rows, err := tx.QueryContext(ctx, read, certificateID)
	if err != nil {
		return err
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (one stored, err error) {
		err = rows.Scan(&one.id, &one.text)
		return one, err
	})
	if err != nil {
		return err
	}
	for _, one := range list {
		var p payload
		if err := json.Unmarshal(one.text, &p); err != nil {
			return err
		}
		p.ApplicantEmail, p.FullName, p.RejectionReason, p.RevocationReason = "", "", "", ""
		if p.Failure != nil {
			p.Failure.Message = "" // of a declined certificate, it has the name and the words of a signatory
		}
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, write, string(text), one.id); err != nil {
			return err
		}
	}
	return nil
}

// isTest is an SQL condition: the event e belongs to a test. The events of an erased certificate have no
// certificate_id either.
const isTest = `(e.certificate_id IS NULL AND NOT e.erased)`

// oldEvent is an event that RedactEventsTx reads. test is true if the event has no certificate.
type oldEvent struct {
	id, occurred int64
	test         bool
	text         []byte
}

// RedactEventsTx removes names and addresses from the payloads of an institution's events that
// occurred before a time, oldest first, except events without a certificate. Each call reads at most 500
// events and continues after the events of the previous call. RedactEventsTx returns the number of
// changed events and whether more may follow. The events themselves stay, because they are the
// history of their certificates. Deliveries have their own bodies, which are removed with the log.
func (*Service) RedactEventsTx(ctx context.Context, tx *db.Tx, institutionID int64, before time.Time) (n int, more bool, err error) {
	previous, err := account.LastPurged(ctx, tx, institutionID, account.PurgedEvent)
	if err != nil {
		return 0, false, err
	}
	list, err := oldEventsTx(ctx, tx, institutionID, previous)
	if err != nil {
		return 0, false, fmt.Errorf("reading events: %w", err)
	}
	var last int64
	for _, e := range list {
		if e.occurred >= db.Micros(before) {
			break
		}
		last = e.id
		if e.test {
			continue
		}
		var p payload
		if err := json.Unmarshal(e.text, &p); err != nil {
			return 0, false, fmt.Errorf("reading an event: %w", err)
		}
		p.ApplicantEmail, p.FullName = "", ""
		text, err := json.Marshal(p)
		if err != nil {
			return 0, false, fmt.Errorf("writing an event: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE webhook_events SET payload = $1 WHERE id = $2`, string(text), e.id); err != nil {
			return 0, false, fmt.Errorf("redacting an event: %w", err)
		}
		n++
	}
	if last == 0 {
		return 0, false, nil
	}
	if err := account.SetLastPurgedTx(ctx, tx, institutionID, account.PurgedEvent, last); err != nil {
		return 0, false, err
	}
	return n, len(list) == redactBatch && last == list[redactBatch-1].id, nil
}

func oldEventsTx(ctx context.Context, tx *db.Tx, institutionID, after int64) ([]oldEvent, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT id, occurred_at, certificate_id IS NULL, payload FROM webhook_events
		WHERE id > $1 AND institution_id = $2 ORDER BY id LIMIT $3`, after, institutionID, redactBatch)
	if err != nil {
		return nil, err
	}
	return db.Collect(rows, func(rows *sql.Rows) (e oldEvent, err error) {
		err = rows.Scan(&e.id, &e.occurred, &e.test, &e.text)
		return e, err
	})
}

// CountUnredacted returns the number of events of an institution that occurred before a time and
// still contain names and addresses.
func CountUnredacted(ctx context.Context, q db.Queryer, institutionID int64, before time.Time) (n int, err error) {
	last, err := account.LastPurged(ctx, q, institutionID, account.PurgedEvent)
	if err != nil {
		return 0, err
	}
	if err := q.QueryRowContext(ctx, `
		SELECT count(*) FROM webhook_events WHERE id > $1 AND institution_id = $2 AND certificate_id IS NOT NULL AND occurred_at < $3`,
		last, institutionID, db.Micros(before)).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting events: %w", err)
	}
	return n, nil
}
