package recipient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// claimAgain is when a claim is looked at for the second time. Nothing that was
// under way at the first is then.
const claimAgain = time.Minute

// person is somebody with an account.
type person struct {
	id                    int64
	name, email, language string
}

// proved gives the person whose address it is and who has proved it.
func proved(ctx context.Context, q db.Queryer, emailFolded string) (p person, found bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT id, name, email, language FROM users WHERE email_folded = $1 AND confirmed_at IS NOT NULL`, emailFolded).
		Scan(&p.id, &p.name, &p.email, &p.language)
	if errors.Is(err, sql.ErrNoRows) {
		return person{}, false, nil
	}
	if err != nil {
		return person{}, false, fmt.Errorf("looking for the recipient: %w", err)
	}
	return p, true, nil
}

// LookUpTx returns the customer number that the person with a verified address has
// in an institution, 0 if there is no such person. It serves cert.Config.Recipient.
func (l *Ledger) LookUpTx(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string) (int64, error) {
	p, found, err := proved(ctx, tx, emailFolded)
	if err != nil || !found {
		return 0, err
	}
	return l.numberTx(ctx, tx, institutionID, p.id)
}

// numberTx returns a person's number in an institution. A new person gets the next
// number; of two concurrent transactions the second waits for the first. A caller
// that also changes certificates must do so after this call, to avoid a deadlock.
func (l *Ledger) numberTx(ctx context.Context, tx *db.Tx, institutionID, userID int64) (number int64, err error) {
	const known = `SELECT number FROM customers WHERE user_id = $1 AND institution_id = $2`
	err = tx.QueryRowContext(ctx, known, userID, institutionID).Scan(&number)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return number, err
	}
	var last int64
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO customer_numbers (institution_id, last) VALUES ($1, 0)
		ON CONFLICT (institution_id) DO UPDATE SET last = customer_numbers.last RETURNING last`, institutionID).Scan(&last); err != nil {
		return 0, fmt.Errorf("numbering a recipient: %w", err)
	}
	err = tx.QueryRowContext(ctx, known, userID, institutionID).Scan(&number)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return number, err
	}
	number = last + 1
	if _, err := tx.ExecContext(ctx, `UPDATE customer_numbers SET last = $1 WHERE institution_id = $2`, number, institutionID); err != nil {
		return 0, fmt.Errorf("numbering a recipient: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO customers (institution_id, number, user_id, created_at) VALUES ($1, $2, $3, $4)`,
		institutionID, number, userID, db.Micros(l.now())); err != nil {
		return 0, fmt.Errorf("numbering a recipient: %w", err)
	}
	return number, nil
}

// assignTx gives a certificate to the person with its address, if there is one
// and it is nobody's. updated_at stays: the record is as it was made.
func (s *Service) assignTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, emailFolded string) error {
	if c.CustomerID != 0 {
		return nil
	}
	number, err := s.LookUpTx(ctx, tx, c.InstitutionID, emailFolded)
	if err != nil || number == 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE certificates SET customer_id = $1 WHERE id = $2 AND email_folded = $3 AND customer_id IS NULL`,
		number, c.ID, emailFolded); err != nil {
		return fmt.Errorf("assigning a certificate: %w", err)
	}
	return nil
}

// ClaimTx gives a person all certificates of an address that are nobody's, of all
// institutions, in the transaction in which the address is proved.
func (s *Service) ClaimTx(ctx context.Context, tx *db.Tx, userID int64, emailFolded string) error {
	if err := s.claimTx(ctx, tx, userID, emailFolded); err != nil {
		return err
	}
	_, err := s.queue.InsertTx(ctx, tx, claimArgs{UserID: userID, Email: emailFolded},
		&river.InsertOpts{Queue: cert.RecipientQueue, ScheduledAt: s.now().Add(claimAgain)})
	return err
}

func (s *Service) claimTx(ctx context.Context, tx *db.Tx, userID int64, emailFolded string) error {
	institutions, err := db.Column[int64](tx.QueryContext(ctx, `
		SELECT DISTINCT institution_id FROM certificates WHERE email_folded = $1 AND customer_id IS NULL ORDER BY institution_id`, emailFolded))
	if err != nil {
		return fmt.Errorf("looking for certificates to claim: %w", err)
	}
	// All numbers first, in the order of institutions.
	numbers := make([]int64, len(institutions))
	for i, institution := range institutions {
		if numbers[i], err = s.numberTx(ctx, tx, institution, userID); err != nil {
			return err
		}
	}
	for i, institution := range institutions {
		if _, err := tx.ExecContext(ctx, `UPDATE certificates SET customer_id = $1 WHERE email_folded = $2 AND institution_id = $3 AND customer_id IS NULL`,
			numbers[i], emailFolded, institution); err != nil {
			return fmt.Errorf("claiming certificates: %w", err)
		}
	}
	return nil
}

// ForgetTx takes an account that is to be deleted off everything: certificates
// stay with their institutions and are nobody's, and links that the person gave
// others open nothing any more. The number is not given again.
func (s *Service) ForgetTx(ctx context.Context, tx *db.Tx, userID int64) error {
	rows, err := tx.QueryContext(ctx, `SELECT institution_id, number FROM customers WHERE user_id = $1 ORDER BY institution_id`, userID)
	if err != nil {
		return fmt.Errorf("forgetting a recipient: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (c [2]int64, err error) {
		err = rows.Scan(&c[0], &c[1])
		return c, err
	})
	if err != nil {
		return fmt.Errorf("forgetting a recipient: %w", err)
	}
	now := db.Micros(s.now())
	for _, c := range list {
		for _, step := range []struct {
			query string
			args  []any
		}{
			{`UPDATE shares SET revoked_at = $3 WHERE revoked_at IS NULL AND certificate_id IN
				(SELECT id FROM certificates WHERE institution_id = $1 AND customer_id = $2)`, []any{c[0], c[1], now}},
			{`UPDATE certificates SET customer_id = NULL WHERE institution_id = $1 AND customer_id = $2`, []any{c[0], c[1]}},
		} {
			if _, err := tx.ExecContext(ctx, step.query, step.args...); err != nil {
				return fmt.Errorf("forgetting a recipient: %w", err)
			}
		}
	}
	for _, query := range []string{
		`UPDATE customers SET user_id = NULL WHERE user_id = $1`, `UPDATE corrections SET user_id = NULL WHERE user_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, query, userID); err != nil {
			return fmt.Errorf("forgetting a recipient: %w", err)
		}
	}
	return nil
}
