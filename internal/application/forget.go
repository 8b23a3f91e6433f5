package application

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// PurgedTx deletes the data of the application of a record that is about to be deleted. The row of the
// application remains, without personal data, for the counts. The callback cert.Config.Purged calls
// PurgedTx.
func PurgedTx(ctx context.Context, tx *db.Tx, c *cert.Certificate) error {
	var id int64
	err := tx.QueryRowContext(ctx, `SELECT id FROM applications WHERE certificate_id = $1`, c.ID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the application of a certificate: %w", err)
	}
	// The time of the last update is not in the future, so the next sweep deletes the files.
	if _, err := deleteFilesTx(ctx, tx, c.UpdatedAt, `application_id = $1`, id); err != nil {
		return err
	}
	return clearTx(ctx, tx, id)
}

// clearTx removes everything from an application except what the counts need.
func clearTx(ctx context.Context, tx *db.Tx, id int64) error {
	for _, statement := range []string{
		`DELETE FROM application_events WHERE application_id = $1`,
		`DELETE FROM application_files WHERE application_id = $1`,
		`UPDATE applications SET certificate_id = NULL, uuid = NULL, user_id = NULL, email_folded = '', name_folded = '', fields = '[]', field_values = '{}',
			hold_kind = NULL, hold_text = NULL, held_at = NULL, hold_until = NULL, answer = NULL, answered_at = NULL,
			claimed_by_type = NULL, claimed_by_id = NULL, claimed_by_name = NULL, decided_by_type = NULL, decided_by_id = NULL, decided_by_name = NULL,
			reason = NULL, note = NULL, advice = '', delete_at = NULL, revision = revision + 1 WHERE id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return fmt.Errorf("removing the data of an application: %w", err)
		}
	}
	return nil
}

// AssignTx assigns the applications of an address to the person who has verified the address.
func (*Service) AssignTx(ctx context.Context, tx *db.Tx, userID int64, emailFolded string) error {
	if emailFolded == "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `UPDATE applications SET user_id = $1 WHERE email_folded = $2 AND user_id IS NULL`, userID, emailFolded); err != nil {
		return fmt.Errorf("assigning applications: %w", err)
	}
	return nil
}

// ForgetTx erases the applications and drafts of a person: open applications are withdrawn, and all
// answers, texts and attachments are deleted. A certificate that was issued remains, because it belongs
// to the institution. For each application, a row without personal data remains, for the counts.
func (s *Service) ForgetTx(ctx context.Context, tx *db.Tx, userID int64) error {
	ctx = audit.WithActor(ctx, audit.Certvault)
	drafts, err := db.Column[int64](tx.QueryContext(ctx, `SELECT id FROM application_drafts WHERE user_id = $1`, userID))
	if err != nil {
		return fmt.Errorf("reading the drafts of a person: %w", err)
	}
	for _, id := range drafts {
		if err := s.deleteDraftTx(ctx, tx, id); err != nil {
			return err
		}
	}
	// A step of a reviewer at the same time waits for this transaction, and then fails with errChanged.
	if _, err := tx.ExecContext(ctx, `UPDATE applications SET revision = revision + 1 WHERE user_id = $1`, userID); err != nil {
		return fmt.Errorf("locking the applications of a person: %w", err)
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+columns+tables+`WHERE a.user_id = $1 ORDER BY a.id`, userID)
	if err != nil {
		return fmt.Errorf("reading the applications of a person: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Application, error) { return scan(rows) })
	if err != nil {
		return err
	}
	for _, a := range list {
		if err := s.forgetTx(ctx, tx, a); err != nil {
			return fmt.Errorf("erasing an application: %w", err)
		}
	}
	return nil
}

func (s *Service) forgetTx(ctx context.Context, tx *db.Tx, a *Application) (err error) {
	if a.IsOpen() {
		c := change{step: stepOf(triggerWithdraw), role: system, record: s.closeRecord(ctx, a.UUID, cert.Withdrawn, "")}
		if a, err = s.applyTx(ctx, tx, a, &c); err != nil {
			return err
		}
	}
	if remains, err := s.removeTx(ctx, tx, a); err != nil || !remains {
		return err
	}
	return clearTx(ctx, tx, a.id)
}

// removeTx deletes the attachments of an application that is not open, and all its data if it has no
// certificate. It reports whether data of the application remains.
func (s *Service) removeTx(ctx context.Context, tx *db.Tx, a *Application) (remains bool, err error) {
	keys, err := deleteFilesTx(ctx, tx, s.moment(), `application_id = $1`, a.id)
	if err != nil {
		return false, err
	}
	s.erase(ctx, tx, keys)
	if a.state != accepted {
		return false, s.certs.ForgetTx(ctx, tx, a.UUID)
	}
	return true, nil
}
