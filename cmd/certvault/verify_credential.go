package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/resolver"
	"github.com/certvault/certvault/internal/safehttp"
)

// credentialFlags are the flags for credentials. Without them, nothing shows whose key signed.
type credentialFlags struct {
	Online   bool           `help:"For a credential: fetch the keys of its issuer and its status list by https."`
	Document []string       `help:"For a credential: saved DID document or metadata of its issuer, or status list; may be repeated." placeholder:"FILE" sep:"none"`
	Allow    []netip.Prefix `help:"For --online: non-public network that may be reached; may be repeated." placeholder:"CIDR" sep:"none"`
}

// fetcher returns the source of the documents that a credential refers to: the saved copies, and with
// --online the web.
func (f *credentialFlags) fetcher() (credential.Fetcher, error) {
	saved := savedDocuments{byAddress: map[string][]byte{}, otherwise: credential.Offline{}}
	if f.Online {
		saved.otherwise = resolver.New(safehttp.Options{Allow: f.Allow})
	}
	for _, name := range f.Document {
		data, err := readLimited(name, credential.MaxFetch)
		if err != nil {
			return nil, fmt.Errorf("--document: %w", err)
		}
		address, err := credential.Address(data)
		if err != nil {
			return nil, fmt.Errorf("--document: %q: %w", name, err)
		}
		saved.byAddress[address] = data
	}
	return saved, nil
}

// savedDocuments is a Fetcher with saved copies.
type savedDocuments struct {
	byAddress map[string][]byte
	otherwise credential.Fetcher
}

// Fetch returns the saved copy, or fetches the document.
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

// verifyCredential verifies the file if it contains a credential. It returns errNotCredential if the
// file is something else.
func (v *verifyCommand) verifyCredential(ctx context.Context) (*credential.Report, error) {
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
	report, err := credential.Verify(ctx, data, credential.Options{Fetcher: fetcher, Now: time.Now()})
	if err != nil {
		return nil, fmt.Errorf("%q: %w", v.File, err)
	}
	return report, nil
}

// unreadable is the error of a picture that is damaged, so that nothing can be said about it.
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
