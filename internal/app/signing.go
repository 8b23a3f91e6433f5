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

// keysEvery is the interval at which institutions without a signing key are searched for. If the
// creation of a key failed, the key is therefore created without a restart.
const keysEvery = time.Minute

// maxPassphrase is the maximum size of the passphrase file in bytes.
const maxPassphrase = 4096

// openKeys returns the signing keys. base is the base URL, or empty if it is unknown.
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
			return nil, fmt.Errorf("--key-passphrase-file: %s must contain one line of at most %d bytes", s.KeyPassphraseFile, maxPassphrase)
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

// CreateKeys creates the signing key of each institution that never had a key, and the root key if no
// institution has a key. It records that the key exists. If a key is lost, CreateKeys does not create
// it again, so the error remains until the key is restored or explicitly replaced.
func (s *Storage) CreateKeys(ctx context.Context) error {
	withKey, err := account.WithKey(ctx, s.DB)
	if err != nil {
		return err
	}
	if len(withKey) == 0 {
		if err := s.Keys.MakeRoot(); err != nil {
			return fmt.Errorf("creating the root of signing keys: %w", err)
		}
	}
	missing, err := account.WithoutKey(ctx, s.DB)
	if err != nil {
		return err
	}
	for _, i := range missing {
		if err := s.Keys.Create(i.UUID, i.Name); err != nil {
			return fmt.Errorf("creating the signing key of %s: %w", i.UUID, err)
		}
		if err := s.DB.Tx(ctx, func(tx *db.Tx) error { return account.RecordKeyTx(ctx, tx, i, time.Now()) }); err != nil {
			return err
		}
	}
	return nil
}
