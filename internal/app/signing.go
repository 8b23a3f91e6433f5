package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// keysEvery is how often institutions without a signing key are looked for: one
// whose making was cut off does not wait for the next start.
const keysEvery = time.Minute

// maxPassphrase bounds the file of the passphrase in bytes.
const maxPassphrase = 4096

// openKeys gives the signing keys. base is the base URL where it is known.
func openKeys(s config.Storage, base string) (*authority.Authority, error) {
	o := authority.Options{Now: time.Now}
	if u, err := url.Parse(base); err == nil {
		o.Installation = u.Hostname()
	}
	if s.KeyPassphraseFile != "" {
		text, err := os.ReadFile(s.KeyPassphraseFile)
		if err != nil {
			return nil, fmt.Errorf("--key-passphrase-file: %w", err)
		}
		if o.Passphrase = strings.TrimRight(string(text), "\r\n"); o.Passphrase == "" || len(text) > maxPassphrase {
			return nil, fmt.Errorf("--key-passphrase-file: %s must hold one line of at most %d bytes", s.KeyPassphraseFile, maxPassphrase)
		}
	}
	return authority.New(filepath.Join(s.Data, "keys"), o), nil
}

// MakeKeys makes the signing key of each institution that never had one, and the
// root at first. That a key was made is recorded, so that one that is lost stays
// a fault until it is restored or replaced on purpose.
func (s *Storage) MakeKeys(ctx context.Context) error {
	type institution struct {
		id         int64
		uuid, name string
	}
	var (
		missing []institution
		made    int
	)
	if err := s.DB.QueryRowContext(ctx, `SELECT count(*) FROM institutions WHERE key_made_at IS NOT NULL`).Scan(&made); err != nil {
		return fmt.Errorf("looking for signing keys: %w", err)
	}
	if made == 0 {
		if err := s.Keys.MakeRoot(); err != nil {
			return fmt.Errorf("making the root of signing keys: %w", err)
		}
	}
	rows, err := s.DB.QueryContext(ctx, `SELECT id, uuid, name FROM institutions WHERE key_made_at IS NULL ORDER BY id`)
	if err != nil {
		return fmt.Errorf("looking for signing keys: %w", err)
	}
	for rows.Next() {
		var i institution
		if err := rows.Scan(&i.id, &i.uuid, &i.name); err != nil {
			return errors.Join(fmt.Errorf("looking for signing keys: %w", err), rows.Close())
		}
		missing = append(missing, i)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("looking for signing keys: %w", err)
	}
	for _, i := range missing {
		if err := s.Keys.Create(i.uuid, i.name); err != nil {
			return fmt.Errorf("making the signing key of %s: %w", i.uuid, err)
		}
		if err := s.DB.Tx(ctx, func(tx *db.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE institutions SET key_made_at = $1 WHERE id = $2 AND key_made_at IS NULL`, db.Micros(time.Now()), i.id); err != nil {
				return err
			}
			return audit.RecordTx(ctx, tx, audit.Entry{
				InstitutionID: i.id, Action: audit.KeyMade, Subject: audit.Subject{Type: "institution", ID: i.uuid, Name: i.name},
			})
		}); err != nil {
			return fmt.Errorf("recording the signing key of %s: %w", i.uuid, err)
		}
	}
	return nil
}
