package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// An operator runs the installation. An operator creates institutions and sees their list and the
// state of the vault, but no certificates.

// Operators returns all operators.
func (s *Service) Operators(ctx context.Context) (list []Person, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT name, email FROM users WHERE operator ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("listing operators: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	list = []Person{}
	for rows.Next() {
		var p Person
		if err := rows.Scan(&p.Name, &p.Email); err != nil {
			return nil, fmt.Errorf("listing operators: %w", err)
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// SetOperator adds a person with an account to the operators, or removes the person from them.
func (s *Service) SetOperator(ctx context.Context, address string, operator bool) error {
	email, err := ParseEmail(address)
	if err != nil {
		return fault.OfField("email", err.Error())
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		var userID int64
		var was bool
		err := tx.QueryRowContext(ctx, `SELECT id, operator FROM users WHERE email_folded = $1`, email.Folded).Scan(&userID, &was)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.OfField("email", "There is no account with this address.")
		}
		if err != nil || was == operator {
			return err
		}
		return s.setOperatorTx(ctx, tx, userID, operator)
	})
	if err != nil {
		return fmt.Errorf("changing an operator: %w", err)
	}
	return nil
}

func (s *Service) setOperatorTx(ctx context.Context, tx *db.Tx, userID int64, operator bool) error {
	if _, err := tx.ExecContext(ctx, `UPDATE users SET operator = $2 WHERE id = $1`, userID, operator); err != nil {
		return err
	}
	subject, err := personTx(ctx, tx, "person", userID)
	if err != nil {
		return err
	}
	action := audit.OperatorRemoved
	if operator {
		action = audit.OperatorAdded
	}
	return audit.RecordTx(ctx, tx, audit.Entry{At: s.now(), Action: action, Subject: subject})
}

// Institutions returns all institutions with their numbers of members, oldest first, for operators.
func (s *Service) Institutions(ctx context.Context) (list []InstitutionCount, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT i.id, i.uuid, i.slug, i.name, i.prefix, i.created_at, (SELECT count(*) FROM members m WHERE m.institution_id = i.id)
		FROM institutions i ORDER BY i.id`)
	if err != nil {
		return nil, fmt.Errorf("listing institutions: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	list = []InstitutionCount{}
	for rows.Next() {
		var c InstitutionCount
		var created int64
		if err := rows.Scan(&c.ID, &c.UUID, &c.Slug, &c.Name, &c.Prefix, &created, &c.Members); err != nil {
			return nil, fmt.Errorf("listing institutions: %w", err)
		}
		c.CreatedAt = db.Time(created)
		list = append(list, c)
	}
	return list, rows.Err()
}

// InstitutionCount is an institution with its number of members.
type InstitutionCount struct {
	Institution

	Members int
}
