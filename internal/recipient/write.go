package recipient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

const (
	// maxListed is the maximum number of certificates that a mail lists. The mail states the number of
	// the other certificates.
	maxListed = 15
	// titleInList and titleInText are the maximum lengths of a title in the list and in the text of a
	// mail, in characters.
	titleInList = 60
	titleInText = 200
	// maxFrom is the maximum length of the institution's name in the head of a mail, in characters.
	maxFrom = 120
	// titleInSenderText is the maximum length of a title in the institution's texts, in characters.
	titleInSenderText = 100
)

// item is a certificate in a mail.
type item struct {
	notice, certificate, institution int64
	status                           cert.Status
	uuid, title, name                string
	reference, issueDate, expiresOn  string
	reason                           Reason
	email, folded                    string
	// replaces reports whether the reason is Replacement.
	replaces bool
	// revocation is the public reason of a revocation.
	revocation string
	// owner is the user to whom the certificate is assigned, or nil. further reports whether the
	// address of the certificate is a further address of the owner.
	owner   *account.User
	further bool
}

// writeTx writes the mail of the waiting notices that the condition where selects: one mail for each owner of
// certificates and one for the notices without an owner. It drops notices of certificates that are not
// approved, except notices of a revocation.
func (s *Service) writeTx(ctx context.Context, tx *db.Tx, where string, args ...any) error {
	items, err := waitingTx(ctx, tx, where, args...)
	if err != nil {
		return fmt.Errorf("reading waiting notices: %w", err)
	}
	// The notices of a batch to one address have one owner, unless a certificate was assigned to an
	// earlier owner of the address.
	groups := map[int64][]item{}
	var order []int64
	for _, i := range items {
		if i.status != cert.Approved && i.reason != Revocation {
			if err := s.settleTx(ctx, tx, []item{i}, Dropped, "", 0); err != nil {
				return err
			}
			continue
		}
		var owner int64
		if i.owner != nil {
			owner = i.owner.ID
		}
		if groups[owner] == nil {
			order = append(order, owner)
		}
		groups[owner] = append(groups[owner], i)
	}
	for _, owner := range order {
		if err := s.writeOneTx(ctx, tx, groups[owner]); err != nil {
			return err
		}
	}
	return nil
}

func waitingTx(ctx context.Context, tx *db.Tx, where string, args ...any) ([]item, error) {
	query := `SELECT id FROM notices WHERE status = 'waiting' AND ` + where + ` ORDER BY id`
	if tx.Dialect() == db.PostgreSQL {
		// A concurrent transaction waits for the lock, and then does not read these notices, because
		// their status has changed.
		query += ` FOR UPDATE`
	}
	waiting, err := db.Column[int64](tx.QueryContext(ctx, query, args...))
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	var list []item
	owners := map[int64]*account.User{}
	for _, id := range waiting {
		var i item
		var owner sql.NullInt64
		if err := tx.QueryRowContext(ctx, `
			SELECT n.id, c.id, c.institution_id, c.status, c.uuid, c.title, c.full_name, c.reference_id, c.issue_date, coalesce(c.expires_on, ''),
				n.reason, coalesce(c.revocation_reason, ''), n.email, n.email_folded, k.user_id
			FROM notices n JOIN certificates c ON c.id = n.certificate_id
				LEFT JOIN customers k ON k.institution_id = c.institution_id AND k.number = c.customer_id
			WHERE n.id = $1`, id).Scan(&i.notice, &i.certificate, &i.institution, &i.status, &i.uuid, &i.title, &i.name, &i.reference, &i.issueDate,
			&i.expiresOn, &i.reason, &i.revocation, &i.email, &i.folded, &owner); err != nil {
			return nil, err
		}
		i.replaces = i.reason == Replacement
		if owner.Valid && owners[owner.Int64] == nil {
			if owners[owner.Int64], err = account.UserByID(ctx, tx, owner.Int64); err != nil {
				return nil, err
			}
		}
		i.owner = owners[owner.Int64]
		if i.owner != nil && i.folded != i.owner.EmailFolded {
			u, err := account.VerifiedUser(ctx, tx, i.folded)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return nil, err
			}
			i.further = err == nil && u.ID == i.owner.ID
		}
		list = append(list, i)
	}
	return list, nil
}

// settleTx stores the status, the message and the link of notices. mailUUID is "" if there is no
// message, and link is 0 if there is no link.
func (s *Service) settleTx(ctx context.Context, tx *db.Tx, items []item, status Status, mailUUID string, link int64) error {
	for _, i := range items {
		if _, err := tx.ExecContext(ctx, `UPDATE notices SET status = $1, mail_uuid = $2, link_id = $3, updated_at = $4 WHERE id = $5`,
			string(status), sql.NullString{String: mailUUID, Valid: mailUUID != ""}, sql.NullInt64{Int64: link, Valid: link != 0},
			db.Micros(s.now()), i.notice); err != nil {
			return fmt.Errorf("updating a notice's status: %w", err)
		}
	}
	return nil
}

// writeOneTx writes one mail about certificates of one institution to one person. If the address is
// unsubscribed, and the person has no account or the mail is a reminder, writeOneTx marks the notices
// as unsubscribed and writes no mail.
func (s *Service) writeOneTx(ctx context.Context, tx *db.Tx, items []item) error {
	first := items[0]
	d, err := draftOf(ctx, tx, first.institution)
	if err != nil {
		return err
	}
	d.items, d.owner = items, first.owner
	var link int64
	if first.reason == Expiring {
		isUnsubscribed, err := IsUnsubscribed(ctx, tx, first.institution, first.folded)
		if err != nil {
			return err
		}
		if isUnsubscribed {
			return s.settleTx(ctx, tx, items, Unsubscribed, "", 0)
		}
	}
	if d.owner != nil {
		d.language = s.catalog.FirstOf(d.owner.Language, d.fallback)
		d.url = s.to("/account")
		if len(items) == 1 {
			d.url = s.to("/account/certificates/" + url.PathEscape(first.uuid))
			d.download = d.url + "/" + downloadFile
		}
	} else {
		isUnsubscribed, err := IsUnsubscribed(ctx, tx, first.institution, first.folded)
		if err != nil {
			return err
		}
		if isUnsubscribed {
			return s.settleTx(ctx, tx, items, Unsubscribed, "", 0)
		}
		d.language = s.catalog.FirstOf(d.fallback)
		secret := account.NewSecret()
		unsubscribe := account.NewSecret()
		if err := tx.QueryRowContext(ctx, `
			INSERT INTO mail_links (institution_id, hash, unsubscribe_hash, email, email_folded, language, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
			first.institution, account.HashSecret(secret), account.HashSecret(unsubscribe), first.email, first.folded, d.language.Tag, db.Micros(s.now())).Scan(&link); err != nil {
			return fmt.Errorf("creating a link: %w", err)
		}
		d.url, d.unsubscribe = s.to("/c/"+secret), s.to("/unsubscribe/"+unsubscribe)
		d.download = d.url + "/" + url.PathEscape(first.uuid) + "/" + downloadFile
	}
	d.picture, d.linkedIn = pageSource+first.uuid, d.profile.AddToLinkedIn(first.title, first.issueDate, first.expiresOn, s.verify(first.reference), first.reference)
	message, err := d.message()
	if err != nil {
		return err
	}
	id, err := s.mailer.EnqueueTx(ctx, tx, message)
	if err != nil {
		return err
	}
	return s.settleTx(ctx, tx, items, Queued, id, link)
}

// draftOf returns a draft with the data of an institution.
func draftOf(ctx context.Context, q db.Queryer, institutionID int64) (d draft, err error) {
	i, err := account.ReadSettings(ctx, q, institutionID)
	if err != nil {
		return d, err
	}
	head, err := account.MailHeadOf(ctx, q, institutionID)
	if err != nil {
		return d, err
	}
	d.institution, d.fallback, d.brand, d.logo, d.sender = i.Name, i.MailLanguage, head.Brand, head.Logo, i.MailSender
	d.expiryDays = i.ExpiryDays
	d.profile = account.PublicProfile{Name: i.Name, Public: i.Public}
	d.texts, err = account.MailTexts(ctx, q, institutionID)
	return d, err
}

// draft has the data of a mail.
type draft struct {
	items       []item
	institution string
	profile     account.PublicProfile
	brand       *colour.Brand
	// logo and picture are the sources of the logo and of the picture of the certificate.
	logo, picture string
	sender        account.MailSender
	// texts has the institution's texts by language. A language without texts uses the texts of
	// fallback, the language of the institution's mail.
	texts       map[string]account.MailText
	fallback    string
	owner       *account.User
	language    *locale.Language
	url         string
	unsubscribe string
	// expiryDays is the number of days before the expiry at which the institution sends reminders.
	expiryDays int
	// download and linkedIn are links of a mail about one certificate.
	download, linkedIn string
}

// downloadFile is the name of the verified PDF below the address of a certificate.
const downloadFile = "certificate.pdf"

// maxLinkedIn is the maximum length of the link to LinkedIn in a mail, in bytes. A longer link is
// omitted, because it would take the space of other texts.
const maxLinkedIn = 1200

// translator returns messages of the catalog in one language. It joins all errors in err.
type translator struct {
	language *locale.Language
	// maxLength is the maximum length of a name or title in a message, in characters.
	maxLength int
	err       error
}

// text returns a message of the catalog. It applies mail.Quote to the arguments that are strings.
func (w *translator) text(key string, args ...any) string {
	for i := 1; i < len(args); i += 2 {
		if s, ok := args[i].(string); ok {
			args[i] = mail.Quote(s, w.maxLength, w.language.Direction)
		}
	}
	t, err := w.language.Text("recipient_mail."+key, args...)
	w.err = errors.Join(w.err, err)
	return t
}

// senderText returns the institution's texts in the language of the mail, or else in the fallback
// language, with their placeholders replaced. It returns nil if there are no texts.
func (d *draft) senderText(w *translator) *mail.SenderText {
	tag := d.language.Tag
	texts, ok := d.texts[tag]
	if !ok {
		tag = d.fallback
		texts = d.texts[tag]
	}
	if texts == (account.MailText{}) {
		return nil
	}
	first := d.items[0]
	direction := d.language.Direction
	texts = texts.Fill(func(placeholder string) string {
		switch placeholder {
		case "name":
			return mail.Quote(first.name, min(titleInSenderText, w.maxLength), direction)
		case "title":
			title := mail.Quote(first.title, min(titleInSenderText, w.maxLength), direction)
			if more := len(d.items) - 1; more > 0 {
				title += " " + w.text("more", "count", more)
			}
			return title
		default:
			return mail.Quote(d.institution, min(titleInSenderText, w.maxLength), direction)
		}
	})
	return &mail.SenderText{Language: tag, Paragraph: texts.Paragraph, Closing: texts.Closing}
}

// sizes has the limits of a mail, the largest first: the number of certificates that it lists, and the
// length of names and titles in characters.
var sizes = []struct{ list, title int }{{maxListed, titleInText}, {5, titleInText}, {2, titleInText}, {2, 100}, {1, 50}}

// message returns the mail in the first of sizes for which Message.Fits reports true, or in the last
// size.
func (d *draft) message() (m mail.Message, err error) {
	for _, size := range sizes {
		if m, err = d.sized(size.list, size.title); err != nil || m.Fits() {
			break
		}
	}
	return m, err
}

// sized returns the mail with at most maxItems certificates in its list, and with names and titles
// of at most maxTitle characters.
func (d *draft) sized(maxItems, maxTitle int) (mail.Message, error) {
	w := &translator{language: d.language, maxLength: maxTitle}
	first := d.items[0]
	letter := mail.Letter{
		Language: d.language.Tag, Direction: d.language.Direction, From: mail.Quote(d.institution, min(maxFrom, maxTitle), d.language.Direction), Brand: d.brand, Logo: d.logo,
	}
	letter.SenderText = d.senderText(w)
	var subject string
	if len(d.items) == 1 {
		subject = w.text("subject_one", "title", first.title, "institution", d.institution)
		letter.Heading = w.text("heading_one")
		letter.Paragraphs = []string{w.text("issued_one", "institution", d.institution, "name", first.name)}
		if first.replaces {
			subject, letter.Heading = w.text("replaced_subject", "title", first.title), w.text("replaced_heading")
			letter.Paragraphs = []string{w.text("replaced_text", "institution", d.institution)}
		}
		letter.Certificate = &mail.Certificate{
			Title: mail.Quote(first.title, maxTitle, d.language.Direction), Name: mail.Quote(first.name, maxTitle, d.language.Direction),
			Picture: d.picture, PictureText: w.text("picture"),
		}
		if day, err := time.Parse(time.DateOnly, first.issueDate); err == nil {
			letter.Certificate.Issued = w.text("issued_on", "date", d.language.Date(day))
		}
		if first.expiresOn != "" {
			letter.Certificate.Issued += " · " + w.text("valid_through", "date", d.expiry())
		}
		letter.Button = &mail.Button{Label: w.text("open_one"), URL: d.url}
		if first.reason == Expiring {
			subject, d.linkedIn = d.remind(w, &letter), ""
		}
		if d.linkedIn != "" && len(d.linkedIn) <= maxLinkedIn {
			letter.Links = append(letter.Links, mail.Button{Label: w.text("linkedin"), URL: d.linkedIn})
		}
		if d.download != "" {
			letter.Links = append(letter.Links, mail.Button{Label: w.text("download"), URL: d.download})
		}
		if first.reason == Revocation {
			subject = d.revoked(w, &letter)
		}
	} else {
		subject = w.text("subject_many", "institution", d.institution, "count", len(d.items))
		letter.Heading = w.text("heading_many")
		letter.Paragraphs = []string{w.text("issued_many", "institution", d.institution, "name", first.name)}
		for _, i := range d.items[:min(len(d.items), maxItems)] {
			letter.List = append(letter.List, mail.Quote(i.title, min(titleInList, maxTitle), d.language.Direction))
		}
		if more := len(d.items) - maxItems; more > 0 {
			letter.List = append(letter.List, w.text("more", "count", more))
		}
		letter.Button = &mail.Button{Label: w.text("open_many"), URL: d.url}
		if first.reason == Revocation {
			subject = d.revokedMany(w, &letter)
		}
	}
	number := "_many"
	if len(d.items) == 1 {
		number = "_one"
	}
	to := mail.Address{Name: first.name, Email: first.email}
	switch {
	case d.owner != nil:
		letter.After = []string{w.text("in_account" + number)}
		if first.further {
			to.Name = d.owner.Name
			letter.Why = w.text("why_address", "email", first.email)
			break
		}
		// The mail goes to the address of the account, because the address in the certificate may be an
		// earlier address of the person.
		to = mail.Address{Name: d.owner.Name, Email: d.owner.Email}
		letter.Why = w.text("why_account", "email", d.owner.Email)
	default:
		letter.After = []string{w.text("no_account" + number), w.text("sign_up", "email", first.email)}
		letter.Why = w.text("why", "institution", d.institution, "email", first.email)
		if d.unsubscribe != "" {
			letter.Unsubscribe = &mail.Button{Label: w.text("unsubscribe"), URL: d.unsubscribe}
		}
	}
	if w.err != nil {
		return mail.Message{}, fmt.Errorf("writing a mail: %w", w.err)
	}
	if first.reason == Revocation {
		letter.After = nil
	}
	m, err := letter.Message(to, subject)
	m.Unsubscribe, m.Sender, m.ReplyTo = d.unsubscribe, d.sender.DisplayName(d.institution), d.sender.ReplyTo
	return m, err
}
