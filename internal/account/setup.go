package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// NewSetupLink returns the secret of a one-time set-up link. The link is valid for an hour, or until
// there is an owner. Earlier links remain valid, because each node may print a link when it starts.
func (s *Service) NewSetupLink(ctx context.Context) (secret string, err error) {
	secret = NewSecret()
	now := s.now()
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM setup_links WHERE expires_at <= $1`, db.Micros(now)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO setup_links (hash, created_at, expires_at) VALUES ($1, $2, $3)`,
			HashSecret(secret), db.Micros(now), db.Micros(now.Add(setupLinkLife)))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("creating the set-up link: %w", err)
	}
	return secret, nil
}

// Setup creates the first institution with the secret of a set-up link, and makes its owner an
// operator of the installation. Only one of several concurrent calls succeeds, and the link then
// stops working. Setup returns the owner's id, or 0 if the owner had an account already. This account
// may belong to another person than the user of the link, so Setup sets no password for the account, and
// the caller must not sign the user in.
func (s *Service) Setup(ctx context.Context, secret string, n NewInstitution) (inst *Institution, ownerID int64, err error) {
	// The link is checked before the password is hashed, which is expensive.
	works, err := s.SetupLinkWorks(ctx, secret)
	if err != nil {
		return nil, 0, err
	}
	if !works {
		return nil, 0, errSetupLink
	}
	inst, err = s.createInstitution(ctx, n, steps{password: true, first: func(ctx context.Context, tx *db.Tx) error {
		var created int64
		err := tx.QueryRowContext(ctx, `DELETE FROM setup_links WHERE hash = $1 AND expires_at > $2 RETURNING created_at`,
			HashSecret(secret), db.Micros(s.now())).Scan(&created)
		if errors.Is(err, sql.ErrNoRows) {
			return errSetupLink
		}
		return err
	}, then: func(ctx context.Context, tx *db.Tx, i *Institution, id int64) error {
		if ownerID = id; i.OwnerExisted {
			ownerID = 0
		}
		return s.setOperatorTx(ctx, tx, id, true)
	}})
	return inst, ownerID, err
}

var errSetupLink = fault.New(fault.NotFound, "This set-up link was already used or has expired. Run certvault setup-link to get a new one.")

// SetupLinkWorks reports whether a set-up link's secret is valid.
func (s *Service) SetupLinkWorks(ctx context.Context, secret string) (bool, error) {
	var n int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM setup_links WHERE hash = $1 AND expires_at > $2`,
		HashSecret(secret), db.Micros(s.now())).Scan(&n); err != nil {
		return false, fmt.Errorf("looking up the set-up link: %w", err)
	}
	return n > 0, nil
}
