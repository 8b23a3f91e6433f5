package authority

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/db"
)

// The file of the identity in Options.Folder has one of these names.
const (
	plainFile     = "identity.txt"
	encryptedFile = "identity.txt.age" // encrypted with the passphrase
)

// ErrOtherIdentity means that the identity is not the identity of the database.
var ErrOtherIdentity = errors.New("the identity that decrypts the signing keys is not that of the database")

var (
	errNotProtected = errors.New("a passphrase is set, but the identity is not protected with it: run certvault key protect")
	errProtected    = errors.New("the identity is protected with a passphrase: set --key-passphrase-file")
	errNoIdentity   = errors.New("the identity that decrypts the signing keys is missing: " +
		"restore it from a backup or a recovery sheet, or set the passphrase that protects it")
)

// identityFile returns the file of the identity, or "" if the identity is not in a file.
func (o *Options) identityFile() string {
	switch {
	case o.Identity != "":
		return ""
	case o.IdentityFile != "":
		return o.IdentityFile
	case o.Passphrase != "":
		return filepath.Join(o.Folder, encryptedFile)
	}
	return filepath.Join(o.Folder, plainFile)
}

// identityPlace returns the place of the identity, for messages.
func (a *Authority) identityPlace() string {
	if file := a.options.identityFile(); file != "" {
		return file
	}
	return config.KeyIdentityVariable
}

// isEncrypted reports whether a text is an armored file of age.
func isEncrypted(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte(armor.Header))
}

// readIdentity reads the identity at its place. The error is a *Fault. Its code is CodeLocked if the
// identity is missing, if the passphrase is missing or wrong, or if a passphrase is set although the
// identity is not encrypted.
func (a *Authority) readIdentity() (*age.X25519Identity, error) {
	text, err := a.identityText()
	if err != nil {
		return nil, err
	}
	switch encrypted := isEncrypted(text); {
	case encrypted && a.options.Passphrase == "":
		return nil, &Fault{Code: CodeLocked, Err: fmt.Errorf("%s: %w", a.identityPlace(), errProtected)}
	case !encrypted && a.options.Passphrase != "":
		return nil, &Fault{Code: CodeLocked, Err: fmt.Errorf("%s: %w", a.identityPlace(), errNotProtected)}
	case encrypted:
		if text, err = a.unwrap(text); err != nil {
			return nil, err
		}
	}
	return a.parseIdentity(text)
}

// identityText returns the text of the identity at its place, which may be encrypted.
func (a *Authority) identityText() ([]byte, error) {
	if a.options.Identity != "" {
		return []byte(a.options.Identity), nil
	}
	text, err := readFile(a.options.identityFile())
	if !isMissing(err) {
		return text, err
	}
	if a.unprotected() {
		return nil, &Fault{Code: CodeLocked, Err: errNotProtected}
	}
	return nil, &Fault{Code: CodeLocked, Err: fmt.Errorf("%s: %w", a.identityPlace(), errNoIdentity)}
}

// unprotected reports whether a passphrase is set and the folder has an unencrypted identity.
func (a *Authority) unprotected() bool {
	if a.options.Passphrase == "" || a.options.IdentityFile != "" {
		return false
	}
	_, err := os.Stat(filepath.Join(a.options.Folder, plainFile))
	return err == nil
}

func isMissing(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Code == CodeMissing
}

func (a *Authority) parseIdentity(text []byte) (*age.X25519Identity, error) {
	identity, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, &Fault{Code: CodeBroken, Err: fmt.Errorf("reading %s: %w", a.identityPlace(), err)}
	}
	return identity, nil
}

// CreateIdentity creates the identity if there is none at its place, and returns its public
// recipient. It is only for a new installation and for ReplaceIdentity: a new identity cannot decrypt
// existing keys.
func (a *Authority) CreateIdentity() (recipient string, err error) {
	identity, err := a.readIdentity()
	if errors.Is(err, errNoIdentity) && !a.hasOtherFile() {
		if err := a.makeIdentity(); err != nil {
			return "", err
		}
		identity, err = a.readIdentity()
	}
	if err != nil {
		return "", err
	}
	return identity.Recipient().String(), nil
}

// ReplaceIdentity replaces the identity of the database after the old identity was lost
// permanently. It uses the identity at its place, or creates an identity there. The existing
// certificates remain, to verify old signatures. Encrypted keys cannot sign anymore: first the root
// must be rotated, and then the keys of the institutions. ReplaceIdentity returns an error if the old
// identity can be read. record must not be nil.
func (a *Authority) ReplaceIdentity(ctx context.Context, record Record) error {
	err := a.CheckIdentity(ctx)
	if err == nil {
		return refused(errors.New("the identity is not lost: it decrypts the signing keys")) //nolint:err113 // no caller distinguishes it
	}
	if f, ok := errors.AsType[*Fault](err); !ok || f.Code != CodeLocked {
		return err
	}
	recipient, err := a.CreateIdentity()
	if err != nil {
		return err
	}
	return storage(a.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO signing_identities (id, recipient) VALUES (1, $1)
			ON CONFLICT (id) DO UPDATE SET recipient = excluded.recipient`, recipient)
		if err != nil {
			return fmt.Errorf("storing the identity of the database: %w", err)
		}
		return record(tx)
	}))
}

// hasOtherFile reports whether the folder has an encrypted identity, which needs a passphrase.
func (a *Authority) hasOtherFile() bool {
	if a.options.IdentityFile != "" {
		return false
	}
	_, err := os.Stat(filepath.Join(a.options.Folder, encryptedFile))
	return err == nil
}

func (a *Authority) makeIdentity() error {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("generating the identity: %w", err)}
	}
	// If another process created the file first, its identity is used.
	if err := a.writeIdentity(identity); err != nil && !errors.Is(err, errExists) {
		return err
	}
	return nil
}

// writeIdentity creates the file of the identity. The error is errExists if the file exists.
func (a *Authority) writeIdentity(identity *age.X25519Identity) error {
	text := []byte(identity.String() + "\n")
	if a.options.Passphrase != "" {
		var err error
		if text, err = a.wrap(text); err != nil {
			return err
		}
	}
	return createFile(a.options.identityFile(), text)
}

// RecordIdentityTx stores the public recipient of the identity, unless the database has one.
func (a *Authority) RecordIdentityTx(ctx context.Context, tx *db.Tx, recipient string) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO signing_identities (id, recipient) VALUES (1, $1) ON CONFLICT (id) DO NOTHING`, recipient); err != nil {
		return storage(fmt.Errorf("storing the identity of the database: %w", err))
	}
	return nil
}

// CheckIdentity returns an error if the identity cannot be read, or is not the identity of the
// database. In the second case the error wraps ErrOtherIdentity. Every error is a *Fault.
func (a *Authority) CheckIdentity(ctx context.Context) error {
	_, err := a.open(ctx)
	return err
}

// Identity returns the secret text of the identity, for a recovery sheet.
func (a *Authority) Identity(ctx context.Context) (string, error) {
	b, err := a.open(ctx)
	if err != nil {
		return "", err
	}
	return b.identity.String(), nil
}

// RestoreIdentity creates the file of a lost identity and returns the name of the file. The file is
// encrypted if there is a passphrase. RestoreIdentity changes nothing if the file exists and has
// the same identity. If there is a database, the identity must belong to it.
func (a *Authority) RestoreIdentity(ctx context.Context, text string) (file string, err error) {
	if file = a.options.identityFile(); file == "" {
		return "", refused(fmt.Errorf("%s is set: unset it to create the file of the identity", config.KeyIdentityVariable)) //nolint:err113 // no caller distinguishes it
	}
	identity, err := a.parseIdentity([]byte(text))
	if err != nil {
		return "", err
	}
	if a.db != nil {
		if err := a.compareIdentity(ctx, identity); err != nil {
			return "", err
		}
	}
	err = a.writeIdentity(identity)
	if !errors.Is(err, errExists) {
		return file, err
	}
	stored, err := a.readIdentity()
	if err != nil {
		return "", err
	}
	if stored.String() != identity.String() {
		return "", refused(fmt.Errorf("%s has another identity: move the file to another folder first", file)) //nolint:err113 // no caller distinguishes it
	}
	return file, nil
}

// compareIdentity checks that an identity belongs to the database. If the database has no
// recipient, because an earlier version created the identity, compareIdentity checks that the
// identity decrypts a key, and stores its recipient unless Options.ReadOnly is set.
func (a *Authority) compareIdentity(ctx context.Context, identity *age.X25519Identity) error {
	own := identity.Recipient().String()
	known, err := a.recipient(ctx)
	if err != nil {
		return err
	}
	if known == "" {
		if err := a.tryIdentity(ctx, identity); err != nil {
			return err
		}
		if a.options.ReadOnly {
			return nil
		}
		if err := a.db.Tx(ctx, func(tx *db.Tx) error { return a.RecordIdentityTx(ctx, tx, own) }); err != nil {
			return storage(err)
		}
		// Another process may have stored its identity first.
		if known, err = a.recipient(ctx); err != nil {
			return err
		}
	}
	if known != own {
		return &Fault{Code: CodeLocked, Err: fmt.Errorf("%w: %s has %s, and the database has %s; restore the identity of the database from a backup or a recovery sheet",
			ErrOtherIdentity, a.identityPlace(), own, known)}
	}
	return nil
}

// recipient returns the recipient of the identity of the database, or "" if the database has none.
func (a *Authority) recipient(ctx context.Context) (recipient string, err error) {
	err = a.db.QueryRowContext(ctx, `SELECT recipient FROM signing_identities WHERE id = 1`).Scan(&recipient)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", storage(fmt.Errorf("reading the identity of the database: %w", err))
	}
	return recipient, nil
}

// tryIdentity checks that an identity decrypts a key of the database, if there is one.
func (a *Authority) tryIdentity(ctx context.Context, identity *age.X25519Identity) error {
	var text string
	err := a.db.QueryRowContext(ctx, `SELECT private_key FROM signing_keys WHERE private_key <> '' ORDER BY holder, number DESC LIMIT 1`).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return storage(fmt.Errorf("reading the signing keys: %w", err))
	}
	if _, err := decrypt([]byte(text), identity); err != nil {
		return &Fault{Code: CodeLocked, Err: fmt.Errorf("%w: %s cannot decrypt its keys: %w", ErrOtherIdentity, a.identityPlace(), err)}
	}
	return nil
}
