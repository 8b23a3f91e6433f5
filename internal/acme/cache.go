// Package acme stores what ACME needs in the database: the account, the TLS certificates with their
// keys, and the challenges of the certificate authority. All servers on a database therefore use one
// certificate, and each can answer a challenge. The values are encrypted with the master key. The
// package does not obtain certificates.
package acme

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// Cache is an [autocert.Cache] in the database.
type Cache struct {
	db   *db.DB
	ring *keyring.Ring
	// earlier is the folder of earlier releases. Its values are moved to the database when they are
	// needed.
	earlier autocert.DirCache
}

var _ autocert.Cache = (*Cache)(nil)

// NewCache returns a cache. earlier is the folder in which earlier releases stored the values.
func NewCache(d *db.DB, ring *keyring.Ring, earlier string) *Cache {
	return &Cache{db: d, ring: ring, earlier: autocert.DirCache(earlier)}
}

// Get implements [autocert.Cache]. The error is [autocert.ErrCacheMiss] if there is no value.
func (c *Cache) Get(ctx context.Context, name string) ([]byte, error) {
	var sealed []byte
	err := c.db.QueryRowContext(ctx, `SELECT sealed FROM acme_cache WHERE name = $1`, name).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return c.move(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a TLS certificate of ACME: %w", err)
	}
	return c.ring.Open(keyring.ACMECache, sealed, []byte(name))
}

// move moves a value from the folder of earlier releases to the database.
func (c *Cache) move(ctx context.Context, name string) ([]byte, error) {
	value, err := c.earlier.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := c.Put(ctx, name, value); err != nil {
		return nil, err
	}
	return value, c.earlier.Delete(ctx, name)
}

// Put implements [autocert.Cache].
func (c *Cache) Put(ctx context.Context, name string, value []byte) error {
	sealed, err := c.ring.Seal(keyring.ACMECache, value, []byte(name))
	if err != nil {
		return err
	}
	return c.change(ctx, `
		INSERT INTO acme_cache (name, sealed, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at`, name, sealed, db.Micros(time.Now()))
}

// Delete implements [autocert.Cache].
func (c *Cache) Delete(ctx context.Context, name string) error {
	return errors.Join(c.change(ctx, `DELETE FROM acme_cache WHERE name = $1`, name), c.earlier.Delete(ctx, name))
}

func (c *Cache) change(ctx context.Context, statement string, args ...any) error {
	err := c.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("storing a TLS certificate of ACME: %w", err)
	}
	return nil
}
