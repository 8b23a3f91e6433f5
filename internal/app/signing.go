package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/issuer"
)

// keysEvery is the interval at which the vault calls CreateKeys, so that a key whose creation failed is
// created without a restart.
const keysEvery = time.Minute

// maxPassphrase is the maximum size of the passphrase file in bytes.
const maxPassphrase = 4096

// RootsFile is the file with the root certificates in the data folder. certvault verify reads it.
const RootsFile = "root.pem"

// keyOptions returns the settings of the signing keys. base is the base URL, or empty if it is
// unknown.
func keyOptions(s config.Storage, base string) (authority.Options, error) {
	o := authority.Options{Now: time.Now, Folder: s.KeyFolder(), IdentityFile: s.KeyIdentityFile, Identity: s.KeyIdentity}
	if u, err := url.Parse(base); err == nil {
		o.Installation = u.Hostname()
	}
	if s.KeyPassphraseFile != "" {
		text, err := os.ReadFile(s.KeyPassphraseFile)
		if err != nil {
			return o, fmt.Errorf("--key-passphrase-file: %w", err)
		}
		if o.Passphrase = strings.TrimRight(string(text), "\r\n"); o.Passphrase == "" || len(text) > maxPassphrase {
			return o, fmt.Errorf("--key-passphrase-file: %s must contain one line of at most %d bytes", s.KeyPassphraseFile, maxPassphrase)
		}
	}
	return o, nil
}

// importKeys imports the signing keys of an earlier version, which stored them as files.
func (s *Storage) importKeys(ctx context.Context, log *slog.Logger) error {
	n, left, err := s.Keys.ImportFiles(ctx)
	if err != nil {
		return err
	}
	if n > 0 {
		log.InfoContext(ctx, "the signing keys of an earlier version were imported into the database", slog.Int("keys", n))
	}
	if left != nil {
		log.WarnContext(ctx, "imported key files could not be moved; they are not used any more", slog.Any("error", left))
	}
	return nil
}

// checkIdentity returns an error if the identity of the signing keys is not that of the database. If the
// identity cannot be read, checkIdentity only logs an alarm, because most requests do not need the
// identity.
func (s *Storage) checkIdentity(ctx context.Context, log *slog.Logger) error {
	err := s.Keys.CheckIdentity(ctx)
	if errors.Is(err, authority.ErrOtherIdentity) {
		return err
	}
	if err != nil {
		log.ErrorContext(ctx, "ALARM: the signing keys cannot be decrypted; certificates are not sealed until that is repaired", slog.Any("error", err))
	}
	return nil
}

// CreateKeys creates the signing key and the keys for credentials of each institution that never had a
// signing key, and the root key if no institution has a key. It records that the institution has a key.
// If a key is lost, CreateKeys does not create it again, so sealing with the key fails until the key is
// restored or explicitly replaced.
func (s *Storage) CreateKeys(ctx context.Context) error {
	withKey, err := account.WithKey(ctx, s.DB)
	if err != nil {
		return err
	}
	if len(withKey) == 0 {
		if err := s.Keys.MakeRoot(ctx); err != nil {
			return fmt.Errorf("creating the root of signing keys: %w", err)
		}
	}
	missing, err := account.WithoutKey(ctx, s.DB)
	if err != nil {
		return err
	}
	for _, i := range missing {
		record := func(tx *db.Tx) error { return account.RecordKeyTx(ctx, tx, i, time.Now()) }
		if err := s.Keys.Create(ctx, i.UUID, i.Name, record); err != nil {
			return fmt.Errorf("creating the signing key of %s: %w", i.UUID, err)
		}
		// An institution that already has a signing key gets these keys with its first credential.
		if _, err := s.Keys.CredentialKeys(ctx, i.UUID, issuer.RecordKeys(ctx, i, time.Now)); err != nil {
			return fmt.Errorf("creating the keys for credentials of %s: %w", i.UUID, err)
		}
	}
	return s.publishRoots(ctx)
}

// publishRoots writes the root certificates to the data folder, if they have changed.
func (s *Storage) publishRoots(ctx context.Context) error {
	text, err := s.Keys.RootsPEM(ctx)
	if f, ok := errors.AsType[*authority.Fault](err); ok && f.Code == authority.CodeMissing {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the root certificates: %w", err)
	}
	if stored, err := os.ReadFile(s.rootsFile); err == nil && bytes.Equal(stored, text) {
		return nil
	}
	err = os.MkdirAll(filepath.Dir(s.rootsFile), 0o700) // with --blob, the folder may have been deleted
	if err == nil {
		err = os.WriteFile(s.rootsFile+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(s.rootsFile+".new", s.rootsFile)
	}
	if err != nil {
		return fmt.Errorf("writing the root certificates: %w", err)
	}
	return nil
}

// RotateRoot creates a new root, and calls record in the same transaction. The certificates of
// institutions remain under the old root until the keys of the institutions are rotated.
func (s *Storage) RotateRoot(ctx context.Context, record authority.Record) error {
	if err := s.Keys.RotateRoot(ctx, record); err != nil {
		return err
	}
	return s.publishRoots(ctx)
}
