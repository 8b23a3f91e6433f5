package recipient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// secondClaimDelay is the delay of the second claim. By then, transactions that were running during the
// first claim have ended, so the second claim finds the certificates that they created.
const secondClaimDelay = time.Minute

// LookUpTx returns the customer number that the person with a verified address has in an
// institution, or 0 if there is no such person. If the person has no number, LookUpTx assigns the
// next number. LookUpTx is the callback cert.Config.Recipient.
func (s *Service) LookUpTx(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string) (int64, error) {
	u, err := account.VerifiedUser(ctx, tx, emailFolded)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return s.numberTx(ctx, tx, institutionID, u.ID)
}

// numberTx returns a person's number in an institution. A person without a number gets the next
// number. If two transactions assign numbers at the same time, the second waits for the first. A
// caller that also changes certificates must call numberTx before these changes, to avoid a deadlock.
func (s *Service) numberTx(ctx context.Context, tx *db.Tx, institutionID, userID int64) (number int64, err error) {
	const selectNumber = `SELECT number FROM customers WHERE user_id = $1 AND institution_id = $2`
	err = tx.QueryRowContext(ctx, selectNumber, userID, institutionID).Scan(&number)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return number, err
	}
	var last int64
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO customer_numbers (institution_id, last) VALUES ($1, 0)
		ON CONFLICT (institution_id) DO UPDATE SET last = customer_numbers.last RETURNING last`, institutionID).Scan(&last); err != nil {
		return 0, fmt.Errorf("assigning a customer number: %w", err)
	}
	err = tx.QueryRowContext(ctx, selectNumber, userID, institutionID).Scan(&number)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return number, err
	}
	number = last + 1
	if _, err := tx.ExecContext(ctx, `UPDATE customer_numbers SET last = $1 WHERE institution_id = $2`, number, institutionID); err != nil {
		return 0, fmt.Errorf("assigning a customer number: %w", err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO customers (institution_id, number, user_id, created_at) VALUES ($1, $2, $3, $4)`,
		institutionID, number, userID, db.Micros(s.now())); err != nil {
		return 0, fmt.Errorf("assigning a customer number: %w", err)
	}
	return number, nil
}

// assignTx assigns a certificate to the person who has verified its address, if there is such a
// person and the certificate is unassigned.
func (s *Service) assignTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, emailFolded string) error {
	if c.CustomerID != 0 {
		return nil
	}
	number, err := s.LookUpTx(ctx, tx, c.InstitutionID, emailFolded)
	if err != nil || number == 0 {
		return err
	}
	return s.certs.AssignTx(ctx, tx, c, emailFolded, number)
}

// ClaimTx assigns all unassigned certificates with an address to a person, in all institutions, and
// enqueues the second claim. ClaimTx runs in the transaction that verifies the address.
func (s *Service) ClaimTx(ctx context.Context, tx *db.Tx, userID int64, emailFolded string) error {
	if err := s.claimTx(ctx, tx, userID, emailFolded); err != nil {
		return err
	}
	_, err := s.queue.InsertTx(ctx, tx, claimArgs{UserID: userID, Email: emailFolded},
		&river.InsertOpts{Queue: Queue, ScheduledAt: s.now().Add(secondClaimDelay)})
	return err
}

func (s *Service) claimTx(ctx context.Context, tx *db.Tx, userID int64, emailFolded string) error {
	institutions, err := s.certs.UnassignedTx(ctx, tx, emailFolded)
	if err != nil {
		return err
	}
	// All numbers are assigned before the first certificate is assigned, in the order of the
	// institutions, to avoid a deadlock: see numberTx.
	numbers := make([]int64, len(institutions))
	for i, institution := range institutions {
		if numbers[i], err = s.numberTx(ctx, tx, institution, userID); err != nil {
			return err
		}
	}
	for i, institution := range institutions {
		if err := s.certs.AssignAllTx(ctx, tx, institution, emailFolded, numbers[i]); err != nil {
			return err
		}
	}
	return nil
}

// ForgetTx removes a person from the records of recipients before the person's account is deleted.
// The certificates remain in their institutions, unassigned, and links that the person shared stop
// working. The customer number is not reused.
func (s *Service) ForgetTx(ctx context.Context, tx *db.Tx, userID int64) error {
	rows, err := tx.QueryContext(ctx, `SELECT institution_id, number FROM customers WHERE user_id = $1 ORDER BY institution_id`, userID)
	if err != nil {
		return fmt.Errorf("removing a person from the records: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (c [2]int64, err error) {
		err = rows.Scan(&c[0], &c[1])
		return c, err
	})
	if err != nil {
		return fmt.Errorf("removing a person from the records: %w", err)
	}
	if err := s.deletePortfolioTx(ctx, tx, userID); err != nil {
		return err
	}
	now := db.Micros(s.now())
	for _, c := range list {
		if _, err := tx.ExecContext(ctx, `
			UPDATE shares SET revoked_at = $3 WHERE revoked_at IS NULL AND certificate_id IN
				(SELECT id FROM certificates WHERE institution_id = $1 AND customer_id = $2)`, c[0], c[1], now); err != nil {
			return fmt.Errorf("removing a person from the records: %w", err)
		}
		if err := s.certs.UnassignTx(ctx, tx, c[0], c[1]); err != nil {
			return err
		}
	}
	for _, query := range []string{
		`UPDATE customers SET user_id = NULL WHERE user_id = $1`, `UPDATE corrections SET user_id = NULL WHERE user_id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, query, userID); err != nil {
			return fmt.Errorf("removing a person from the records: %w", err)
		}
	}
	return nil
}
