// Package acme obtains TLS certificates by ACME (RFC 8555). It stores the key of the account, the
// certificates with their keys, and the answers to challenges in the database. Therefore all servers on
// one database use the same certificate, and each server can answer a challenge. The values are encrypted
// with a key that is derived from the master key.
package acme

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// ErrNotFound means that a cache has no value with the given name.
var ErrNotFound = errors.New("ACME has stored no such value")

// Cache stores values in the database, encrypted.
type Cache struct {
	db   *db.DB
	ring *keyring.Ring
	// earlier is the folder in which earlier releases stored the values. Get moves a value from there to
	// the database.
	earlier string
}

// NewCache returns a cache. earlier is the folder in which earlier releases stored values.
func NewCache(d *db.DB, ring *keyring.Ring, earlier string) *Cache {
	return &Cache{db: d, ring: ring, earlier: earlier}
}

// Get returns the value with a name. The error is [ErrNotFound] if there is none.
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
	if !filepath.IsLocal(name) {
		return nil, ErrNotFound
	}
	file := filepath.Join(c.earlier, name)
	value, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading a TLS certificate of ACME: %w", err)
	}
	if err := c.Put(ctx, name, value); err != nil {
		return nil, err
	}
	return value, os.Remove(file)
}

// Put stores a value. It replaces an earlier value with the same name.
func (c *Cache) Put(ctx context.Context, name string, value []byte) error {
	sealed, err := c.ring.Seal(keyring.ACMECache, value, []byte(name))
	if err != nil {
		return err
	}
	return c.change(ctx, `
		INSERT INTO acme_cache (name, sealed, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at`, name, sealed, db.Micros(time.Now()))
}

// Delete deletes a value. It returns no error if there is none.
func (c *Cache) Delete(ctx context.Context, name string) error {
	return c.change(ctx, `DELETE FROM acme_cache WHERE name = $1`, name)
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
