package account

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/db"
)

// PersonName is a person to whom a record of an institution refers.
type PersonName struct {
	UUID, Name string
	// Role is the role of the person in the institution, or "" if the person is not a member.
	Role Role
}

// PersonNames maps the ids of persons to their names, with their roles in an institution. The ids must come
// from records of the institution. The result omits people with deleted accounts.
func PersonNames(ctx context.Context, q db.Queryer, institutionID int64, userIDs []int64) (map[int64]PersonName, error) {
	names, err := db.ByID(ctx, q, institutionID, userIDs, func(list string) string {
		return `SELECT u.id, u.uuid, u.name, coalesce(m.role, '') FROM users u LEFT JOIN members m ON m.user_id = u.id AND m.institution_id = $1
			WHERE u.id IN (` + list + `)`
	}, func(rows *sql.Rows) (id int64, p PersonName, err error) {
		err = rows.Scan(&id, &p.UUID, &p.Name, &p.Role)
		return id, p, err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the names of persons: %w", err)
	}
	return names, nil
}

// Signers returns the members of an institution who may be signatories, oldest first.
func (s *Service) Signers(ctx context.Context, institutionID int64) ([]Member, error) {
	return Signers(ctx, s.db, institutionID)
}

// Signers returns the members of an institution who may be signatories, oldest first.
func Signers(ctx context.Context, q db.Queryer, institutionID int64) ([]Member, error) {
	rows, err := q.QueryContext(ctx, `
		SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id WHERE m.institution_id = $1 ORDER BY m.created_at, u.id`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("listing signatories: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (Member, error) {
		m, err := scanMember(rows)
		if err != nil {
			return Member{}, err
		}
		return *m, nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing signatories: %w", err)
	}
	return slices.DeleteFunc(list, func(m Member) bool { return !m.Role.Can(MaySign) }), nil
}
