package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// MaxAddresses is the maximum number of further addresses of a user.
const MaxAddresses = 10

// Address is a further address that a user has verified. The user receives certificates and mail at it,
// but cannot sign in with it.
type Address struct {
	Email

	VerifiedAt time.Time
}

// lockAddressTx makes other transactions that assign the same address to an account wait until this
// transaction ends. On PostgreSQL, unique indexes do not suffice, because main addresses and further
// addresses are in two tables. On SQLite, transactions that write run one after another, so no lock is
// needed.
func lockAddressTx(ctx context.Context, tx *db.Tx, folded string) error {
	if tx.Dialect() != db.PostgreSQL {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('address ' || $1, 0))`, folded); err != nil {
		return fmt.Errorf("locking an address: %w", err)
	}
	return nil
}

// UserByAddress returns the user who has a folded address as the main address or as a further address, or
// fault.NotFound. It does not check whether the user has verified the main address.
func UserByAddress(ctx context.Context, q db.Queryer, folded string) (*User, error) {
	return scanUser(q.QueryRowContext(ctx, `SELECT `+userColumns+` FROM users WHERE email_folded = $1
		UNION ALL SELECT `+userColumns+` FROM users WHERE id = (SELECT user_id FROM user_addresses WHERE email_folded = $1)`, folded))
}

// Addresses returns the further addresses of a user, oldest first.
func Addresses(ctx context.Context, q db.Queryer, userID int64) ([]Address, error) {
	rows, err := q.QueryContext(ctx, `SELECT email, email_folded, verified_at FROM user_addresses WHERE user_id = $1 ORDER BY verified_at, email_folded`, userID)
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of a user: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (a Address, err error) {
		var at int64
		err = rows.Scan(&a.Text, &a.Folded, &at)
		a.VerifiedAt = db.Time(at)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of a user: %w", err)
	}
	return list, nil
}

// AddAddressTx adds an address that a user has verified. It returns false if any user, including this one,
// already has the address.
func AddAddressTx(ctx context.Context, tx *db.Tx, userID int64, email Email, at time.Time) (added bool, err error) {
	if err := lockAddressTx(ctx, tx, email.Folded); err != nil {
		return false, err
	}
	if _, err := UserByAddress(ctx, tx, email.Folded); err == nil {
		return false, nil
	} else if !fault.Is(err, fault.NotFound) {
		return false, err
	}
	return updateUserTx(ctx, tx, `INSERT INTO user_addresses (email_folded, email, user_id, verified_at) VALUES ($1, $2, $3, $4)`,
		email.Folded, email.Text, userID, db.Micros(at))
}

// RemoveAddressTx removes a further address of a user and returns it as text, or returns fault.NotFound.
func RemoveAddressTx(ctx context.Context, tx *db.Tx, userID int64, folded string) (email string, err error) {
	err = tx.QueryRowContext(ctx, `DELETE FROM user_addresses WHERE email_folded = $1 AND user_id = $2 RETURNING email`, folded, userID).Scan(&email)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.New(fault.NotFound, "The account has no such further address.")
	}
	if err != nil {
		return "", fmt.Errorf("removing an address: %w", err)
	}
	return email, nil
}
