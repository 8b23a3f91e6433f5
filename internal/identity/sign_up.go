package identity

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"unicode"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const maxName = 255

// NewPerson is the input of a sign-up.
type NewPerson struct {
	Name string
	// Password may be empty. The person then signs in with passkeys and sign-in links.
	Password string
	Language string
}

// check normalizes the name, and returns fault.Invalid if the name or the password is not acceptable.
func (n *NewPerson) check() error {
	var bad fault.Fields
	if problem := checkName(&n.Name); problem != "" {
		bad.Add("name", problem)
	}
	if n.Password != "" {
		if err := account.CheckPassword(n.Password); err != nil {
			bad.Add("password", err.Error())
		}
	}
	return bad.Err()
}

// checkName normalizes a name and returns its problem, or "". It accepts names in any script. It refuses
// control characters and marks that change the direction of text, because names appear within other texts
// and in mail headers.
func checkName(name *string) string {
	*name = strings.Join(strings.Fields(*name), " ")
	if n := len([]rune(*name)); n < 1 || n > maxName {
		return fmt.Sprintf("The name must have 1 to %d characters.", maxName)
	}
	if !account.CleanText(*name) || strings.ContainsFunc(*name, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	}) {
		return account.HiddenInName
	}
	return ""
}

// SignUp creates an account with the link mailed to its address, and starts a session. It returns
// ErrTaken if an account with this address was created in the meantime.
func (s *Service) SignUp(ctx context.Context, secret string, n NewPerson, from Origin) (*Entry, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	// An invalid link is refused before the password is hashed, because hashing is expensive.
	if _, err := s.Proof(ctx, ToSignUp, secret); err != nil {
		return nil, err
	}
	hash, err := s.hash(ctx, n.Password)
	if err != nil {
		return nil, err
	}
	var e *Entry
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		proof, err := s.redeemTx(ctx, tx, ToSignUp, secret)
		if err != nil {
			return err
		}
		id, err := s.insertTx(ctx, tx, account.Email{Text: proof.Email, Folded: proof.EmailFolded}, n, hash)
		if err != nil {
			return err
		}
		if err := s.verifyAddressTx(ctx, tx, id); err != nil {
			return err
		}
		p, err := s.Person(ctx, tx, id)
		if err != nil {
			return err
		}
		e, err = s.startSessionTx(ctx, tx, p, ByLink, false, from)
		return err
	})
	return e, err
}

// insertTx creates a person, or returns ErrTaken if the address has an account.
func (s *Service) insertTx(ctx context.Context, tx *db.Tx, email account.Email, n NewPerson, hash sql.NullString) (id int64, err error) {
	id, created, err := account.InsertUserTx(ctx, tx, account.NewUser{Email: email, Name: n.Name, Language: s.language(n.Language), Hash: hash}, s.Now())
	if err != nil {
		return 0, err
	}
	if !created {
		return 0, ErrTaken
	}
	// The sign-up links that were mailed to the address can no longer be used, so the mails no longer
	// count.
	return id, resetMailTx(ctx, tx, email.Folded)
}

// CreateTx creates a person whose address another package has verified by a mailed link, and calls
// OnVerified. It returns ErrTaken if the address has an account.
func (s *Service) CreateTx(ctx context.Context, tx *db.Tx, email account.Email, n NewPerson, hash string) (Person, error) {
	if err := n.check(); err != nil {
		return Person{}, err
	}
	id, err := s.insertTx(ctx, tx, email, n, sql.NullString{String: hash, Valid: hash != ""})
	if err != nil {
		return Person{}, err
	}
	if err := s.verifyAddressTx(ctx, tx, id); err != nil {
		return Person{}, err
	}
	return s.Person(ctx, tx, id)
}

// VerifyAddressTx records that another package has verified a person's address by a mailed link.
func (s *Service) VerifyAddressTx(ctx context.Context, tx *db.Tx, personID int64) error {
	return s.verifyAddressTx(ctx, tx, personID)
}

// hash returns the hash of a password, or null if the password is empty.
func (s *Service) hash(ctx context.Context, password string) (sql.NullString, error) {
	if password == "" {
		return sql.NullString{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hashTime)
	defer cancel()
	hash, err := s.PasswordCost.Hash(ctx, password)
	return sql.NullString{String: hash, Valid: err == nil}, busyError(err)
}

// language returns the tag if the language is supported, and "" otherwise.
func (s *Service) language(tag string) string {
	if s.Languages == nil {
		return ""
	}
	if _, ok := s.Languages.Get(tag); !ok {
		return ""
	}
	return tag
}

// SetLanguage changes the language of mail to a person. An unsupported language becomes "".
func (s *Service) SetLanguage(ctx context.Context, personID int64, tag string) error {
	return s.DB.Tx(ctx, func(tx *db.Tx) error { return account.SetUserLanguageTx(ctx, tx, personID, s.language(tag)) })
}

// SetName changes a person's name.
func (s *Service) SetName(ctx context.Context, personID int64, name string) error {
	if problem := checkName(&name); problem != "" {
		return fault.OfField("name", problem)
	}
	return s.DB.Tx(ctx, func(tx *db.Tx) error { return account.SetUserNameTx(ctx, tx, personID, name) })
}
