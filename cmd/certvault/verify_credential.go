package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/resolver"
	"github.com/certvault/certvault/internal/safehttp"
)

// credentialFlags are the flags for the credentials of any issuer. Without them, the command can use only the
// keys of the vault that ownVaultFlags name, and keys that are the identifier of the issuer (did:key).
type credentialFlags struct {
	Online   bool           `help:"For a credential: fetch the keys of its issuer and its status list by https."`
	Document []string       `help:"For a credential: saved DID document or metadata of its issuer, or status list; may be repeated." placeholder:"FILE" sep:"none"`
	Allow    []netip.Prefix `help:"For --online: non-public network that may be reached; may be repeated." placeholder:"CIDR" sep:"none"`
}

// ownVaultFlags are the flags that name the operator's own vault. To verify a credential of this vault, the
// command reads the keys and the status lists of its institutions from the database.
type ownVaultFlags struct {
	// Data has no default, because the sender of the file may control what is in the current folder.
	Data              string `help:"Data folder of your own vault: its roots are used if --root is not given, and its keys for its own credentials." placeholder:"DIR"`
	Database          string `help:"PostgreSQL database of your own vault, postgres://..., for its own credentials." placeholder:"URL"`
	MasterKeyFile     string `help:"With --data or --database: file of the master key." name:"master-key-file" placeholder:"FILE" type:"path"`
	KeyIdentityFile   string `help:"With --data or --database: file of the identity that decrypts the signing keys." name:"key-identity-file" placeholder:"FILE" type:"path"`
	KeyPassphraseFile string `help:"With --data or --database: file with the passphrase that protects the identity." name:"key-passphrase-file" placeholder:"FILE" type:"path"`
}

// issuer opens the vault that the flags name. It returns the service for the vault's credentials and a
// function that closes the vault. If the flags name no vault, or the vault cannot be opened, the service is
// nil.
func (f *ownVaultFlags) issuer(c *console) (*issuer.Service, func() error) {
	none := func() error { return nil }
	s := config.Storage{
		Data: f.Data, Database: f.Database, MasterKeyFile: f.MasterKeyFile, KeyIdentityFile: f.KeyIdentityFile, KeyPassphraseFile: f.KeyPassphraseFile,
	}
	if f.Database == "" && (f.Data == "" || requireVault(s) != nil) {
		return nil, none
	}
	base, own, err := openOwn(c.ctx, s)
	if err != nil {
		// This is no error of the command, because credentials of other vaults can still be verified.
		printError(c.stderr, fmt.Errorf("the vault of --data or --database is not used, because it cannot be opened: %w", err))
		return nil, none
	}
	return own, base.DB.Close
}

func openOwn(ctx context.Context, s config.Storage) (*app.Base, *issuer.Service, error) {
	if err := s.AfterApply(); err != nil {
		return nil, nil, err
	}
	base, err := app.OpenBase(ctx, s, "")
	if err != nil {
		return nil, nil, err
	}
	own, err := base.Issuer(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, base.DB.Close())
	}
	return base, own, nil
}

// fetcher returns the source of the documents that a credential refers to: the files of --document and,
// with --online, the web.
func (f *credentialFlags) fetcher() (savedDocuments, error) {
	saved := savedDocuments{byAddress: map[string][]byte{}, otherwise: credential.Offline{}}
	if f.Online {
		saved.otherwise = resolver.New(safehttp.Options{Allow: f.Allow})
	}
	for _, name := range f.Document {
		data, err := readLimited(name, credential.MaxFetch)
		if err != nil {
			return saved, fmt.Errorf("--document: %w", err)
		}
		address, err := credential.Address(data)
		if err != nil {
			return saved, fmt.Errorf("--document: %q: %w", name, err)
		}
		saved.byAddress[address] = data
	}
	return saved, nil
}

// savedDocuments is a Fetcher that returns saved copies of documents. It fetches the other documents with its
// second field.
type savedDocuments struct {
	byAddress map[string][]byte
	otherwise credential.Fetcher
}

// Fetch implements [credential.Fetcher].
func (s savedDocuments) Fetch(ctx context.Context, url, accept string) ([]byte, error) {
	if data, ok := s.byAddress[url]; ok {
		return data, nil
	}
	return s.otherwise.Fetch(ctx, url, accept)
}

// readLimited reads a regular file of at most limit bytes.
func readLimited(name string, limit int64) ([]byte, error) {
	f, _, err := openRegular(name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w", name, withoutName(err))
	}
	return data, nil
}

// credentialReport is the report on a credential.
type credentialReport struct {
	*credential.Report

	// Lost reports whether the operator's own vault issued the credential, but does not have its
	// certificate.
	Lost bool `json:"lost,omitempty"`
}

// verifyCredential verifies the file if it contains a credential. Otherwise, it returns errNotCredential. The
// error for a damaged picture has the type *unreadable.
func (v *verifyCommand) verifyCredential(c *console) (_ *credentialReport, err error) {
	f, size, err := openRegular(v.File, maxVerified)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	if size > credential.MaxFile {
		return nil, errNotCredential
	}
	data, err := io.ReadAll(io.LimitReader(f, credential.MaxFile))
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w", v.File, withoutName(err))
	}
	_, _, err = credential.Unbake(data)
	switch {
	case errors.Is(err, credential.ErrNoCredential):
		return nil, errNotCredential
	case errors.Is(err, credential.ErrPicture):
		return nil, &unreadable{err}
	}
	fetcher, err := v.fetcher()
	if err != nil {
		return nil, err
	}
	own, closeVault := v.issuer(c)
	defer func() { err = errors.Join(err, closeVault()) }()
	if own != nil {
		fetcher.otherwise = own.Documents(fetcher.otherwise)
	}
	report := &credentialReport{}
	if report.Report, err = credential.Verify(c.ctx, data, credential.Options{Fetcher: fetcher, Now: time.Now()}); err != nil {
		return nil, fmt.Errorf("%q: %w", v.File, err)
	}
	if own != nil {
		if report.Lost, err = own.Lost(c.ctx, report.Report); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// unreadable is the error for a damaged picture, which may contain a credential. The verdict is unknown.
type unreadable struct{ error }

// errNotCredential reports a file without a credential.
var errNotCredential = errors.New("the file contains no credential")

// exit returns the exit code for a verdict as an error, or nil if the credential is valid.
func exit(v credential.Verdict) error {
	switch v {
	case credential.Valid:
		return nil
	case credential.Invalid:
		return &exitError{code: exitInvalid}
	case credential.Unknown:
	}
	return &exitError{code: exitUnknown}
}
