package account

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/cases"

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

// InstitutionCount is an institution with its number of members.
type InstitutionCount struct {
	Institution

	Members int
}

// Institutions returns all institutions with their numbers of members, oldest first.
func (s *Service) Institutions(ctx context.Context) ([]InstitutionCount, error) {
	return s.institutionCounts(ctx, `ORDER BY i.id`)
}

func (s *Service) institutionCounts(ctx context.Context, where string, args ...any) ([]InstitutionCount, error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT `+InstitutionColumns+`, (SELECT count(*) FROM members m WHERE m.institution_id = i.id) FROM institutions i `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("listing institutions: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (c InstitutionCount, err error) {
		var of InstitutionRow
		err = rows.Scan(append(of.Dest(), &c.Members)...)
		c.Institution = *of.Institution()
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing institutions: %w", err)
	}
	return list, nil
}

// FindInstitutions returns the institutions whose name, slug or prefix contains a text, regardless of
// case, sorted by name. It skips the first skip institutions that match, and returns at most limit
// institutions. total is the number of all institutions that match.
func (s *Service) FindInstitutions(ctx context.Context, text string, skip, limit int) (list []InstitutionCount, total int, err error) {
	type named struct {
		id   int64
		name string
	}
	text = cases.Fold().String(strings.TrimSpace(text))
	rows, err := s.db.QueryContext(ctx, `SELECT id, name, slug, prefix FROM institutions`)
	if err != nil {
		return nil, 0, fmt.Errorf("finding institutions: %w", err)
	}
	found, err := db.Collect(rows, func(rows *sql.Rows) (n named, err error) {
		var slug, prefix string
		err = rows.Scan(&n.id, &n.name, &slug, &prefix)
		if n.name = cases.Fold().String(n.name); !strings.Contains(n.name+"\n"+slug+"\n"+strings.ToLower(prefix), text) {
			n.id = 0
		}
		return n, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("finding institutions: %w", err)
	}
	found = slices.DeleteFunc(found, func(n named) bool { return n.id == 0 })
	slices.SortFunc(found, func(a, b named) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id)) })
	total = len(found)
	found = found[min(max(skip, 0), total):]
	found = found[:min(limit, len(found))]
	if len(found) == 0 {
		return nil, total, nil
	}
	place := make(map[int64]int, len(found))
	args := make([]any, len(found))
	for i, n := range found {
		args[i], place[n.id] = n.id, i
	}
	list, err = s.institutionCounts(ctx, `WHERE i.id IN (`+db.Placeholders(1, len(args))+`)`, args...)
	slices.SortFunc(list, func(a, b InstitutionCount) int { return cmp.Compare(place[a.ID], place[b.ID]) })
	return list, total, err
}

// CountInstitutions returns the number of all institutions.
func (s *Service) CountInstitutions(ctx context.Context) (n int, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM institutions`).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting institutions: %w", err)
	}
	return n, nil
}

// CountMembers returns the number of members of an institution.
func (s *Service) CountMembers(ctx context.Context, institutionID int64) (n int, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM members WHERE institution_id = $1`, institutionID).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting members: %w", err)
	}
	return n, nil
}
