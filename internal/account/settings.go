package account

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
)

// Settings has the settings that members of an institution can change.
type Settings struct {
	Name string
	// Colour is the institution's colour as "#rrggbb", or "" for the vault's colour.
	Colour string
	// MailLanguage is the tag of the language of mail to people who have not chosen a language.
	MailLanguage string

	Public
	MailSender
	Retention
	Policy
	Expiry
}

// Policy specifies the placement of an institution's stamps, and which files the institution accepts.
// Package cert checks and applies the policy.
type Policy struct {
	Placement string `json:"placement"`
	// Page is the page number; the first page is 1.
	Page int `json:"placement_page"`
	// Box is the position of an exact placement: the left, top, right and bottom edge in fractions of
	// the page. It is nil for other placements.
	Box          *[4]float64 `json:"placement_box"`
	RefuseActive bool        `json:"refuse_active"`
	// PlainStamp selects the stamp of earlier versions, with only the QR code and the reference id.
	PlainStamp bool `json:"plain_stamp"`
}

// Changes has the settings that the function passed to Change may modify.
type Changes struct {
	Settings

	// MailTexts has the mail texts by language. An empty MailText is removed.
	MailTexts map[string]MailText
	// Logo replaces the logo, if it is not nil. An empty Logo removes the logo.
	Logo *Logo
	// AllowSameName is the consent of an operator to a name that looks the same as the name of
	// another institution.
	AllowSameName bool
}

// ReadSettings returns the settings of an institution, or fault.NotFound.
func ReadSettings(ctx context.Context, q db.Queryer, id int64) (*Settings, error) {
	return readSettings(ctx, q, id, "")
}

func readSettings(ctx context.Context, q db.Queryer, id int64, lock string) (*Settings, error) {
	var v Settings
	var box sql.NullString
	err := q.QueryRowContext(ctx, `
		SELECT name, colour, mail_language, hide_name, public_image, public_download, contact, linkedin, mail_sender, mail_reply,
			keep_failed, keep_revoked, keep_mail, placement, placement_page, placement_box, refuse_active, plain_stamp, expiry_days, expiry_mail
		FROM institutions WHERE id = $1`+lock, id).
		Scan(&v.Name, &v.Colour, &v.MailLanguage, &v.HideName, &v.AllowImage, &v.AllowDownload, &v.Contact, &v.LinkedIn, &v.Sender, &v.ReplyTo,
			&v.Failed, &v.Revoked, &v.Mail, &v.Placement, &v.Page, &box, &v.RefuseActive, &v.PlainStamp,
			&v.ExpiryDays, &v.ExpiryMail)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoInstitution
	}
	if err == nil && box.Valid {
		err = json.Unmarshal([]byte(box.String), &v.Box)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the settings of an institution: %w", err)
	}
	return &v, nil
}

// Change changes the settings of an institution in one transaction: it stores all changes that f
// makes and records them in the audit log, or it changes nothing. It returns the settings after the
// change. If settings are invalid, the error is fault.Invalid, with a field for each of them. If
// there is no such institution, the error is fault.NotFound. If f returns an error, Change returns
// it unchanged. Change does not check the Policy.
func (s *Service) Change(ctx context.Context, id int64, f func(c *Changes) error) (c *Changes, err error) {
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		c, err = s.changeTx(ctx, tx, id, f)
		return err
	}); err != nil {
		return nil, err
	}
	return c, nil
}

func (s *Service) changeTx(ctx context.Context, tx *db.Tx, id int64, f func(c *Changes) error) (*Changes, error) {
	at := s.now()
	lock := ""
	if tx.Dialect() == db.PostgreSQL {
		lock = ` FOR NO KEY UPDATE`
	}
	before, err := readSettings(ctx, tx, id, lock)
	if err != nil {
		return nil, err
	}
	texts, err := MailTexts(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	c := &Changes{Settings: *before, MailTexts: maps.Clone(texts)}
	if err := f(c); err != nil {
		return nil, err
	}
	if err := c.check(before, texts); err != nil {
		return nil, err
	}
	if c.Name != before.Name || c.AllowSameName {
		if err := s.renameTx(ctx, tx, id, before.Name, c); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(
		c.storeTx(ctx, tx, at, id, before),
		c.storeMailTextsTx(ctx, tx, at, id, texts),
		c.storeLogoTx(ctx, tx, at, id),
	); err != nil {
		return nil, fmt.Errorf("changing the settings of an institution: %w", err)
	}
	return c, nil
}

// check converts the changed settings to their stored form. It returns fault.Invalid if some are invalid.
func (c *Changes) check(before *Settings, texts map[string]MailText) error {
	var bad fault.Fields
	collect := func(err error) error {
		e, ok := errors.AsType[*fault.Error](err)
		if !ok {
			return err
		}
		for _, f := range e.Fields {
			bad.Add(f.Name, strings.Join(f.Messages, " "))
		}
		return nil
	}
	if c.Name = strings.TrimSpace(c.Name); c.Name != before.Name {
		if problem := checkInstitutionName(c.Name); problem != "" {
			bad.Add("name", problem)
		}
	}
	if c.MailLanguage != before.MailLanguage && !locale.Supported(c.MailLanguage) {
		bad.Add("mail_language", "The language must be one of en, es, fr, de, pt, ar, hi and zh.")
	}
	var failed []error
	if c.Colour != before.Colour {
		colour, err := CheckColour(c.Colour)
		failed = append(failed, collect(err))
		if c.Colour = ""; colour != nil {
			c.Colour = colour.String()
		}
	}
	if c.Public != before.Public {
		failed = append(failed, collect(c.Public.check()))
	}
	if c.MailSender != before.MailSender {
		failed = append(failed, collect(c.MailSender.check()))
	}
	if r := c.Retention; r != before.Retention {
		failed = append(failed, collect(r.Check()))
	}
	if e := c.Expiry; e != before.Expiry {
		failed = append(failed, collect(e.Check()))
	}
	for tag, w := range c.MailTexts {
		if w == texts[tag] {
			continue
		}
		if !locale.Supported(tag) {
			bad.Add("language", "The language must be one of en, es, fr, de, pt, ar, hi and zh.")
		}
		var err error
		c.MailTexts[tag], err = CheckMailText(w)
		failed = append(failed, collect(err))
	}
	return errors.Join(append(failed, bad.Err())...)
}

// storeTx stores the settings, and records each changed group of settings in the audit log.
func (c *Changes) storeTx(ctx context.Context, tx *db.Tx, at time.Time, id int64, before *Settings) error {
	var entries []audit.Entry
	was, is := before.groups(), c.groups()
	for i := range is {
		changes, err := audit.Changes(was[i], is[i])
		if err != nil {
			return err
		}
		if changes != nil {
			entries = append(entries, audit.Entry{InstitutionID: id, At: at, Action: audit.InstitutionChanged, Detail: changes})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	var box any
	if c.Box != nil {
		text, err := json.Marshal(c.Box)
		if err != nil {
			return err
		}
		box = string(text)
	}
	if _, err := tx.ExecContext(ctx, `
		UPDATE institutions SET name = $1, colour = $2, mail_language = $3, hide_name = $4, public_image = $5, public_download = $6, contact = $7,
			mail_sender = $8, mail_reply = $9, keep_failed = $10, keep_revoked = $11, keep_mail = $12,
			placement = $13, placement_page = $14, placement_box = $15, refuse_active = $16, plain_stamp = $17, linkedin = $18,
			expiry_days = $19, expiry_mail = $20 WHERE id = $21`,
		c.Name, c.Colour, c.MailLanguage, c.HideName, c.AllowImage, c.AllowDownload, c.Contact, c.Sender, c.ReplyTo,
		c.Failed, c.Revoked, c.Mail, c.Placement, c.Page, box, c.RefuseActive, c.PlainStamp, c.LinkedIn,
		c.ExpiryDays, c.ExpiryMail, id); err != nil {
		return err
	}
	for _, e := range entries {
		if err := audit.RecordTx(ctx, tx, e); err != nil {
			return err
		}
	}
	return nil
}

// groups returns the settings in groups. The JSON name of a setting is its name in the audit log.
// Each group is short enough for one entry of the log.
func (v *Settings) groups() []any {
	return []any{
		struct {
			Name         string `json:"name"`
			Colour       string `json:"colour"`
			MailLanguage string `json:"mail_language"`
		}{v.Name, v.Colour, v.MailLanguage},
		v.Public, v.MailSender, v.Retention, v.Policy, v.Expiry,
	}
}

func (c *Changes) storeMailTextsTx(ctx context.Context, tx *db.Tx, at time.Time, id int64, before map[string]MailText) error {
	for tag, w := range c.MailTexts {
		was := before[tag]
		if w == (MailText{}) {
			delete(c.MailTexts, tag)
		}
		if w == was {
			continue
		}
		statement, args := `DELETE FROM institution_words WHERE institution_id = $1 AND language = $2`, []any{id, tag}
		if w != (MailText{}) {
			statement = `INSERT INTO institution_words (institution_id, language, paragraph, closing) VALUES ($1, $2, $3, $4)
				ON CONFLICT (institution_id, language) DO UPDATE SET paragraph = excluded.paragraph, closing = excluded.closing`
			args = append(args, w.Paragraph, w.Closing)
		}
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return err
		}
		changes, err := audit.Changes(was.forLog(), w.forLog())
		if err != nil {
			return err
		}
		if changes == nil {
			changes = audit.Detail{}
		}
		changes["language"] = tag
		if err := audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: id, At: at, Action: audit.MailTextChanged, Detail: changes}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Changes) storeLogoTx(ctx context.Context, tx *db.Tx, at time.Time, id int64) error {
	if c.Logo == nil {
		return nil
	}
	statement, args := `DELETE FROM institution_logos WHERE institution_id = $1`, []any{id}
	var detail audit.Detail
	if c.Logo.png != nil {
		statement = `INSERT INTO institution_logos (institution_id, sha256, png) VALUES ($1, $2, $3)
			ON CONFLICT (institution_id) DO UPDATE SET sha256 = excluded.sha256, png = excluded.png`
		args = append(args, c.Logo.sum[:], c.Logo.png)
		detail = audit.Detail{"sha256": hex.EncodeToString(c.Logo.sum[:])}
	}
	if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
		return err
	}
	return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: id, At: at, Action: audit.LogoChanged, Detail: detail})
}

// set is like Change, but f returns no error, and set does not return the settings.
func (s *Service) set(ctx context.Context, id int64, f func(c *Changes)) error {
	_, err := s.Change(ctx, id, func(c *Changes) error {
		f(c)
		return nil
	})
	return err
}
