package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
)

// Purpose is the purpose of a one-time secret.
type Purpose string

// These are the purposes of mailed links.
const (
	ToSignUp        Purpose = "sign_up"
	ToSignIn        Purpose = "sign_in"
	ToReset         Purpose = "reset"
	ToChangeAddress Purpose = "address"
	// ToAddAddress links verify a further address.
	ToAddAddress Purpose = "add_address"
)

// These are the purposes of challenges for passkeys.
const (
	toUsePasskey Purpose = "passkey"
	toAddPasskey Purpose = "new_passkey"
)

// lifetimes has the lifetime of one-time secrets for each purpose.
var lifetimes = map[Purpose]time.Duration{
	ToSignUp: 24 * time.Hour, ToSignIn: 15 * time.Minute, ToReset: time.Hour, ToChangeAddress: 24 * time.Hour, ToAddAddress: 24 * time.Hour,
	toUsePasskey: 5 * time.Minute, toAddPasskey: 5 * time.Minute,
}

// Proof is the data of a one-time secret.
type Proof struct {
	Purpose Purpose
	// userID is the id of the person, or 0 if the person is not known yet.
	userID int64
	// Email is the address that the link verifies, as it was entered. EmailFolded is its folded form, to
	// which the link was mailed. Both are "" for a challenge.
	Email, EmailFolded string
	// Data is the page that opens after the link is used, or "". For a challenge, it is the state of the
	// ceremony.
	Data string
}

// PersonID returns the id of the person for whom the secret was created, or 0 if the person is not known
// yet.
func (p *Proof) PersonID() int64 { return p.userID }

// newProofTx creates a one-time secret.
func (s *Service) newProofTx(ctx context.Context, tx *db.Tx, p Proof) (secret string, err error) {
	secret = newSecret()
	now := s.Now()
	_, err = tx.ExecContext(ctx, `
		INSERT INTO proofs (hash, purpose, user_id, email, email_folded, data, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		account.HashSecret(secret), string(p.Purpose), sql.NullInt64{Int64: p.userID, Valid: p.userID != 0}, p.Email, p.EmailFolded, p.Data,
		db.Micros(now), db.Micros(now.Add(lifetimes[p.Purpose])))
	if err != nil {
		return "", fmt.Errorf("creating a one-time secret: %w", err)
	}
	return secret, nil
}

// Proof returns the data of a link and does not redeem the link, because some programs open every
// link in a mail. The error is ErrLink if the link is not valid.
func (s *Service) Proof(ctx context.Context, purpose Purpose, secret string) (Proof, error) {
	return s.scanProof(purpose, s.DB.QueryRowContext(ctx, `
		SELECT user_id, email, email_folded, data FROM proofs WHERE hash = $1 AND purpose = $2 AND used_at IS NULL AND expires_at > $3`,
		account.HashSecret(secret), string(purpose), db.Micros(s.Now())))
}

// redeemTx marks a one-time secret as used and returns its data. Only one of two concurrent calls
// succeeds. If the secret was mailed, redeemTx also resets the counts of mail to the address.
func (s *Service) redeemTx(ctx context.Context, tx *db.Tx, purpose Purpose, secret string) (Proof, error) {
	p, err := s.scanProof(purpose, tx.QueryRowContext(ctx, `
		UPDATE proofs SET used_at = $3 WHERE hash = $1 AND purpose = $2 AND used_at IS NULL AND expires_at > $3
		RETURNING user_id, email, email_folded, data`, account.HashSecret(secret), string(purpose), db.Micros(s.Now())))
	if err != nil || p.EmailFolded == "" {
		return p, err
	}
	return p, resetMailTx(ctx, tx, p.EmailFolded)
}

func (s *Service) scanProof(purpose Purpose, row *sql.Row) (Proof, error) {
	p := Proof{Purpose: purpose}
	var user sql.NullInt64
	err := row.Scan(&user, &p.Email, &p.EmailFolded, &p.Data)
	if errors.Is(err, sql.ErrNoRows) {
		return Proof{}, ErrLink
	}
	if err != nil {
		return Proof{}, fmt.Errorf("reading a one-time secret: %w", err)
	}
	p.userID = user.Int64
	return p, nil
}

// redeemLinkTx redeems a link that was mailed to a person, and returns the person. A link that was
// mailed to a former address is not valid, because the mailbox may have another owner.
func (s *Service) redeemLinkTx(ctx context.Context, tx *db.Tx, purpose Purpose, secret string) (Person, error) {
	proof, err := s.redeemTx(ctx, tx, purpose, secret)
	if err != nil {
		return Person{}, err
	}
	p, err := s.Person(ctx, tx, proof.userID)
	if errors.Is(err, ErrNoPerson) || err == nil && p.EmailFolded != proof.EmailFolded {
		return Person{}, ErrLink
	}
	return p, err
}

// deleteLinksTx deletes all one-time secrets of a person, and resets the counts of mail to the
// person's address.
func deleteLinksTx(ctx context.Context, tx *db.Tx, p Person) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM proofs WHERE user_id = $1`, p.ID); err != nil {
		return fmt.Errorf("deleting mailed links: %w", err)
	}
	return resetMailTx(ctx, tx, p.EmailFolded)
}
