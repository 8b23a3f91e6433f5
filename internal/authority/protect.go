package authority

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"filippo.io/age"

	"github.com/certvault/certvault/internal/config"
)

// Protect encrypts the identity with the passphrase. It changes nothing if the identity is already
// encrypted. If Protect is interrupted, no data is lost.
func (a *Authority) Protect(ctx context.Context) error {
	if a.options.Passphrase == "" {
		return refused(errors.New("no passphrase is set")) //nolint:err113 // no caller distinguishes it
	}
	if a.options.Identity != "" {
		return refused(fmt.Errorf("the identity is in the variable %s, which this command cannot change: "+ //nolint:err113 // no caller distinguishes it
			"write the identity to a file, "+
			"unset the variable, and name the file with --key-identity-file", config.KeyIdentityVariable))
	}
	plain := filepath.Join(a.options.Folder, plainFile)
	if a.options.IdentityFile != "" {
		plain = a.options.IdentityFile
	}
	text, err := readFile(plain)
	if isMissing(err) || err == nil && isEncrypted(text) {
		return a.CheckIdentity(ctx)
	}
	if err != nil {
		return err
	}
	identity, err := a.parseIdentity(text)
	if err != nil {
		return err
	}
	if err := a.compareIdentity(ctx, identity); err != nil {
		return err
	}
	if plain == a.options.IdentityFile {
		return a.protectFile(plain, text)
	}
	return a.protectFolder(ctx, plain, text, identity)
}

// protectFile replaces a file with its encrypted form.
func (a *Authority) protectFile(name string, text []byte) error {
	wrapped, err := a.wrap(text)
	if err != nil {
		return err
	}
	if err := replaceFile(name, wrapped); err != nil {
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("encrypting the identity: %w", err)}
	}
	return nil
}

// protectFolder creates the encrypted file of the identity and then removes the unencrypted file.
func (a *Authority) protectFolder(ctx context.Context, plain string, text []byte, identity *age.X25519Identity) error {
	wrapped, err := a.wrap(text)
	if err != nil {
		return err
	}
	file := a.options.identityFile()
	if err := createFile(file, wrapped); err != nil && !errors.Is(err, errExists) {
		return err
	}
	// Check that the encrypted copy can be read before the only other copy is removed.
	b, err := a.open(ctx)
	if err != nil {
		return err
	}
	if b.identity.String() != identity.String() {
		return &Fault{Code: CodeLocked, Err: fmt.Errorf("%s has another identity", file)} //nolint:err113 // callers distinguish it by its code
	}
	if err := os.Remove(plain); err != nil {
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("removing the unencrypted identity: %w", err)}
	}
	if err := syncFolder(a.options.Folder); err != nil {
		return &Fault{Code: CodeStorage, Err: err}
	}
	return nil
}

// wrap encrypts a text with the passphrase.
func (a *Authority) wrap(text []byte) ([]byte, error) {
	recipient, err := age.NewScryptRecipient(a.options.Passphrase)
	if err != nil {
		return nil, &Fault{Code: CodeLocked, Err: fmt.Errorf("using the passphrase: %w", err)}
	}
	if a.options.WorkFactor > 0 {
		recipient.SetWorkFactor(a.options.WorkFactor)
	}
	return encrypt(text, recipient)
}

// unwrap decrypts a text with the passphrase.
func (a *Authority) unwrap(text []byte) ([]byte, error) {
	identity, err := age.NewScryptIdentity(a.options.Passphrase)
	if err != nil {
		return nil, &Fault{Code: CodeLocked, Err: fmt.Errorf("using the passphrase: %w", err)}
	}
	return decrypt(text, identity)
}
