package account

import "context"

// MailLanguage returns the language of an institution's mail to people who have not chosen a
// language.
func (s *Service) MailLanguage(ctx context.Context, id int64) (tag string, err error) {
	v, err := ReadSettings(ctx, s.db, id)
	if err != nil {
		return "", err
	}
	return v.MailLanguage, nil
}

// SetMailLanguage changes the language of future mail.
func (s *Service) SetMailLanguage(ctx context.Context, id int64, tag string) error {
	return s.set(ctx, id, func(c *Changes) { c.MailLanguage = tag })
}
