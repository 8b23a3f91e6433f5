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

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// keysEvery is the interval of the search for institutions without a signing key. A key that could
// not be created is thus created without a restart.
const keysEvery = time.Minute

// maxPassphrase bounds the file of the passphrase in bytes.
const maxPassphrase = 4096

// openKeys returns the signing keys. base is the base URL, empty if it is unknown.
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

// expiringKeys counts the institutions whose signing key has a certificate that expires before a
// time. An institution whose key is missing is not counted: its uploads fail, and doctor names it.
func (s *Storage) expiringKeys(ctx context.Context, before time.Time) (n int, err error) {
	list, err := account.WithKey(ctx, s.DB)
	if err != nil {
		return 0, err
	}
	for _, i := range list {
		keys, err := s.Keys.Certificates(i.UUID)
		if f, ok := errors.AsType[*authority.Fault](err); ok && f.Code == authority.CodeMissing {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reading the signing key of %s: %w", i.UUID, err)
		}
		if authority.Expiry(keys[0].Chain).Before(before) {
			n++
		}
	}
	return n, nil
}

// MakeKeys creates the signing key of each institution that never had one, and the root if there is
// none. It records that the key exists. A lost key therefore remains a fault until it is restored
// or replaced explicitly.
func (s *Storage) MakeKeys(ctx context.Context) error {
	made, err := account.WithKey(ctx, s.DB)
	if err != nil {
		return err
	}
	if len(made) == 0 {
		if err := s.Keys.MakeRoot(); err != nil {
			return fmt.Errorf("making the root of signing keys: %w", err)
		}
	}
	missing, err := account.WithoutKey(ctx, s.DB)
	if err != nil {
		return err
	}
	for _, i := range missing {
		if err := s.Keys.Create(i.UUID, i.Name); err != nil {
			return fmt.Errorf("making the signing key of %s: %w", i.UUID, err)
		}
		if err := s.DB.Tx(ctx, func(tx *db.Tx) error { return account.KeyMadeTx(ctx, tx, i, time.Now()) }); err != nil {
			return err
		}
	}
	return nil
}
