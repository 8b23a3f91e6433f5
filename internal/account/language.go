package account

import "context"

// MailLanguage returns the language in which an institution writes to people who have chosen none.
func (s *Service) MailLanguage(ctx context.Context, id int64) (tag string, err error) {
	v, err := ReadSettings(ctx, s.db, id)
	if err != nil {
		return "", err
	}
	return v.MailLanguage, nil
}

// SetMailLanguage changes the language of mail that is written from then on.
func (s *Service) SetMailLanguage(ctx context.Context, id int64, tag string) error {
	return s.set(ctx, id, func(c *Changes) { c.MailLanguage = tag })
}
