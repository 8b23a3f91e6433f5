package account

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
)

// MailLanguage gives the language in which an institution writes to people who
// have not chosen one.
func (s *Service) MailLanguage(ctx context.Context, id int64) (tag string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT mail_language FROM institutions WHERE id = $1`, id).Scan(&tag)
	if errors.Is(err, sql.ErrNoRows) {
		return "", errNoInstitution
	}
	if err != nil {
		return "", fmt.Errorf("reading the language of mail: %w", err)
	}
	return tag, nil
}

// SetMailLanguage changes it, for mail that is written from then on.
func (s *Service) SetMailLanguage(ctx context.Context, id int64, tag string) error {
	if !locale.Speaks(tag) {
		return fault.OfField("mail_language", "The language must be one that the vault speaks: en, es, fr, de, pt, ar, hi or zh.")
	}
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var was string
		err := tx.QueryRowContext(ctx, `SELECT mail_language FROM institutions WHERE id = $1`, id).Scan(&was)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoInstitution
		}
		if err != nil || was == tag {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE institutions SET mail_language = $1 WHERE id = $2`, tag, id); err != nil {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: id, At: s.now(), Action: audit.InstitutionChanged, Detail: audit.Detail{"mail_language": map[string]string{"from": was, "to": tag}},
		})
	}); err != nil {
		return fmt.Errorf("changing the language of mail: %w", err)
	}
	return nil
}
