package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// Person is a person to whom mail can be sent.
type Person struct {
	Name, Email string
	// Language is the tag of the language that the person chose, or "".
	Language string
}

// OwnersTx returns the owners of an institution.
func (s *Service) OwnersTx(ctx context.Context, q db.Queryer, institutionID int64) (list []Person, err error) {
	rows, err := q.QueryContext(ctx, `
		SELECT u.name, u.email, u.language FROM members m JOIN users u ON u.id = m.user_id WHERE m.institution_id = $1 AND m.role = $2 ORDER BY u.id`,
		institutionID, string(Owner))
	if err != nil {
		return nil, fmt.Errorf("reading the owners: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p Person
		if err := rows.Scan(&p.Name, &p.Email, &p.Language); err != nil {
			return nil, fmt.Errorf("reading the owners: %w", err)
		}
		list = append(list, p)
	}
	return list, rows.Err()
}
