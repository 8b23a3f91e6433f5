package cert

import (
	"context"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// A certificate is assigned to at most one customer of its institution. Package recipient assigns the
// customer numbers. An assignment does not change updated_at, because it does not change the certificate.

// AssignTx assigns a certificate to a customer, if the certificate has the address emailFolded and
// is unassigned.
func (*Service) AssignTx(ctx context.Context, tx *db.Tx, c *Certificate, emailFolded string, customer int64) error {
	n, err := assignTx(ctx, tx, `UPDATE certificates SET customer_id = $1 WHERE id = $2 AND email_folded = $3 AND customer_id IS NULL`, customer, c.ID, emailFolded)
	if n > 0 {
		c.CustomerID = customer
	}
	return err
}

// UnassignedTx returns the ids of the institutions that have unassigned certificates with the
// address emailFolded, in ascending order.
func (*Service) UnassignedTx(ctx context.Context, tx *db.Tx, emailFolded string) ([]int64, error) {
	list, err := db.Column[int64](tx.QueryContext(ctx, `
		SELECT DISTINCT institution_id FROM certificates WHERE email_folded = $1 AND customer_id IS NULL ORDER BY institution_id`, emailFolded))
	if err != nil {
		return nil, fmt.Errorf("listing certificates without a customer: %w", err)
	}
	return list, nil
}

// AssignAllTx assigns to a customer all unassigned certificates of an institution that have the
// address emailFolded.
func (*Service) AssignAllTx(ctx context.Context, tx *db.Tx, institutionID int64, emailFolded string, customer int64) error {
	_, err := assignTx(ctx, tx, `UPDATE certificates SET customer_id = $1 WHERE email_folded = $2 AND institution_id = $3 AND customer_id IS NULL`,
		customer, emailFolded, institutionID)
	return err
}

// UnassignTx makes all certificates of a customer unassigned.
func (*Service) UnassignTx(ctx context.Context, tx *db.Tx, institutionID, customer int64) error {
	_, err := assignTx(ctx, tx, `UPDATE certificates SET customer_id = NULL WHERE institution_id = $1 AND customer_id = $2`, institutionID, customer)
	return err
}

func assignTx(ctx context.Context, tx *db.Tx, statement string, args ...any) (n int64, err error) {
	res, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("assigning certificates: %w", err)
	}
	return res.RowsAffected()
}

// LockTx returns the current status and address of a certificate, and locks the certificate until
// the end of the transaction. Other transactions wait until then to change the certificate.
func (*Service) LockTx(ctx context.Context, tx *db.Tx, id int64) (status Status, email string, err error) {
	// An update locks the row on both databases. No trigger of the databases depends on this column.
	if err := tx.QueryRowContext(ctx, `UPDATE certificates SET customer_id = customer_id WHERE id = $1 RETURNING status, email`, id).Scan(&status, &email); err != nil {
		return "", "", fmt.Errorf("locking a certificate: %w", err)
	}
	return status, email, nil
}
