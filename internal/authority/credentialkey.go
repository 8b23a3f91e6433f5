package authority

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Algorithm is the algorithm of a key that signs credentials.
type Algorithm string

const (
	// Ed25519 is the algorithm of the keys for Data Integrity proofs (RFC 8032).
	Ed25519 Algorithm = "Ed25519"
	// P256 is the algorithm of the keys for JWT and SD-JWT, which sign with ES256 (FIPS 186-5, 6).
	P256 Algorithm = "P-256"
)

// CredentialKey is a key that signs or has signed credentials.
type CredentialKey struct {
	// Number is the generation of the key, from 1.
	Number    int
	Algorithm Algorithm
	Public    crypto.PublicKey
	CreatedAt time.Time

	holder  string
	private string // encrypted
}

// credentialKeyID identifies a key in the cache of decrypted keys.
type credentialKeyID struct {
	holder    string
	number    int
	algorithm Algorithm
}

// errNewer means that another process created the next generation of keys first.
var errNewer = errors.New("another process created newer keys")

// CredentialKeys returns the current and the former keys with which an institution signs credentials, the
// current generation first. If there are none, CredentialKeys creates the first generation and calls record
// in the same transaction. Errors are a *Fault.
func (a *Authority) CredentialKeys(ctx context.Context, institution string, record Record) ([]CredentialKey, error) {
	if err := checkID(institution); err != nil {
		return nil, err
	}
	list, err := a.readCredentialKeys(ctx, a.db, institution)
	if err != nil || len(list) > 0 {
		return list, err
	}
	if err := a.addCredentialKeys(ctx, institution, 0, record); err != nil && !errors.Is(err, errNewer) {
		return nil, err
	}
	return a.readCredentialKeys(ctx, a.db, institution)
}

// RotateCredentialKeys creates the next generation of the keys that sign an institution's
// credentials. Former keys remain, because they verify former credentials. If the institution has no keys,
// RotateCredentialKeys creates the first generation and then the second one. It calls created in the
// transaction of the first generation, and rotated in the transaction of the next one. Errors are a *Fault.
func (a *Authority) RotateCredentialKeys(ctx context.Context, institution string, created, rotated Record) error {
	list, err := a.CredentialKeys(ctx, institution, created)
	if err != nil {
		return err
	}
	return a.addCredentialKeys(ctx, institution, list[0].Number, rotated)
}

// addCredentialKeys stores the generation that follows the parameter last. The error wraps errNewer if this
// generation exists already.
func (a *Authority) addCredentialKeys(ctx context.Context, institution string, last int, record Record) error {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("generating a key: %w", err)}
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return &Fault{Code: CodeStorage, Err: fmt.Errorf("generating a key: %w", err)}
	}
	type sealed struct {
		algorithm Algorithm
		public    []byte
		private   string
	}
	// All processes insert the keys in this order, so that two processes that create the same generation
	// cause no deadlock.
	var keys []sealed
	for _, generated := range []struct {
		algorithm Algorithm
		key       crypto.Signer
	}{{Ed25519, edwards}, {P256, curve}} {
		public, err := x509.MarshalPKIXPublicKey(generated.key.Public())
		if err != nil {
			return &Fault{Code: CodeRefused, Err: fmt.Errorf("encoding a key: %w", err)}
		}
		private, err := a.sealKey(ctx, generated.key)
		if err != nil {
			return err
		}
		keys = append(keys, sealed{generated.algorithm, public, private})
	}
	return storage(a.db.Tx(ctx, func(tx *db.Tx) error {
		for _, k := range keys {
			r, err := tx.ExecContext(ctx, `
				INSERT INTO credential_keys (holder, number, algorithm, public_key, private_key, created_at)
				VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (holder, number, algorithm) DO NOTHING`,
				institution, last+1, string(k.algorithm), k.public, k.private, db.Micros(a.options.Now()))
			if err != nil {
				return fmt.Errorf("storing a key of credentials: %w", err)
			}
			if n, err := r.RowsAffected(); err != nil || n == 0 {
				return errors.Join(err, errNewer)
			}
		}
		if record == nil {
			return nil
		}
		return record(tx)
	}))
}

func (a *Authority) readCredentialKeys(ctx context.Context, q db.Queryer, institution string) ([]CredentialKey, error) {
	rows, err := q.QueryContext(ctx, `
		SELECT number, algorithm, public_key, private_key, created_at FROM credential_keys WHERE holder = $1 ORDER BY number DESC, algorithm`, institution)
	if err != nil {
		return nil, storage(fmt.Errorf("reading the keys of credentials: %w", err))
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (k CredentialKey, err error) {
		var public []byte
		var created int64
		if err := rows.Scan(&k.Number, &k.Algorithm, &public, &k.private, &created); err != nil {
			return k, err
		}
		k.holder, k.CreatedAt = institution, db.Time(created)
		if k.Public, err = x509.ParsePKIXPublicKey(public); err != nil {
			return k, &Fault{Code: CodeBroken, Err: fmt.Errorf("reading a key of credentials: %w", err)}
		}
		return k, nil
	})
	return list, storage(err)
}

// CredentialSigner returns the private key of a key that CredentialKeys returned. Decrypted keys are cached.
// Errors are a *Fault.
func (a *Authority) CredentialSigner(ctx context.Context, k CredentialKey) (crypto.Signer, error) {
	return unsealOnce(ctx, a, a.credentialKeys, credentialKeyID{k.holder, k.Number, k.Algorithm}, k.private, k.Public)
}
