package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
)

// MailHead is what a mail shows about its sender: an institution, or the vault.
type MailHead struct {
	Name string
	// Logo is the source of the institution's logo for mail.Letter, or "".
	Logo  string
	Brand *colour.Brand
}

// logoSource is the first part of the source of a logo. The id of the institution follows.
const logoSource = "logo:"

// LogoSource returns the id of the institution to whose logo a source refers. ok is false if the
// source does not refer to a logo.
func LogoSource(source string) (institutionID int64, ok bool) {
	n, err := fmt.Sscanf(source, logoSource+"%d", &institutionID)
	return institutionID, err == nil && n == 1
}

// LogoPNG returns the logo of an institution as PNG, or nil if it has none.
func LogoPNG(ctx context.Context, q db.Queryer, institutionID int64) (content []byte, err error) {
	err = q.QueryRowContext(ctx, `SELECT png FROM institution_logos WHERE institution_id = $1`, institutionID).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a logo: %w", err)
	}
	return content, nil
}

const mailHeadQuery = `SELECT i.id, i.name, i.colour, EXISTS (SELECT 1 FROM institution_logos l WHERE l.institution_id = i.id) FROM institutions i `

// MailHeadOf returns the head of an institution's mail, or fault.NotFound.
func MailHeadOf(ctx context.Context, q db.Queryer, institutionID int64) (MailHead, error) {
	list, err := mailHeads(q.QueryContext(ctx, mailHeadQuery+`WHERE i.id = $1`, institutionID))
	if err == nil && len(list) == 0 {
		err = errNoInstitution
	}
	if err != nil {
		return MailHead{}, err
	}
	return list[0], nil
}

// MailHeadFor returns the head of mail to a person about the person's account: the only institution
// of which the person is a member, else the only institution of the vault, else the vault. host is
// the host of the vault's base URL.
func MailHeadFor(ctx context.Context, q db.Queryer, userID int64, host string) (MailHead, error) {
	list, err := mailHeads(q.QueryContext(ctx, mailHeadQuery+`JOIN members m ON m.institution_id = i.id WHERE m.user_id = $1 ORDER BY i.id LIMIT 2`, userID))
	if err == nil && len(list) == 0 {
		list, err = mailHeads(q.QueryContext(ctx, mailHeadQuery+`ORDER BY i.id LIMIT 2`))
	}
	if err != nil {
		return MailHead{}, err
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return MailHead{Name: mail.Host(host)}, nil
}

func mailHeads(rows *sql.Rows, err error) ([]MailHead, error) {
	var list []MailHead
	if err == nil {
		list, err = db.Collect(rows, func(rows *sql.Rows) (h MailHead, err error) {
			var id int64
			var text string
			var logo bool
			if err := rows.Scan(&id, &h.Name, &text, &logo); err != nil {
				return h, err
			}
			if h.Brand = BrandOf(text); logo {
				h.Logo = fmt.Sprint(logoSource, id)
			}
			return h, nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the sender of a mail: %w", err)
	}
	return list, nil
}

// Write returns a message with this head and the content of a letter.
func (h MailHead) Write(letter mail.Letter, to mail.Address, subject string) (mail.Message, error) {
	letter.From, letter.Logo, letter.Brand = mail.Quote(h.Name, maxHeadName, letter.Direction), h.Logo, h.Brand
	m, err := letter.Message(to, subject)
	m.Sender = MailSender{}.DisplayName(h.Name)
	return m, err
}

// maxHeadName is the maximum length of a name in the head of a mail, in characters.
const maxHeadName = 120
