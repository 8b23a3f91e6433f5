package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// User is a person with an account.
type User struct {
	ID   int64
	UUID string
	Name string
	// Email is the main address as the person entered it, and EmailFolded is its form for comparison.
	Email, EmailFolded string
	// Language is the tag of the language that the person chose, or "".
	Language  string
	CreatedAt time.Time
	// VerifiedAt is the time at which the person verified the main address, or nil.
	VerifiedAt *time.Time
}

var errNoUser = fault.New(fault.NotFound, "There is no such account.")

const userColumns = `id, uuid, name, email, email_folded, language, created_at, confirmed_at`

func scanUser(row interface{ Scan(dest ...any) error }) (*User, error) {
	var u User
	var created int64
	var verified sql.NullInt64
	err := row.Scan(&u.ID, &u.UUID, &u.Name, &u.Email, &u.EmailFolded, &u.Language, &created, &verified)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoUser
	}
	if err != nil {
		return nil, fmt.Errorf("reading a user: %w", err)
	}
	u.CreatedAt, u.VerifiedAt = db.Time(created), db.OptionalTime(verified)
	return &u, nil
}

// UserByID returns the user with an id, or fault.NotFound.
func UserByID(ctx context.Context, q db.Queryer, id int64) (*User, error) {
	return scanUser(q.QueryRowContext(ctx, `SELECT `+userColumns+` FROM users WHERE id = $1`, id))
}

// UserByUUID returns the user with a UUID, or fault.NotFound.
func UserByUUID(ctx context.Context, q db.Queryer, uuid string) (*User, error) {
	return scanUser(q.QueryRowContext(ctx, `SELECT `+userColumns+` FROM users WHERE uuid = $1`, uuid))
}

// VerifiedUser returns the user who has verified a folded address, as the main address or as a further
// address, or fault.NotFound.
func VerifiedUser(ctx context.Context, q db.Queryer, emailFolded string) (*User, error) {
	u, err := UserByAddress(ctx, q, emailFolded)
	if err == nil && u.EmailFolded == emailFolded && u.VerifiedAt == nil {
		return nil, errNoUser
	}
	return u, err
}

// LanguageOf returns the language that the person with a verified address chose. It returns "" if no
// person has verified the address, or if the person chose no language.
func LanguageOf(ctx context.Context, q db.Queryer, address string) (string, error) {
	email, err := ParseEmail(address)
	if err != nil {
		return "", nil //nolint:nilerr // no account has such an address
	}
	u, err := VerifiedUser(ctx, q, email.Folded)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return u.Language, nil
}

// NewUser is the data of an account to create.
type NewUser struct {
	Email          Email
	Name, Language string
	// Hash is the hash of the password. It is null if the account has no password.
	Hash sql.NullString
}

// InsertUserTx creates an account for an address. If an account already has the address as its main
// address or as a further address, InsertUserTx changes nothing and returns the id of that account.
func InsertUserTx(ctx context.Context, tx *db.Tx, n NewUser, at time.Time) (id int64, created bool, err error) {
	if err := lockAddressTx(ctx, tx, n.Email.Folded); err != nil {
		return 0, false, err
	}
	if u, err := UserByAddress(ctx, tx, n.Email.Folded); err == nil {
		return u.ID, false, nil
	} else if !fault.Is(err, fault.NotFound) {
		return 0, false, err
	}
	column, next := db.NewID(tx, "users")
	err = tx.QueryRowContext(ctx, `
		INSERT INTO users (`+column+`uuid, email, email_folded, name, password_hash, language, created_at) VALUES (`+next+`$1, $2, $3, $4, $5, $6, $7) RETURNING id`,
		uuid.Must(uuid.NewV7()).String(), n.Email.Text, n.Email.Folded, n.Name, n.Hash, n.Language, db.Micros(at)).Scan(&id)
	if err != nil {
		return 0, false, fmt.Errorf("creating an account: %w", err)
	}
	return id, true, nil
}

// insertMainTx is like InsertUserTx, but returns an error for the field if the address is a further
// address of an account. It is for callers that grant rights without an invitation: the mailbox of a further
// address may belong to another person than the account by now.
func insertMainTx(ctx context.Context, tx *db.Tx, field string, n NewUser, at time.Time) (id int64, created bool, err error) {
	id, created, err = InsertUserTx(ctx, tx, n, at)
	if err != nil || created {
		return id, created, err
	}
	u, err := UserByID(ctx, tx, id)
	if err != nil {
		return 0, false, err
	}
	if u.EmailFolded != n.Email.Folded {
		return 0, false, fault.OfField(field, "This address is a further address of an account, and nobody can sign in with it. "+
			"Enter the main address of the account. If the mailbox belongs to another person now, run certvault user remove-address first.")
	}
	return id, false, nil
}

// VerifyUserTx records that a user has verified the main address. It returns false if the address was
// verified already.
func VerifyUserTx(ctx context.Context, tx *db.Tx, id int64, at time.Time) (changed bool, err error) {
	return updateUserTx(ctx, tx, `UPDATE users SET confirmed_at = $2 WHERE id = $1 AND confirmed_at IS NULL`, id, db.Micros(at))
}

// SetEmailTx changes a user's main address. The new address is not verified. If it was a further address of
// the user, it is no longer a further address. SetEmailTx returns false if another user has the address or
// if there is no such user.
func SetEmailTx(ctx context.Context, tx *db.Tx, id int64, email Email) (changed bool, err error) {
	if err := lockAddressTx(ctx, tx, email.Folded); err != nil {
		return false, err
	}
	u, err := UserByAddress(ctx, tx, email.Folded)
	if err == nil && u.ID != id {
		return false, nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	if _, err := updateUserTx(ctx, tx, `DELETE FROM user_addresses WHERE email_folded = $1`, email.Folded); err != nil {
		return false, err
	}
	return updateUserTx(ctx, tx, `UPDATE users SET email = $2, email_folded = $3, email_folded_before = NULL, confirmed_at = NULL WHERE id = $1`,
		id, email.Text, email.Folded)
}

// SetUserNameTx changes a user's name.
func SetUserNameTx(ctx context.Context, tx *db.Tx, id int64, name string) error {
	_, err := updateUserTx(ctx, tx, `UPDATE users SET name = $2 WHERE id = $1`, id, name)
	return err
}

// SetUserLanguageTx changes a user's language.
func SetUserLanguageTx(ctx context.Context, tx *db.Tx, id int64, tag string) error {
	_, err := updateUserTx(ctx, tx, `UPDATE users SET language = $2 WHERE id = $1`, id, tag)
	return err
}

// SetPasswordTx changes the hash of a user's password. A null hash removes the password.
func SetPasswordTx(ctx context.Context, tx *db.Tx, id int64, hash sql.NullString) error {
	_, err := updateUserTx(ctx, tx, `UPDATE users SET password_hash = $2 WHERE id = $1`, id, hash)
	return err
}

// LockPasswordTx reports whether the hash of a user's password is still the given hash. If so, it
// prevents other transactions from changing the password until this transaction ends.
func LockPasswordTx(ctx context.Context, tx *db.Tx, id int64, hash string) (same bool, err error) {
	return updateUserTx(ctx, tx, `UPDATE users SET password_hash = password_hash WHERE id = $1 AND password_hash = $2`, id, hash)
}

// DeleteUserTx deletes an account. ON DELETE CASCADE deletes the rows that belong to it, such as
// sessions, passkeys and further addresses.
func DeleteUserTx(ctx context.Context, tx *db.Tx, id int64) error {
	// Without KeepIDTx, a new user could get the same id and approve certificates that wait for the deleted
	// user.
	if err := db.KeepIDTx(ctx, tx, "users", id); err != nil {
		return err
	}
	_, err := updateUserTx(ctx, tx, `DELETE FROM users WHERE id = $1`, id)
	return err
}

func updateUserTx(ctx context.Context, tx *db.Tx, statement string, args ...any) (changed bool, err error) {
	res, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, fmt.Errorf("changing a user: %w", err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
