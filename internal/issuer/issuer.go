// Package issuer makes institutions issuers of verifiable credentials: it creates the credential of
// a certificate and stores it, publishes the DID document and the status lists of each institution,
// manages the achievements that credentials name, and issues credentials to wallets (OpenID4VCI).
//
// Package credential builds and signs credentials, and package authority stores the keys. This package
// decides what a credential contains and who gets it. It does not depend on HTTP.
package issuer

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// Config has the dependencies of a Service.
type Config struct {
	DB       *db.DB
	Keyring  *keyring.Ring
	Keys     *authority.Authority
	Accounts *account.Service
	Certs    *cert.Service
	Catalog  *locale.Catalog
	// BaseURL is the base URL of the vault. Its host is part of the DID of each institution.
	BaseURL string
	// Verify returns the address of the public page of a reference id.
	Verify func(referenceID string) string
	// Send queues a mail.
	Send func(ctx context.Context, tx *db.Tx, m mail.Message) (uuid string, err error)
	Now  func() time.Time
}

// Service implements the operations on credentials. It is safe for concurrent use.
type Service struct {
	db       *db.DB
	keyring  *keyring.Ring
	keys     *authority.Authority
	accounts *account.Service
	certs    *cert.Service
	catalog  *locale.Catalog
	base     string
	verify   func(referenceID string) string
	send     func(ctx context.Context, tx *db.Tx, m mail.Message) (uuid string, err error)
	now      func() time.Time

	refresh singleflight.Group
	mu      sync.Mutex
	lists   map[string]*StatusList
	held    int // size of the lists in memory, in bytes
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{
		db: c.DB, keyring: c.Keyring, keys: c.Keys, accounts: c.Accounts, certs: c.Certs, catalog: c.Catalog, base: strings.TrimRight(c.BaseURL, "/"),
		verify: c.Verify, send: c.Send, now: c.Now, lists: map[string]*StatusList{},
	}
}

// DID returns the decentralized identifier of an institution.
func (s *Service) DID(uuid string) (string, error) {
	return credential.DIDWeb(s.base, "institutions", uuid)
}

// ID returns the identifier of an institution as an issuer for wallets (OpenID4VCI 1.0, 12.2.1).
func (s *Service) ID(uuid string) string { return s.base + InstitutionsPath + uuid }

// Institution returns the institution with a UUID, or fault.NotFound.
func (s *Service) Institution(ctx context.Context, uuid string) (*account.Institution, error) {
	return account.InstitutionByUUID(ctx, s.db, uuid)
}

// institutionKeys returns the keys of an institution, the current generation first. If the institution
// has no keys, institutionKeys creates them.
func (s *Service) institutionKeys(ctx context.Context, i *account.Institution) ([]authority.CredentialKey, error) {
	keys, err := s.keys.CredentialKeys(ctx, i.UUID, RecordKeys(ctx, i, s.now))
	return keys, unavailable(err)
}

// RecordKeys returns a function that records in the audit log that an institution's keys for credentials
// were created.
func RecordKeys(ctx context.Context, i *account.Institution, now func() time.Time) authority.Record {
	ctx = audit.WithActor(ctx, audit.Certvault)
	return func(tx *db.Tx) error {
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: i.ID, At: now(), Action: audit.CredentialKeysCreated, Subject: audit.Subject{Type: "institution", ID: i.UUID, Name: i.Name},
		})
	}
}

// unavailable converts an *authority.Fault to fault.Unavailable, because the key can become available
// again. It returns other errors unchanged.
func unavailable(err error) error {
	if f, ok := errors.AsType[*authority.Fault](err); ok {
		return fault.Wrap(fault.Unavailable, "The keys of the institution's credentials are not available. Try again later.", f)
	}
	return err
}

// noRows reports whether err means that a query found no row.
func noRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }
