package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/certvault/certvault/internal/db"
)

// NewSetupLink makes the secret of a one-time set-up link, good for an hour or
// until there is an owner. It holds at least 128 random bits and is kept
// hashed; links made before stop working.
func (s *Service) NewSetupLink(ctx context.Context) (secret string, err error) {
	secret = rand.Text()
	hash := sha256.Sum256([]byte(secret))
	now := s.now()
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM setup_links`); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO setup_links (hash, created_at, expires_at) VALUES ($1, $2, $3)`,
			hash[:], db.Micros(now), db.Micros(now.Add(setupLinkLife)))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("making the set-up link: %w", err)
	}
	return secret, nil
}

// SetupLinkWorks tells whether a set-up link's secret is still good.
func (s *Service) SetupLinkWorks(ctx context.Context, secret string) (bool, error) {
	hash := sha256.Sum256([]byte(secret))
	var n int
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM setup_links WHERE hash = $1 AND expires_at > $2`,
		hash[:], db.Micros(s.now())).Scan(&n); err != nil {
		return false, fmt.Errorf("looking up the set-up link: %w", err)
	}
	return n > 0, nil
}
